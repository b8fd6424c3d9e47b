"""Shards handed over: step by step, with a death or a refusal at each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
import trio
import trio.testing
from membership_kit import Cluster, MemoryParted, Node, running, shards_of
from waiting import until

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.cluster.hand_over import ACTORS_AT_ONCE, HandOverRefused

Clock = trio.testing.MockClock


async def test_a_shard_moves_with_what_is_in_it(autojump_clock: Clock) -> None:
    async with running() as (cluster, (one, two)):
        (shard,) = shards_of(one, 1)
        await two.write(shard)
        assert await one.membership.hand_over.move([shard], two.node_id) == 1
        assert not one.shards.is_mine(shard)
        assert one.residents.goodbyes == [shard]
        assert shard not in one.residents.numbers
        await until(cluster.is_served, 0.1)
        assert two.residents.adopted == [b"%d:1" % shard]
        assert await one.write(shard) == 2


async def test_the_next_owner_answers_the_calls_that_waited_before_it_looks_again(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look took 8 ms at once after the shard had been opened, and the calls waited for it."""
    async with running() as (_, (one, two)):
        looks: list[float] = []
        monkeypatch.setattr(two.membership, "look_soon", lambda: looks.append(trio.current_time()))
        (shard,) = shards_of(one, 1)
        await one.membership.hand_over.move([shard], two.node_id)
        await two.write(shard)
        assert looks == []


async def test_what_is_being_written_beside_the_queue_is_waited_for(
    autojump_clock: Clock,
) -> None:
    async with running() as (_, (one, two)):
        (shard,) = shards_of(one, 1)
        async with trio.open_nursery() as nursery:
            async with one.residents.writing:
                nursery.start_soon(one.membership.hand_over.move, [shard], two.node_id)
                await trio.sleep(1.0)
                await one.write(shard)
                assert one.shards.is_mine(shard)
        assert not one.shards.is_mine(shard)
        assert await two.write(shard) == 2


async def test_calls_that_come_meanwhile_wait_and_are_answered(autojump_clock: Clock) -> None:
    async with running() as (cluster, (one, two)):
        (shard,) = shards_of(one, 1)
        longest = 0.0

        async def call(node: Node) -> None:
            nonlocal longest
            for _ in range(50):
                begun = trio.current_time()
                await node.write(shard)
                await node.read(shard)
                longest = max(longest, trio.current_time() - begun)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, one)
            nursery.start_soon(call, two)
            await trio.sleep(0.05)
            await one.membership.hand_over.move([shard], two.node_id)
        assert await one.read(shard) == 100
        assert longest < 0.1
        assert cluster.is_served()


@pytest.mark.parametrize("to_node", [0, 1, 99])
async def test_shards_are_handed_to_other_living_nodes_alone(
    to_node: int, autojump_clock: Clock
) -> None:
    async with running() as (_, (one, _)):
        with pytest.raises(HandOverRefused, match="takes no shards"):
            await one.membership.hand_over.move(shards_of(one, 1), to_node)
        assert one.residents.goodbyes == []


async def test_shards_of_others_are_left_alone(autojump_clock: Clock) -> None:
    async with running() as (cluster, (one, two)):
        owners = dict(cluster.database.owners)
        assert await one.membership.hand_over.move(shards_of(two, 3), two.node_id) == 0
        assert cluster.database.owners == owners


async def test_shards_wait_for_few_others_if_many_are_in_them(autojump_clock: Clock) -> None:
    async with running() as (cluster, (one, two)):
        shards = shards_of(one, 6)
        sizes = [ACTORS_AT_ONCE + 1, 1_000, 1_000, 1, 1, 1]
        cluster.sizes.update(zip(shards, sizes, strict=True))
        groups: list[int] = []

        async def note(step: str) -> None:
            if step == "goodbye":
                groups.append(len(one.residents.goodbyes) - sum(groups))

        one.residents.at_step = note
        assert await one.membership.hand_over.move(shards, two.node_id) == 6
        assert groups == [1, 2, 3]


# Reading ahead.


