"""A connected socket of the bus. All that is put in during a pass leaves in one write."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

import trio

from greenroom.network.pass_sender import PassSender
from greenroom.network.tls_codec import TlsBroken, TlsCodec

RECEIVE_BYTES_MAX: Final = 64 << 10
SEND_BYTES_MAX: Final = 256 << 10
"""Bytes that are put together, and encrypted, at a time."""


class BusWire:
    """Both halves of a connection; `Flushable`.

    It is not bounded: look at `bytes_unsent` before you put something in.
    """

    __slots__ = (
        *("_is_closed", "_is_scheduled", "_pieces", "_rest", "_sender", "_socket", "_tls"),
        *("_waiting", "bytes_unsent"),
    )

    def __init__(
        self, connected: socket.socket, sender: PassSender, tls: TlsCodec | None = None
    ) -> None:
        """Take a socket over.

        Args:
            connected: a non-blocking socket.
            sender: flushes the wire once a pass.
            tls: encrypts, once its handshake is done; `None` for none.
        """
        self._socket = connected
        self._sender = sender
        self._tls = tls
        self._pieces: list[bytes | memoryview] = []
        self._waiting = 0
        """Bytes of the pieces."""
        self.bytes_unsent = 0
        """How many bytes wait to be sent. A plain attribute, since each message looks at it."""
        self._rest: bytes | memoryview = b""
        """The end of the last write, which the kernel has not taken; encrypted if need be."""
        self._is_scheduled = False
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Return whether anything may still be sent."""
        return not self._is_closed

    def put(self, data: bytes) -> bool:
        """Send soon, behind everything before; return False if the wire is broken."""
        if self._is_closed:
            return False
        self._pieces.append(data)
        size = len(data)
        self._waiting += size
        self.bytes_unsent += size
        if not self._is_scheduled:
            self._is_scheduled = True
            self._sender.add(self)
        return True

    def flush(self) -> bool:
        """See `Flushable`."""
        while self._rest or self._pieces:
            self._send_some()
            if self._rest:
                return False
        self._is_scheduled = False
        return True

    async def send_rest(self) -> None:
        """See `Flushable`."""
        try:
            while self._rest or self._pieces:
                await trio.lowlevel.wait_writable(self._socket)
                self._send_some()
        except (OSError, trio.ClosedResourceError):
            self._break()
        finally:
            self._is_scheduled = False

    async def receive(self) -> bytes:
        """Return what came next; nothing at the end, and where the connection broke."""
        try:
            while self._socket.fileno() >= 0:
                await trio.lowlevel.wait_readable(self._socket)
                with suppress(BlockingIOError, InterruptedError):
                    received = self._socket.recv(RECEIVE_BYTES_MAX)
                    if self._tls is not None and received:
                        received = self._tls.decrypt(received)
                        if not received:
                            continue
                    return received
        except (OSError, trio.ClosedResourceError, TlsBroken):
            pass
        return b""

    def close(self) -> None:
        """Close the socket; whatever waits is dropped."""
        self._drop()
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    def _send_some(self) -> None:
        """Send what the kernel takes of the first bytes."""
        try:
            if not self._rest:
                self._rest = self._take_some()
            sent = self._socket.send(self._rest)
            self._rest = b"" if sent == len(self._rest) else memoryview(self._rest)[sent:]
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, TlsBroken):
            self._break()
        self.bytes_unsent = self._waiting + len(self._rest)

    def _take_some(self) -> bytes | memoryview:
        """Take the first bytes out, in one piece and encrypted."""
        pieces = self._pieces
        if self._waiting <= SEND_BYTES_MAX:
            data: bytes | memoryview = b"".join(pieces)
            pieces.clear()
        elif len(pieces[0]) > SEND_BYTES_MAX:
            whole = memoryview(pieces[0])
            data, pieces[0] = whole[:SEND_BYTES_MAX], whole[SEND_BYTES_MAX:]
        else:
            count = size = 0
            while (size := size + len(pieces[count])) <= SEND_BYTES_MAX:
                count += 1
            data = b"".join(pieces[:count])
            del pieces[:count]
        self._waiting -= len(data)
        return data if self._tls is None else self._tls.encrypt(data)

    def _break(self) -> None:
        """Drop everything, and have the task that reads find the end."""
        self._drop()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _drop(self) -> None:
        self._is_closed = True
        self._pieces.clear()
        self._waiting = self.bytes_unsent = 0
        self._rest = b""
