"""The share of one address in what all share, over real sockets: others are never refused."""

from __future__ import annotations

import contextlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest
import trio
from http2_kit import Http2, answered, connect, serving_tls
from http_kit import SECONDS_MAX, Echo, Reply, read_all, replies, serving
from hyperframe.frame import HeadersFrame
from server_kit import Api
from waiting import until

from greenroom.http.errors import too_many_requests
from greenroom.http.limits import CallLimits, LimitSettings
from greenroom.http.overload.concurrency import ConcurrencyLimit
from greenroom.http.request import Answer, Request
from greenroom.http.server import hypercorn_server, wire
from greenroom.http.server.http2_frames import HEADERS_EARN
from greenroom.network.addresses import address_key
from greenroom.network.limiter import Rate

ATTACKER = "127.0.0.1"
HONEST = "127.0.0.2"
LARGE_BYTES = 3_000_002
"""Bytes of the answer to `/api/large`."""
HEAD = b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"


async def ask(
    port: int,
    request: bytes,
    *,
    address: str = HONEST,
    certificate: Path | None = None,
) -> Reply:
    """Ask from an address, over HTTP/1.1 and a connection of its own."""
    stream = await connect(port, address, certificate, "http/1.1")
    async with stream:
        await stream.send_all(request.replace(b"Host: a", b"Host: a\r\nConnection: close"))
        [reply] = replies(await read_all(stream))
    return reply


def get(path: bytes) -> bytes:
    return b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path


# Answers


async def test_answers_behind_closed_windows_are_let_go_once_the_peer_has_left(certificate: Path):
    """A shielded send went on for a minute, and everybody else's large answers were refused."""
    async with serving_tls(certificate, answers_bytes_max=100_000_000) as running:
        clients = [await Http2.open(running, ATTACKER, certificate) for _ in range(3)]
        answers = running.server._budgets.answers
        for client in clients:
            client.close_windows()
            for _ in range(10):
                client.ask("/api/large")
            await client.flush()
        await until(lambda: answers.held > 10 * LARGE_BYTES)
        for client in clients:
            await trio.aclose_forcefully(client.stream)
        await until(lambda: not answers.held)
        await until(lambda: not running.server._budgets.requests.held)
        await until(lambda: not running.connections)


async def test_answers_that_one_address_does_not_read_leave_room_for_others(certificate: Path):
    async with serving_tls(certificate, answers_bytes_max=10 * LARGE_BYTES) as running:
        answers = running.server._budgets.answers
        clients = [await Http2.open(running, ATTACKER, certificate) for _ in range(2)]
        for client in clients:
            client.close_windows()
            for _ in range(10):
                client.ask("/api/large")
            await client.flush()
        await until(lambda: answers.held >= 5 * LARGE_BYTES)
        for _ in range(3):
            reply = await ask(running.port, get(b"/api/large"), certificate=certificate)
            assert (reply.status, len(reply.body)) == (200, LARGE_BYTES)
        assert answers.held < 6 * LARGE_BYTES
        for client in clients:
            await trio.aclose_forcefully(client.stream)


async def test_a_stop_does_not_wait_for_windows_that_stay_closed(certificate: Path):
    async with serving_tls(certificate, stop_seconds_max=0.1) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        client.close_windows()
        client.ask("/api/large")
        await client.flush()
        await until(lambda: running.server._budgets.answers.held)
        await running.stop()
        await trio.aclose_forcefully(client.stream)


async def test_small_answers_over_http_2_are_counted_too(certificate: Path):
    """Nothing of them is in the kernel's buffer while the window is closed."""
    async with serving_tls(certificate) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        client.close_windows()
        for _ in range(50):
            client.ask("/api/x")
        await client.flush()
        await until(lambda: running.server._budgets.requests.held > 50 * 16_384)
        await until(lambda: running.server._budgets.answers.held > 50 * 100)
        await trio.aclose_forcefully(client.stream)
        await until(lambda: not running.server._budgets.requests.held)