async def test_the_next_owner_reads_ahead_what_is_lived_in_while_it_is_served(
    autojump_clock: Clock,
) -> None:
    async with running() as (cluster, (one, two)):
        empty, full = shards_of(one, 2)
        cluster.sizes[empty] = 0

        async def write(step: str) -> None:
            if step == "read ahead":  # an empty shard goes back to where it belongs
                assert one.shards.takes_connections(full)
                assert await one.write(full) == 1

        two.residents.at_step = write
        assert await one.membership.hand_over.move([empty, full], two.node_id) == 2
        assert two.residents.read == [full]
        assert await two.read(full) == 1


@pytest.mark.parametrize("fault", ["away", "slow", "silent"])
async def test_a_shard_moves_though_it_cannot_be_read_ahead(
    fault: str, autojump_clock: Clock
) -> None:
    async with running() as (cluster, (one, two)):
        (shard,) = shards_of(one, 1)
        await one.write(shard)

        async def fail(_: str) -> None:
            if fault == "away":
                raise ActorUnavailable("the database is away")
            await trio.sleep_forever()

        two.residents.at_step = fail
        if fault == "silent":
            cluster.network.cut(one.node_id, two.node_id)
        begun = trio.current_time()
        assert await one.membership.hand_over.move([shard], two.node_id) == 1
        assert trio.current_time() - begun < 5.0
        cluster.network.mend(one.node_id, two.node_id)
        await until(cluster.is_served, 5.0)
        assert await two.read(shard) == 1


