"""Shards that move by load in a cluster of real membership and hand-over."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio
import trio.testing
from membership_kit import Cluster, Node
from waiting import until

from greenroom.actors.kernel.shards import SHARDS
from greenroom.cluster.balance_rule import loads_of, widest_gap
from greenroom.cluster.balancing import REST_SECONDS, ROUND_SECONDS, Balancing
from greenroom.cluster.placement import place

Clock = trio.testing.MockClock


@asynccontextmanager
async def running(count: int, *, is_balanced: bool = True) -> AsyncGenerator[Cluster]:
    """Run nodes in whose every shard somebody is, without load so far."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery)
        cluster.is_balanced = is_balanced
        cluster.sizes = dict.fromkeys(range(SHARDS), 1)
        cluster.start(count)
        await cluster.serve()
        yield cluster
        assert cluster.stale == []
        assert cluster.stale_writes == []
        nursery.cancel_scope.cancel()


def owners(cluster: Cluster) -> dict[int, int]:
    return {shard: node_id for shard, (node_id, _) in cluster.database.owners.items()}


def loads(cluster: Cluster) -> dict[int, float]:
    living = [node.node_id for node in cluster.living()]
    return loads_of(living, owners(cluster), cluster.loads)


def load_up(cluster: Cluster, node: Node, count: int, turns_per_second: float) -> list[int]:
    """Let shards of one node have a load."""
    shards = [shard for shard in range(1, SHARDS) if node.shards.is_mine(shard)][:count]
    cluster.loads |= dict.fromkeys(shards, turns_per_second)
    cluster.loaded_at |= dict.fromkeys(shards, trio.current_time())
    return shards


def decider(cluster: Cluster) -> Node:
    """Return the node that decides: the owner of shard 0."""
    return cluster.nodes[owners(cluster)[0]]


def moved(cluster: Cluster) -> int:
    return sum(node.balancing.moved for node in cluster.nodes.values())


async def test_shards_move_from_much_load_to_little_one_at_a_time(autojump_clock: Clock) -> None:
    async with running(3) as cluster:
        one = cluster.nodes[1]
        busy = load_up(cluster, one, 30, 100.0)
        before = owners(cluster)
        changes: list[tuple[float, int]] = []
        known = dict(before)
        with trio.move_on_after(90.0):
            while True:
                now = owners(cluster)
                news = [shard for shard in known if now[shard] != known[shard]]
                changes += [(trio.current_time(), shard) for shard in news]
                known = now
                await trio.sleep(0.2)
        assert widest_gap(loads(cluster)) <= 0.2
        shards = [shard for _, shard in changes]
        assert len(shards) == len(set(shards)) == moved(cluster)
        assert 15 <= len(shards) <= 20
        assert set(shards) <= set(busy)
        times = [at for at, _ in changes]
        assert all(b - a > REST_SECONDS * 0.9 for a, b in pairwise(times))
        assert cluster.is_served()


async def test_calls_go_on_while_shards_move(autojump_clock: Clock) -> None:
    async with running(2) as cluster:
        one, two = cluster.nodes[1], cluster.nodes[2]
        busy = load_up(cluster, one, 4, 200.0)
        for number in range(1, 400):
            for shard in busy:
                assert await (one if number % 2 else two).write(shard) == number
            await trio.sleep(0.1)
        assert moved(cluster) == 2
        assert sorted(loads(cluster).values()) == [400.0, 400.0]


async def test_a_node_that_joins_gets_load_within_a_minute(autojump_clock: Clock) -> None:
    async with running(2) as cluster:
        for node in list(cluster.nodes.values()):
            load_up(cluster, node, 20, 100.0)
        await trio.sleep(60.0)
        assert moved(cluster) == 0
        (three,) = cluster.start(1)
        await until(lambda: loads(cluster).get(three.node_id, 0.0) > 0, 30.0)
        await until(lambda: widest_gap(loads(cluster)) <= 0.2, 60.0)


async def test_a_node_that_leaves_hands_over_and_the_rest_is_balanced(
    autojump_clock: Clock,
) -> None:
    async with running(3) as cluster:
        three = cluster.nodes[3]
        load_up(cluster, three, 20, 100.0)
        for shard in list(cluster.loads):  # all of it would go to one of the two that stay
            if place(shard, [1, 2]) != 1:
                del cluster.loads[shard]
        assert await three.membership.drain(60.0) == 0
        await three.kill()
        await until(lambda: widest_gap(loads(cluster)) <= 0.4, 120.0)
        assert moved(cluster) > 0