async def test_unread_connections_of_one_address_leave_room_for_others():
    async with serving(answers_bytes_max=10 * LARGE_BYTES) as running, AsyncExitStack() as stack:
        for _ in range(20):
            stream = await connect(running.port, ATTACKER)
            await stack.enter_async_context(stream)
            await stream.send_all(get(b"/api/large") * 10)
        await until(lambda: running.server._budgets.answers.held >= 4 * LARGE_BYTES)
        for _ in range(3):
            reply = await ask(running.port, get(b"/api/large"))
            assert (reply.status, len(reply.body)) == (200, LARGE_BYTES)
        assert running.server._budgets.answers.held < 6 * LARGE_BYTES


@pytest.mark.parametrize("is_tls", [False, True])
async def test_unread_answers_that_are_not_large_are_counted_too(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, is_tls: bool
):
    """Each of 3,000 connections kept two answers, and requests: half a gigabyte in all."""
    monkeypatch.setattr(wire, "UNHELD_SECONDS", 0.0)
    middle = b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000
    pem = certificate if is_tls else None
    bytes_max = 1_500_000
    server = (
        serving_tls(certificate, answers_bytes_max=bytes_max)
        if is_tls
        else serving(answers_bytes_max=bytes_max)
    )
    async with server as running, trio.open_nursery() as nursery:
        answers = running.server._budgets.answers
        for _ in range(80):
            stream = await connect(running.port, ATTACKER, pem, "http/1.1", receive_bytes=1)
            nursery.start_soon(_send_and_not_read, stream, middle * 100)
        await until(lambda: answers.held > 500_000)
        await until(lambda: running.connections < 80)  # those without room are put out
        assert answers.held < 800_000
        reply = await ask(running.port, middle, certificate=pem)
        assert (reply.status, len(reply.body) > 20_000) == (200, True)
        nursery.cancel_scope.cancel()


async def _send_and_not_read(stream: trio.abc.Stream, data: bytes) -> None:
    try:
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(data)
        await trio.sleep_forever()
    finally:
        await trio.aclose_forcefully(stream)


# Requests


@pytest.mark.parametrize("server", ["greenroom", "hypercorn"])
async def test_bodies_of_one_address_that_do_not_come_to_their_end_leave_room_for_others(
    server: str,
):
    async with serving(server=server, bodies_bytes_max=1_000_000) as running:
        held = running.server._budgets.requests
        async with AsyncExitStack() as stack:
            for _ in range(20):
                stream = await connect(running.port, ATTACKER)
                await stack.enter_async_context(stream)
                await stream.send_all(HEAD % 100_001 + b"x" * 100_000)
            await until(lambda: held.held >= 400_000)
            for _ in range(3):
                stream = await connect(running.port, HONEST)
                await stack.enter_async_context(stream)
                await stream.send_all(HEAD % 100_001 + b"x" * 90_000)
                await until(lambda: held.count_held(HONEST))
                await stream.send_all(b"x" * 10_001)
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
            assert held.count_held(ATTACKER) <= 500_000
        await until(lambda: not held.held)


async def test_clients_behind_a_trusted_proxy_have_shares_of_their_own():
    async with (
        serving(bodies_bytes_max=1_000_000, trusted_proxies=(ATTACKER,)) as running,
        AsyncExitStack() as stack,
    ):
        held = running.server._budgets.requests
        for number in range(20):
            client = b"192.0.2.7" if number else b"2001:db8::%x" % number
            stream = await connect(running.port, ATTACKER)
            await stack.enter_async_context(stream)
            head = HEAD.replace(b"Host: a", b"Host: a\r\nX-Forwarded-For: " + client)
            await stream.send_all(head % 100_001 + b"x" * 100_000)
        await until(lambda: held.held >= 400_000)
        await until(lambda: held.count_held("2001:db8::/64"))
        assert held.count_held("192.0.2.7") <= 500_000
        assert not held.count_held(ATTACKER)


