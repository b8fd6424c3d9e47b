"""The listening sockets of a TCP port: a server's own, or some that its parent has made and keeps.

Closing a listening socket resets who waits in its queue. So a server with workers has its sockets
in the parent, which never closes them before the end. A worker accepts from its own. While a
worker is away, its siblings accept from its socket, too.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NoReturn, Protocol

import trio

from greenroom.network import sockets

Take = Callable[[socket.socket, str], None]
"""Starts to serve a connection; see `sockets.accept_forever`."""


class Listeners(Protocol):
    """The sockets of one TCP port, for one server."""

    async def open(self) -> int:
        """Make them ready to accept from; return the port.

        Raises:
            ListenError: the port cannot be opened.
        """
        ...

    async def accept_forever(self, take: Take) -> NoReturn:
        """Accept connections and hand each to `take`, until cancelled."""
        ...

    def close(self, take: Take | None = None) -> None:
        """Stop accepting. If given, `take` gets the connections that are made already."""
        ...


class OwnListeners:
    """Sockets that the server opens and closes itself."""

    def __init__(self, host: str, port: int, backlog: int = sockets.BACKLOG) -> None:
        """Prepare; nothing is opened yet. Arguments are those of `sockets.bind_tcp`."""
        self._host = host
        self._port = port
        self._backlog = backlog
        self._sockets: list[socket.socket] = []

    async def open(self) -> int:
        """Bind the port; opened again, it is the same port; see `Listeners.open`."""
        self._sockets = await sockets.bind_tcp(self._host, self._port, backlog=self._backlog)
        self._port = sockets.port_of(self._sockets)
        return self._port

    async def accept_forever(self, take: Take) -> NoReturn:
        """Accept from all of them; see `Listeners.accept_forever`."""
        await _accept_from(self._sockets, take)

    def close(self, take: Take | None = None) -> None:
        """Close them; see `Listeners.close`."""
        for listener in self._sockets:
            if take is None:
                listener.close()
            else:
                sockets.close_gently(listener, take)
        self._sockets = []


class GivenListeners:
    """Sockets that the parent of some workers has made, and that outlive this process."""

    def __init__(self, by_worker: Mapping[int, Sequence[socket.socket]], number: int) -> None:
        """Begin with the worker's own sockets alone.

        Args:
            by_worker: the sockets of each worker, non-blocking; they are left open at the end.
            number: whose are this worker's own.
        """
        self._by_worker = by_worker
        self._number = number
        self._served = {number}
        self._news = trio.Event()
        self.is_over = False
        """True once the whole server ends: nobody will accept from these sockets again."""

    @property
    def port(self) -> int:
        """Return the port of the worker's own sockets."""
        return sockets.port_of(self._by_worker[self._number])

    @property
    def own_port(self) -> int:
        """Return the port of the last of them, which no other worker has if there are two."""
        return sockets.port_of(self._by_worker[self._number][-1:])

    async def open(self) -> int:
        """Return the port of the worker's own sockets, which are open."""
        await trio.lowlevel.checkpoint()
        return self.port

    def serve_also(self, absent: Collection[int]) -> None:
        """Accept from the sockets of workers that are away, and of no other but the own.

        Args:
            absent: the numbers of these workers; those that have no sockets are left out.
        """
        self._served = {self._number, *absent} & self._by_worker.keys()
        self._news.set()

    async def accept_forever(self, take: Take) -> NoReturn:
        """Accept from the sockets that are to be served; see `Listeners.accept_forever`."""
        while True:
            self._news = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_accept_from, self._list_served(), take)
                await self._news.wait()
                nursery.cancel_scope.cancel()

    def close(self, take: Take | None = None) -> None:
        """Leave them to the parent; if the whole server ends, take who is connected before.

        Nobody will accept from them then, so whoever connects later is refused at once.
        """
        if not self.is_over:
            return
        for listener in self._list_served():
            if take is not None:
                sockets.take_the_last(listener, take)
            sockets.stop_listening(listener)

    def _list_served(self) -> list[socket.socket]:
        return [one for number in sorted(self._served) for one in self._by_worker[number]]


async def _accept_from(listeners: Sequence[socket.socket], take: Take) -> NoReturn:
    """Accept from some sockets until cancelled."""
    async with trio.open_nursery() as nursery:
        for listener in listeners:
            nursery.start_soon(sockets.accept_forever, listener, take)
        await trio.sleep_forever()
    raise AssertionError("nobody ends it but a cancellation")
