"""The list of players and games that were deleted, which a restore of an older backup replays."""

from __future__ import annotations

from typing import Final

from greenroom.persistence.arrays import int8
from greenroom.persistence.driver import INT8, Query, Statement
from greenroom.persistence.lease import SHARD, Lease
from greenroom.persistence.loaders import Loaders

REMOVED_AT_ONCE: Final = 1_000

_HOLD = Statement(f"SELECT hold_shard({SHARD}, $1)", INT8)
_REMOVE = Statement(
    """
    DELETE FROM deletions WHERE ctid IN (
        SELECT ctid FROM deletions WHERE deleted_at < to_timestamp($1)
        ORDER BY deleted_at LIMIT $2
    ) RETURNING 1
    """,
    INT8,
    INT8,
)


class Deletions:
    """The list, of which old entries are removed. Deleting a player or a game adds to it."""

    def __init__(self, loaders: Loaders, lease: Lease) -> None:
        """Write over `loaders`, under the epoch of `lease`."""
        self._loaders = loaders
        self._lease = lease

    async def remove(self, before: int) -> int:
        """Remove some entries older than this (Unix seconds); return how many.

        Raises:
            StorageUnavailable: the database is away.
            QueryFailed: Postgres refused, the fence included.
        """
        hold = Query(_HOLD, (int8(self._lease.epoch),))
        some = Query(_REMOVE, (int8(before), int8(REMOVED_AT_ONCE)))
        removed, _ = await self._loaders.write(some, hold)
        return len(removed)
