"""Answers of other nodes that a connection's task does not wait for, over real sockets."""

from __future__ import annotations

import gc
import socket
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from http_kit import Reply, replies
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.http.limits import CallLimits
from greenroom.http.overload.body_memory import Budgets
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.request import Answer, Request
from greenroom.http.server.connection import BEGUN_MAX, Connection
from greenroom.http.server.connection_context import ConnectionContext
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.reaper import ANSWERING, IDLE, Phase, Reaper
from greenroom.http.server.wire import SocketWire
from greenroom.http.server.writer import AnswerWriter
from greenroom.network.pass_sender import PassSender

GET = b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
CLIENT = "198.51.100.1"


class Begun:
    """An answer to come; a test says when, and what."""

    def __init__(self, request: Request, then: Callable[[], None], *, is_refused: bool) -> None:
        self.request, self.then, self.is_refused = request, then, is_refused
        self.answer: Answer | None = None
        self.rest = trio.Event()
        """Set once `finish` may return."""
        self.is_awaited = self.is_dropped = False

    def read(self) -> Answer | None:
        return self.answer

    async def finish(self) -> Answer:
        self.is_awaited = True
        await self.rest.wait()
        return Answer(200, b"awaited")

    def drop(self) -> None:
        self.is_dropped = True

    def end(self, body: bytes) -> None:
        self.answer = Answer(200, body)
        self.then()


class Node:
    """Answers here, and notes that other nodes answer what is like that."""

    def __init__(self) -> None:
        self.asked = 0
        self.begun: list[Begun] = []
        self.is_known = True
        self.is_refused = False

    async def answer(self, request: Request) -> Answer:
        self.asked += 1
        if request.notes is not None:
            request.notes.away = "the way"
        return Answer(200, b"here")

    async def vouches(self, _: Request) -> bool:
        return True

    def begin(self, request: Request, then: Callable[[], None]) -> Begun | None:
        if not self.is_known:
            return None
        self.begun.append(Begun(request, then, is_refused=self.is_refused))
        return self.begun[-1]


class Served:
    """A connection, its client's end, and the node behind it."""

    def __init__(self) -> None:
        options, writer = HttpOptions(), AnswerWriter(0)
        self.node, self.sender = Node(), PassSender()
        self.reaper = Reaper(options, writer)
        self.reaper.tick()
        self.context = ConnectionContext(
            options,
            self.node,
            writer,
            self.reaper,
            Budgets(options),
            pace=PassBudget(),
            limits=CallLimits(),
            begin=self.node.begin,
        )
        near, far = socket.socketpair()
        near.setblocking(False)
        self.wire = SocketWire(near, self.sender)
        far.setblocking(False)
        self.client = far
        self.connection = Connection(self.context, self.wire, CLIENT)
        self.is_over = trio.Event()

    async def run(self) -> None:
        self.reaper.connections.add(self.connection)
        try:
            await self.connection.run()
        finally:
            self.reaper.connections.discard(self.connection)
            await self.wire.close()
        self.is_over.set()

    async def ask(self, data: bytes = GET) -> None:
        """Send a request, and have the connection do what it can about it."""
        self.client.send(data)
        await wait_all_tasks_blocked()

    async def take(self) -> list[Reply]:
        """Return the answers that have come."""
        await wait_all_tasks_blocked()
        try:
            return replies(self.client.recv(1 << 16))
        except BlockingIOError:
            return []

    async def begin(self) -> Begun:
        """Ask until another node is asked, and return what is waited for."""
        for _ in range(2):
            await self.ask()
            assert [reply.body for reply in await self.take()] == [b"here"]
        await self.ask()
        [begun] = self.node.begun
        return begun


@pytest.fixture
async def one() -> AsyncIterator[Served]:
    async with serving() as one:
        yield one


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    one = Served()
    async with trio.open_nursery() as nursery:
        await nursery.start(one.sender.run)
        nursery.start_soon(one.reaper.run)
        nursery.start_soon(one.run)
        yield one
        nursery.cancel_scope.cancel()
    one.client.close()


def phase_of(one: Served) -> Phase:
    return one.connection.phase


def bodies(found: list[Reply]) -> list[bytes]:
    return [reply.body for reply in found]


async def test_an_answer_is_written_as_it_comes(one: Served) -> None:
    begun = await one.begin()
    assert phase_of(one) is ANSWERING
    assert await one.take() == []
    begun.end(b"there")
    assert bodies(await one.take()) == [b"there"]
    assert phase_of(one) is IDLE
    assert not begun.is_awaited
    await one.ask()  # and so on
    one.node.begun[1].end(b"again")
    assert bodies(await one.take()) == [b"again"]
    assert one.node.asked == 2


