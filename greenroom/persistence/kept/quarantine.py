"""Puts the rows of a room or lobby aside that cannot be restored, and removes them much later."""

from __future__ import annotations

from typing import Final, cast

from greenroom.persistence.arrays import int8, text
from greenroom.persistence.driver import INT8, TEXT, Query, Statement
from greenroom.persistence.lease import SHARD, Lease
from greenroom.persistence.loaders import Loaders

REMOVED_AT_ONCE: Final = 1_000
"""Rows removed in one transaction. The committer waits meanwhile."""

_HOLD = Statement(f"SELECT hold_shard({SHARD}, $1)", INT8)
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
_REMOVE = Statement(
    """
    DELETE FROM quarantine WHERE ctid IN (
        SELECT ctid FROM quarantine WHERE discarded_at < to_timestamp($1)
        ORDER BY discarded_at LIMIT $2
    ) RETURNING 1
    """,
    INT8,
    INT8,
)


class Quarantine:
    """Rows that were put aside, under the epoch that the lease holds."""

    def __init__(self, loaders: Loaders, lease: Lease) -> None:
        """Write over `loaders`, under the epoch of `lease`."""
        self._loaders = loaders
        self._lease = lease

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
        hold = Query(_HOLD, (int8(self._lease.epoch),))
        moves = [Query(statement, which) for statement in _SET_ASIDE]
        *moved, _ = await self._loaders.write(*moves, hold)
        return sum(map(len, moved))

    async def remove(self, before: int) -> int:
        """Remove some of the rows that were put aside before this (Unix seconds); return how many.

        Raises:
            StorageUnavailable: the database is away.
            QueryFailed: Postgres refused, the fence included.
        """
        hold = Query(_HOLD, (int8(self._lease.epoch),))
        some = Query(_REMOVE, (int8(before), int8(REMOVED_AT_ONCE)))
        removed, _ = await self._loaders.write(some, hold)
        return len(cast("list[object]", removed))
