"""The node on which a shard belongs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.actors.flows.games import PARTITIONS_MAX, PARTITIONS_MIN, PARTITIONS_PER_NODE
from greenroom.actors.kernel.shards import partitions_of
from greenroom.cluster.placement import Move, moves_to_balance, moves_to_leave, place, share_of

ALL = range(1024)
SHARDS = range(64)
"""Enough for what holds for each; hypothesis tries many nodes."""
NODES = st.lists(st.integers(1, 1 << 40), min_size=1, max_size=8, unique=True)


@given(NODES)
def test_every_shard_has_one_place_whatever_the_order_of_the_nodes(nodes: list[int]) -> None:
    shares = [share_of(node, nodes, SHARDS) for node in nodes]
    assert sorted(shard for share in shares for shard in share) == list(SHARDS)
    assert [place(s, nodes) for s in SHARDS] == [place(s, nodes[::-1]) for s in SHARDS]


@given(NODES, st.integers(1, 1 << 40))
def test_when_a_node_comes_or_goes_no_other_shard_moves(nodes: list[int], other: int) -> None:
    before = [place(s, nodes) for s in SHARDS]
    after = [place(s, {*nodes, other}) for s in SHARDS]
    assert all(a in (b, other) for b, a in zip(before, after, strict=True))


@pytest.mark.parametrize("nodes", [[1, 2], [91, 92, 93, 94], [7, 1000, 1001]])
def test_shards_spread_evenly(nodes: list[int]) -> None:
    fair = len(ALL) / len(nodes)
    for node in nodes:
        assert 0.8 * fair < len(share_of(node, nodes, ALL)) < 1.2 * fair


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
def test_the_partitions_of_hardly_any_new_game_leave_a_node_without_one(count: int) -> None:
    nodes = range(100, 100 + count)
    partitions = min(max(PARTITIONS_MIN, PARTITIONS_PER_NODE * count), PARTITIONS_MAX)
    places = [place(shard, nodes) for shard in ALL]
    games = [Counter(places[s] for s in partitions_of(home, partitions)) for home in ALL]
    idle = sum(count - len(nodes_of_game) for nodes_of_game in games)
    assert idle / len(games) / count < 0.03


def test_the_weights_are_those_of_every_other_version() -> None:
    assert [place(shard, [1, 2, 3]) for shard in range(12)] == [1, 2, 1, 2, 3, 3, 3, 3, 3, 1, 3, 2]


def test_without_a_node_there_is_no_place() -> None:
    with pytest.raises(ValueError, match="no node is left"):
        place(5, [])


@given(NODES, st.dictionaries(st.integers(0, 1023), st.sampled_from([1, 2, 3])))
def test_a_node_that_leaves_hands_over_all_that_it_has_to_those_that_stay(
    nodes: list[int], owners: dict[int, int]
) -> None:
    moves = moves_to_leave(2, nodes, owners)
    if not set(nodes) - {2}:
        assert moves == []
        return
    assert [m.shard for m in moves] == sorted(s for s, owner in owners.items() if owner == 2)
    assert all(m.from_node == 2 != m.to_node and m.to_node in nodes for m in moves)


@given(NODES, st.dictionaries(st.integers(0, 1023), st.integers(1, 8)))
def test_after_balancing_every_shard_of_a_living_node_is_in_its_place(
    nodes: list[int], owners: dict[int, int]
) -> None:
    moved = dict(owners)
    for move in moves_to_balance(nodes, owners):
        assert move.from_node == owners[move.shard] != move.to_node
        moved[move.shard] = move.to_node
    living = {s: node for s, node in moved.items() if owners[s] in nodes}
    assert all(place(s, nodes) == node for s, node in living.items())
    assert moves_to_balance(nodes, moved) == []
    assert all(moved[s] == owners[s] for s in owners if owners[s] not in nodes)


def test_moves_are_sorted_by_shard() -> None:
    moves = moves_to_leave(1, [1, 2], {5: 1, 3: 1, 4: 2})
    assert moves == [Move(3, 1, 2), Move(5, 1, 2)]
