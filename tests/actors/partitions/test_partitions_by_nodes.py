"""How many partitions a new game gets: by the number of nodes, or as many as the setting says."""

from __future__ import annotations

import pytest
from others_kit import WorldsNearby
from shard_kit import open_node
from world_kit import add_game


@pytest.mark.parametrize(
    ("nodes", "partitions"), [(0, 1), (1, 8), (2, 8), (3, 12), (16, 64), (40, 64)]
)
async def test_a_new_game_gets_four_partitions_a_node(nodes: int, partitions: int):
    async with open_node(partitions="auto") as node:
        if nodes:
            node.world.join(WorldsNearby(node, [node] * nodes))
        game, _ = await add_game(node.world)
        shards = node.world.ledger.find_shards(game.game_id)
        assert len(set(shards)) == len(shards) == partitions


async def test_the_setting_overrules_the_number_of_nodes():
    async with open_node(partitions=3) as node:
        node.world.join(WorldsNearby(node, [node] * 2))
        game, _ = await add_game(node.world)
        assert len(node.world.ledger.find_shards(game.game_id)) == 3
