"""The shares of plans in the database; its function `take_shares` grants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from greenroom.actors.plans.shares import Grant, Kind, ShareAsk
from greenroom.persistence.arrays import INT8_COLUMN, TEXT_COLUMN, int8
from greenroom.persistence.driver import INT8, Query, Statement
from greenroom.persistence.usage.writing import CountStore

_ARRAY: Final = INT8_COLUMN.array_oid
_TAKE: Final = Statement(
    "SELECT kind, share, nodes FROM take_shares($1, $2, $3, $4, $5, $6, $7)",
    *(INT8, INT8, INT8, TEXT_COLUMN.array_oid, _ARRAY, _ARRAY, _ARRAY),
)
_GIVE_BACK: Final = Statement(
    "DELETE FROM plan_shares WHERE owner_id = $1 AND node_id = $2", INT8, INT8
)
_COUNT_NODES: Final = Statement(
    """SELECT s.owner_id, count(DISTINCT s.node_id)
    FROM plan_shares AS s JOIN nodes AS n ON n.node_id = s.node_id
    WHERE s.owner_id = ANY($1)
        AND (n.ended_at IS NULL OR n.ended_at > clock_timestamp() - interval '5 seconds')
    GROUP BY s.owner_id""",
    _ARRAY,
)


class ShareStore(CountStore):
    """Implements the services' `ShareRecords`, whose docstrings tell what each method promises."""

    async def take(self, owner_id: int, day: int, asks: Sequence[ShareAsk]) -> list[Grant]:
        """Have this node's shares be what it asks for, as far as there is so much."""
        numbers = (
            [ask.used for ask in asks],
            [ask.wanted for ask in asks],
            [ask.limit for ask in asks],
        )
        kinds = TEXT_COLUMN.encode([ask.kind for ask in asks])
        given = [int8(owner_id), int8(self._session.node_id), int8(day), kinds]
        take = Query(_TAKE, [*given, *map(INT8_COLUMN.encode, numbers)])
        *_, rows = await self.write(take)
        return [Grant(cast("Kind", row[0]), row[1], row[2]) for row in rows]

    async def count_nodes(self, owner_ids: Sequence[int]) -> dict[int, int]:
        """Return how many nodes have a share of each owner's plan; it changes nothing."""
        [rows] = await self._loaders.fetch(Query(_COUNT_NODES, (INT8_COLUMN.encode(owner_ids),)))
        return {row[0]: row[1] for row in rows}

    async def give_back(self, owner_id: int) -> None:
        """Give back all shares of an owner that this node has."""
        await self.write(Query(_GIVE_BACK, (int8(owner_id), int8(self._session.node_id))))
