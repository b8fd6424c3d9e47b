"""A connection over memory streams: time limits, answers broken off, pipelining."""

from __future__ import annotations

import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from garbage_kit import own_garbage
from http_kit import Echo, read_all, replies
from waiting import until

from greenroom.http.limits import CallLimits
from greenroom.http.overload.body_memory import BodyLease, Budgets
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.request import Answer, Request
from greenroom.http.server.connection import Connection
from greenroom.http.server.connection_context import ConnectionContext
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.parser import RequestParser
from greenroom.http.server.reaper import READING, Reaper
from greenroom.http.server.wire import SocketWire, StreamWire, Wire
from greenroom.http.server.writer import AnswerWriter
from greenroom.network.pass_sender import PassSender

H = b"Host: a\r\n"
GET = b"GET /api/x HTTP/1.1\r\n" + H + b"\r\n"
Client = trio.StapledStream[trio.abc.SendStream, trio.abc.ReceiveStream]


def _pair(*, lockstep: bool) -> tuple[Any, Any]:
    return trio.testing.lockstep_stream_pair() if lockstep else trio.testing.memory_stream_pair()


class Served:
    """One connection, its client's end, and what became of it."""

    def __init__(
        self, echo: Any, options: dict[str, Any], *, lockstep: bool = False, is_plain: bool = False
    ) -> None:
        """`lockstep`: what is sent waits until it is taken; `is_plain`: over a socket."""
        settings = HttpOptions(**options)
        writer = AnswerWriter(0)
        self.echo = echo
        self.reaper = Reaper(settings, writer)
        self.reaper.tick()
        self.budgets = Budgets(settings)
        self.pace = PassBudget()
        self.context = ConnectionContext(
            settings,
            echo,
            writer,
            self.reaper,
            self.budgets,
            pace=self.pace,
            limits=CallLimits(),
        )
        self.client: Client | trio.SocketStream
        self.server: Client
        self.wire: Wire
        if is_plain:
            near, far = socket.socketpair()
            near.setblocking(False)
            self.client = trio.SocketStream(trio.socket.from_stdlib_socket(far))
            self.wire = SocketWire(near, PassSender())
        else:
            self.client, self.server = _pair(lockstep=lockstep)
            self.wire = StreamWire(self.server)
        self.connection = Connection(self.context, self.wire, "198.51.100.1")
        self.rest: bytes | None = None

    async def run(self) -> None:
        self.reaper.connections.add(self.connection)
        self.rest = await self.connection.run()
        self.reaper.connections.discard(self.connection)
        await self.wire.close()

    async def everything(self) -> bytes:
        return await read_all(self.client)


@asynccontextmanager
async def served(
    echo: Any = None, *, lockstep: bool = False, **options: Any
) -> AsyncIterator[Served]:
    one = Served(echo or Echo(), options, lockstep=lockstep)
    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.reaper.run)
            nursery.start_soon(one.run)
            yield one
            nursery.cancel_scope.cancel()


async def test_an_idle_connection_is_closed_without_a_word(autojump_clock: trio.testing.MockClock):
    async with served(idle_seconds_max=75) as one:
        await one.client.send_all(GET)
        await one.client.receive_some()
        started = trio.current_time()
        assert await one.everything() == b""
        assert 75 <= trio.current_time() - started <= 78


async def test_a_connection_that_never_says_anything_is_closed(
    autojump_clock: trio.testing.MockClock,
):
    async with served(idle_seconds_max=75) as one:
        assert await one.everything() == b""
        assert 75 <= trio.current_time() <= 78