async def test_nothing_is_read_before_the_answer(one: Served) -> None:
    begun = await one.begin()
    await one.ask()
    assert len(one.node.begun) == 1
    begun.end(b"first")
    await wait_all_tasks_blocked()
    assert len(one.node.begun) == 2
    one.node.begun[1].end(b"second")
    assert bodies(await one.take()) == [b"first", b"second"]


@pytest.mark.parametrize("is_refused", [False, True])
async def test_the_task_waits_for_what_cannot_be_read(one: Served, *, is_refused: bool) -> None:
    one.node.is_refused = is_refused
    begun = await one.begin()
    if not is_refused:
        assert not begun.is_awaited
        begun.then()
        await wait_all_tasks_blocked()
    assert begun.is_awaited
    await one.ask()  # waits
    begun.rest.set()
    one.node.is_refused = False
    assert bodies(await one.take()) == [b"awaited"]
    one.node.begun[1].end(b"next")
    assert bodies(await one.take()) == [b"next"]


async def test_whoever_does_not_know_leaves_it_to_the_dispatcher(one: Served) -> None:
    one.node.is_known = False
    for asked in (1, 2, 3, 4):
        await one.ask()
        assert bodies(await one.take()) == [b"here"]
        assert one.node.asked == asked


async def test_pipelined_requests_are_answered_in_order(one: Served) -> None:
    begun = await one.begin()
    begun.end(b"there")
    assert bodies(await one.take()) == [b"there"]
    await one.ask(GET * 3)  # their answers leave together
    assert bodies(await one.take()) == [b"here"] * 3
    assert len(one.node.begun) == 1


async def test_now_and_then_the_task_waits_itself(one: Served) -> None:
    for _ in range(2 * BEGUN_MAX + 1):
        await one.ask()
        if one.node.begun and one.node.begun[-1].answer is None:
            one.node.begun[-1].end(b"there")
        assert len(await one.take()) == 1
    assert one.node.asked == 4  # two at first, then one of `BEGUN_MAX`


async def test_a_last_request_is_answered_as_ever(one: Served) -> None:
    for _ in range(2):
        await one.ask()
        await one.take()
    await one.ask(LAST)
    assert not one.node.begun
    [reply] = await one.take()
    assert reply.headers["connection"] == "close"
    await one.is_over.wait()


async def test_a_server_that_stops_waits_for_the_answer(one: Served) -> None:
    begun = await one.begin()
    one.context.stopping = True
    one.connection.stop()
    await wait_all_tasks_blocked()
    assert not one.is_over.is_set()
    begun.answer = Answer(200, b"late")
    begun.rest.set()
    begun.then()
    [reply] = await one.take()
    assert (reply.body, reply.headers["connection"]) == (b"awaited", "close")
    await one.is_over.wait()


async def test_an_answer_that_does_not_come_is_a_500(
    autojump_clock: MockClock, one: Served
) -> None:
    begun = await one.begin()
    began = trio.current_time()
    await one.is_over.wait()
    assert trio.current_time() - began > 10
    [reply] = await one.take()
    assert (reply.status, reply.headers["connection"]) == (500, "close")
    assert begun.is_dropped
    begun.end(b"too late")  # and nobody minds


async def test_a_client_that_has_left_is_noticed_after_the_answer(one: Served) -> None:
    begun = await one.begin()
    one.client.close()
    await wait_all_tasks_blocked()
    assert not one.is_over.is_set()
    begun.end(b"to nobody")
    await one.is_over.wait()


async def test_an_answer_waits_for_none_that_is_not_read(one: Served) -> None:
    begun = await one.begin()
    begun.end(b"x" * (8 << 20))
    await wait_all_tasks_blocked()
    await one.ask()
    assert len(one.node.begun) == 1
    got = 0
    while got < 8 << 20:
        await wait_all_tasks_blocked()
        got += len(one.client.recv(1 << 20))
    await wait_all_tasks_blocked()
    assert len(one.node.begun) == 2
    one.node.begun[1].end(b"there")
    assert bodies(await one.take())[-1:] == [b"there"]


async def test_a_connection_that_ends_meanwhile_leaves_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    async with serving() as one:
        begun = await one.begin()
    assert begun.is_dropped
    gone: list[weakref.ref[Any]] = [weakref.ref(begun)]
    del begun, one
    gc.collect()
    assert gone[0]() is None
