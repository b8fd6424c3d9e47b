"""What waits to be sent over one socket, and leaves in as few writes as it can."""

from __future__ import annotations

import socket
from typing import Final

import trio

from greenroom.sender import Sender
from greenroom.transport.tls import TlsBroken, TlsCodec

SEND_BYTES_MAX: Final = 256 << 10
"""Sent, and encrypted, at a time: what is larger waits as it was put in, the same bytes for all who
get it, so that it is in memory once."""

Piece = bytes | memoryview


class Outbox:
    """The sending half of a connection; `Flushable`.

    Whoever puts something in asks `_is_too_much` where more than `_out_bytes_max` waits then, and
    closes the connection if it is.
    """

    __slots__ = (
        *("_larger_bytes", "_needs_task", "_out", "_out_bytes", "_out_bytes_max"),
        *("_overdue", "_sender", "_socket", "_tls"),
    )

    def __init__(
        self, connected: socket.socket, tls: TlsCodec | None, sender: Sender, out_bytes_max: int
    ) -> None:
        """Begin with nothing to send.

        Args:
            connected: a non-blocking socket.
            tls: what encrypts, if anything does.
            sender: flushes it.
            out_bytes_max: what may wait, beside one message that is larger.
        """
        self._socket = connected
        self._tls = tls
        self._sender = sender
        self._out: list[Piece] = []
        self._out_bytes = 0
        self._out_bytes_max = out_bytes_max
        self._larger_bytes = 0
        """Of the largest message beyond that since nothing waited: so much more may wait."""
        self._overdue: trio.Event | None = None
        """While a task sends what the kernel's buffer had no room for."""
        self._needs_task = False

    def flush(self) -> bool:
        """See `Flushable`."""
        if self._out:
            self._send_out()
        if not self._needs_task:
            return True
        self._needs_task = False
        return False

    async def send_rest(self) -> None:
        """See `Flushable`."""
        overdue = self._overdue
        assert overdue is not None
        try:
            while self._out:
                await trio.lowlevel.wait_writable(self._socket)
                waiting = self._out[0]
                rest = self._send(waiting)
                self._out_bytes -= len(waiting) - len(rest)
                if rest:
                    self._out[0] = rest
                else:
                    del self._out[0]
                    if self._out:
                        self._put_back(self._take_out())
        except (OSError, trio.ClosedResourceError):
            self._out.clear()
        finally:
            self._overdue, self._larger_bytes = None, 0
            overdue.set()

    def _put(self, data: Piece) -> None:
        """Send soon, behind everything before."""
        out = self._out
        if not out and self._overdue is None:
            self._sender.add(self)
        out.append(data)
        self._out_bytes += len(data)

    def _is_too_much(self, size: int) -> bool:
        """Return whether more waits than may when what the kernel takes has been sent.

        A message may be larger than all that may wait: then it counts for nothing, but only where
        no more than may wait is before it.

        Args:
            size: of what has been put in last, in bytes.
        """
        self._send_out()
        waiting, waiting_max = self._out_bytes, self._out_bytes_max
        if waiting > waiting_max >= waiting - size and size > waiting_max:
            self._larger_bytes = max(self._larger_bytes, size)
        return waiting > waiting_max + self._larger_bytes

    def _put_back(self, data: Piece) -> None:
        """Let what has been taken out wait before everything else."""
        self._out.insert(0, data)
        self._out_bytes += len(data)

    def _send_out(self) -> None:
        """Send what the kernel takes now; the rest is for a task, which the next `flush` calls."""
        while self._overdue is None and self._out:
            rest = self._send(self._take_out())
            if rest:
                self._put_back(rest)
                self._overdue = trio.Event()
                self._needs_task = True

    def _take_out(self) -> Piece:
        """Return what waits, in one piece, as it goes over the wire; nothing where TLS is broken.

        Others send to this peer, too: what he has done to his connection must not reach them.
        """
        if self._out_bytes > SEND_BYTES_MAX:
            data = self._take_first()
        else:
            out = self._out
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            self._out_bytes = 0
        try:
            return data if self._tls is None else self._tls.encrypt(data)
        except TlsBroken:  # the connection's own task finds out by itself
            return b""

    def _take_first(self) -> Piece:
        """Return the first of what waits, in one piece, as much as is sent at a time."""
        out, count, size = self._out, 0, 0
        while count < len(out) and size + len(out[count]) <= SEND_BYTES_MAX:
            size += len(out[count])
            count += 1
        if count:
            data: Piece = b"".join(out[:count])
            del out[:count]
        else:
            whole = memoryview(out[0])
            data, out[0] = whole[:SEND_BYTES_MAX], whole[SEND_BYTES_MAX:]
        self._out_bytes -= len(data)
        return data

    def _send(self, data: Piece) -> Piece:
        """Send what the kernel takes now; return the rest. A broken connection takes everything."""
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return data
        except OSError:  # the connection's own task finds out by itself
            return b""
        return b"" if sent == len(data) else memoryview(data)[sent:]