@pytest.mark.parametrize(
    "beginning",
    [
        b"G",
        b"GET /api/x HTTP/1.1\r\nX: ",
        b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 9\r\n\r\n{",
        b"POST /api/x HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n1\r\n",
    ],
)
async def test_a_request_that_does_not_end_is_cut_off_with_400(
    beginning: bytes, autojump_clock: trio.testing.MockClock
):
    async with served(request_seconds_max=30) as one:
        await one.client.send_all(beginning)
        [reply] = replies(await one.everything())
        assert (reply.status, reply.json["error"]) == (400, "Request timed out")
        assert reply.headers["connection"] == "close"
        assert 30 <= trio.current_time() <= 36


async def test_dripping_bytes_do_not_prolong_a_request(autojump_clock: trio.testing.MockClock):
    async with served(request_seconds_max=30) as one:

        async def drip() -> None:
            for byte in b"POST /api/x HTTP/1.1\r\n" + b"X: y\r\n" * 100:
                await one.client.send_all(bytes([byte]))
                await trio.sleep(1)

        with pytest.raises(trio.BrokenResourceError):
            await drip()
        assert trio.current_time() <= 36


async def test_the_next_request_has_its_own_time(autojump_clock: trio.testing.MockClock):
    async with served(request_seconds_max=30, idle_seconds_max=75) as one:
        for _ in range(4):
            await one.client.send_all(GET[:10])
            await trio.sleep(25)
            await one.client.send_all(GET[10:] + GET[:5])
            assert (await one.client.receive_some()).startswith(b"HTTP/1.1 200 ")
            await trio.sleep(25)
            await one.client.send_all(GET[5:])
            assert (await one.client.receive_some()).startswith(b"HTTP/1.1 200 ")
            await trio.sleep(60)


async def test_a_handler_that_hangs_is_cut_off_with_500(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
):
    async with served(answer_seconds_max=60) as one:
        await one.client.send_all(b"GET /api/wait HTTP/1.1\r\n" + H + b"\r\n")
        [reply] = replies(await one.everything())
        assert (reply.status, reply.json["error"]) == (500, "Internal server error")
        assert 60 <= trio.current_time() <= 64
    assert "/api/wait" in caplog.text


async def test_a_streamed_answer_may_take_long_if_it_goes_on(
    autojump_clock: trio.testing.MockClock,
):
    class Slow:
        async def answer(self, request: Request) -> Answer:
            return Answer(200, b"", stream=self._parts())

        async def _parts(self) -> AsyncIterator[bytes]:
            for _ in range(10):
                await trio.sleep(40)
                yield b"x"

    async with served(Slow(), answer_seconds_max=60) as one:
        await one.client.send_all(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        [reply] = replies(await one.everything())
        assert reply.body == b"x" * 10


async def test_a_streamed_answer_that_hangs_never_ends_as_if_it_were_whole(
    autojump_clock: trio.testing.MockClock,
):
    class Hanging:
        async def answer(self, request: Request) -> Answer:
            return Answer(200, b"", stream=self._parts())

        async def _parts(self) -> AsyncIterator[bytes]:
            yield b"x"
            await trio.sleep_forever()

    async with served(Hanging(), answer_seconds_max=60) as one:
        await one.client.send_all(GET)
        data = await one.everything()
        assert data.endswith(b"1\r\nx\r\n")


async def test_a_streamed_answer_that_fails_never_ends_as_if_it_were_whole(
    caplog: pytest.LogCaptureFixture,
):
    async with served() as one:
        await one.client.send_all(b"GET /api/broken-stream HTTP/1.1\r\n" + H + b"\r\n" + GET)
        data = await one.everything()
        assert data.endswith(b'10\r\n{"success":true,\r\n')
        assert one.echo.streams_closed == 1
    assert "failed half-way" in caplog.text


async def test_a_stream_whose_reader_leaves_cleans_up():
    one = Served(Echo(), {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await one.client.send_all(b"GET /api/endless HTTP/1.1\r\n" + H + b"\r\n")
        await one.client.receive_some(10)
        await one.client.aclose()
    assert one.echo.streams_closed == 1


async def test_a_crash_of_the_dispatcher_is_a_500_and_the_next_request_is_answered(
    caplog: pytest.LogCaptureFixture,
):
    async with served() as one:
        await one.client.send_all(b"GET /api/crash HTTP/1.1\r\n" + H + b"\r\n" + GET)
        await one.client.send_eof()
        first, second = replies(await one.everything())
        assert (first.status, first.json["error"]) == (500, "Internal server error")
        assert second.status == 200
    assert "a bug" in caplog.text


async def test_what_is_too_much_is_429_at_once_and_the_connection_stays(
    monkeypatch: pytest.MonkeyPatch,
):
    async with served() as one:
        always = property(lambda _: True, lambda *_: None)
        monkeypatch.setattr(PassBudget, "is_behind", always, raising=False)
        monkeypatch.setattr(PassBudget, "must_refuse", lambda *_: True)
        await one.client.send_all(GET * 1_000)
        refused = b""
        while refused.count(b"retry_after") < 1_000:
            refused += await one.client.receive_some()
        for reply in replies(refused):
            assert reply.status == 429
            assert reply.headers["retry-after"] == "1"
            error = "Too many requests"
            assert reply.json == {"success": False, "error": error, "retry_after": 1}
        assert one.echo.requests == []
        monkeypatch.undo()
        await one.client.send_all(GET)
        [reply] = replies(bytes(await one.client.receive_some()))
        assert reply.status == 200


async def test_pipelined_answers_leave_together_and_in_order():
    class Counting(StreamWire):
        sends = 0

        async def send(self, data: bytes) -> None:
            Counting.sends += 1
            await super().send(data)

    one = Served(Echo(), {})
    one.connection._wire = Counting(one.server)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        requests = [GET.replace(b"/x", b"/%d" % number) for number in range(100)]
        await one.client.send_all(b"".join(requests))
        await one.client.send_eof()
        answers = replies(await one.everything())
    assert [answer.json["path"] for answer in answers] == [f"/api/{n}" for n in range(100)]
    assert Counting.sends == 1


async def test_the_server_says_continue_only_to_a_client_that_waits():
    head = b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    async with served() as one:
        await one.client.send_all(head)
        assert await one.client.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await one.client.send_all(b"{}")
        [reply] = replies(bytes(await one.client.receive_some()))
        assert reply.json["body"] == "{}"
        await one.client.send_all(head + b"[]")
        [reply] = replies(bytes(await one.client.receive_some()))
        assert reply.json["body"] == "[]"


async def test_a_client_that_waits_with_a_large_body_is_refused_at_once():
    async with served(body_bytes_max=10) as one:
        await one.client.send_all(
            b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 11\r\nExpect: 100-continue\r\n\r\n"
        )
        await one.client.send_eof()
        [reply] = replies(await one.everything())
        assert (reply.status, reply.json["error"]) == (413, "Request body is too large")
        assert reply.headers["connection"] == "close"


async def test_bodies_that_are_still_coming_are_bounded_together():
    head = b"POST /api/x HTTP/1.1\r\n" + H + b"Content-Length: 100\r\n\r\n"
    async with (
        served(bodies_bytes_max=150, address_share_max=1e6) as one,
        served(one.echo) as other,
    ):
        other.connection._body = BodyLease(one.budgets.requests)
        await one.client.send_all(head + b"x" * 99)
        await trio.testing.wait_all_tasks_blocked()
        assert one.budgets.requests.held == 99
        await other.client.send_all(head + b"x" * 60)
        await other.client.send_eof()
        [reply] = replies(await other.everything())
        assert (reply.status, reply.headers["retry-after"]) == (429, "1")
        await trio.testing.wait_all_tasks_blocked()
        assert one.budgets.requests.held == 99
        await one.client.send_all(b"x" + GET)
        await one.client.send_eof()
        assert [reply.status for reply in replies(await one.everything())] == [200, 200]
        assert one.budgets.requests.held == 0


async def test_large_answers_that_are_not_read_are_bounded_together():
    """A client that does not read holds what it asked for; others get small answers meanwhile."""
    large = GET.replace(b"/x", b"/large")
    async with served(answers_bytes_max=6_100_000, lockstep=True) as one, served(one.echo) as other:
        other.connection._held = BodyLease(one.budgets.answers)
        await one.client.send_all(large)
        await trio.testing.wait_all_tasks_blocked()
        assert one.budgets.answers.held == 3_000_002
        await other.client.send_all(large + GET)
        await other.client.send_eof()
        refused, small = replies(await other.everything())
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert small.status == 200
        assert one.budgets.answers.held == 3_000_002
        received = b""
        while len(received) < 3_000_002:
            received += await one.client.receive_some()
        await trio.testing.wait_all_tasks_blocked()
        assert one.budgets.answers.held == 0


async def test_a_large_answer_to_somebody_who_has_left_is_held_no_longer(
    autojump_clock: trio.testing.MockClock,
):
    async with served(answer_seconds_max=5, lockstep=True) as one:
        await one.client.send_all(GET.replace(b"/x", b"/large"))
        await trio.testing.wait_all_tasks_blocked()
        assert one.budgets.answers.held
        await trio.sleep(10)
        assert not one.budgets.answers.held


@pytest.mark.parametrize("is_plain", [False, True], ids=["a stream", "a socket"])
async def test_a_connection_that_is_over_leaves_no_cycle_to_the_garbage_collector(
    *, is_plain: bool
):
    with own_garbage():
        for end in (b"", b"GET", b"@\r\n\r\n", b"GET /healthz HTTP/1.1\r\n" + H + b"\r\n"):
            one = Served(Echo(), {}, is_plain=is_plain)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.run)
                await one.client.send_all(GET + end)
                await one.client.send_eof()
            await one.client.aclose()
            del one
        await trio.lowlevel.checkpoint()
        assert not [each for each in gc.get_objects() if isinstance(each, RequestParser)]


async def test_a_stop_ends_idle_connections_and_others_after_their_answer():
    async with served() as one, served(one.echo) as other:
        await one.client.send_all(b"GET /api/wait HTTP/1.1\r\n" + H + b"\r\n" + GET)
        await one.echo.waiting.wait()
        for each in (one, other):
            each.context.stopping = True
            each.connection.stop()
        assert await other.everything() == b""
        one.echo.gate.set()
        await one.client.send_eof()
        [reply] = replies(await one.everything())
        assert reply.status == 200
        assert reply.headers["connection"] == "close"


async def test_a_request_that_comes_as_its_idle_connection_ends_is_answered():
    async with served() as one:
        one.context.stopping = True
        one.connection.stop()
        await one.client.send_all(GET + GET)
        [reply] = replies(await one.everything())
        assert (reply.status, reply.headers["connection"]) == (200, "close")


async def test_half_a_request_that_comes_as_its_connection_ends_is_waited_for():
    async with served() as one:
        one.context.stopping = True
        one.connection.stop()
        await one.client.send_all(GET[:9])
        await until(lambda: one.connection.phase is READING)
        one.connection.stop()
        await one.client.send_all(GET[9:])
        [reply] = replies(await one.everything())
        assert (reply.status, reply.headers["connection"]) == (200, "close")


async def test_a_cancellation_reaches_the_handler_and_nothing_is_answered():
    one = Served(Echo(), {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await one.client.send_all(b"GET /api/wait HTTP/1.1\r\n" + H + b"\r\n")
        await one.echo.waiting.wait()
        nursery.cancel_scope.cancel()
    await one.server.aclose()
    assert await one.everything() == b""


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("198.51.100.1", "203.0.113.9", "198.51.100.1"),
        ("10.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.1", "evil, 203.0.113.9, 10.0.0.2", "203.0.113.9"),
    ],
)
async def test_the_client_is_who_the_trusted_proxy_says(peer: str, forwarded: str, expected: str):
    one = Served(Echo(), {"trusted_proxies": ("10.0.0.0/8",)})
    one.connection = Connection(one.context, one.wire, peer)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        line = b"X-Forwarded-For: %b\r\n\r\n" % forwarded.encode()
        await one.client.send_all(GET[:-2] + line)
        await one.client.send_eof()
        [reply] = replies(await one.everything())
    assert reply.json["address"] == expected
