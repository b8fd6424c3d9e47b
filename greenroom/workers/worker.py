"""A worker's end of the channel to its parent: what it was given, what it is told, what it says."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

import msgspec
import trio

from greenroom.control.protocol import CallOutcome
from greenroom.control.signal_watch import Served
from greenroom.control.socket import CONNECTIONS_MAX, Calls, fenced, send_outcome
from greenroom.supervisors.channel import Channel, ChannelClosed
from greenroom.supervisors.tree import TreeNode
from greenroom.workers.messages import (
    Alive,
    Begin,
    CrewMessage,
    Drain,
    Drawn,
    DrawTree,
    FromParent,
    HandedOver,
    LeaveCluster,
    NodeEnded,
    ParentTold,
    Perform,
    Reload,
    ServeAlso,
    StopAll,
    encode,
    from_parent,
)
from greenroom.workers.ports import WorkerPorts, open_given

ALIVE_SECONDS: Final = 1.0
"""Seconds between two signs of life."""
BEGIN_SECONDS_MAX: Final = 30.0
NEWS_MAX: Final = 64
"""News that wait for the parent to read: more than there are siblings, at most 64 workers."""


class WorkerServed(Served, Protocol):
    """A worker, as far as its parent may tell it what to do."""

    async def hand_over(self) -> None:
        """Hand over to other machines what they take; bounded in time.

        Cancellation: what has been handed over so far stays so.
        """
        ...

    def stop(self) -> object:
        """Stop at once, and hand nothing over: the whole server stops."""
        ...

    def note_ended(self, node_id: int) -> object:
        """Note that a sibling's process has ended for certain."""
        ...

    def draw(self) -> TreeNode:
        """Draw the supervision tree."""
        ...

    def is_database_failing(self) -> bool:
        """Return whether the database refuses this worker, or does not answer it."""
        ...


class ParentLink:
    """The link to the parent."""

    def __init__(self, channel: Channel, begin: Begin, ports: WorkerPorts) -> None:
        """Hold what `join` has received."""
        self.begin = begin
        self.ports = ports
        self.parent_told: ParentTold | None = None
        """The last that the parent has told of itself."""
        self._channel = channel
        self._calls = 0
        self._giving_news, self._news = trio.open_memory_channel[CrewMessage](NEWS_MAX)

    async def tell(self, message: CrewMessage) -> None:
        """Tell the parent something. A parent that is gone is told nothing.

        Cancellation: it is sent whole, or not at all.
        """
        with suppress(ChannelClosed):
            await self._channel.send(encode(message))

    def tell_soon(self, message: CrewMessage) -> None:
        """Have `tell_news` tell the parent something; beyond `NEWS_MAX` it is told nothing."""
        with suppress(trio.WouldBlock):
            self._giving_news.send_nowait(message)

    async def tell_news(self) -> None:
        """Tell the parent what `tell_soon` was given, until cancelled."""
        async for message in self._news:
            await self.tell(message)

    async def tell_alive(self, served: WorkerServed) -> None:
        """Give signs of life until cancelled."""
        while True:
            await self.tell(Alive(served.is_database_failing()))
            await trio.sleep(ALIVE_SECONDS)

    async def listen(self, served: WorkerServed, calls: Calls) -> None:
        """Do what the parent says until cancelled. If it is gone, stop as if it had said so."""
        async with trio.open_nursery() as nursery:
            try:
                while True:
                    message, descriptors = await self._channel.receive()
                    streams = [_stream(each) for each in descriptors]
                    await self._take(from_parent(message), streams, served, calls, nursery)
            except (ChannelClosed, msgspec.DecodeError):
                self.ports.note_end()
                served.stop()

    async def _take(
        self,
        message: FromParent,
        streams: Sequence[trio.SocketStream],
        served: WorkerServed,
        calls: Calls,
        nursery: trio.Nursery,
    ) -> None:
        match message:
            case ServeAlso(absent=absent):
                self.ports.serve_also(absent)
            case NodeEnded(node_id=node_id):
                served.note_ended(node_id)
            case Drain():
                await served.drain()
            case Reload():
                await served.reload()
            case LeaveCluster():
                nursery.start_soon(self._leave_cluster, served)
            case StopAll(is_final=is_final):
                if is_final:
                    self.ports.note_end()
                served.stop()
            case ParentTold():
                self.parent_told = message
            case DrawTree():
                await self.tell(Drawn(served.draw()))
            case Perform(line=line):
                for stream in streams:
                    nursery.start_soon(self._perform, calls, line, stream)
            case Begin():
                raise msgspec.DecodeError

    async def _leave_cluster(self, served: WorkerServed) -> None:
        with fenced():
            await served.hand_over()
        await self.tell(HandedOver())

    async def _perform(self, calls: Calls, line: bytes, stream: trio.SocketStream) -> None:
        """Carry out a call of the command line; refuse it if there are too many."""
        with fenced():
            async with stream:
                if self._calls >= CONNECTIONS_MAX:
                    await send_outcome(stream, CallOutcome(error=_TOO_MANY))
                    return
                self._calls += 1
                try:
                    await calls.take(line, stream)
                finally:
                    self._calls -= 1


_TOO_MANY = "Too many commands are under way: try again when some have ended."


@asynccontextmanager
async def join(descriptor: int) -> AsyncGenerator[ParentLink]:
    """Take the channel that the parent has left open, and what it says first.

    Args:
        descriptor: the number of the channel's descriptor.

    Raises:
        ChannelClosed: there is no parent at the other end.

    Cancellation closes the channel.
    """
    with Channel(socket.socket(fileno=descriptor)) as channel:
        begin = await _begin(channel)
        with open_given(begin.sockets, begin.number) as ports:
            yield ParentLink(channel, begin, ports)


async def _begin(channel: Channel) -> Begin:
    with trio.move_on_after(BEGIN_SECONDS_MAX):
        message, descriptors = await channel.receive()
        for each in descriptors:
            os.close(each)
        begin = from_parent(message)
        if isinstance(begin, Begin):
            return begin
    raise ChannelClosed


def _stream(descriptor: int) -> trio.SocketStream:
    connected = socket.socket(fileno=descriptor)
    connected.setblocking(False)
    return trio.SocketStream(trio.socket.from_stdlib_socket(connected))
