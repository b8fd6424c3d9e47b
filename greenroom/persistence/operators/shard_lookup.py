"""Finds the shards of what operators name: games, players, rooms, lobbies."""

from __future__ import annotations

from greenroom.persistence.arrays import int8, text
from greenroom.persistence.driver import INT8, TEXT, Query, Statement
from greenroom.persistence.loaders import Loaders

_OF_GAME = Statement("SELECT shards[1]::bigint FROM games WHERE game_id = $1", INT8)
_OF_PLAYER = Statement(
    "SELECT coalesce(p.shard, g.shards[1])::bigint"
    " FROM players AS p JOIN games AS g ON g.game_id = p.game_id"
    " WHERE p.player_id = $1",
    INT8,
)
_OF_PLACE = Statement(
    "SELECT shard::bigint FROM snapshots WHERE kind = $1 AND key = $2", TEXT, TEXT
)


class DatabaseHomes:
    """The homes of games, players and places, as the database has them."""

    def __init__(self, loaders: Loaders) -> None:
        """Read over these connections.

        Args:
            loaders: the pool of connections that read.
        """
        self._loaders = loaders

    async def find_shard_of_game(self, game_id: int) -> int | None:
        """Return the home shard of a game, None if there is no such game.

        Raises:
            ActorUnavailable: the database does not answer.
        """
        return await self._find_shard(Query(_OF_GAME, (int8(game_id),)))

    async def find_shard_of_player(self, player_id: int) -> int | None:
        """Return the shard that a player lives in; see `find_shard_of_game`."""
        return await self._find_shard(Query(_OF_PLAYER, (int8(player_id),)))

    async def find_shard_of_place(self, kind: str, key: str) -> int | None:
        """Return the shard of a room or lobby that is kept; see `find_shard_of_game`.

        Args:
            kind: `room` or `lobby`.
            key: its id.
        """
        if "\0" in key:
            return None
        return await self._find_shard(Query(_OF_PLACE, (text(kind), text(key))))

    async def _find_shard(self, query: Query) -> int | None:
        (rows,) = await self._loaders.fetch(query)
        return int(rows[0][0]) if rows else None
