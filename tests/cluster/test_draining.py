"""Nodes that are drained, or stop: what becomes of their shards, and who takes them."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing
from membership_kit import Node, running, shards_of
from waiting import until

from greenroom.actors.kernel.shards import SHARDS
from greenroom.cluster.hand_over import HandOverRefused

Clock = trio.testing.MockClock


async def test_a_drained_node_has_nothing_left_and_gets_nothing(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        for shard in range(0, SHARDS, 7):
            await three.write(shard)
        assert await two.membership.drain(60.0) == 0
        await until(cluster.is_served, 1.0)
        await trio.sleep(10.0)
        assert cluster.shares()[two.node_id] == 0
        assert cluster.shares()[one.node_id] > 400 < cluster.shares()[three.node_id]
        for shard in range(0, SHARDS, 7):
            assert await one.read(shard) == 1


async def test_two_who_drain_at_once_give_nothing_to_each_other(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.membership.drain, 60.0)
            nursery.start_soon(two.membership.drain, 60.0)
        await until(cluster.is_served, 1.0)
        assert cluster.shares() == {one.node_id: 0, two.node_id: 0, three.node_id: SHARDS}


async def test_the_last_node_keeps_what_it_has(autojump_clock: Clock) -> None:
    async with running(1) as (cluster, (one,)):
        assert await one.membership.drain(5.0) == SHARDS
        assert cluster.is_served()


async def test_a_drain_goes_on_once_there_is_a_node_again(autojump_clock: Clock) -> None:
    async with running(2) as (cluster, (one, two)):
        await two.kill()
        await until(cluster.is_served, 10.0)
        left = []

        async def drain() -> None:
            left.append(await one.membership.drain(60.0, waits=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await trio.sleep(20.0)
            assert not left
            [three] = cluster.start(1)
        assert left == [0]
        assert cluster.shares()[three.node_id] == SHARDS


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_drained_node_takes_over_from_the_last_other_and_gives_to_the_next_one(
    is_done: bool, autojump_clock: Clock
) -> None:
    async with running(2) as (cluster, (one, two)), trio.open_nursery() as nursery:

        async def take_time(_: str) -> None:
            await trio.sleep(0.1)

        one.residents.at_step = take_time
        nursery.start_soon(partial(one.membership.drain, 60.0, waits=True))
        await until(lambda: cluster.shares()[one.node_id] < (1 if is_done else 300), 30.0)
        await until(lambda: not one.membership.is_needed, 0.5)
        await two.kill()
        await until(lambda: cluster.shares()[one.node_id] == SHARDS, 2.0)
        await until(cluster.is_served, 1.0)
        await until(lambda: one.membership.is_needed, 0.5)
        [three] = cluster.start(1)
        await until(lambda: cluster.shares()[three.node_id] == SHARDS, 30.0)
        await until(lambda: not one.membership.is_needed, 0.5)


async def test_of_several_drained_nodes_none_takes_over_while_another_does(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, (one, two, three)):
        assert await one.membership.drain(60.0, waits=True) == 0
        await two.kill()
        await until(lambda: cluster.shares()[three.node_id] == SHARDS, 2.0)
        assert cluster.shares()[one.node_id] == 0


async def test_a_node_that_is_about_to_stop_takes_nothing_over(autojump_clock: Clock) -> None:
    async with running(2) as (cluster, (one, two)):
        assert await one.membership.drain(60.0) == 0
        await two.kill()
        await trio.sleep(10.0)
        assert cluster.shares()[one.node_id] == 0
        assert not one.membership.is_needed


async def test_who_is_drained_and_stays_is_given_everything_when_the_last_other_stops(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, (one, two, three)), trio.open_nursery() as nursery:
        for drained in (one, two):
            assert await drained.membership.drain(60.0, waits=True) == 0

        async def write(node: Node) -> None:
            for shard in range(0, SHARDS, 40):
                await node.write(shard, 1.0)

        for node in (one, two, three):
            nursery.start_soon(write, node)
        assert await three.membership.drain(60.0) == 0
        await until(cluster.is_served, 1.0)
        given = dict(cluster.database.owners)
        await trio.sleep(10.0)
        assert cluster.database.owners == given  # they give nothing to each other
        assert min(cluster.shares()[one.node_id], cluster.shares()[two.node_id]) > 400
        assert [await two.read(shard) for shard in range(0, SHARDS, 40)] == [3] * 26
        await three.kill()
        assert await one.membership.drain(60.0) == 0
        assert cluster.shares()[two.node_id] == SHARDS
        [four] = cluster.start(1)
        await until(lambda: cluster.shares()[four.node_id] == SHARDS, 30.0)


@pytest.mark.parametrize("is_silent", [False, True])
async def test_who_stops_stays_until_what_others_have_sent_has_come(
    autojump_clock: Clock, *, is_silent: bool
) -> None:
    async with running(3) as (cluster, (one, two, three)), trio.open_nursery() as nursery:
        assert await three.membership.drain(60.0, waits=True) == 0
        heard, has_nothing_since, hear_rest = list[bytes](), list[float](), one.bus._hearing
        assert hear_rest is not None

        def hear(sender: int, message: bytes) -> None:
            if message == b"last":
                heard.append(message)
            else:
                hear_rest(sender, message)

        async def lag() -> None:
            """Hold up what the third sends until the first has nothing left."""
            cluster.network.pause(three.node_id)
            three.bus.tell(one.node_id, b"last")
            await until(lambda: not cluster.shares()[one.node_id], 60.0)
            has_nothing_since.append(trio.current_time())
            await trio.sleep(0.1)
            if not is_silent:
                cluster.network.resume(three.node_id)

        one.bus.hear_with(hear)
        nursery.start_soon(lag)
        assert await one.membership.drain(60.0) == 0
        assert heard == ([] if is_silent else [b"last"])
        assert trio.current_time() - has_nothing_since[0] < 1.0
        assert cluster.shares()[two.node_id] == SHARDS


async def test_of_two_who_stop_at_once_one_of_them_drained_none_gives_to_the_other(
    autojump_clock: Clock,
) -> None:
    async with running(2) as (_, (one, two)):
        assert await one.membership.drain(60.0, waits=True) == 0
        begun, left = trio.current_time(), []

        async def stop(node: Node) -> None:
            left.append(await node.membership.drain(60.0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop, one)
            nursery.start_soon(stop, two)
        assert trio.current_time() - begun < 1.0
        assert sum(left) == SHARDS
        assert one.membership.hand_over.moved + two.membership.hand_over.moved < SHARDS


async def test_a_drain_ends_when_its_time_is_over(autojump_clock: Clock) -> None:
    async with running(2) as (_, (one, _)):

        async def wait(step: str) -> None:
            await trio.sleep(1.0)

        one.residents.at_step = wait
        begun = trio.current_time()
        assert await one.membership.drain(5.0) > 100
        assert trio.current_time() - begun < 7.5


@pytest.mark.parametrize("ends", [True, False])
async def test_no_shard_goes_to_a_node_that_has_ended_or_drains_meanwhile(
    ends: bool, autojump_clock: Clock
) -> None:
    async with running(3) as (cluster, (one, two, _)):
        shards = shards_of(one, 24)

        async def wait(step: str) -> None:
            await trio.sleep(3.0)

        one.residents.at_step = wait
        refusals = []

        async def move() -> None:
            with pytest.raises(HandOverRefused, match="takes no shards") as refused:
                await one.membership.hand_over.move(shards, two.node_id)
            refusals.append(refused)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(move)
            await trio.sleep(0.5)
            if ends:
                await two.kill()
            else:
                await two.membership.drain(0.1)
        assert refusals
        assert one.residents.goodbyes == []
        await until(cluster.is_served, 10.0)
