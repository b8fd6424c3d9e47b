"""Calls that were sent to another node when its connection broke, or when it went."""

from __future__ import annotations

from functools import partial

import pytest
import trio
from cluster_kit import ECHO, TROUBLE, Cluster
from dispatch_kit import json_of
from trio.testing import MockClock

from greenroom.actors.kernel.errors import Moved
from greenroom.bus.bus import ASKS_MAX, UNSENT_SECONDS_MAX, BusLost, OffBus, TooBusy
from greenroom.cluster.calls import forwarding
from greenroom.cluster.calls.messages import Forwarded, forward_of
from greenroom.cluster.calls.reply_cache import KEEP_SECONDS
from greenroom.http.request import Answer, Request


async def lose(_: object = None) -> None:
    raise BusLost("the connection broke")


async def test_a_change_whose_answer_was_lost_is_carried_out_once(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.ingress.wire.after = lose
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
        await trio.sleep(1.0)
        cluster.ingress.wire.after = None

    assert answers[0].status == 200
    assert cluster.owner.trouble.calls == 1
    assert cluster.ingress.wire.asked > 1


async def test_a_change_that_cannot_be_sent_is_refused_within_seconds(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    """So it is with NATS while none of its servers can be reached."""

    async def wait_in_vain() -> None:
        await trio.sleep(UNSENT_SECONDS_MAX)
        raise OffBus("the other node could not be reached in time")

    cluster.ingress.wire.before = wait_in_vain
    began = trio.current_time()

    answer = await cluster.ingress.answer(*TROUBLE)

    assert answer.status == 429
    assert json_of(answer)["retry_after"] == 1
    assert trio.current_time() - began < forwarding.WAIT_SECONDS_MAX + 2 * UNSENT_SECONDS_MAX + 0.1
    assert cluster.owner.trouble.calls == 0


async def test_a_change_whose_answer_stays_lost_is_a_500_once_no_answer_is_kept(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.ingress.wire.after = lose
    began = trio.current_time()

    assert (await cluster.ingress.answer(*TROUBLE)).status == 500

    assert trio.current_time() - began < KEEP_SECONDS + 1.0
    assert cluster.owner.trouble.calls == 1


async def test_a_change_that_is_still_carried_out_is_joined(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    gate = cluster.owner.trouble.gate = trio.Event()
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
        await trio.sleep(0.1)
        nursery.start_soon(_ask_twice, cluster, answers)
        await trio.sleep(0.1)
        assert cluster.owner.trouble.calls == 1
        gate.set()

    assert [answer.status for answer in answers] == [200, 200]
    assert cluster.owner.trouble.calls == 1


async def _ask_twice(cluster: Cluster, answers: list[Answer]) -> None:
    """Send the change that is under way once more, as after a broken connection."""
    request = Request(*TROUBLE, "", {"x-api-token": cluster.owner.arena.keys.api_token}, b"", "")
    call = forward_of(request, cluster.shard, 0, number=1)
    reply = await cluster.ingress.messenger.ask(1, call, seconds_max=10.0)
    assert isinstance(reply, Forwarded)
    answers.append(Answer(reply.status, reply.body))


@pytest.mark.parametrize("routes", [[(2, 1)], [(1, 2)], [(1, 2), (2, 1)]])
async def test_a_change_that_vanished_without_a_sign_is_sent_again_and_carried_out_once(
    autojump_clock: MockClock, cluster: Cluster, routes: list[tuple[int, int]]
) -> None:
    """So it is with a machine that has lost NATS while no connection is closed."""
    for route in routes:
        cluster.network.cut(*route)
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
        await trio.sleep(forwarding.SILENCE_SECONDS_MAX - 0.1)
        for route in routes:
            cluster.network.mend(*route)
        await trio.sleep(0.2)
        assert answers[0].status == 200

    assert cluster.owner.trouble.calls == 1
    assert cluster.ingress.wire.asked == 2


async def test_a_change_that_takes_long_is_joined_however_often_it_is_sent(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    gate = cluster.owner.trouble.gate = trio.Event()
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
        await trio.sleep(3.5 * forwarding.SILENCE_SECONDS_MAX)
        gate.set()

    assert answers[0].status == 200
    assert cluster.owner.trouble.calls == 1
    assert cluster.ingress.wire.asked == 4
    assert cluster.ingress.wire.bus.statistics.asks_under_way == 0


async def test_a_change_that_is_refused_when_it_is_sent_again_may_have_happened(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    """Else its client would be told to make it once more."""
    cluster.network.cut(1, 2)
    answers: list[Answer] = []

    async def refuse() -> None:
        raise TooBusy

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
        await trio.sleep(1.0)
        cluster.ingress.wire.before = refuse

    assert answers[0].status == 500
    assert cluster.owner.trouble.calls == 1


@pytest.mark.parametrize(("has_begun", "status"), [(False, 429), (True, 500)])
async def test_a_change_that_has_begun_and_finds_nobody_to_finish_it_may_have_happened(
    autojump_clock: MockClock,
    cluster: Cluster,
    has_begun: bool,
    status: int,
) -> None:
    """A log-out whose shard is just moving, for instance: it is durable, and not told the room."""
    for node in (cluster.owner, cluster.ingress):
        cluster.owner.trouble.error = moved = Moved("its shard is moving")
        moved.has_begun = has_begun
        assert (await node.answer(*TROUBLE)).status == status
    assert cluster.owner.trouble.calls > 2


async def test_a_change_at_a_silent_node_that_has_lost_the_shard_is_not_waited_for_long(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.network.cut(1, 2)
    answers: list[Answer] = []
    began = trio.current_time()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
        await trio.sleep(2.0)
        cluster.give(cluster.shard, cluster.ingress)

    assert answers[0].status == 500
    assert trio.current_time() - began <= 2 * forwarding.SILENCE_SECONDS_MAX
    assert cluster.ingress.trouble.calls == 0, "nobody knows what the other node has done"


async def read_owner(cluster: Cluster) -> Answer:
    admin = cluster.owner.arena.keys.api_private_token
    return await cluster.ingress.answer("GET", "/api/owner.php", admin=admin)


async def test_a_read_that_vanished_without_a_sign_is_sent_again(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.network.cut(2, 1)
    began = trio.current_time()

    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def mend() -> None:
            await trio.sleep(1.0)
            cluster.network.mend(2, 1)

        assert (await read_owner(cluster)).status == 200

    assert trio.current_time() - began < forwarding.SILENCE_SECONDS_MAX + 0.1


async def test_a_read_at_a_silent_node_goes_to_the_next_owner(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.network.cut(1, 2)
    began = trio.current_time()

    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def move() -> None:
            await trio.sleep(1.0)
            cluster.give(cluster.shard, cluster.ingress)

        assert (await read_owner(cluster)).status == 200

    assert trio.current_time() - began < forwarding.SILENCE_SECONDS_MAX + 0.1


async def test_a_read_that_nobody_answers_is_too_many_requests(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    """It changes nothing, so its client may repeat it."""
    cluster.network.cut(1, 2)
    began = trio.current_time()

    answer = await read_owner(cluster)

    assert answer.status == 429
    assert json_of(answer)["retry_after"] == 1
    assert trio.current_time() - began <= forwarding.ANSWER_SECONDS_MAX
    assert cluster.ingress.wire.asked == 4  # after 5, 15 and 35 seconds


async def test_a_change_under_way_at_a_node_that_dies_is_a_500_at_once(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.owner.trouble.gate = trio.Event()
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
        await trio.sleep(0.1)
        cluster.kill(cluster.owner)
        await trio.sleep(1.0)
        assert not answers  # it may be back
        cluster.bury(cluster.owner)
        cluster.give(cluster.shard, cluster.ingress)
        await trio.sleep(0.6)
        assert answers[0].status == 500
    assert cluster.ingress.trouble.calls == 0


async def test_a_change_that_hangs_at_a_node_that_dies_is_a_500_at_once(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    """The bus says nothing, as NATS: the map alone tells that the node is gone."""
    cluster.network.cut(1, 2)
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
        await trio.sleep(0.5)
        cluster.bury(cluster.owner)
        await trio.sleep(0.1)
        assert answers[0].status == 500


async def test_a_read_under_way_at_a_node_that_dies_is_answered_by_the_next(
    autojump_clock: MockClock,
    cluster: Cluster,
) -> None:
    admin = cluster.owner.arena.keys.api_private_token
    cluster.network.cut(1, 2)
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(cluster.ingress.answer_into, answers, "GET", "/api/owner.php", admin=admin)
        )
        await trio.sleep(0.5)
        cluster.kill(cluster.owner)
        cluster.bury(cluster.owner)
        cluster.give(cluster.shard, cluster.ingress)

    assert answers[0].status == 200


async def test_a_read_that_pauses_goes_to_the_next_owner_at_once(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    admin = cluster.owner.arena.keys.api_private_token
    answers: list[Answer] = []
    cluster.kill(cluster.owner)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            partial(cluster.ingress.answer_into, answers, "GET", "/api/owner.php", admin=admin)
        )
        await trio.sleep(2.0)  # the pauses have become long by now
        cluster.bury(cluster.owner)
        cluster.give(cluster.shard, cluster.ingress)
        given_at = trio.current_time()

    assert answers[0].status == 200
    assert trio.current_time() == given_at


async def test_a_read_whose_answer_was_lost_is_asked_again(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    admin = cluster.owner.arena.keys.api_private_token
    wire = cluster.ingress.wire

    async def break_once() -> None:
        wire.after = None
        raise BusLost

    wire.after = break_once
    assert (await cluster.ingress.answer("GET", "/api/owner.php", admin=admin)).status == 200
    assert wire.asked == 2


async def test_a_bus_that_is_too_busy_is_too_many_requests(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    async def refuse() -> None:
        raise TooBusy

    cluster.ingress.wire.before = refuse
    answer = await cluster.ingress.answer(*ECHO)

    assert answer.status == 429
    assert json_of(answer)["retry_after"] == 1


async def test_an_owner_that_does_not_answer_in_time_is_a_500(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.owner.trouble.gate = trio.Event()
    began = trio.current_time()

    answer = await cluster.ingress.answer(*TROUBLE)

    assert answer.status == 500
    assert trio.current_time() - began <= forwarding.ANSWER_SECONDS_MAX + 1.0
    await trio.sleep(1.0)
    assert cluster.owner.dispatcher.in_flight.count == 0  # it has given up, too


async def test_a_bug_of_the_owners_is_a_500(autojump_clock: MockClock, cluster: Cluster) -> None:
    cluster.owner.trouble.error = RuntimeError("a bug")

    assert (await cluster.ingress.answer(*TROUBLE)).status == 500


async def test_a_cancelled_call_leaves_nothing_behind(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.owner.trouble.gate = trio.Event()
    with trio.move_on_after(1.0) as scope:
        await cluster.ingress.answer(*TROUBLE)
    assert scope.cancelled_caught
    cluster.bury(cluster.owner)
    with trio.move_on_after(1.0) as scope:
        await cluster.ingress.answer(*ECHO)
    assert scope.cancelled_caught

    assert cluster.ingress.forwarding.waiting == 0
    assert cluster.ingress.wire.bus.statistics.asks_under_way == 0


async def test_more_calls_than_the_bus_takes_are_refused_and_nobody_waits(
    autojump_clock: MockClock,
    cluster: Cluster,
) -> None:
    gate = cluster.owner.trouble.gate = trio.Event()
    cluster.owner.dispatcher.in_flight = type(cluster.owner.dispatcher.in_flight)(10_000, 10.0)
    statuses: list[int] = []

    async def call() -> None:
        statuses.append((await cluster.ingress.answer(*TROUBLE)).status)

    async with trio.open_nursery() as nursery:
        for _ in range(ASKS_MAX + 10):
            nursery.start_soon(call)
        await trio.sleep(1.0)
        assert statuses == [429] * 10
        gate.set()
    assert statuses.count(200) == ASKS_MAX