@pytest.mark.parametrize(
    "head",
    [
        HEAD % 1_000_000,
        HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked") + b"5000\r\n",
    ],
    ids=["announced", "chunked"],
)
async def test_a_body_without_good_tokens_is_not_collected(head: bytes):
    """The answer comes at once, and the connection goes on once the body has come to its end."""
    async with serving() as running:
        stream = await connect(running.port, ATTACKER)
        wrong = head.replace(b"Host: a", b"Host: a\r\nX-Api-Token: wrong")
        await stream.send_all(wrong + b"x" * 20_000)
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 413 ")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not running.server._budgets.requests.held
        if b"chunked" in head:
            await stream.send_all(b"x" * 480 + b"\r\n0\r\n\r\n")
        else:
            await stream.send_all(b"x" * 980_000)
        await stream.send_all(get(b"/api/x"))
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
        await stream.aclose()


async def test_a_small_body_is_taken_from_anybody_and_a_large_one_of_a_known_head_again():
    wrong = HEAD.replace(b"Host: a", b"Host: a\r\nX-Api-Token: wrong")
    async with serving() as running:
        stream = await connect(running.port, ATTACKER)
        await stream.send_all(wrong % 16_000 + b"x" * 15_000)
        await until(lambda: running.server._budgets.requests.held == 15_000)
        await stream.send_all(b"x" * 1_000)
        assert b"200 OK" in await stream.receive_some()
        for _ in range(2):  # the second head is known to the byte
            await stream.send_all(wrong % 30_000 + b"x" * 20_000)
            assert b"HTTP/1.1 413 " in await stream.receive_some()
            await stream.send_all(b"x" * 10_000)
        await stream.send_all(get(b"/api/x"))
        assert b"HTTP/1.1 200 " in await stream.receive_some()
        await stream.aclose()


async def test_who_waits_for_100_continue_without_good_tokens_is_refused_in_its_place():
    wrong = HEAD.replace(b"Host: a", b"Host: a\r\nX-Api-Token: wrong\r\nExpect: 100-continue")
    async with serving() as running:
        stream = await connect(running.port, ATTACKER)
        await stream.send_all(wrong % 100_000)
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 413 ")
        await stream.aclose()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("game_data.php/player/update", {}, 200),
        ("game_data.php/player/update", {"X-Api-Token": None}, 401),
        ("game_data.php/player/update", {"X-Api-Token": "x"}, 401),
        ("game_data.php/player/update", {"X-Game-Player-Token": None}, 401),
        ("game_data.php/player/update", {"X-Game-Player-Token": "x"}, 401),
        ("game_data.php/game/update", {}, 401),
        ("game_data.php/nothing", {}, 404),
    ],
)
def test_a_large_body_gets_the_answer_that_a_small_one_gets(
    api: Api, path: str, headers: dict[str, str | None], status: int
):
    _, token = api.register()
    answers = list[tuple[int, Any]]()
    for size in (10, 100_000, 900_000):
        body = {"data": {"text": "x" * size}}
        reply = api.call("PUT", f"/api/{path}", body, player=token, headers=headers)
        answers.append((reply.status, reply.json))
    assert answers[0][0] == status
    assert all(each[0] == status for each in answers)
    assert status == 200 or answers[1:] == answers[:1] * 2


# HTTP/2 frames


FEW = Rate(per_second=0.001, burst=200.0)
"""Frames; on a busy machine, too, none is allowed again within a test."""
NO_WINDOW = b"\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0"
"""SETTINGS of which the client's library knows nothing: it would miss its own WINDOW_UPDATEs."""
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
FLOODS = {
    "SETTINGS": SETTINGS,
    "SETTINGS with values": b"\0\0\x06\4\0\0\0\0\0\0\4\0\1\0\0",
    "PING": b"\0\0\x08\6\0\0\0\0\0" + b"x" * 8,
    "PRIORITY": b"\0\0\5\2\0\0\0\0\x01\0\0\0\3\0",
    "WINDOW_UPDATE": b"\0\0\4\x08\0\0\0\0\0\0\0\0\1",
    "unknown": b"\0\0\0\x42\0\0\0\0\0",
}


