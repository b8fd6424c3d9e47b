"""Nodes that start, die, stand still and come back, under trio's clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio
import trio.testing
from membership_kit import Cluster, Node
from waiting import until

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.shards import SHARDS
from greenroom.cluster.connectivity import ConnectivityMonitor
from greenroom.cluster.failure_detector import Connectivity
from greenroom.cluster.lease_guard import Guard
from greenroom.cluster.placement import place
from greenroom.cluster.ports import Residents
from greenroom.cluster.shard_map import NoOwner, ShardMap
from greenroom.cluster.shard_opener import ShardOpener
from greenroom.persistence.nodes.records import NodeRow

Clock = trio.testing.MockClock


@asynccontextmanager
async def running(count: int = 3) -> AsyncGenerator[tuple[Cluster, list[Node]]]:
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery)
        nodes = cluster.start(count)
        await cluster.serve()
        await trio.sleep(5.0)  # now everybody has seen enough to judge
        yield cluster, nodes
        assert cluster.stale == []
        assert cluster.stale_writes == []
        nursery.cancel_scope.cancel()


async def seconds_until(condition: Callable[[], bool], seconds_max: float = 20.0) -> float:
    begun = trio.current_time()
    await until(condition, seconds_max)
    return trio.current_time() - begun


# Starting.


async def test_nodes_that_start_together_share_the_shards(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, nodes):
        shares = cluster.shares()
        assert sum(shares.values()) == SHARDS
        assert all(250 < shares[node.node_id] < 450 for node in nodes)
        assert trio.current_time() < 8.0  # nobody waited for the three seconds


async def test_whoever_comes_alone_takes_everything_after_a_while(autojump_clock: Clock) -> None:
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery)
        (node,) = cluster.start(1, nodes_expected=2)
        await trio.sleep(2.5)
        assert cluster.shares() == {node.node_id: 0}
        await cluster.serve(1.5)
        nursery.cancel_scope.cancel()


async def test_who_has_seen_the_others_come_takes_over_at_once(autojump_clock: Clock) -> None:
    async with trio.open_nursery() as nursery:
        one, two = (cluster := Cluster(nursery)).start(2)
        await seconds_until(cluster.is_served)
        await two.kill(session_lingers=True)
        one.membership.note_dead(two.node_id)
        await seconds_until(lambda: cluster.shares()[one.node_id] == SHARDS)
        assert trio.current_time() < 2.5  # who comes alone would wait for three seconds
        nursery.cancel_scope.cancel()


async def test_where_all_others_are_drained_who_is_started_again_takes_everything_at_once(
    autojump_clock: Clock,
) -> None:
    async with running(2) as (cluster, (drained, killed)):
        assert await drained.membership.drain(60.0) == 0
        await killed.kill(session_lingers=True)
        (again,) = cluster.start(1, nodes_expected=2)
        again.membership.note_dead(killed.node_id)
        assert await seconds_until(cluster.is_served) < 0.5
        assert cluster.shares()[again.node_id] == SHARDS


async def test_a_drained_node_that_is_dead_does_not_count_as_one_that_is_there(
    autojump_clock: Clock,
) -> None:
    async with running(2) as (cluster, (drained, killed)):
        assert await drained.membership.drain(60.0) == 0
        await drained.kill()
        await killed.kill()
        (again,) = cluster.start(1, nodes_expected=2)
        again.membership.note_dead(killed.node_id)
        await trio.sleep(2.5)
        assert cluster.shares()[again.node_id] == 0


async def test_who_joins_gets_the_empty_shards_that_belong_there_and_no_other(
    autojump_clock: Clock,
) -> None:
    async with running(2) as (cluster, _):
        cluster.sizes = dict.fromkeys(range(0, SHARDS, 4), 1)
        before = dict(cluster.database.owners)
        (third,) = cluster.start(1)
        await seconds_until(lambda: cluster.shares()[third.node_id] > 200)
        await cluster.serve()
        await trio.sleep(5.0)
        moved = {s for s, owner in cluster.database.owners.items() if owner != before[s]}
        assert not moved & cluster.sizes.keys()
        for node in list(cluster.nodes.values()):
            await node.membership.balance()
        await cluster.serve()
        assert any(cluster.database.owners[s][0] == third.node_id for s in cluster.sizes)
        assert 280 < cluster.shares()[third.node_id] < 400


async def test_nodes_tell_each_other_how_many_rooms_their_shards_have(
    autojump_clock: Clock,
) -> None:
    async with running(2) as (_, (one, two)):
        full, quiet = one.shards.list_shards_of(one.node_id)[:2]
        assert two.shards.count_rooms_in(full) == 0
        one.residents.rooms = {full: 7}
        await trio.sleep(1.0)
        assert two.shards.count_rooms_in(full) == 7
        assert two.shards.count_rooms_in(quiet) == 0
        assert one.shards.count_rooms_in(full) is None
        await one.kill()
        await seconds_until(lambda: two.shards.is_mine(full))
        assert two.shards.count_rooms_in(full) is None


# Dying.


async def test_a_reaped_worker_is_taken_over_at_once(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        await one.write(7)
        await two.kill(session_lingers=True)
        for node in (one, three):
            node.membership.note_dead(two.node_id)
        assert await seconds_until(cluster.is_served) < 0.1
        assert cluster.shares()[two.node_id] == 0
        assert cluster.shares()[one.node_id] > 400 < cluster.shares()[three.node_id]
        assert await three.read(7) == 1


async def test_shards_that_calls_wait_for_are_opened_before_all_others(
    autojump_clock: Clock,
) -> None:
    async with running(2) as (cluster, (one, two)):
        cluster.sizes = dict.fromkeys(range(SHARDS), 300)  # a group of 64 takes 4.8 s to bring up
        last = two.shards.list_shards_of(two.node_id)[-1]
        await two.kill(session_lingers=True)
        one.shards.note_gone(two.node_id)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.read, last)
            await trio.testing.wait_all_tasks_blocked()
            one.membership.note_dead(two.node_id)
            assert await seconds_until(lambda: one.shards.is_mine(last)) < 0.3
        await seconds_until(cluster.is_served, 60.0)


class BroughtUp:
    """Notes what is brought up."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    async def bring_up(self, epochs: Mapping[int, int]) -> None:
        self.batches.append(list(epochs))

    def let_go(self, shards: list[int]) -> None:
        assert not shards


