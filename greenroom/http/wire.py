"""The two ways bytes travel: a plain socket, driven without ceremony, and any trio stream (TLS).

A plain socket is used raw because that is where a request's time goes: trio's own `recv` and `send`
cost a checkpoint each, while a connection needs one a request, and `wait_readable` is one.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Protocol

import trio

RECEIVE_BYTES = 1 << 16
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""`struct linger`: on, zero seconds."""


TcpStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class ConnectionLost(Exception):
    """The peer is gone; there is nobody to tell."""


class Wire(Protocol):
    """A connection as bytes. Every method but `receive` may be called once it is lost."""

    async def receive(self) -> bytes:
        """Return what came next, `b""` at its end.

        Raises:
            ConnectionLost: it broke.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Send everything.

        Raises:
            ConnectionLost: it broke. After a cancellation a part may have been sent.
        """
        ...

    async def finish_sending(self) -> None:
        """Tell the peer that nothing more will come, where the protocol can."""
        ...

    async def close(self) -> None:
        """Close it politely; bounded in time, and done even when cancelled."""
        ...

    async def abort(self) -> None:
        """Close it so that the peer cannot take what came for the whole answer."""
        ...

    def stream(self) -> TcpStream:
        """Return it as a trio stream, for another server; not used here any more."""
        ...


class SocketWire:
    """A plain TCP connection; checkpoints in `receive`, and in `send` only when it must wait."""

    __slots__ = ("_socket",)

    def __init__(self, connected: socket.socket) -> None:
        """Own a non-blocking connected socket."""
        self._socket = connected

    async def receive(self) -> bytes:
        """See `Wire`."""
        connected = self._socket
        while True:
            await trio.lowlevel.wait_readable(connected)
            try:
                return connected.recv(RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                continue
            except OSError as error:
                raise ConnectionLost from error

    async def send(self, data: bytes) -> None:
        """See `Wire`."""
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            raise ConnectionLost from error
        if sent != len(data):
            await self._send_rest(memoryview(data)[sent:])

    async def _send_rest(self, rest: memoryview) -> None:
        """Send what the kernel's buffer had no room for."""
        try:
            while rest:
                await trio.lowlevel.wait_writable(self._socket)
                try:
                    rest = rest[self._socket.send(rest) :]
                except (BlockingIOError, InterruptedError):
                    continue
        except OSError as error:
            raise ConnectionLost from error

    async def finish_sending(self) -> None:
        """See `Wire`."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        """See `Wire`; never waits."""
        self._socket.close()

    async def abort(self) -> None:
        """Reset the connection: a plain close would look like the end of an HTTP/1.0 answer."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._socket.close()

    def stream(self) -> trio.SocketStream:
        """See `Wire`."""
        return trio.SocketStream(trio.socket.from_stdlib_socket(self._socket))


class StreamWire:
    """Any trio stream, TLS above all."""

    __slots__ = ("_close_seconds_max", "_stream")

    def __init__(self, stream: trio.abc.Stream, close_seconds_max: float = 2.0) -> None:
        """Own a stream.

        Args:
            stream: connected, any handshake done.
            close_seconds_max: for saying goodbye to a peer that does not read.
        """
        self._stream = stream
        self._close_seconds_max = close_seconds_max

    async def receive(self) -> bytes:
        """See `Wire`."""
        try:
            return bytes(await self._stream.receive_some(RECEIVE_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLost from error

    async def send(self, data: bytes) -> None:
        """See `Wire`."""
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLost from error

    async def finish_sending(self) -> None:
        """See `Wire`; TLS has no such thing."""
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await self._stream.send_eof()

    async def close(self) -> None:
        """See `Wire`."""
        with trio.move_on_after(self._close_seconds_max, shield=True):
            with contextlib.suppress(trio.BrokenResourceError):
                await self._stream.aclose()

    async def abort(self) -> None:
        """Close without a goodbye, which TLS peers take for a truncated answer."""
        await abort_stream(self._stream)

    def stream(self) -> TcpStream:
        """See `Wire`."""
        assert isinstance(self._stream, trio.SocketStream | trio.SSLStream)
        return self._stream


async def abort_stream(stream: trio.abc.Stream) -> None:
    """Close a stream at once and unkindly; tasks that use it get a `ClosedResourceError`.

    Done even when cancelled; does not wait.
    """
    bottom: object = stream
    while isinstance(bottom, trio.SSLStream):
        bottom = bottom.transport_stream
    if isinstance(bottom, trio.SocketStream):
        with contextlib.suppress(OSError, trio.ClosedResourceError):
            bottom.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    with trio.CancelScope(shield=True):
        await trio.aclose_forcefully(stream)