async def _told(client: Http2) -> h2.events.ConnectionTerminated:
    """Read until the server says why it ends the connection."""
    while True:
        for event in await client.events():
            if isinstance(event, h2.events.ConnectionTerminated):
                return event


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_of_frames_that_no_answer_pays_for_ends_its_connection(
    kind: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    parsed = _count_frames(monkeypatch)
    monkeypatch.setattr(hypercorn_server, "FRAMES", FEW)
    async with serving_tls(certificate, linger_seconds_max=SECONDS_MAX) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        await client.flush()
        await client.stream.send_all(FLOODS[kind] * 5_000)
        told = await _told(client)
        assert told.error_code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        assert len(parsed) < FEW.burst + 10
        assert (await ask(running.port, get(b"/api/x"), certificate=certificate)).status == 200
        await trio.aclose_forcefully(client.stream)
        await until(lambda: not running.connections)


def _count_frames(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note the frames that a server parses from now on; clients of ours parse few."""
    parsed: list[object] = []
    receive = h2.connection.H2Connection._receive_frame

    def count(self: h2.connection.H2Connection, frame: Any) -> Any:
        if not self.config.client_side:
            parsed.append(frame)
        return receive(self, frame)

    monkeypatch.setattr(h2.connection.H2Connection, "_receive_frame", count)
    return parsed


async def test_streams_opened_and_reset_at_once_end_their_connection(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    echo = Echo()
    parsed = _count_frames(monkeypatch)
    monkeypatch.setattr(hypercorn_server, "FRAMES", FEW)
    async with serving_tls(certificate, linger_seconds_max=SECONDS_MAX, answerer=echo) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        for _ in range(2_000):
            client.protocol.reset_stream(client.ask("/api/wait"))
        await client.flush()
        told = await _told(client)
        assert told.error_code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        assert len(parsed) < FEW.burst + 10
        await trio.aclose_forcefully(client.stream)


def _is_end(event: h2.events.Event, stream_id: int) -> bool:
    """Return whether a stream has ended, or its connection."""
    is_answered = isinstance(event, h2.events.StreamEnded) and event.stream_id == stream_id
    return is_answered or isinstance(event, h2.events.ConnectionTerminated)


async def test_streams_reset_at_once_are_calls_like_others_or_end_their_connection(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    """The limits of calls bound those that are answered."""
    echo = Echo()
    parsed = _count_frames(monkeypatch)
    monkeypatch.setattr(hypercorn_server, "FRAMES", FEW)
    async with serving_tls(certificate, linger_seconds_max=SECONDS_MAX, answerer=echo) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        for _ in range(500):
            client.protocol.reset_stream(client.ask("/api/x"))
        last = client.ask("/api/x")
        await client.flush()
        seen: list[h2.events.Event] = []
        while not any(_is_end(each, last) for each in seen):
            seen = await client.events()
        await trio.aclose_forcefully(client.stream)
        await until(lambda: not running.connections)
    opened = sum(isinstance(each, HeadersFrame) for each in parsed)
    assert len(echo.requests) == opened
    assert len(parsed) < FEW.burst + 10 + HEADERS_EARN * len(echo.requests)


async def test_tiny_windows_and_tiny_data_pay_for_nothing(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    """One byte of an answer for each frame that allows it, and one of a body a frame."""
    monkeypatch.setattr(hypercorn_server, "FRAMES", FEW)
    async with serving_tls(certificate, linger_seconds_max=SECONDS_MAX) as running:
        for path, frame in (
            ("/api/large", b"\0\0\4\x08\0\0\0\0\1\0\0\0\1"),
            ("/api/x", b"\0\0\1\0\0\0\0\0\1x"),
        ):
            client = await Http2.open(running, ATTACKER, certificate)
            client.protocol.send_headers(
                client.protocol.get_next_available_stream_id(),
                [(":method", "POST"), (":path", path), (":authority", "a"), (":scheme", "https")],
                end_stream=path == "/api/large",
            )
            await client.flush()
            await client.stream.send_all(NO_WINDOW + frame * 3_000)
            told = await _told(client)
            assert told.error_code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
            await trio.aclose_forcefully(client.stream)


async def test_many_connections_bring_an_address_no_more_frames(certificate: Path):
    limits = CallLimits(LimitSettings(http2_frames_per_second_address=10.0))
    async with serving_tls(certificate, limits=limits) as running:
        for _ in range(20):
            client = await Http2.open(running, ATTACKER, certificate)
            await client.flush()
            await client.stream.send_all(SETTINGS * 50)
            await client.events()
            await trio.aclose_forcefully(client.stream)
            if limits.refused["HTTP/2 frames by address"]:
                break
        assert limits.refused["HTTP/2 frames by address"]
        other = await Http2.open(running, HONEST, certificate)
        stream_id = other.ask("/api/x")
        await other.flush()
        await answered(other, stream_id)
        await trio.aclose_forcefully(other.stream)


async def test_an_honest_connection_may_ask_as_often_as_it_likes(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hypercorn_server, "FRAMES", FEW)
    async with serving_tls(certificate) as running:
        client = await Http2.open(running, HONEST, certificate)
        for _ in range(300):
            stream_id = client.ask("/api/x")
            client.protocol.ping(b"12345678")
            await client.flush()
            await answered(client, stream_id)
        stream_id = client.ask("/api/large")
        await client.flush()
        await answered(client, stream_id)
        await trio.aclose_forcefully(client.stream)


# Requests in flight


async def test_requests_of_one_address_that_wait_leave_room_for_others():
    echo, in_flight = Echo(), ConcurrencyLimit(20)

    class Counting:
        """A dispatcher, as far as it counts."""

        async def answer(self, request: Request) -> Answer:
            key = address_key(request.address)
            entered = in_flight.enter(trio.current_time(), key)
            if entered is None:
                return too_many_requests(1)
            try:
                return await echo.answer(request)
            finally:
                in_flight.leave(entered, key)

        async def vouches(self, request: Request) -> bool:
            return await echo.vouches(request)

    async with serving(Counting(), in_flight=in_flight) as running, AsyncExitStack() as stack:
        for _ in range(30):
            stream = await connect(running.port, ATTACKER)
            await stack.enter_async_context(stream)
            await stream.send_all(get(b"/api/wait"))
        await until(lambda: in_flight.count == 10)
        for _ in range(5):
            assert (await ask(running.port, get(b"/api/x"))).status == 200
        echo.gate.set()


def _unended_head(*sizes: int) -> bytes:
    """A head in frames of these sizes, without an end."""
    frames = [bytes([1, 1]), *[bytes([9, 0])] * (len(sizes) - 1)]
    return b"".join(
        size.to_bytes(3, "big") + frame + b"\0\0\0\1" + b"x" * size
        for size, frame in zip(sizes, frames, strict=True)
    )


async def test_a_head_of_many_frames_is_no_larger_than_another(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each connection kept a megabyte of one that never ended, and nobody counted it."""
    parsed = _count_frames(monkeypatch)
    async with serving_tls(certificate, linger_seconds_max=SECONDS_MAX) as running:
        client = await Http2.open(running, ATTACKER, certificate)
        await client.flush()
        await client.stream.send_all(_unended_head(*[16_384] * 60))
        told = await _told(client)
        assert told.error_code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        assert len(parsed) < 10
        await trio.aclose_forcefully(client.stream)


async def test_heads_that_do_not_end_are_held_of_what_requests_may_hold(certificate: Path):
    async with serving_tls(certificate, bodies_bytes_max=100_000) as running:
        clients = [await Http2.open(running, ATTACKER, certificate) for _ in range(3)]
        for client in clients:
            await client.flush()
            await client.stream.send_all(_unended_head(10_000, 10_000))
        told = await _told(clients[-1])  # an address alone gets half
        assert told.error_code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        other = await Http2.open(running, HONEST, certificate)
        stream_id = other.ask("/api/x")
        await other.flush()
        await answered(other, stream_id)
        for client in (*clients, other):
            await trio.aclose_forcefully(client.stream)
        await until(lambda: not running.connections)
        assert not running.server._budgets.requests.held