async def test_another_decides_when_the_one_that_did_dies(autojump_clock: Clock) -> None:
    async with running(3) as cluster:
        first = decider(cluster)
        await trio.sleep(3 * ROUND_SECONDS)
        assert [n for n in cluster.living() if n.balancing.state is not None] == [first]
        await first.kill()
        await until(cluster.is_served, 10.0)
        second = decider(cluster)
        load_up(cluster, second, 10, 200.0)
        await until(lambda: second.balancing.moved >= 5, 60.0)
        assert [n for n in cluster.living() if n.balancing.state is not None] == [second]


async def test_two_that_decide_at_once_do_no_harm(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map of one may be old: each shard still has one owner, and none is lost."""
    async with running(3) as cluster:
        one = cluster.nodes[1]
        busy = load_up(cluster, one, 12, 100.0)
        monkeypatch.setattr(Balancing, "_decides", True)
        await trio.sleep(120.0)
        assert cluster.is_served()
        assert widest_gap(loads(cluster)) <= 0.5
        for shard in busy:
            assert await cluster.nodes[2].write(shard) == 1


async def test_a_node_that_is_paused_takes_no_part_and_holds_nobody_up(
    autojump_clock: Clock,
) -> None:
    async with running(4) as cluster:
        paused = next(n for n in cluster.living() if n is not decider(cluster))
        giver = next(n for n in cluster.living() if n not in (paused, decider(cluster)))
        load_up(cluster, giver, 10, 100.0)
        await trio.sleep(11.0)
        paused.pause()
        await until(lambda: moved(cluster) >= 3, 60.0)
        paused.resume()
        await trio.sleep(30.0)
        assert cluster.is_served()


async def test_what_postgres_refuses_is_not_tried_again_at_once(autojump_clock: Clock) -> None:
    async with running(2) as cluster:
        one = cluster.nodes[1]
        busy = load_up(cluster, one, 2, 200.0)
        one.residents.refused = set(busy)
        await trio.sleep(120.0)
        assert moved(cluster) == 0
        assert len(one.residents.goodbyes) == 2
        assert cluster.is_served()


async def test_it_can_be_switched_off_and_the_load_is_shown_all_the_same(
    autojump_clock: Clock,
) -> None:
    async with running(2, is_balanced=False) as cluster:
        one = cluster.nodes[1]
        load_up(cluster, one, 10, 100.0)
        before = owners(cluster)
        await trio.sleep(120.0)
        assert owners(cluster) == before
        assert 990 < one.balancing.measure.turns_per_second < 1010
        state = decider(cluster).balancing.state
        assert state is not None
        assert state.why == "it is switched off: balance_shards is false"


async def test_a_node_where_it_is_switched_off_keeps_its_shards(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(2) as cluster:
        on = decider(cluster)
        off = cluster.nodes[3 - on.node_id]
        monkeypatch.setattr(off.balancing, "_is_on", False)
        load_up(cluster, off, 10, 100.0)
        before = owners(cluster)
        await until(lambda: on.balancing.state is not None and on.balancing.state.next, 60.0)
        await trio.sleep(60.0)
        assert owners(cluster) == before
        assert moved(cluster) == 0


async def test_what_moves_and_why_is_told(autojump_clock: Clock) -> None:
    async with running(2) as cluster:
        one = cluster.nodes[1]
        load_up(cluster, one, 10, 100.0)
        held = trio.Event()

        async def hold(step: str) -> None:
            if step == "prepare":
                await held.wait()

        one.residents.at_step = hold
        balancing = decider(cluster).balancing
        await until(lambda: balancing.state is not None and balancing.state.next is not None, 60.0)
        state = balancing.state
        assert state is not None
        assert state.next is not None
        assert (state.next.move.from_node, state.next.move.to_node) == (1, 2)
        assert state.why.startswith("the gap is wide: 0 to 1,0")
        held.set()
        await until(lambda: balancing.moved == 5, 60.0)
        await trio.sleep(30.0)
        state = balancing.state
        assert state is not None
        assert state.next is None
        assert state.why.startswith("the load is shared: ")
