"""Calls that reach a node which does not own their game: sent on whole, answered as if here."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from cluster_kit import ECHO, TROUBLE, Cluster, Node, open_cluster
from dispatch_kit import Gone, json_of
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.actors.kernel.errors import Moved
from greenroom.actors.player.tokens import PLAYER_TOKEN, PROJECT_KEY, make_token
from greenroom.bus.bus import MessageTooLong
from greenroom.cluster.calls import known_calls, long_answers, waiting
from greenroom.cluster.calls.forwarding import WAIT_SECONDS_MAX
from greenroom.cluster.calls.messages import ForwardCall, ForwardLike
from greenroom.cluster.messenger import BegunAsk, BusMessage
from greenroom.http.limits import ANSWER_BYTES_PER_UNIT, LimitSettings
from greenroom.http.request import Answer, Notes, Request

ADDRESS = "203.0.113.7"


def shown(answer: Answer) -> tuple[int, bytes, tuple[tuple[str, str], ...], str]:
    return answer.status, answer.body, answer.headers, answer.content_type


async def metrics_of(node: Node) -> str:
    request = Request("GET", "/metrics", "", {"host": "localhost"}, b"", "127.0.0.1")
    return (await node.metrics.answer(request)).body.decode()


async def read_stream(answer: Answer) -> bytes:
    assert answer.stream is not None
    return b"".join([part async for part in answer.stream])


# Every kind of call is answered as its owner answers it.

FOREIGN = make_token(PLAYER_TOKEN, bytes(64))


@pytest.mark.parametrize(
    ("method", "path", "body", "more"),
    [
        (*ECHO, {}),
        (*ECHO, {"query": "format=engine"}),
        ("POST", "/api/echo.php", b"{}", {}),
        ("POST", "/api/echo.php", b"not json", {}),
        ("POST", "/api/echo.php/", b'{"word":"\xc3\xa9"}', {}),
        ("POST", "/api/echo.php", b"{}", {"key": None}),
        ("POST", "/api/echo.php", b"{}", {"key": "junk"}),
        ("POST", "/api/echo.php", b"{}", {"key": make_token(PROJECT_KEY, bytes(64))}),
        ("POST", "/api/who.php/am/i", b"", {}),
        ("POST", "/api/who.php/am/i", b"", {"token": "junk"}),
        ("POST", "/api/who.php/am/i", b"", {"token": FOREIGN}),
        ("GET", "/api/owner.php", b"", {}),
        ("GET", "/api/owner.php", b"", {"admin": "junk"}),
        ("HEAD", "/api/owner.php", b"", {"admin": "junk"}),
        ("OPTIONS", "/api/owner.php", b"", {}),
        ("GET", "/api/none.php", b"", {}),
        ("DELETE", "/api/echo.php", b"", {}),
        ("PUT", "/api/store.php", b'{"a": 1.50, "a": "\\u00e9"}', {}),
        ("POST", "/api/room.php/a%2Fb/join", b"", {}),
        ("POST", "/api/room.php/\u00e9 x/join", b"{}", {}),
        ("GET", "/api/list.php", b"", {"query": "pages=x"}),
        ("GET", "/api/list.php", b"", {"query": "fail_at=0"}),
    ],
)
async def test_an_answer_is_the_owners_to_the_byte(
    autojump_clock: MockClock,
    cluster: Cluster,
    *,
    method: str,
    path: str,
    body: bytes,
    more: dict[str, Any],
) -> None:
    here = await cluster.owner.answer(method, path, body, **more)
    there = await cluster.ingress.answer(method, path, body, **more)

    assert shown(there) == shown(here)
    assert cluster.ingress.arena.world.games.find_active(cluster.owner.arena.game.game_id) is None


async def test_players_and_owners_are_recognized(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    player_id, token = await cluster.owner.register()
    admin = cluster.owner.arena.keys.api_private_token

    who = await cluster.ingress.answer("POST", "/api/who.php/am/i", token=token)
    owner = await cluster.ingress.answer("GET", "/api/owner.php", admin=admin)

    assert json_of(who)["seen"] == f"player {player_id}"
    assert json_of(owner)["seen"].startswith("owner of")
    assert cluster.ingress.wire.asked == 2


async def test_calls_that_come_again_are_known_and_bounded(
    autojump_clock: MockClock, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_calls, "CALLS_MAX", 2)
    tokens = [(await cluster.owner.register())[1] for _ in range(3)]
    known = cluster.owner.answering._known

    async def ask(token: str, path: str = "/api/who.php/am/i") -> int:
        return (await cluster.ingress.answer("POST", path, token=token)).status

    for token in (tokens[0], tokens[1], tokens[0]):
        assert await ask(token) == 200
    kept = list(known._by_number.values())
    assert [call.number for call in kept] == [1, 2]
    assert await ask(tokens[2]) == 200
    assert list(known._by_number.values())[:1] == kept[1:]
    assert len(known) == 2
    for refused in ("junk", FOREIGN):
        assert await ask(refused) == 401
    assert (await cluster.ingress.answer("POST", "/api/echo.php", b"{}", token="x" * 600)).status
    assert [call.number for call in known._by_number.values()] == [2, 3]
    cluster.owner.shards.note_gone(cluster.ingress.wire.node_id)
    assert not len(known)


async def test_a_call_like_one_before_is_sent_on_as_its_body_alone(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    _, token = await cluster.owner.register()
    sent = list[BusMessage]()
    messenger = cluster.ingress.messenger
    begin, begin_together = messenger.begin, messenger.begin_together

    def see(node_id: int, message: BusMessage, **limits: float) -> BegunAsk:
        sent.append(message)
        return begin(node_id, message, **limits)

    def see_together(node_id: int, message: BusMessage, *limits: float) -> BegunAsk:
        sent.append(message)
        return begin_together(node_id, message, *limits)

    messenger.begin = see  # type: ignore[method-assign]
    messenger.begin_together = see_together  # type: ignore[method-assign, assignment]
    assert (await cluster.ingress.answer(*WHO, token=token)).status == 200  # its key is known now
    sent.clear()
    for method, path in (WHO, ("PUT", "/api/store.php")):
        notes = Notes()
        for body in (b'{"a": 1}', b'{"a": 2}', b'{"a": 3}'):
            here = await cluster.owner.answer(method, path, body, token=token)
            there = await cluster.ingress.answer(method, path, body, token=token, notes=notes)
            assert shown(there) == shown(here)
            assert there.answered_by == cluster.owner.wire.node_id
        whole, *like = sent
        assert isinstance(whole, ForwardCall)
        bodies = [message.body for message in like if isinstance(message, ForwardLike)]
        assert bodies == [b'{"a": 2}', b'{"a": 3}']
        sent.clear()


WHO = ("POST", "/api/who.php/am/i")


async def answer_twice(cluster: Cluster) -> tuple[str, Notes]:
    """Have a call answered twice, so that its way is known; return its token and notes."""
    _, token = await cluster.owner.register()
    notes = Notes()
    for _ in range(2):
        assert (await cluster.ingress.answer(*WHO, token=token, notes=notes)).status == 200
    assert notes.away is not None
    return token, notes


async def test_a_call_whose_number_was_forgotten_is_sent_on_whole(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    token, notes = await answer_twice(cluster)
    before = notes.away
    cluster.owner.answering._known.forget(cluster.ingress.wire.node_id)
    answers = [await cluster.ingress.answer(*WHO, token=token, notes=notes) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    assert notes.away not in {None, before}


async def test_the_way_of_a_call_is_forgotten_once_shards_have_moved(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    token, notes = await answer_twice(cluster)
    before = notes.away
    cluster.give(cluster.shard, cluster.owner)
    request = Request("POST", WHO[1], "", {}, b"", ADDRESS, notes=notes)
    assert cluster.ingress.forwarding.recall_way(request, notes) is None
    assert notes.away is None
    assert (await cluster.ingress.answer(*WHO, token=token, notes=notes)).status == 200
    assert notes.away not in {None, before}


async def test_a_nodes_own_games_are_never_sent_on(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    for _ in range(3):
        assert (await cluster.owner.answer(*ECHO)).status == 200

    assert cluster.owner.wire.asked == cluster.owner.keys.reads == 0


async def test_a_key_is_looked_up_once(autojump_clock: MockClock, cluster: Cluster) -> None:
    for _ in range(3):
        assert (await cluster.ingress.answer(*ECHO)).status == 200

    assert cluster.ingress.keys.reads == 1


async def test_a_game_that_is_nowhere_in_memory_is_loaded_by_its_owner(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.give(cluster.shard, cluster.ingress)  # and the other node never had it

    assert (await cluster.ingress.answer(*ECHO)).status == 200
    assert cluster.ingress.wire.asked == 0


async def test_a_stream_comes_part_by_part(autojump_clock: MockClock, cluster: Cluster) -> None:
    there = await cluster.ingress.answer("GET", "/api/list.php", query="pages=5")
    here = await cluster.owner.answer("GET", "/api/list.php", query="pages=5")

    assert len(cluster.owner.answering.open_answers) == 1
    assert await read_stream(there) == await read_stream(here)
    assert len(cluster.owner.answering.open_answers) == 0


async def test_a_stream_that_fails_half_way_fails_here_too(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    answer = await cluster.ingress.answer("GET", "/api/list.php", query="pages=5&fail_at=3")

    with pytest.raises(long_answers.PartsLost):
        await read_stream(answer)
    assert cluster.owner.pages is not None
    assert cluster.owner.pages.is_closed


async def test_a_stream_that_nobody_reads_is_closed(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    answer = await cluster.ingress.answer("GET", "/api/list.php", query="pages=5")
    assert answer.stream is not None
    await answer.stream.aclose()  # type: ignore[attr-defined]
    await trio.sleep(2.0)

    assert cluster.owner.pages is not None
    assert cluster.owner.pages.is_closed
    assert len(cluster.owner.answering.open_answers) == 0


async def test_a_stream_whose_reader_is_gone_is_closed_in_the_end(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    await cluster.ingress.answer("GET", "/api/list.php", query="pages=5")
    await trio.sleep(long_answers.IDLE_SECONDS_MAX + 2.0)

    assert cluster.owner.pages is not None
    assert cluster.owner.pages.is_closed


async def test_open_streams_are_bounded_by_address(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    answers = [
        await cluster.ingress.answer("GET", "/api/list.php", query="pages=5")
        for _ in range(long_answers.OPEN_MAX // 2)
    ]
    too_many = await cluster.ingress.answer("GET", "/api/list.php", query="pages=5")
    other = await cluster.ingress.answer("GET", "/api/list.php", address="203.0.113.9")

    assert {answer.status for answer in answers} == {200}
    assert too_many.status == 429
    assert other.status == 200


async def test_a_body_that_is_longer_than_a_message_comes_whole(
    autojump_clock: MockClock, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_answers, "PART_BYTES", 1_000)
    monkeypatch.setattr("greenroom.cluster.calls.answering.PART_BYTES", 1_000)
    document = b'{"text":"%b"}' % (b"x" * 10_500)

    answer = await cluster.ingress.answer("PUT", "/api/store.php", document)

    assert answer.stream is None
    assert json_of(answer)["seen"] == document.decode()
    assert cluster.ingress.wire.asked > 10


async def test_a_message_too_long_for_the_bus_is_a_body_too_large(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    async def refuse() -> None:
        raise MessageTooLong

    cluster.ingress.wire.before = refuse
    assert (await cluster.ingress.answer(*ECHO)).status == 413


# Limits: addresses are charged where they come from and where they go, players where they are.


async def test_an_address_is_charged_at_its_ingress_and_where_the_game_is(
    autojump_clock: MockClock,
) -> None:
    limits = LimitSettings(write_calls_per_second_address=1.0, rate_burst_seconds=3.0)
    async with open_cluster(limits=limits) as cluster:
        statuses = [(await cluster.ingress.answer(*ECHO)).status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        assert (await cluster.owner.answer(*ECHO)).status == 429  # three have come there, too


async def test_a_player_is_charged_at_the_owner_whatever_the_ingress(
    autojump_clock: MockClock,
) -> None:
    limits = LimitSettings(write_calls_per_second_player=1.0, rate_burst_seconds=2.0)
    async with open_cluster(3, limits=limits) as cluster:
        _, token = await cluster.owner.register()
        asked = [cluster.nodes[number % 3] for number in range(4)]
        call = ("POST", "/api/who.php/am/i")
        statuses = [(await node.answer(*call, token=token)).status for node in asked]
        assert statuses == [200, 200, 429, 429]


async def test_wrong_tokens_are_charged_at_the_ingress(autojump_clock: MockClock) -> None:
    limits = LimitSettings(failed_tokens_per_second_address=1.0, rate_burst_seconds=3.0)
    async with open_cluster(limits=limits) as cluster:
        call = ("POST", "/api/who.php/am/i")
        statuses = [(await cluster.ingress.answer(*call, token="junk")).status for _ in range(4)]
        assert statuses == [401, 401, 401, 429]
        assert (await cluster.owner.answer(*call, token="junk")).status == 401


async def test_a_large_answer_is_charged_to_the_address_at_the_ingress(
    autojump_clock: MockClock,
) -> None:
    limits = LimitSettings(write_calls_per_second_address=1.0, rate_burst_seconds=8.0)
    document = b'"%b"' % (b"x" * 3 * ANSWER_BYTES_PER_UNIT)
    async with open_cluster(limits=limits) as cluster:
        body = b'{"a":%b}' % document
        assert (await cluster.ingress.answer("PUT", "/api/store.php", body)).status == 200
        statuses = [(await cluster.ingress.answer(*ECHO)).status for _ in range(2)]
        assert statuses == [200, 429]  # 4 for the body, 3 for the answer, 1 for another call


async def test_calls_count_at_the_ingress_alone(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    await cluster.ingress.answer(*ECHO)

    counted = 'greenroom_http_requests_total{endpoint="/api/echo.php",method="POST",status="200"}'
    assert f"{counted} 1.0" in await metrics_of(cluster.ingress)
    assert counted not in await metrics_of(cluster.owner)


async def test_a_call_that_waits_for_another_node_is_none_in_flight_here(
    autojump_clock: MockClock,
) -> None:
    async with open_cluster(in_flight_max=2) as cluster, trio.open_nursery() as nursery:
        gate = cluster.owner.trouble.gate = trio.Event()
        nursery.start_soon(cluster.ingress.answer, *TROUBLE)
        await trio.sleep(0.1)

        assert cluster.ingress.dispatcher.in_flight.count == 0
        assert cluster.owner.dispatcher.in_flight.count == 1
        too_many = await cluster.ingress.answer(*TROUBLE)
        assert too_many.status == 429  # the owner has its own bound
        gate.set()


# What must not be let in: large bodies of strangers.


def _large(cluster: Cluster, **headers: str) -> Request:
    given = {"x-api-token": cluster.owner.arena.keys.api_token, **headers}
    return Request("POST", "/api/who.php/am/i", "", given, b"", ADDRESS)


async def test_the_owner_vouches_for_a_players_body(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    _, token = await cluster.owner.register()
    player = {"x-game-player-token": token}

    assert await cluster.ingress.dispatcher.vouches(_large(cluster, **player))
    assert not await cluster.ingress.dispatcher.vouches(_large(cluster))
    stranger = {"x-game-player-token": FOREIGN}
    assert not await cluster.ingress.dispatcher.vouches(_large(cluster, **stranger))
    nobody = {**player, "x-api-token": make_token(PROJECT_KEY, bytes(64))}
    assert not await cluster.ingress.dispatcher.vouches(_large(cluster, **nobody))
    junk = {**player, "x-api-token": "junk"}
    assert not await cluster.ingress.dispatcher.vouches(_large(cluster, **junk))


async def test_nobody_vouches_while_nobody_serves_the_shard(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    _, token = await cluster.owner.register()
    cluster.bury(cluster.owner)
    player = {"x-game-player-token": token}

    assert not await cluster.ingress.dispatcher.vouches(_large(cluster, **player))


async def test_a_body_that_was_thrown_away_is_refused_by_the_owner(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    _, token = await cluster.owner.register()
    request = _large(cluster, **{"x-game-player-token": token})
    request.body_too_large = True

    assert (await cluster.ingress.dispatcher.answer(request)).status == 413


# Shards that move.


async def test_a_call_finds_an_owner_that_its_ingress_has_not_heard_of(
    autojump_clock: MockClock,
) -> None:
    async with open_cluster(3) as cluster:
        third = cluster.nodes[2]
        cluster.give(cluster.shard, third, tell=False)
        cluster.owner.shards.note_owner(cluster.shard, 3, third.shards.get_epoch(cluster.shard))
        third.trouble.error = Gone()

        answer = await cluster.ingress.answer(*TROUBLE)

        assert answer.status == 404
        assert third.trouble.calls == 1
        assert cluster.owner.trouble.calls == 0
        assert cluster.ingress.shards.find_owner(cluster.shard) == 3


async def test_calls_wait_while_a_shard_moves(autojump_clock: MockClock, cluster: Cluster) -> None:
    cluster.bury(cluster.owner)
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(cluster.ingress.answer_into, answers, *ECHO)
        await trio.sleep(WAIT_SECONDS_MAX - 1.0)
        assert not answers
        cluster.give(cluster.shard, cluster.ingress)

    assert [answer.status for answer in answers] == [200] * 5


async def test_a_call_waits_for_a_shard_that_its_owner_is_bringing_up(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.owner.shards.shut([cluster.shard])
    async with trio.open_nursery() as nursery:
        answers: list[Answer] = []

        nursery.start_soon(cluster.ingress.answer_into, answers, *ECHO)
        await trio.sleep(1.0)
        assert not answers
        cluster.owner.shards.open([cluster.shard])

    assert answers[0].status == 200
    assert cluster.ingress.wire.asked == 1


async def test_a_call_waits_no_longer_because_its_owner_waited_first(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.owner.shards.shut([cluster.shard])
    began = trio.current_time()

    answer = await cluster.ingress.answer(*ECHO)

    assert answer.status == 429
    assert trio.current_time() - began <= WAIT_SECONDS_MAX + 0.1


async def test_calls_that_nobody_serves_are_told_to_come_back(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    cluster.bury(cluster.owner)
    began = trio.current_time()

    answer = await cluster.ingress.answer(*ECHO)

    assert answer.status == 429
    assert json_of(answer)["retry_after"] == 1
    assert trio.current_time() - began <= WAIT_SECONDS_MAX + 0.1


async def test_no_call_is_sent_round_in_circles(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    """Both nodes believe that the other owns the shard."""
    cluster.owner.shards.note_owner(cluster.shard, 2, 10**6)
    cluster.ingress.shards.note_owner(cluster.shard, 1, 10**6 + 1)

    answer = await cluster.ingress.answer(*ECHO)

    assert answer.status == 429
    assert cluster.owner.wire.asked == 0
    assert cluster.ingress.wire.asked < 20


async def test_waiting_calls_are_bounded_in_number(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "CALLS_MAX", 20)
    async with open_cluster() as cluster:
        await _wait_for_places(cluster)


async def _wait_for_places(cluster: Cluster) -> None:
    cluster.bury(cluster.owner)
    statuses: list[int] = []

    async def call(body: bytes = ECHO[2], address: str = ADDRESS) -> None:
        answer = await cluster.ingress.answer("POST", "/api/echo.php", body, address=address)
        statuses.append(answer.status)

    async with trio.open_nursery() as nursery:
        for _ in range(waiting.CALLS_MAX // 2 + 1):
            nursery.start_soon(call)
        await trio.sleep(0.5)
        assert cluster.ingress.forwarding.waiting == waiting.CALLS_MAX // 2
        nursery.start_soon(call, ECHO[2], "203.0.113.9")
        await trio.sleep(0.5)
        assert cluster.ingress.forwarding.waiting == waiting.CALLS_MAX // 2 + 1
        cluster.give(cluster.shard, cluster.ingress)
    assert sorted(statuses) == [200] * (waiting.CALLS_MAX // 2 + 1) + [429]


def test_waiting_bodies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "BYTES_MAX", 100_000)
    room = waiting.WaitingRoom(1.0)
    with (
        room.hold_place("a", 45_000),
        pytest.raises(waiting.TooManyWait),
        room.hold_place("a", 10_000),
    ):
        pass
    assert room.calls == 0


async def test_a_turn_that_met_a_move_is_carried_out_by_the_new_owner(
    autojump_clock: MockClock, cluster: Cluster
) -> None:
    """The call was a local one, and its shard went away under it."""
    node, other = cluster.owner, cluster.ingress
    node.trouble.error, node.trouble.gate = Moved(), trio.Event()
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.answer_into, answers, *TROUBLE)
        await wait_all_tasks_blocked()
        cluster.give(cluster.shard, other)
        node.trouble.gate.set()

    assert answers[0].status == 200
    assert (node.trouble.calls, other.trouble.calls) == (1, 1)


async def test_a_forwarded_turn_that_met_a_move_goes_to_the_new_owner(
    autojump_clock: MockClock,
) -> None:
    async with open_cluster(3) as cluster:
        old, new = cluster.owner, cluster.nodes[2]
        old.trouble.error, old.trouble.gate = Moved(), trio.Event()
        answers: list[Answer] = []

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
            await trio.sleep(0.1)
            cluster.give(cluster.shard, new)
            old.trouble.gate.set()

        assert answers[0].status == 200
        assert (old.trouble.calls, new.trouble.calls) == (1, 1)


async def test_a_shard_that_comes_here_while_its_call_waits_is_answered_here(
    autojump_clock: MockClock,
    cluster: Cluster,
) -> None:
    cluster.kill(cluster.owner)
    await trio.sleep(0.1)  # now nobody is there; what was sent before might have arrived
    answers: list[Answer] = []

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.ingress.answer_into, answers, *TROUBLE)
        await trio.sleep(1.0)
        cluster.bury(cluster.owner)
        cluster.give(cluster.shard, cluster.ingress)

    assert answers[0].status == 200
    assert cluster.ingress.trouble.calls == 1
