"""What waits to be sent over one socket, and leaves in as few writes as it can."""

from __future__ import annotations

import socket

import trio

from greenroom.sender import Sender
from greenroom.transport.tls import TlsBroken, TlsCodec


class Outbox:
    """The sending half of a connection; `Flushable`. Bounded by whoever puts something in."""

    __slots__ = ("_needs_task", "_out", "_out_bytes", "_overdue", "_sender", "_socket", "_tls")

    def __init__(self, connected: socket.socket, tls: TlsCodec | None, sender: Sender) -> None:
        """Begin with nothing to send.

        Args:
            connected: a non-blocking socket.
            tls: what encrypts, if anything does.
            sender: flushes it.
        """
        self._socket = connected
        self._tls = tls
        self._sender = sender
        self._out: list[bytes] = []
        self._out_bytes = 0
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
                elif len(self._out) > 1:
                    del self._out[0]
                    data = self._take_out()
                    self._out, self._out_bytes = [data], len(data)
                else:
                    self._out.clear()
        except (OSError, trio.ClosedResourceError):
            self._out.clear()
        finally:
            self._overdue = None
            overdue.set()

    def _put(self, data: bytes) -> None:
        """Send soon, behind everything before."""
        out = self._out
        if not out and self._overdue is None:
            self._sender.add(self)
        out.append(data)
        self._out_bytes += len(data)

    def _send_out(self) -> None:
        """Send what the kernel takes now; the rest is for a task, which the next `flush` calls."""
        if self._overdue is None and self._out:
            rest = self._send(self._take_out())
            if rest:
                self._out.append(rest)
                self._out_bytes = len(rest)
                self._overdue = trio.Event()
                self._needs_task = True

    def _take_out(self) -> bytes:
        """Return what waits, in one piece, as it goes over the wire; nothing where TLS is broken.

        Others send to this peer, too: what he has done to his connection must not reach them.
        """
        out = self._out
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        self._out_bytes = 0
        try:
            return data if self._tls is None else self._tls.encrypt(data)
        except TlsBroken:  # the connection's own task finds out by itself
            return b""

    def _send(self, data: bytes) -> bytes:
        """Send what the kernel takes now; return the rest. A broken connection takes everything."""
        try:
            return data[self._socket.send(data) :]
        except (BlockingIOError, InterruptedError):
            return data
        except OSError:  # the connection's own task finds out by itself
            return b""
