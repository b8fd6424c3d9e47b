"""The rule by which shards move between nodes: tables, and what holds whatever the load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.cluster.balance_rule import (
    GAP_PART_MAX,
    Balancer,
    BalanceRule,
    WeighedMove,
    best_move,
    loads_of,
    widest_gap,
)
from greenroom.cluster.placement import Move

RULE = BalanceRule()
ROUND_SECONDS = 5.0
MOVES_A_ROUND = 3


class World(msgspec.Struct):
    """Nodes, whose the shards are, and how much load each has."""

    node_ids: list[int]
    owners: dict[int, int]
    weights: dict[int, float]

    def loads(self) -> dict[int, float]:
        return loads_of(self.node_ids, self.owners, self.weights)

    def narrow(self) -> float:
        """Return the gap at which moving ends."""
        mean = sum(self.loads().values()) / len(self.node_ids)
        return max(RULE.end_gap * mean, RULE.gap_turns_per_second_min)

    def unevenness(self) -> float:
        """Return the sum of the squares of how far each node is from the mean."""
        loads = self.loads().values()
        mean = sum(loads) / len(loads)
        return sum((load - mean) ** 2 for load in loads)


@st.composite
def worlds(draw: st.DrawFn, nodes_min: int = 2, nodes_max: int = 6) -> World:
    node_ids = list(range(1, 1 + draw(st.integers(nodes_min, nodes_max))))
    count = draw(st.integers(0, 40))
    weights = st.one_of(st.floats(0, 1e4), st.integers(0, 3).map(lambda number: 100.0 * number))
    return World(
        node_ids,
        {shard: draw(st.sampled_from(node_ids)) for shard in range(count)},
        {shard: draw(weights) for shard in range(count)},
    )


def moved_one_by_one(world: World) -> Iterator[WeighedMove]:
    """Carry out one best move after the other, under constant load and without rests."""
    while chosen := best_move(RULE, world.loads(), world.owners, world.weights):
        yield chosen
        world.owners[chosen.move.shard] = chosen.move.to_node


# One move.


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({0: 100.0, 1: 300.0, 2: 500.0}, 2),  # the gap is 900: nearest to its half
        ({0: 500.0, 1: 500.0}, 0),  # equal ones: the lower number
        ({0: 1000.0}, None),  # it would only be the other node's burden
        ({0: 550.0, 1: 450.0}, 0),  # the gap is 1,000: both miss its half by as much
        ({0: 690.0, 1: 310.0}, 1),  # 690 weighs more than two thirds
        ({0: 20.0, 1: 20.0}, None),  # a gap of 40 turns/s is none
        ({}, None),
    ],
)
def test_the_shard_that_moves_is_nearest_to_half_the_gap(
    weights: dict[int, float], expected: int | None
) -> None:
    owners = dict.fromkeys(weights, 1)
    chosen = best_move(RULE, loads_of([1, 2], owners, weights), owners, weights)
    assert (None if chosen is None else chosen.move) == (
        None if expected is None else Move(expected, 1, 2)
    )


def test_the_next_gives_where_the_busiest_has_one_heavy_shard() -> None:
    owners = {0: 1, 1: 2, 2: 2}
    weights = {0: 9000.0, 1: 300.0, 2: 300.0}
    chosen = best_move(RULE, loads_of([1, 2, 3], owners, weights), owners, weights)
    assert chosen is None  # a gap of 600 is less than a fifth of the mean
    weights = {0: 9000.0, 1: 2000.0, 2: 2000.0}
    chosen = best_move(RULE, loads_of([1, 2, 3], owners, weights), owners, weights)
    assert chosen == WeighedMove(Move(1, 2, 3), 2000.0, 4000.0)


def test_players_are_not_disturbed_for_nothing() -> None:
    """Beside a shard that is too heavy there are many that weigh nearly nothing."""
    weights = {0: 9000.0, **dict.fromkeys(range(1, 100), 1.0)}
    owners = dict.fromkeys(weights, 1)
    assert best_move(RULE, loads_of([1, 2], owners, weights), owners, weights) is None


def test_what_rests_is_left_alone() -> None:
    weights = {0: 500.0, 1: 400.0}
    owners = dict.fromkeys(weights, 1)
    loads = loads_of([1, 2], owners, weights)
    chosen = best_move(RULE, loads, owners, weights, resting={1})
    assert chosen is not None
    assert chosen.move.shard == 0
    assert best_move(RULE, loads, owners, weights, resting={0, 1}) is None


def test_what_other_nodes_have_is_no_part_of_it() -> None:
    assert loads_of([1, 2], {0: 1, 1: 3}, {0: 5.0, 1: 7.0, 2: 9.0}) == {1: 5.0, 2: 0.0}


@given(worlds())
def test_each_move_lowers_its_giver_below_what_it_was_and_raises_nobody_to_that(
    world: World,
) -> None:
    before = world.loads()
    chosen = best_move(RULE, before, world.owners, world.weights)
    if chosen is None:
        return
    move = chosen.move
    assert world.owners[move.shard] == move.from_node != move.to_node
    assert before[move.to_node] == min(before.values())
    assert 0 < chosen.weight <= chosen.gap * GAP_PART_MAX
    world.owners[move.shard] = move.to_node
    after = world.loads()
    most = before[move.from_node]
    assert after[move.from_node] < most > after[move.to_node]
    assert max(after.values()) <= max(before.values())
    gap_left = abs(after[move.from_node] - after[move.to_node])
    assert gap_left <= chosen.gap - chosen.weight * 0.499  # by at least half of what moved


@given(worlds())
def test_under_constant_load_it_ends_and_what_moves_in_all_is_bounded(world: World) -> None:
    uneven, narrow = world.unevenness(), world.narrow()
    seen = {tuple(sorted(world.owners.items()))}
    total = 0.0
    for chosen in moved_one_by_one(world):
        total += chosen.weight
        assert total <= 1.5 * uneven / narrow * 1.001
        seen.add(tuple(sorted({**world.owners, chosen.move.shard: chosen.move.to_node}.items())))
    assert world.unevenness() <= uneven * 1.001
    assert best_move(RULE, world.loads(), world.owners, world.weights) is None


@given(worlds())
def test_no_arrangement_comes_twice(world: World) -> None:
    seen: set[tuple[int, ...]] = set()
    for _ in moved_one_by_one(world):
        arrangement = tuple(world.owners[shard] for shard in sorted(world.owners))
        assert arrangement not in seen
        seen.add(arrangement)


@given(worlds(nodes_max=2))
def test_between_two_nodes_no_shard_moves_twice(world: World) -> None:
    moved = [chosen.move.shard for chosen in moved_one_by_one(world)]
    assert len(moved) == len(set(moved))


@given(st.integers(2, 8), st.integers(30, 60), st.integers(0, 1 << 32))
def test_many_light_shards_end_up_evenly(nodes: int, shards_a_node: int, seed: int) -> None:
    """It does not matter who had them, and how many nodes have just joined."""
    random, node_ids = Random(seed), list(range(nodes))
    shards = range(nodes * shards_a_node)
    world = World(
        node_ids,
        {shard: random.choice(node_ids[: 1 + nodes // 2]) for shard in shards},
        {shard: random.uniform(20.0, 60.0) for shard in shards},
    )
    for _ in moved_one_by_one(world):
        pass
    assert widest_gap(world.loads()) <= RULE.end_gap


# From one measure to the next.


class Run:
    """A balancer at work: measures come with noise, and what it decides is carried out."""

    def __init__(self, world: World, noise: float, seed: int, rule: BalanceRule = RULE) -> None:
        self.world = world
        self.balancer = Balancer(rule)
        self.now = 0.0
        self.moves: list[tuple[float, Move]] = []
        self.why = ""
        self._noise = noise
        self._random = Random(seed)

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.balancer.note(self._measured(self.world.weights))
            for number in range(MOVES_A_ROUND):
                self._decide(self.now + 2.0 * number)
            self.now += ROUND_SECONDS

    def _measured(self, weights: Mapping[int, float]) -> dict[int, float]:
        factor = self._random.uniform
        return {s: w * factor(1 - self._noise, 1 + self._noise) for s, w in weights.items()}

    def _decide(self, now: float) -> None:
        world = self.world
        decision = self.balancer.decide(world.node_ids, world.owners, now)
        self.why = decision.why
        if decision.next is not None:
            move = decision.next.move
            world.owners[move.shard] = move.to_node
            self.balancer.note_tried(move.shard, now)
            self.moves.append((now, move))


def two_nodes(**weights: float) -> World:
    """Return two nodes, the first of which has shards with these weights."""
    shards = dict(enumerate(weights.values()))
    return World([1, 2], dict.fromkeys(shards, 1), shards)


def test_moving_begins_once_a_gap_was_seen_three_times() -> None:
    run = Run(two_nodes(a=300.0, b=300.0), 0.0, 0)
    run.run(2)
    assert run.moves == []
    assert run.why == ("the gap may be passing, seen 2 of 3 times: 0 to 600 turns/s, mean 300")
    run.run(1)
    assert run.moves == [(10.0, Move(0, 1, 2))]
    assert run.why == "the load is shared: 300 to 300 turns/s, mean 300"


def test_a_gap_that_passes_moves_nothing() -> None:
    run = Run(two_nodes(a=300.0, b=300.0), 0.0, 0)
    for _ in range(3):
        run.run(2)
        run.world.owners |= {2: 2, 3: 2}
        run.world.weights |= {2: 300.0, 3: 300.0}
        run.run(2)
        for shard in (2, 3):
            del run.world.owners[shard]
    assert run.moves == []


def test_moving_begins_at_a_wide_gap_and_ends_at_a_narrow_one() -> None:
    """1,180 and 820: the gap is between a fifth and two fifths of the mean."""
    weights = dict.fromkeys(range(100), 20.0)
    world = World([1, 2], {shard: 1 if shard < 59 else 2 for shard in weights}, weights)
    run = Run(world, 0.0, 0)
    run.run(10)
    assert run.moves == []
    assert run.why == "the gap is small: 820 to 1,180 turns/s, mean 1,000"
    world.owners |= dict.fromkeys(range(59, 65), 1)
    run.run(20)
    assert 0.15 < widest_gap(world.loads()) <= 0.2


def test_why_nothing_moves_is_said() -> None:
    whys = []
    for nodes, weights in (([1], [500.0]), ([1, 2], [30.0]), ([1, 2], [900.0])):
        shards = dict(enumerate(weights))
        run = Run(World(nodes, dict.fromkeys(shards, 1), shards), 0.0, 0)
        run.run(4)
        whys.append(run.why.partition(":")[0])
    assert whys == [
        "there is no other node that takes shards",
        "there is little load",
        "no shard would narrow the gap, being too heavy or just moved",
    ]


def test_a_shard_that_has_moved_rests_even_if_the_load_turns_round() -> None:
    run = Run(two_nodes(a=300.0, b=300.0), 0.0, 0)
    run.run(3)
    assert run.moves == [(10.0, Move(0, 1, 2))]
    run.world.weights = {0: 900.0, 1: 300.0, 2: 500.0}
    run.world.owners[2] = 2
    run.run(5)
    assert [move for _, move in run.moves[1:]] == [Move(2, 2, 1)]
    run.world.weights = {0: 300.0, 1: 900.0, 2: 0.0, 3: 700.0}
    run.world.owners[3] = 2
    rested = run.now
    run.run(100)
    assert all(at >= 310.0 for at, move in run.moves[2:] if move.shard == 0), rested


def test_a_node_that_joins_gets_work_within_a_minute() -> None:
    random = Random(7)
    weights = {shard: random.uniform(0.0, 100.0) for shard in range(300)}
    world = World([1, 2], {shard: 1 + shard % 2 for shard in weights}, weights)
    run = Run(world, 0.1, 1)
    run.run(10)
    assert run.moves == []
    world.node_ids.append(3)
    joined = run.now
    run.run(12)
    assert run.moves
    assert run.moves[0][0] - joined < 20.0
    assert world.loads()[3] > 0.3 * world.loads()[1]


@given(worlds(nodes_max=2), st.integers(0, 1 << 32))
def test_noise_moves_no_shard_back_between_two_nodes(world: World, seed: int) -> None:
    """Not even without the rest of those that have moved."""
    rule = msgspec.structs.replace(RULE, shard_rest_seconds=0.0)
    run = Run(world, 0.04, seed, rule)
    run.run(120)
    moved = [move.shard for _, move in run.moves]
    assert len(moved) == len(set(moved)), run.moves


@settings(max_examples=40)
@given(worlds(), st.integers(0, 1 << 32))
def test_with_noise_it_comes_to_rest(world: World, seed: int) -> None:
    """In the last half of an hour nothing moves, and in the first no shard moves often."""
    run = Run(world, 0.05, seed)
    run.run(360)
    first = [move.shard for _, move in run.moves]
    assert all(first.count(shard) <= 3 for shard in set(first)), run.moves
    run.run(360)
    assert len(run.moves) == len(first), run.moves
