"""Puts aside the rows of a room or lobby that cannot be restored, and removes them much later."""

from __future__ import annotations

from greenroom.persistence.arrays import int8, text
from greenroom.persistence.driver import INT8, TEXT, Query, Statement
from greenroom.persistence.loaders import Loaders
from greenroom.persistence.nodes.session import NodeSession
from greenroom.persistence.operators.old_rows import OldRows

_SET_ASIDE = tuple(
    Statement(
        f"""
        WITH gone AS (
            DELETE FROM {origin} WHERE kind = $1 AND key = $2
            RETURNING {sequence} AS sequence, format, payload, {recorded_at} AS recorded_at
        )
        INSERT INTO quarantine
            (origin, kind, key, sequence, format, payload, recorded_at, discarded_at)
        SELECT '{origin}', $1, $2, sequence, format, payload, recorded_at, to_timestamp($3)
        FROM gone RETURNING 1
        """,  # noqa: S608 (names of this module only)
        TEXT,
        TEXT,
        INT8,
    )
    for origin, sequence, recorded_at in (
        ("journal", "sequence", "recorded_at"),
        ("snapshots", "version", "updated_at"),
        ("journal_bases", "version", "taken_at"),
    )
)


class Quarantine(OldRows):
    """Rows that were put aside, written while the node of the session lives."""

    def __init__(self, loaders: Loaders, session: NodeSession) -> None:
        """Write over `loaders`, as the node of `session`."""
        super().__init__("quarantine", "discarded_at", loaders, session)

    async def set_aside(self, kind: str, key: str, now: int) -> int:
        """Move all rows of a room or lobby into the table `quarantine`, in one transaction.

        Args:
            kind: `room` or `lobby`.
            key: its id.
            now: Unix seconds.

        Returns:
            The number of rows, 0 if nothing is stored of it.

        Raises:
            StorageUnavailable: the database is away; all rows have been moved, or none.
            QueryFailed: Postgres refused, the fence included.
        """
        which = (text(kind), text(key), int8(now))
        moves = [Query(statement, which) for statement in _SET_ASIDE]
        *moved, _ = await self._loaders.write(*moves, self._session.hold())
        return sum(map(len, moved))
