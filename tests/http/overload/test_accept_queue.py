"""Connections that arrive while the server is behind are refused before they are read."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from http_kit import Echo, replies
from hypothesis import given
from hypothesis import strategies as st

from greenroom.http.limits import CallLimits
from greenroom.http.overload.accept_queue import HAS_EPOLL, AcceptQueue
from greenroom.http.overload.body_memory import Budgets
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.server.connection import Connection
from greenroom.http.server.connection_context import ConnectionContext
from greenroom.http.server.head_cache import KnownHeads
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.parser import REQUEST, BadRequest, RequestParser, is_one_plain_request
from greenroom.http.server.reaper import Reaper
from greenroom.http.server.wire import RECEIVE_BYTES, SocketWire
from greenroom.http.server.writer import AnswerWriter
from greenroom.network.pass_sender import PassSender

pytestmark = pytest.mark.skipif(not HAS_EPOLL, reason="there is no epoll")

GET = b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n"
PUT = b"PUT /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = (
    b"PUT /api/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
)


class SetPace(PassBudget):
    """A pace that is as it is told to be."""

    def __init__(self) -> None:
        super().__init__()
        self.is_behind = self.is_full = True

    def after_io_wait(self, timeout: float) -> None:
        if self.is_behind:
            self.take_up()

    def before_io_wait(self, timeout: float) -> None:
        pass

    def must_refuse(self, _: str) -> bool:
        return self.is_full


class Served:
    """A connection over a socket, and what is at its other end."""

    def __init__(self) -> None:
        pace = self.pace = SetPace()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        options = HttpOptions()
        writer = AnswerWriter(0)
        self.echo = Echo()
        self.sender = PassSender()
        self.arrivals = AcceptQueue(pace, self.sender)
        self.wire = SocketWire(ours, self.sender, self.arrivals)
        reaper = Reaper(options, writer)
        budgets, limits = Budgets(options), CallLimits()
        context = ConnectionContext(
            options, self.echo, writer, reaper, budgets, pace=pace, limits=limits
        )
        self.connection = Connection(context, self.wire, "198.51.100.1")
        self.client = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        self.is_over = trio.Event()

    async def run(self) -> None:
        await self.connection.run()
        await self.wire.close()
        self.is_over.set()

    async def ask(self, *parts: bytes) -> list[int]:
        """Send something in parts; return the statuses of what comes back."""
        for part in parts:
            await self.client.send_all(part)
            await trio.testing.wait_all_tasks_blocked()
        return [reply.status for reply in replies(bytes(await self.client.receive_some()))]


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    one = Served()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.arrivals.run)
            nursery.start_soon(one.sender.run)
            nursery.start_soon(one.run)
            await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.add_instrument(one.pace)
            try:
                yield one
                await one.client.aclose()
                await one.is_over.wait()
            finally:
                trio.lowlevel.remove_instrument(one.pace)
            nursery.cancel_scope.cancel()


async def test_what_must_be_refused_is_answered_429_before_it_is_read() -> None:
    async with served() as one:
        for _ in range(3):
            await one.client.send_all(PUT)
            [reply] = replies(bytes(await one.client.receive_some()))
            assert (reply.status, reply.headers["retry-after"]) == (429, "1")
            error = "Too many requests"
            assert reply.json == {"success": False, "error": error, "retry_after": 1}
        assert one.connection._parser.method == ""
        assert one.echo.requests == []


async def test_whoever_was_refused_is_answered_when_there_is_time_again() -> None:
    async with served() as one:
        assert await one.ask(GET) == [429]
        one.pace.is_full = False
        assert await one.ask(PUT) == [200]
        one.pace.is_full = True
        assert await one.ask(GET) == [429]
        one.pace.is_behind = one.pace.is_full = False
        assert await one.ask(GET) == [200]
        assert await one.ask(GET) == [200]
        one.pace.is_behind = one.pace.is_full = True
        assert await one.ask(GET) == [429]  # it waited as ever
        assert await one.ask(GET) == [429]
    assert len(one.echo.requests) == 3


async def test_whoever_waits_is_woken_as_a_pass_begins_and_answered_as_it_ends() -> None:
    async with served() as one:
        assert await one.ask(GET) == [429]
        one.pace.is_full = False
        await one.client.send_all(GET)
        one.pace.after_io_wait(0.0)
        await trio.lowlevel.checkpoint()
        assert len(one.echo.requests) == 1
        one.pace.before_io_wait(0.0)
        [reply] = replies(bytes(await one.client.receive_some()))
        assert reply.status == 200


async def test_what_arrives_is_dealt_with_where_no_passes_are_seen_too() -> None:
    async with served() as one:
        trio.lowlevel.remove_instrument(one.pace)
        assert await one.ask(GET) == [429]
        one.pace.is_full = False
        assert await one.ask(GET) == [200]
        trio.lowlevel.add_instrument(one.pace)


async def test_a_preflight_is_answered_as_ever() -> None:
    async with served() as one:
        assert await one.ask(GET.replace(b"GET", b"OPTIONS")) == [204]
        assert await one.ask(GET) == [429]
    assert [request.method for request in one.echo.requests] == ["OPTIONS"]


async def test_a_verdict_is_no_longer_good_for_the_request_after_one_that_was_too_large() -> None:
    size = HttpOptions().body_bytes_max + 1
    head = PUT.replace(b": 2", b": %d" % size)[:-2]
    async with served() as one:
        assert await one.ask(head, b"x") == [413]
        one.pace.is_full = False
        assert await one.ask(b"x" * (size - 1) + GET) == [200]


@pytest.mark.parametrize(
    ("parts", "statuses"),
    [
        ([GET + PUT + GET], [429] * 3),
        ([GET[:20], GET[20:]], [429]),
        ([PUT[:-1], PUT[-1:]], [429]),
        ([CHUNKED], [429]),
        ([b"\r\n" + GET], [429]),
        ([PUT.replace(b": 2", b": 70000")[:-2] + b"x" * 70_000], [429]),
    ],
)
async def test_what_takes_more_than_a_look_is_refused_all_the_same(
    parts: list[bytes], statuses: list[int]
) -> None:
    async with served() as one:
        assert await one.ask(*parts) == statuses
        assert await one.ask(GET) == [429]
        assert one.echo.requests == []


async def test_a_request_that_fills_what_is_read_at_once_is_no_reason_to_fall_asleep() -> None:
    head = PUT.replace(b": 2", b": 65480")[:-2]
    request = head + b"x" * 65_480
    request += b"G" * (RECEIVE_BYTES - len(request))
    assert len(request) == RECEIVE_BYTES
    async with served() as one:
        assert await one.ask(request, b"ET /api/x HTTP/1.1\r\nHost: a\r\n\r\n") == [429] * 2


async def test_the_last_answer_of_a_connection_says_so() -> None:
    async with served() as one:
        await one.client.send_all(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        [reply] = replies(bytes(await one.client.receive_some()))
        assert (reply.status, reply.headers["connection"]) == (429, "close")


async def test_the_end_of_a_connection_is_noticed_by_whoever_waits() -> None:
    async with served() as one:
        assert await one.ask(GET) == [429]
        await one.client.send_eof()
        await one.is_over.wait()


LINES = st.sampled_from(
    [
        b"Host: a",
        b"host: b",
        b"Content-Length: 2",
        b"content-length: 2",
        b"Content-Length: 02",
        b"Content-Length: 3",
        b"Content-Length : 2",
        b"Content-Length:2",
        b"Transfer-Encoding: chunked",
        b"Connection: keep-alive",
        b"Connection: close",
        b"Connection: Keep-Alive, Upgrade",
        b"Upgrade: websocket",
        b"Expect: 100-continue",
        b"X-Api-Token: abc",
        b"X: ",
        b" folded",
        b"X: \xe9",
        b"X: a\nContent-Length: 5",
    ]
)


@given(
    st.sampled_from([b"GET", b"PUT", b"HEAD", b"get", b"CONNECT"]),
    st.sampled_from([b"/api/x", b"/api/x?y=%20", b"/", b"http://a/api/x", b"/api/x y"]),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"http/1.1"]),
    st.lists(LINES, max_size=6),
    st.sampled_from([b"", b"{}", b"{}{", b"{}GET / HTTP/1.1\r\n\r\n"]),
)
def test_what_is_refused_unread_is_one_request_to_the_parser_too(
    method: bytes, target: bytes, version: bytes, lines: list[bytes], body: bytes
) -> None:
    first = b" ".join((method, target, version))
    data = b"\r\n".join((first, *lines, b"", body))
    if not is_one_plain_request(data):
        return
    parser = RequestParser(1 << 14, 1 << 16, 1 << 16, KnownHeads())
    parser.receive(data)
    try:
        assert parser.read_next() is REQUEST
    except BadRequest:
        assert b"\r\nhost: " not in data.lower() or data.lower().count(b"\r\nhost: ") > 1
    else:
        assert parser.keep_alive
        assert not parser.has_rest


@pytest.mark.parametrize("request_bytes", [GET, PUT, PUT.replace(b"Content", b"content")])
def test_what_game_clients_send_is_plain(request_bytes: bytes) -> None:
    assert is_one_plain_request(request_bytes)
    assert is_one_plain_request(
        request_bytes.replace(b"Host: a", b"Host: [::1]:80\r\nConnection: keep-alive\r\nX-A: b, c")
    )
    assert not is_one_plain_request(request_bytes + b"G")
    assert not is_one_plain_request(request_bytes[:-1])


@pytest.mark.parametrize(
    "line", [b"Connection: close", b"Expect: x", b"A:b", b"Caf\xe9: x", b"Etag"]
)
@pytest.mark.parametrize("name", [b"a", b"c", b"X-Y", b"content-type"])
def test_a_head_with_many_lines_is_read_in_one_way_only(name: bytes, line: bytes) -> None:
    """Read in two ways each, these lines would take for ever."""
    head = b"GET /api/x HTTP/1.1\r\n" + (name + b": \r\n") * 90 + line + b"\r\n\r\n"
    assert not is_one_plain_request(head)