async def test_calls_that_learn_that_a_node_is_gone_wait_before_anything_is_opened(
    autojump_clock: Clock,
) -> None:
    for _ in range(20):  # tasks of one pass run in any order
        shards, guard, brought_up = ShardMap[NodeRow](1), Guard(3.0, trio.current_time), BroughtUp()
        guard.note_renewed(trio.current_time())
        shards.note_owners(dict.fromkeys(range(SHARDS), (2, 1)))
        residents = cast("Residents", brought_up)
        opener = ShardOpener(shards, residents, guard, lambda _: None)

        async def call(shards: ShardMap[NodeRow] = shards) -> None:
            while shards.find_owner(900) == 2:  # it is asked again and again
                await shards.wait_changed()
            assert await shards.wait_for_owner(900, 1.0) == 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(opener.run)
            async with trio.open_nursery() as calling:
                calling.start_soon(call)
                await trio.testing.wait_all_tasks_blocked()
                shards.note_gone(2)
                shards.note_owners(dict.fromkeys(range(SHARDS), (1, 2)))
                opener.look()
            nursery.cancel_scope.cancel()
        assert brought_up.batches[0] == [900]


async def test_a_killed_node_is_missed_by_postgres_and_the_bus_together(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, (_, two, _)):
        await two.kill()
        assert await seconds_until(cluster.is_served) < 0.4


async def test_a_machine_without_power_is_taken_over_when_its_lease_runs_out(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, (one, two, three)):
        for other in (one, three):
            cluster.network.cut(other.node_id, two.node_id)
            cluster.network.cut(two.node_id, other.node_id)
        await two.kill(session_lingers=True)
        seconds = await seconds_until(cluster.is_served)
        assert 1.5 < seconds < 3.6


