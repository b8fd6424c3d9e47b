"""Carries the bytes of a connection whose room is on another node, there and back, unread.

At most `RECEIVE_BYTES` of each direction are held. Whoever does not read is waited for as long as
a client that does not read a large message; then both connections end. Everything else is the
owner's: pings, limits, the end.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio

from greenroom.network.tls_codec import TlsBroken, TlsCodec

RECEIVE_BYTES: Final = 64 << 10
_GONE: Final = (trio.BrokenResourceError, trio.ClosedResourceError)


class ClientSide:
    """A client's connection as a stream."""

    def __init__(self, connected: socket.socket, tls: TlsCodec | None) -> None:
        """Read and write a non-blocking socket, through TLS if that is spoken."""
        self._socket = connected
        self._tls = tls

    async def receive_some(self) -> bytes:
        """Return the bytes that came next, empty at the end.

        Raises:
            ClosedResourceError: the socket has been closed.
        """
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                data = self._socket.recv(RECEIVE_BYTES)
                if not data or self._tls is None:
                    return data
                plain = self._tls.decrypt(data)
            except (BlockingIOError, InterruptedError):
                continue
            except (OSError, TlsBroken):
                return b""
            if plain:
                return plain

    async def send_all(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            BrokenResourceError: the client is gone.
            ClosedResourceError: the socket has been closed.
        """
        try:
            left = memoryview(data if self._tls is None else self._tls.encrypt(data))
            while left:
                try:
                    left = left[self._socket.send(left) :]
                except (BlockingIOError, InterruptedError):
                    await trio.lowlevel.wait_writable(self._socket)
        except (OSError, TlsBroken):
            raise trio.BrokenResourceError from None


async def carry(
    client: ClientSide,
    owner: trio.abc.Stream,
    first: bytes,
    *,
    stall_seconds_max: float,
    close_seconds_max: float,
) -> None:
    """Pass bytes on in both directions until one side has ended.

    Args:
        client: the client's connection.
        owner: the connection to the node that has the room.
        first: what goes to that node before anything else.
        stall_seconds_max: for how long either side may read nothing.
        close_seconds_max: for how long the owner may still answer a client that has ended.

    Cancellation leaves both connections open.
    """

    async def upstream() -> None:
        await _copy(client.receive_some, owner.send_all, stall_seconds_max)
        nursery.cancel_scope.deadline = trio.current_time() + close_seconds_max

    async def downstream() -> None:
        await _copy(owner.receive_some, client.send_all, stall_seconds_max)
        nursery.cancel_scope.cancel()

    if not await _send(owner.send_all, first, stall_seconds_max):
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(upstream)
        nursery.start_soon(downstream)


async def _copy(
    receive: Callable[[], Awaitable[bytes | bytearray]],
    send: Callable[[bytes], Awaitable[None]],
    stall_seconds_max: float,
) -> None:
    """Pass bytes on until there are no more, or nobody takes them."""
    with suppress(*_GONE):
        while data := await receive():
            if not await _send(send, bytes(data), stall_seconds_max):
                return


async def _send(send: Callable[[bytes], Awaitable[None]], data: bytes, seconds_max: float) -> bool:
    """Send bytes; return whether they were taken in time."""
    with trio.move_on_after(seconds_max), suppress(*_GONE):
        await send(data)
        return True
    return False
