"""Each request gets one answer in its turn, whatever comes, and in any order.

Requests, answers of another node, a stop, limits of time and a client that leaves come by chance.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
from begun_kit import Begun, Served, serving
from http_kit import Reply, replies
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.http.request import Answer
from greenroom.http.server import connection
from greenroom.http.server.options import HttpOptions

HEAD = b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
EVENTS_MAX = 40
LONG_SECONDS = 200.0
"""Longer than any limit of a connection."""
EVENTS = (
    *("ask", "ask", "ask", "ask three", "ask in pieces", "ask for the last time"),
    *("end", "end", "end", "end twice", "end with an error", "end with nonsense", "rest"),
    *("refuse", "know", "read", "read", "drain", "stop", "wait long", "expire", "leave"),
    "half-close",
)
CALM = tuple(event for event in EVENTS if event.split()[0] in {"ask", "end", "rest", "read"})
"""Events after which a connection goes on."""


@pytest.fixture(autouse=True, scope="module")
def one_is_waited_for() -> Iterator[None]:
    """The task waits for the first answer alone, not for the first few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "WAITED_MIN", 1)
        yield


class Play:
    """A client that numbers its requests, and keeps what it is answered."""

    def __init__(self, served: Served, clock: MockClock) -> None:
        self.served = served
        self.clock = clock
        self.sent = 0
        self.got = b""
        self.has_left = self.has_closed = False

    def send(self, count: int, head: bytes = HEAD) -> bytes:
        """Return so many requests more, which can be told apart by their bodies."""
        first, self.sent = self.sent, self.sent + count
        return b"".join(head + b"%04d" % number for number in range(first, self.sent))

    async def put(self, data: bytes) -> None:
        """Send bytes, if there is anybody."""
        if self.has_left or self.has_closed:
            return
        try:
            self.served.client.send(data)
        except OSError:
            self.has_closed = True

    def read(self) -> None:
        """Take what has come."""
        if self.has_left:
            return
        try:
            self.got += self.served.client.recv(1 << 20)
        except OSError:
            return

    def find_open(self) -> Begun | None:
        """Return what another node is still to answer."""
        begun = self.served.node.begun
        return begun[-1] if begun and not (begun[-1].reads or begun[-1].is_dropped) else None

    async def ask(self, how: str) -> None:
        if how == "in pieces":
            data = self.send(1)
            await self.put(data[:30])
            await wait_all_tasks_blocked()
            await self.put(data[30:-2])
            await wait_all_tasks_blocked()
            await self.put(data[-2:])
        elif how == "for the last time":
            await self.put(self.send(1, HEAD.replace(b"Host: a", b"Host: a\r\nConnection: close")))
        else:
            await self.put(self.send(3 if how else 1))

    def end(self, how: str) -> None:
        begun = self.find_open()
        if begun is None or begun.is_awaited:
            return
        begun.awaited = begun.request.body
        if how == "with an error":
            begun.rest.set()
        elif how == "with nonsense":
            begun.answer = Answer(999, b"")
        else:
            begun.answer = Answer(200, begun.request.body)
            begun.rest.set()  # a server that stops waits for it
        begun.then()

    async def do(self, event: str) -> None:
        """Have one thing happen."""
        served, node = self.served, self.served.node
        what, _, how = event.partition(" ")
        match what:
            case "ask":
                await self.ask(how)
            case "end":
                self.end(how)
            case "rest":
                for begun in node.begun:
                    begun.awaited = begun.request.body
                    begun.rest.set()
            case "refuse":
                node.is_refused = not node.is_refused
            case "know":
                node.is_known = not node.is_known
            case "read":
                self.read()
            case "drain" | "stop":
                served.context.stopping = True
                if what == "stop":
                    served.context.parting = True
                    served.connection.stop()
            case "wait":
                for _ in range(3):  # the limit, a last look, and the peer's time to read
                    self.clock.jump(LONG_SECONDS)
                    await wait_all_tasks_blocked()
            case "expire":
                if not served.is_over.is_set():
                    served.connection.expire()
            case "leave":
                self.has_left = True
                served.client.close()
            case _:
                if not (self.has_left or served.is_over.is_set()):
                    self.has_closed = True
                    served.client.shutdown(socket.SHUT_WR)

    async def finish(self) -> list[Reply]:
        """Let all that is open end, and return what was answered."""
        for _ in range(self.sent + 1):
            await wait_all_tasks_blocked()
            await self.do("rest")
            self.end("")
            self.read()
        await wait_all_tasks_blocked()
        self.read()
        return replies(self.got)


def check(play: Play, found: list[Reply], *, may_end: bool) -> None:
    """Check that the answers are those to the requests, in their order."""
    ends = [reply for reply in found if reply.headers.get("connection") == "close"]
    assert ends in ([], found[-1:])
    for number, reply in enumerate(found):
        assert number < play.sent
        if reply.status == 200:
            assert reply.body == b"%04d" % number
        else:
            assert reply.status == 500 or reply is found[-1]
    if not may_end:
        assert len(found) == play.sent


def check_nothing_left(served: Served) -> None:
    """Check that nothing is held, and nobody waits."""
    budgets = served.context.budgets
    assert (budgets.requests.held, budgets.answers.held) == (0, 0)
    for begun in served.node.begun:
        assert begun.reads <= 1
        assert begun.reads + begun.is_dropped == 1
        assert not (begun.reads and begun.is_awaited)


async def _play(events: list[tuple[str, bool]], clock: MockClock, *, may_end: bool) -> None:
    async with serving(HttpOptions()) as served:
        served.node.echoes = True
        play = Play(served, clock)
        for event, is_calm in events:
            await play.do(event)
            if is_calm:
                await wait_all_tasks_blocked()
        found = await play.finish()
        if not play.has_left:
            check(play, found, may_end=may_end)
            if not may_end:
                assert not served.is_over.is_set()
    check_nothing_left(served)


def play(events: list[tuple[str, bool]], *, may_end: bool) -> None:
    """Have events happen, each with or without time for what it brings about."""
    clock = MockClock()

    async def main() -> None:
        await _play(events, clock, may_end=may_end)

    trio.run(main, clock=clock)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(CALM), st.booleans()), max_size=EVENTS_MAX))
def test_each_request_gets_its_answer(events: list[tuple[str, bool]]) -> None:
    last = [event for event in events if event[0] == "ask for the last time"]
    play([event for event in events if event not in last], may_end=False)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.booleans()), max_size=EVENTS_MAX))
def test_nothing_is_left_however_a_connection_ends(events: list[tuple[str, bool]]) -> None:
    play(events, may_end=True)
