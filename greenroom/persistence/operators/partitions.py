"""Gives a game more partitions while no server runs, so that nobody has its old ones in memory."""

from __future__ import annotations

import msgspec

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.shards import add_partitions, shard_of
from greenroom.persistence.arrays import INT8_COLUMN, int8
from greenroom.persistence.driver import INT8, Query, Statement
from greenroom.persistence.errors import QueryFailed
from greenroom.persistence.loaders import Loaders
from greenroom.persistence.nodes.session import NodeSession

_READ = Statement("SELECT to_json(shards) FROM games WHERE game_id = $1", INT8)
_NAMED = Statement(
    "SELECT DISTINCT left(key, 3) FROM snapshots WHERE shard = ANY ($1)", INT8_COLUMN.array_oid
)
_WRITE = Statement(
    "UPDATE games SET shards = $2::bigint[]::integer[] WHERE game_id = $1",
    INT8,
    INT8_COLUMN.array_oid,
)
_decoder = msgspec.json.Decoder(tuple[int, ...])


class Partitions:
    """The partitions of games, changed while the node of the session lives, and is alone."""

    def __init__(self, loaders: Loaders, session: NodeSession) -> None:
        """Read and write over `loaders`; write as the node of `session`."""
        self._loaders = loaders
        self._session = session

    async def grow(self, game_id: int, count: int) -> int:
        """Give a game so many partitions, durably; return how many it can have.

        Nothing changes if it has as many already, or cannot have so many. Rooms, lobbies and
        players stay where they are. Ids from before there were shards name one by chance, so what
        an id names that lives elsewhere is not taken.

        Raises:
            StorageUnavailable: the database is away or refuses; it may have changed.
        """
        (rows,) = await self._loaders.fetch(Query(_READ, (int8(game_id),)))
        shards = _decoder.decode(rows[0][0])
        (rows,) = await self._loaders.fetch(Query(_NAMED, (INT8_COLUMN.encode(shards),)))
        named = {shard for (key,) in rows if (shard := shard_of(key)) is not None}
        grown = add_partitions(shards, count, named)
        if len(shards) < count == len(grown):
            write = Query(_WRITE, (int8(game_id), INT8_COLUMN.encode(grown)))
            try:
                await self._loaders.write(write, self._session.hold())
            except QueryFailed as error:
                raise StorageUnavailable("the database refused more partitions") from error
        return len(grown)