async def test_the_next_owner_dies_while_it_reads_ahead(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        (shard,) = shards_of(one, 1)
        await one.write(shard)
        reached = trio.Event()

        async def halt(_: str) -> None:
            reached.set()
            await trio.sleep_forever()

        async def move() -> None:
            with suppress(HandOverRefused):  # it may be known already that it is gone
                await one.membership.hand_over.move([shard], two.node_id)

        two.residents.at_step = halt
        async with trio.open_nursery() as nursery:
            nursery.start_soon(move)
            await reached.wait()
            await two.kill()
        await until(cluster.is_served, 10.0)
        assert await three.read(shard) == 1


# Death at each step.


async def test_a_node_that_dies_while_the_next_owner_reads_ahead_is_taken_over(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, (one, two, three)):
        (shard,) = shards_of(one, 1)
        await one.write(shard)
        reached = trio.Event()

        async def halt(_: str) -> None:
            reached.set()
            await trio.sleep(1.0)

        two.residents.at_step = halt
        one.nursery.start_soon(one.membership.hand_over.move, [shard], two.node_id)
        await reached.wait()
        await one.kill()
        await until(cluster.is_served, 5.0)
        assert await three.read(shard) == 1
        assert await three.write(shard) == 2


@pytest.mark.parametrize("step", ["prepare", "goodbye"])
async def test_a_node_that_dies_before_the_change_is_the_owner_still(
    step: str, autojump_clock: Clock
) -> None:
    async with running(3) as (cluster, (one, two, three)):
        shards = shards_of(one, 8)
        for shard in shards:
            await two.write(shard)

        reached = trio.Event()

        async def die(at: str) -> None:
            if at == step:
                reached.set()
                await trio.sleep_forever()

        one.residents.at_step = die
        one.nursery.start_soon(one.membership.hand_over.move, shards, two.node_id)
        await reached.wait()
        await one.kill()
        await until(cluster.is_served, 5.0)
        for shard in shards:
            assert await three.read(shard) == 1


@pytest.mark.parametrize("passes", range(12))
async def test_a_node_that_dies_while_the_change_is_written(
    passes: int, autojump_clock: Clock
) -> None:
    """Each shard of the group may have been written, or not."""
    async with running(3) as (cluster, (one, two, three)):
        shards = shards_of(one, 8)
        for shard in shards:
            await two.write(shard)
        epochs = {shard: cluster.database.draw_epoch() for shard in shards}
        one.shards.begin_leaving(shards)
        one.shards.shut(shards)
        one.residents.hand_over(epochs, two.node_id)
        await trio.sleep(0.0011 * passes)
        await one.kill()
        await until(cluster.is_served, 5.0)
        for shard in shards:
            assert await three.read(shard) == 1
            assert await three.write(shard) == 2


async def test_a_node_that_dies_before_it_tells_the_next_owner(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        (shard,) = shards_of(one, 1)
        cluster.network.cut(one.node_id, two.node_id)
        cluster.network.cut(one.node_id, three.node_id)
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.membership.hand_over.move, [shard], two.node_id)
            await until(lambda: two.shards.is_mine(shard), 5.0)
        assert trio.current_time() - begun < 3.0
        await one.kill()
        await until(cluster.is_served, 5.0)


async def test_the_next_owner_dies_before_it_is_told(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        shards = shards_of(one, 8)
        await three.write(shards[0])
        await two.kill()
        await one.membership.hand_over.move(shards, two.node_id)
        await until(cluster.is_served, 5.0)
        assert await three.read(shards[0]) == 1


async def test_the_owner_is_stopped_in_the_middle_and_taken_over(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        shards = shards_of(one, 8)
        await two.write(shards[0])

        async def stop(step: str) -> None:
            if step == "goodbye":
                one.pause()
                await one.gate()

        one.residents.at_step = stop
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.membership.hand_over.move, shards, two.node_id)
            await until(lambda: cluster.shares()[one.node_id] == 0, 5.0)
            await three.write(shards[0])
            one.resume()
            await one.ended.wait()
        await until(cluster.is_served, 1.0)
        assert await three.read(shards[0]) == 2


# What can fail.


async def test_a_change_that_is_refused_leaves_the_shard_where_it_is(
    autojump_clock: Clock,
) -> None:
    async with running() as (cluster, (one, two)):
        shards = shards_of(one, 4)
        await two.write(shards[0])
        one.residents.refused = set(shards[:2])
        assert await one.membership.hand_over.move(shards, two.node_id) == 2
        await until(cluster.is_served, 1.0)
        assert all(one.shards.is_mine(s) for s in shards[:2])
        assert all(two.shards.is_mine(s) for s in shards[2:])
        assert await two.write(shards[0]) == 2


async def test_postgres_goes_away_in_the_middle_and_comes_back(autojump_clock: Clock) -> None:
    async with running() as (cluster, (one, two)):
        shards = shards_of(one, 4)
        await two.write(shards[0])

        async def away(step: str) -> None:
            if step == "goodbye":
                cluster.database.is_away = True

        one.residents.at_step = away
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.membership.hand_over.move, shards, two.node_id)
            await trio.sleep(20.0)
            cluster.database.is_away = False
        await until(cluster.is_served, 5.0)
        assert await one.read(shards[0]) == 1
        assert all(two.shards.is_mine(s) for s in shards)


async def test_a_cancelled_hand_over_leaves_the_shards_open(autojump_clock: Clock) -> None:
    async with running() as (cluster, (one, two)):

        async def wait(step: str) -> None:
            if step == "goodbye":
                await trio.sleep_forever()

        one.residents.at_step = wait
        with trio.move_on_after(1.0):
            await one.membership.hand_over.move(shards_of(one, 4), two.node_id)
        assert cluster.is_served()
        assert all(one.shards.takes_connections(s) for s in shards_of(one, 4))


async def test_audiences_come_in_pieces_and_the_shard_opens_after_the_last(
    autojump_clock: Clock,
) -> None:
    async with running() as (_, (one, two)):
        shards = shards_of(one, 8)
        await one.membership.hand_over.move(shards, two.node_id)
        opened_after: list[int] = []
        await until(lambda: all(two.shards.is_mine(s) for s in shards), 1.0)
        opened_after.append(len(two.residents.adopted))
        assert opened_after == [8]


async def test_telling_before_it_is_durable_is_found(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that Postgres refuses, and a node that does not wait for that: two owners."""

    async def at_once(self: MemoryParted) -> Sequence[int]:
        return list(self.changes)

    monkeypatch.setattr(MemoryParted, "settle", at_once)
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery)
        one, two = cluster.start(2)
        await cluster.serve()
        shards = shards_of(one, 4)
        one.residents.refused = set(shards)
        await one.membership.hand_over.move(shards, two.node_id)
        await until(lambda: two.shards.is_mine(shards[0]), 1.0)
        await two.write(shards[0])
        assert cluster.stale_writes == [(two.node_id, shards[0])]
        nursery.cancel_scope.cancel()