async def test_a_machine_that_lost_its_power_before_it_owned_anything_gets_no_shards(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, (one, two, three)):
        cluster.sizes = dict.fromkeys(range(SHARDS), 1)  # so that who joins gets none of them
        (empty,) = cluster.start(1)
        await seconds_until(lambda: empty.membership.is_served)
        for other in (one, two, three):
            cluster.network.cut(other.node_id, empty.node_id)
            cluster.network.cut(empty.node_id, other.node_id)
        await empty.kill(session_lingers=True)
        await trio.sleep(5.0)
        await two.kill()
        await seconds_until(cluster.is_served)
        assert cluster.shares()[one.node_id] + cluster.shares()[three.node_id] == SHARDS


async def test_while_taking_waits_for_locks_the_lease_is_renewed(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        cluster.database.take_seconds = 4.5
        await two.kill()
        await seconds_until(cluster.is_served)
        assert one.guard.losses == three.guard.losses == 0


def be_busy(*_: object, **__: object) -> None:
    """Take no shards."""


async def test_a_node_that_was_late_once_and_not_taken_over_is_not_taken_for_gone(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(3) as (cluster, (one, two, three)):
        cluster.sizes = dict.fromkeys(range(SHARDS), 1)
        others = [one.node_id, three.node_id]
        shards = [s for s in range(SHARDS) if two.shards.is_mine(s)]
        kept = next(s for s in shards if place(s, others) == three.node_id)
        moved = [s for s in shards if s != kept]
        await two.membership.hand_over.move(moved, one.node_id)
        monkeypatch.setattr(three.membership, "_take", be_busy)
        two.is_cut_off = True
        await trio.sleep(4.0)
        two.is_cut_off = False
        await trio.sleep(1.0)
        assert await one.read(kept) == 0
        assert cluster.database.owners[kept][0] == two.node_id


async def test_the_last_one_takes_everything(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        await two.kill()
        await three.kill()
        await seconds_until(cluster.is_served)
        assert cluster.shares()[one.node_id] == SHARDS


async def test_a_taker_that_dies_itself_leaves_nothing_behind(autojump_clock: Clock) -> None:
    async with running(4) as (cluster, (_, two, three, _)):
        await two.kill()
        await trio.sleep(0.05)
        await three.kill()
        await seconds_until(cluster.is_served)
        assert cluster.shares()[two.node_id] == cluster.shares()[three.node_id] == 0


async def test_a_node_started_again_is_another_node_and_gets_its_share(
    autojump_clock: Clock,
) -> None:
    async with running(2) as (cluster, (_, two)):
        await two.kill()
        await seconds_until(cluster.is_served)
        (again,) = cluster.start(1)
        await seconds_until(lambda: cluster.shares()[again.node_id] > 400)
        await cluster.serve()


@pytest.mark.parametrize("session_lingers", [False, True])
async def test_after_a_hard_stop_of_all_who_starts_says_that_it_serves_once_it_does(
    session_lingers: bool, autojump_clock: Clock
) -> None:
    async with running(2) as (cluster, nodes):
        for node in nodes:
            await node.kill(session_lingers=session_lingers)
        await trio.sleep(2.0)  # as long as a process takes to start
        for node in cluster.start(2):
            assert await node.membership.wait_served(10.0)
            assert all(cluster.shares()[dead.node_id] == 0 for dead in nodes)
            await cluster.serve(0.2)  # what the other one has is just being opened there


def told(caplog: pytest.LogCaptureFixture) -> dict[str, set[str]]:
    """Return the levels of what was logged about shards that were taken over, by its kind."""
    found: dict[str, set[str]] = {"gone": set(), "ended": set()}
    for record in caplog.records:
        text = record.getMessage()
        if "took over" in text:
            found["gone" if "is gone" in text else "ended"].add(record.levelname)
    return found


async def test_shards_of_a_node_that_has_stopped_in_order_are_no_cause_for_a_warning(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running(2) as (cluster, nodes):
        for node in nodes:
            await node.kill()
            cluster.database.nodes[node.node_id].ended_at = cluster.database.now()
        for node in cluster.start(2):
            assert await node.membership.wait_served(10.0)
        assert told(caplog) == {"gone": set(), "ended": {"INFO"}}


async def test_shards_of_a_node_that_was_killed_are(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running(3) as (cluster, (_, two, _)):
        await two.kill()
        await seconds_until(cluster.is_served)
        assert told(caplog)["gone"] == {"WARNING"}


# Standing still.


@pytest.mark.parametrize("seconds", [0.5, 1.0, 1.3])
async def test_a_short_pause_is_no_death(seconds: float, autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (_, two, _)):
        owners = dict(cluster.database.owners)
        two.pause()
        await trio.sleep(seconds)
        two.resume()
        await trio.sleep(5.0)
        assert cluster.database.owners == owners
        assert cluster.is_served()
        assert two.guard.losses == 0


async def test_a_node_whose_lease_ran_out_and_was_not_taken_over_comes_back_by_itself(
    autojump_clock: Clock,
) -> None:
    async with running(1) as (cluster, (one,)):
        await one.write(7)
        one.pause()
        await trio.sleep(30.0)
        one.resume()
        assert not any(one.shards.is_mine(s) for s in range(SHARDS))
        with pytest.raises(NoOwner):
            await one.shards.wait_for_owner(7, 5.0)
        await seconds_until(cluster.is_served, 2.0)
        assert one.guard.losses == 1
        assert await one.write(7) == 2


async def test_a_node_that_stood_still_too_long_runs_no_turn_and_ends(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, (one, two, _)):
        mine = next(s for s in range(SHARDS) if two.shards.is_mine(s))
        await one.write(mine)
        two.pause()
        seconds = await seconds_until(lambda: cluster.shares()[two.node_id] == 0)
        assert 1.5 < seconds < 3.6
        await one.write(mine)
        two.resume()
        assert not two.shards.is_mine(mine)
        assert not two.residents.numbers
        await two.ended.wait()
        assert two.error is not None
        assert await one.read(mine) == 2


async def test_the_guard_is_what_keeps_a_stopped_node_from_reading_the_past(
    autojump_clock: Clock,
) -> None:
    """The same without the guard: so the check above can see it."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery)
        one, two, _ = cluster.start(3)
        two.guard.after_io_wait = lambda timeout: None  # type: ignore[method-assign]
        await cluster.serve()
        await trio.sleep(5.0)
        mine = next(s for s in range(SHARDS) if two.shards.is_mine(s))
        two.pause()
        await seconds_until(lambda: cluster.shares()[two.node_id] == 0)
        await one.write(mine)
        two.resume()
        await two.read(mine)
        assert cluster.stale
        nursery.cancel_scope.cancel()


# Postgres and the bus.


async def test_a_node_cut_off_from_postgres_stops_before_it_is_taken_over(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, (_, two, _)):
        two.is_cut_off = True
        stopped = await seconds_until(lambda: two.guard.losses == 1)
        taken = stopped + await seconds_until(lambda: cluster.shares()[two.node_id] == 0)
        assert 1.3 < stopped <= 2.41
        assert stopped < taken < 3.6
        two.is_cut_off = False
        await two.ended.wait()
        assert cluster.is_served()


async def test_while_postgres_is_away_for_all_they_serve_on_and_nobody_is_buried(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, nodes):
        owners = dict(cluster.database.owners)
        cluster.database.is_away = True
        for _ in range(40):
            await trio.sleep(0.25)
            for node in nodes:
                await node.read(5, seconds_max=0.1)
        cluster.database.is_away = False
        await trio.sleep(10.0)
        assert cluster.database.owners == owners
        assert [node.guard.losses for node in nodes] == [0, 0, 0]


@pytest.mark.parametrize(("refused", "seconds_max"), [(set[int](), 6.0), ({7}, 20.0)])
async def test_shards_that_postgres_kept_from_opening_open_together_once_it_is_back(
    refused: set[int], seconds_max: float, autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(1) as (cluster, (one,)):
        bring_up, back_at = one.residents.bring_up, trio.current_time() + 5.0

        async def bring_up_slowly(epochs: Mapping[int, int]) -> None:
            await trio.sleep(0.2)
            if trio.current_time() < back_at or refused & epochs.keys():
                raise StorageUnavailable("the database is away")
            await bring_up(epochs)

        monkeypatch.setattr(one.residents, "bring_up", bring_up_slowly)
        one.guard.distrust("its lease has run out")
        await trio.sleep(4.9)
        assert not cluster.is_served()
        left = one.membership._opening.list_pending  # one by one, they would take a minute
        assert await seconds_until(lambda: left().keys() == refused) < seconds_max


async def test_when_postgres_is_back_for_one_node_first_it_buries_nobody(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, nodes):
        owners = dict(cluster.database.owners)
        for node in nodes:
            node.is_cut_off = True
        await trio.sleep(5.0)
        for node in nodes:
            node.is_cut_off = False
            await trio.sleep(0.7)
        await seconds_until(cluster.is_served)
        assert cluster.database.owners == owners


async def test_whoever_judged_without_eyes_of_their_own_would_bury_the_others(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: Clock
) -> None:
    """The same without that rule: so the check above can see it."""

    def all_seeing(_: object) -> Connectivity:
        return Connectivity(60.0, 60.0)

    monkeypatch.setattr(ConnectivityMonitor, "read_connectivity", all_seeing)
    async with running(3) as (cluster, nodes):
        owners = dict(cluster.database.owners)
        for node in nodes:
            node.is_cut_off = True
        await trio.sleep(5.0)
        for node in nodes:
            node.is_cut_off = False
            await trio.sleep(0.7)
        await seconds_until(cluster.is_served)
        assert cluster.database.owners != owners


async def test_a_node_cut_off_from_the_bus_alone_serves_on(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (one, two, three)):
        owners = dict(cluster.database.owners)
        for other in (one, three):
            cluster.network.cut(other.node_id, two.node_id)
            cluster.network.cut(two.node_id, other.node_id)
        await trio.sleep(20.0)
        assert cluster.database.owners == owners
        assert cluster.is_served()


async def test_a_node_that_alone_lacks_the_bus_for_long_hands_its_shards_over(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (cluster, (one, two, three)):
        cluster.sizes = dict.fromkeys(range(SHARDS), 1)
        await one.write(7)
        two.is_off_bus = True
        for other in (one, three):
            cluster.network.cut(other.node_id, two.node_id)
            cluster.network.cut(two.node_id, other.node_id)
        await trio.sleep(8.0)
        assert cluster.shares()[two.node_id] > 250
        await seconds_until(lambda: cluster.shares()[two.node_id] == 0, 120.0)
        assert not two.ended.is_set()
        assert await one.read(7) == 1
        two.is_off_bus = False
        for other in (one, three):
            cluster.network.mend(other.node_id, two.node_id)
            cluster.network.mend(two.node_id, other.node_id)
        await trio.sleep(5.0)
        await two.membership.drain(1.0)
        assert await two.read(7) == 1


async def test_while_all_lack_the_bus_nobody_moves(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, nodes):
        owners = dict(cluster.database.owners)
        for node in nodes:
            node.is_off_bus = True
        await trio.sleep(30.0)
        assert cluster.database.owners == owners


async def test_a_node_that_loses_postgres_and_the_bus_together_stops_at_once(
    autojump_clock: Clock,
) -> None:
    async with running(3) as (_, (_, two, _)):
        two.is_off_bus = two.is_cut_off = True
        assert await seconds_until(lambda: two.guard.losses == 1) < 0.3
        two.is_off_bus = two.is_cut_off = False
        await seconds_until(lambda: any(two.shards.is_mine(s) for s in range(SHARDS)), 1.0)


async def test_a_broken_session_alone_is_no_death(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (_, two, _)):
        owners = dict(cluster.database.owners)
        cluster.database.nodes[two.node_id].has_lock = False
        await trio.sleep(2.0)
        cluster.database.nodes[two.node_id].has_lock = True
        await trio.sleep(20.0)
        assert cluster.database.owners == owners


async def test_news_that_are_lost_are_found_by_looking(autojump_clock: Clock) -> None:
    async with running(3) as (cluster, (_, two, _)):
        cluster.network.loss = 1.0
        await two.kill(session_lingers=True)
        await seconds_until(cluster.is_served, 5.0)


# Clocks.


@pytest.mark.parametrize("step", [3_600.0, -3_600.0])
async def test_when_the_clock_of_postgres_steps_nothing_is_lost(
    step: float, autojump_clock: Clock
) -> None:
    async with running(3) as (cluster, (one, _, _)):
        await one.write(7)
        cluster.database.clock_offset += step
        await trio.sleep(10.0)
        cluster.start(len(cluster.nodes) - len(cluster.living()))  # of some it had run out
        await seconds_until(cluster.is_served)
        reader = next(node for node in cluster.living())
        assert await reader.read(7) == 1
        assert await reader.write(7) == 2
