"""The use that games make of their owners' plans, as it is in the database."""

# ruff: noqa: S608 (SQL is put together from constants of this package only)

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from greenroom.actors.plans.ledger import PLAYER_BYTES, StoredUsage
from greenroom.persistence.arrays import INT8_COLUMN, int8
from greenroom.persistence.driver import INT8, Query, Row, Statement
from greenroom.persistence.usage.parts import UsagePartStore
from greenroom.persistence.usage.shares import ShareStore

_SELECT = """
    SELECT g.game_id, g.owner_id, o.plan, coalesce(u.day, 0), coalesce(u.calls, 0),
        coalesce(u.storage_bytes, octet_length(g.data::text)), coalesce(u.written_bytes, 0),
        octet_length(g.data::text), to_json(g.shards)
    FROM games AS g JOIN owners AS o ON o.owner_id = g.owner_id
    LEFT JOIN game_usage AS u ON u.game_id = g.game_id
"""
_LOAD = Statement(f"{_SELECT} ORDER BY g.game_id")
_LOAD_OF = Statement(
    f"{_SELECT} WHERE g.shards && $1::integer[] ORDER BY g.game_id", INT8_COLUMN.array_oid
)
_SAVE = Statement(
    """
    INSERT INTO game_usage (game_id, day, calls, storage_bytes, written_bytes)
    SELECT e.game_id, e.day, e.calls, e.storage_bytes, e.written_bytes
    FROM unnest($1, $2, $3, $4, $5) AS e(game_id, day, calls, storage_bytes, written_bytes)
    WHERE EXISTS (
        SELECT FROM games AS g JOIN shards AS s ON s.shard = g.shards[1]
        WHERE g.game_id = e.game_id AND s.node_id = $6
    )
    ON CONFLICT (game_id) DO UPDATE SET
        day = excluded.day, calls = excluded.calls, storage_bytes = excluded.storage_bytes,
        written_bytes = excluded.written_bytes
    """,
    *[INT8_COLUMN.array_oid] * 5,
    INT8,
)
_GAME_BYTES = Statement("SELECT octet_length(data::text) FROM games WHERE game_id = $1", INT8)
_PLAYERS_BYTES = Statement(
    f"""
    SELECT count(*), coalesce(max(p.player_id), 0),
        coalesce(sum({PLAYER_BYTES} + octet_length(p.player_name)
            + octet_length(p.player_data::text)
            + CASE p.stats::text WHEN '{{}}' THEN 0 ELSE octet_length(p.stats::text) END
        ), 0)::bigint
    FROM (
        SELECT player_id, player_name, player_data, stats FROM players
        WHERE game_id = $1 AND player_id > $2 ORDER BY player_id LIMIT $3
    ) AS p
    """,
    INT8,
    INT8,
    INT8,
)
_shards = msgspec.json.Decoder(tuple[int, ...])


class UsageStore(UsagePartStore, ShareStore):
    """Implements the services' `UsageRecords`, whose docstrings tell what each method promises."""

    async def load(self, shards: Collection[int] | None = None) -> list[StoredUsage]:
        """Return games with their usage, as last written: all, or those that live in `shards`."""
        query = Query(_LOAD)
        if shards is not None:
            query = Query(_LOAD_OF, (INT8_COLUMN.encode(sorted(shards)),))
        (rows,) = await self._loaders.fetch(query)
        return [_usage(row) for row in rows]

    async def save(self, rows: Sequence[StoredUsage]) -> None:
        """Write the usage of games; those that do not exist, or are another node's, are skipped.

        Raises:
            StorageUnavailable: the database is away, or another server has taken over; nothing was
                written, or maybe all.
        """
        columns = [
            [row.game_id for row in rows],
            [row.day for row in rows],
            [row.calls for row in rows],
            [row.storage_bytes for row in rows],
            [row.written_bytes for row in rows],
        ]
        encoded = [INT8_COLUMN.encode(column) for column in columns]
        save = Query(_SAVE, [*encoded, int8(self._session.node_id)])
        await self.write(save)

    async def read_game_bytes(self, game_id: int) -> int | None:
        """Return the bytes of a game's document, or None if there is no such game."""
        (rows,) = await self._loaders.fetch(Query(_GAME_BYTES, (int8(game_id),)))
        return rows[0][0] if rows else None

    async def sum_player_bytes(
        self, game_id: int, after_id: int, limit: int
    ) -> tuple[int, int, int]:
        """Add up a page of players; return how many, the last one's id, and their bytes."""
        parameters = (int8(game_id), int8(after_id), int8(limit))
        ((row,),) = await self._loaders.fetch(Query(_PLAYERS_BYTES, parameters))
        return row[0], row[1], row[2]


def _usage(row: Row) -> StoredUsage:
    """Return the usage in a row of `_SELECT`."""
    return StoredUsage(
        game_id=row[0],
        owner_id=row[1],
        plan=row[2],
        day=row[3],
        calls=row[4],
        storage_bytes=row[5],
        written_bytes=row[6],
        document_bytes=row[7],
        shards=_shards.decode(row[8]),
    )
