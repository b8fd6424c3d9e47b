"""A connection over a real socket pair, before a node that is known to answer for another.

The answers to calls that were begun come when a test says so.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import trio
from http_kit import Reply, replies
from trio.testing import wait_all_tasks_blocked

from greenroom.http.limits import CallLimits
from greenroom.http.overload.body_memory import Budgets
from greenroom.http.overload.cpu_shares import ADDRESS
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.request import Answer, Request
from greenroom.http.server.connection import Connection
from greenroom.http.server.connection_context import ConnectionContext
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.reaper import Reaper
from greenroom.http.server.wire import SocketWire
from greenroom.http.server.writer import AnswerWriter
from greenroom.network.pass_sender import PassSender

GET = b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
CLIENT = "198.51.100.1"
"""The other end of each connection."""


class Begun:
    """An answer to come; a test says when, and what."""

    def __init__(self, request: Request, then: Callable[[], None], *, is_refused: bool) -> None:
        self.request, self.then, self.is_refused = request, then, is_refused
        self.answer: Answer | None = None
        self.rest = trio.Event()
        """Set once `finish` may return."""
        self.awaited = b"awaited"
        """The body that `finish` returns."""
        self.reads = 0
        """How many answers have been taken."""
        self.is_awaited = self.is_dropped = False

    def read(self) -> Answer | None:
        self.reads += self.answer is not None
        return self.answer

    async def finish(self) -> Answer:
        self.is_awaited = True
        await self.rest.wait()
        return Answer(200, self.awaited)

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
        self.begun_for: list[str] = []
        """The addresses for which the task worked that began them."""
        self.body = b"here"
        self.echoes = False
        """Requests answered here get their own bodies back."""
        self.is_known = True
        self.is_refused = False
        self.is_broken = False

    async def answer(self, request: Request) -> Answer:
        self.asked += 1
        if request.notes is not None:
            request.notes.away = "the way"
        return Answer(200, request.body if self.echoes else self.body)

    async def vouches(self, request: Request) -> bool:
        return True

    def begin(self, request: Request, then: Callable[[], None]) -> Begun | None:
        if self.is_broken:
            raise MemoryError
        if not self.is_known:
            return None
        self.begun_for.append(ADDRESS.get(""))
        self.begun.append(Begun(request, then, is_refused=self.is_refused))
        return self.begun[-1]


class Served:
    """A connection, its client's end, and the node behind it."""

    def __init__(self, options: HttpOptions) -> None:
        writer = AnswerWriter(0)
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
            return replies(self.client.recv(1 << 20))
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


@asynccontextmanager
async def serving(options: HttpOptions | None = None) -> AsyncGenerator[Served]:
    one = Served(options or HttpOptions())
    with one.client:
        async with trio.open_nursery() as nursery:
            await nursery.start(one.sender.run)
            nursery.start_soon(one.reaper.run)
            nursery.start_soon(one.run)
            yield one
            nursery.cancel_scope.cancel()
