"""Removes rows whose time is over, some at a time: what was put aside."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from greenroom.actors.kernel.clock import Clock
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.shard_ownership import Ownership
from greenroom.persistence.errors import DatabaseError

_logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 3_600.0
"""Seconds between two looks."""
PAUSE_SECONDS: Final = 0.1
"""Between two transactions, so that the committer is never held up for long."""
DAY_SECONDS: Final = 86_400

Remove = Callable[[int], Awaitable[int]]
"""Removes some rows that are older than this (Unix seconds); returns how many, 0 for no more."""


class RetentionService:
    """A service; one per server."""

    def __init__(
        self,
        clock: Clock,
        tables: Mapping[str, tuple[Remove, int]],
        ownership: Ownership | None = None,
    ) -> None:
        """Prepare; nothing is removed before `run`.

        Args:
            clock: what time it is.
            tables: by name how rows are removed, and the days that they are kept.
            ownership: the shards of this node. Of several nodes the owner of shard 0 removes rows.
        """
        self._ownership = ownership
        self._clock = clock
        self._tables = tables

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look at the start and every `LOOK_SECONDS`, until cancelled."""
        task_status.started()
        while True:
            for name in self._tables if self._is_its_turn else ():
                try:
                    await self.remove(name)
                except (StorageUnavailable, DatabaseError) as error:
                    _logger.warning("old rows of %s are removed later: %s", name, error)
            await trio.sleep(LOOK_SECONDS)

    @property
    def _is_its_turn(self) -> bool:
        return self._ownership is None or self._ownership.owns(0)

    async def remove(self, name: str) -> int:
        """Remove all rows of a table whose time is over; return how many.

        Raises:
            StorageUnavailable: the database is away; what was removed stays so.
            DatabaseError: Postgres refused.
        """
        remove, days = self._tables[name]
        before, total = self._clock.now() - days * DAY_SECONDS, 0
        while removed := await remove(before):
            total += removed
            await trio.sleep(PAUSE_SECONDS)
        return total
