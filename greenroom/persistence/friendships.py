"""Friendships as they are in the database, for flows and the actors of pairs."""

# ruff: noqa: S608 (SQL is put together from constants of this package only)

from __future__ import annotations

from collections.abc import Sequence

from greenroom.actors.friendship import rules
from greenroom.actors.friendship.messages import Friend, Friendship, Pair, Tally
from greenroom.persistence.arrays import INT8_COLUMN, int8
from greenroom.persistence.driver import INT8, Query, Row, Statement
from greenroom.persistence.loaders import Loaders


def _sides(condition: str) -> str:
    """Return SQL for friendships as seen by players whose ids meet a condition."""
    return f"""(
        SELECT low_id AS own_id, high_id AS other_id, status, requested_by, updated_at
        FROM friendships WHERE low_id {condition}
        UNION ALL
        SELECT high_id, low_id, status, requested_by, updated_at
        FROM friendships WHERE high_id {condition}
    ) AS f"""


_FRIENDSHIP = Statement(
    "SELECT status, requested_by FROM friendships WHERE low_id = $1 AND high_id = $2", INT8, INT8
)
_FRIENDS_OF = Statement(
    f"""
    SELECT p.player_id, p.player_name, p.player_tag, p.platform_id, f.status,
        f.requested_by, p.is_online, p.shard::bigint
    FROM {_sides("= $1")} JOIN players AS p ON p.player_id = f.other_id
    ORDER BY f.updated_at, p.player_id
    """,
    INT8,
)
_TALLIES = Statement(
    f"""
    SELECT own_id, count(*) FILTER (WHERE status = 'accepted'),
        count(*) FILTER (WHERE status = 'pending' AND requested_by <> own_id),
        count(*) FILTER (WHERE status = 'pending' AND requested_by = own_id)
    FROM {_sides("= ANY($1)")} GROUP BY own_id
    """,
    INT8_COLUMN.array_oid,
)


class DatabaseFriendships:
    """Implements the flows' `FriendshipRows`, whose docstrings tell what each method promises."""

    def __init__(self, loaders: Loaders) -> None:
        """Read over `loaders`."""
        self._loaders = loaders

    async def load_friendship(self, pair: Pair) -> Friendship | None:
        """Return the friendship of two players."""
        rows = await self._read_rows(_FRIENDSHIP, int8(pair.low_id), int8(pair.high_id))
        return Friendship(status=rows[0][0], requested_by=rows[0][1]) if rows else None

    async def load_friends(self, player_id: int) -> list[Friend]:
        """Return a player's friends and open requests both ways, the oldest first."""
        return [
            Friend(
                player_id=row[0],
                player_name=row[1],
                player_tag=row[2],
                platform_id=row[3],
                is_online=row[6],
                shard=row[7],
                relationship=rules.relationship_to(
                    Friendship(status=row[4], requested_by=row[5]), player_id
                ),
            )
            for row in await self._read_rows(_FRIENDS_OF, int8(player_id))
        ]

    async def load_tallies(self, player_ids: Sequence[int]) -> dict[int, Tally]:
        """Return the counts of each player; players without any are left out."""
        rows = await self._read_rows(_TALLIES, INT8_COLUMN.encode(player_ids))
        return {row[0]: Tally(*row[1:]) for row in rows}

    async def _read_rows(self, statement: Statement, *parameters: bytes | None) -> list[Row]:
        (rows,) = await self._loaders.fetch(Query(statement, parameters))
        return rows
