"""A rough network between clients and one port: it delays, loses the rest, and cuts."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

CHUNK_BYTES = 65_536


class RoughNetwork:
    """A TCP proxy to one port of this machine.

    Attributes:
        port: where it listens.
        delay_seconds: how long each chunk takes, in both directions.
        is_silent: nothing arrives any more, and nobody is told, as with a dead radio link.
        cut_after_bytes: each new connection is cut after so many bytes to the client; 0 for never.
        connections: how many there have been.
    """

    def __init__(self, port: int, target_port: int) -> None:
        self.port = port
        self.delay_seconds = 0.0
        self.is_silent = False
        self.cut_after_bytes = 0
        self.connections = 0
        self._target_port = target_port
        self._scopes: set[trio.CancelScope] = set()

    def cut(self) -> None:
        """End every connection at once."""
        for scope in tuple(self._scopes):
            scope.cancel()

    async def serve(self, client: trio.SocketStream) -> None:
        """Carry one connection until either side ends it, or it is cut."""
        self.connections += 1
        async with client:
            try:
                server = await trio.open_tcp_stream("127.0.0.1", self._target_port)
            except OSError:
                return
            async with server:
                with trio.CancelScope() as scope:
                    self._scopes.add(scope)
                    try:
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(self._carry, client, server, 0, nursery)
                            limit = self.cut_after_bytes
                            nursery.start_soon(self._carry, server, client, limit, nursery)
                    finally:
                        self._scopes.discard(scope)

    async def _carry(
        self,
        source: trio.SocketStream,
        target: trio.SocketStream,
        limit: int,
        nursery: trio.Nursery,
    ) -> None:
        carried = 0
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(CHUNK_BYTES):
                await trio.sleep(self.delay_seconds)
                if self.is_silent:
                    continue
                carried += len(data)
                if limit and carried > limit:
                    await target.send_all(data[: limit - carried])
                    break
                await target.send_all(data)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def rough_network(port: int, target_port: int) -> AsyncGenerator[RoughNetwork]:
    """A rough network from one port to another, while this lasts."""
    network = RoughNetwork(port, target_port)
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, network.serve, listeners)
        yield network
        nursery.cancel_scope.cancel()
