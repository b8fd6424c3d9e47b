"""The database of a server: the one that a setting names, or the embedded Postgres as a service."""

from __future__ import annotations

import trio

from greenroom.config import Settings
from greenroom.persistence.embedded.postgres import EmbeddedPostgres


class DatabaseService:
    """The database's address; as a service, the embedded Postgres if no other is configured."""

    def __init__(self, settings: Settings, connections_min: int = 0) -> None:
        """Prepare; nothing is started before `run`.

        Args:
            settings: which database, or where the embedded one lies.
            connections_min: how many connections an embedded one must take.
        """
        self.conninfo = settings.database_url or ""
        """The address in libpq's format; that of the embedded Postgres once it runs."""
        self._postgres = EmbeddedPostgres(
            settings.data_dir, settings.postgres_bin_dir, connections_min
        )

    @property
    def own_restarts(self) -> int:
        """Return how often Postgres has died and was started again."""
        return self._postgres.restarts

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run the embedded Postgres; report as started once it takes connections."""
        database = self

        class Told(trio.TaskStatus[str]):
            def started(self, value: str | None = None) -> None:
                assert value is not None
                database.note_running(value)
                task_status.started()

        await self._postgres.run(task_status=Told())

    def note_running(self, conninfo: str) -> None:
        """Note the address of the embedded Postgres, which takes connections now."""
        self.conninfo = conninfo
