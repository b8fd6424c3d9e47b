"""The usage of games in several partitions in the database: a row for each node."""

# ruff: noqa: S608 (SQL is put together from constants of this module only)

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from greenroom.actors.services.usage_parts import PartRow
from greenroom.persistence.arrays import INT8_COLUMN, int8
from greenroom.persistence.driver import INT8, Query, Statement
from greenroom.persistence.usage.writing import CountStore

_ARRAY: Final = INT8_COLUMN.array_oid
_SAVE: Final = Statement(
    """
    INSERT INTO usage_parts
        (game_id, node_id, stay, day, calls, storage_bytes, written_bytes)
    SELECT e.game_id, $7, e.stay, e.day, e.calls, e.storage_bytes, e.written_bytes
    FROM unnest($1, $2, $3, $4, $5, $6)
        AS e(game_id, stay, day, calls, storage_bytes, written_bytes)
    WHERE EXISTS (SELECT FROM games AS g WHERE g.game_id = e.game_id)
    ON CONFLICT (game_id, node_id, stay) DO UPDATE SET
        day = excluded.day, calls = excluded.calls, storage_bytes = excluded.storage_bytes,
        written_bytes = excluded.written_bytes
    """,
    *[_ARRAY] * 6,
    INT8,
)
_OWN: Final = """
    usage_parts AS p JOIN unnest($1, $2) AS e(game_id, stay)
    ON p.game_id = e.game_id AND p.stay = e.stay AND p.node_id = $3
"""
_LEAVE: Final = Statement(
    """
    UPDATE usage_parts AS p SET has_left = true FROM unnest($1, $2) AS e(game_id, stay)
    WHERE p.game_id = e.game_id AND p.stay = e.stay AND p.node_id = $3
    """,
    _ARRAY,
    _ARRAY,
    INT8,
)
_ADOPT: Final = Statement(
    """
    WITH homes AS (
        SELECT e.game_id, e.stay, e.sharer FROM unnest($1, $2, $5) AS e(game_id, stay, sharer)
        JOIN games AS g ON g.game_id = e.game_id JOIN shards AS s ON s.shard = g.shards[1]
        WHERE s.node_id = $3
    ), parts AS (
        DELETE FROM usage_parts AS p USING homes AS h
        WHERE p.game_id = h.game_id AND (p.has_left OR NOT EXISTS (
            SELECT FROM nodes AS n WHERE n.node_id = p.node_id AND n.ended_at IS NULL
        ))
        RETURNING p.game_id, p.day, p.calls, p.storage_bytes, p.written_bytes
    ), whole AS (
        DELETE FROM game_usage AS u USING homes AS h WHERE u.game_id = h.game_id
        RETURNING u.game_id, u.day, u.calls, u.storage_bytes, u.written_bytes
    ), found AS (
        SELECT * FROM parts UNION ALL SELECT * FROM whole
    ), shares AS (
        INSERT INTO plan_shares AS mine (owner_id, kind, node_id, day, share)
        SELECT h.sharer, k.kind, $3, $4, sum(k.used)
        FROM homes AS h JOIN found AS f ON f.game_id = h.game_id CROSS JOIN LATERAL (VALUES
            ('storage_bytes', f.storage_bytes),
            ('calls_per_day', CASE f.day WHEN $4 THEN f.calls ELSE 0 END),
            ('written_bytes_per_day', CASE f.day WHEN $4 THEN f.written_bytes ELSE 0 END)
        ) AS k(kind, used)
        WHERE h.sharer <> 0 GROUP BY h.sharer, k.kind
        ON CONFLICT (owner_id, kind, node_id) DO UPDATE SET
            day = excluded.day,
            share = excluded.share + CASE
                WHEN mine.kind = 'storage_bytes' OR mine.day = excluded.day THEN mine.share
                ELSE 0
            END
    )
    INSERT INTO usage_parts AS m
        (game_id, node_id, stay, day, calls, storage_bytes, written_bytes)
    SELECT h.game_id, $3, h.stay, $4, coalesce(sum(f.calls) FILTER (WHERE f.day = $4), 0),
        sum(f.storage_bytes), coalesce(sum(f.written_bytes) FILTER (WHERE f.day = $4), 0)
    FROM homes AS h JOIN found AS f ON f.game_id = h.game_id GROUP BY h.game_id, h.stay
    ON CONFLICT (game_id, node_id, stay) DO UPDATE SET
        day = excluded.day,
        calls = excluded.calls + CASE m.day WHEN excluded.day THEN m.calls ELSE 0 END,
        storage_bytes = excluded.storage_bytes + m.storage_bytes,
        written_bytes = excluded.written_bytes
            + CASE m.day WHEN excluded.day THEN m.written_bytes ELSE 0 END
    """,
    _ARRAY,
    _ARRAY,
    INT8,
    INT8,
    _ARRAY,
)
_READ: Final = Statement(
    f"SELECT p.game_id, p.stay, p.day, p.calls, p.storage_bytes, p.written_bytes FROM {_OWN}",
    _ARRAY,
    _ARRAY,
    INT8,
)
_STORED: Final = Statement(
    """
    SELECT node_id, stay, storage_bytes FROM usage_parts WHERE game_id = $1
    UNION ALL SELECT 0, 0, storage_bytes FROM game_usage WHERE game_id = $1
    ORDER BY 1, 2
    """,
    INT8,
)


class UsagePartStore(CountStore):
    """Implements the services' `PartRecords`, whose docstrings tell what each method promises."""

    async def save_parts(self, rows: Sequence[PartRow]) -> None:
        """Write parts of this node."""
        columns = [
            [row.day for row in rows],
            [row.calls for row in rows],
            [row.storage_bytes for row in rows],
            [row.written_bytes for row in rows],
        ]
        encoded = [*_keys(rows), *map(INT8_COLUMN.encode, columns)]
        await self.write(Query(_SAVE, [*encoded, int8(self._session.node_id)]))

    async def leave_parts(self, rows: Sequence[PartRow]) -> None:
        """Leave parts for their games' homes."""
        await self.write(Query(_LEAVE, [*_keys(rows), int8(self._session.node_id)]))

    async def adopt_parts(
        self, rows: Sequence[PartRow], sharers: Sequence[int], day: int
    ) -> list[PartRow]:
        """Add what is left of games to this node's parts; return these."""
        keys, ours = _keys(rows), int8(self._session.node_id)
        adopt = Query(_ADOPT, [*keys, ours, int8(day), INT8_COLUMN.encode(sharers)])
        *_, found = await self.write(adopt, Query(_READ, [*keys, ours]))
        return [PartRow(*row) for row in found]

    async def load_stored_parts(self, game_id: int) -> list[tuple[int, int, int]]:
        """Return the node, the stay and the stored bytes of each part of a game."""
        (rows,) = await self._loaders.fetch(Query(_STORED, (int8(game_id),)))
        return [(row[0], row[1], row[2]) for row in rows]


def _keys(rows: Sequence[PartRow]) -> list[bytes]:
    """Return the columns that tell this node's parts apart."""
    return [
        INT8_COLUMN.encode([row.game_id for row in rows]),
        INT8_COLUMN.encode([row.stay for row in rows]),
    ]
