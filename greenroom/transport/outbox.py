"""Bytes that wait to be sent over one socket; they leave in as few writes as possible."""

from __future__ import annotations

import socket
from typing import Final

import trio

from greenroom.network.addresses import address_key
from greenroom.network.sender import Sender
from greenroom.network.tls_codec import TlsBroken, TlsCodec
from greenroom.transport.backlog import Backlog, LargeMessages

SEND_BYTES_MAX: Final = 256 << 10
"""Bytes that are sent, and encrypted, at a time.

What is larger waits as it was put in, the same bytes for all who get it, so that it is in memory
once.
"""

UNCHARGED_BYTES: Final = 4 << 10
"""Bytes that wait for a peer uncharged, as many as a connection takes itself. So a line that is
slow for a moment has nothing to fear from others of its address."""
CHARGED_BYTES: Final = 16 << 10
"""Bytes beyond are charged to the peer's address, so many at a time."""

Piece = bytes | memoryview


class Outbox:
    """The sending half of a connection; `Flushable`.

    After putting something in, ask `_is_too_much` if more than `_checked_above` bytes wait, and
    close the connection if it is.

    Nothing is charged, and hardly ever checked, while the kernel takes what is sent. What it leaves
    is charged to the peer's address. Overload: if that has no share left, the peer is cut off.
    """

    __slots__ = (
        *("_address", "_backlog", "_charged", "_checked_above", "_large", "_left", "_needs_task"),
        *("_out", "_out_bytes", "_out_bytes_max", "_overdue", "_payer", "_sender", "_socket"),
        "_tls",
    )

    def __init__(
        self,
        connected: socket.socket,
        tls: TlsCodec | None,
        sender: Sender,
        out_bytes_max: int,
        *,
        large: LargeMessages,
        address: str,
    ) -> None:
        """Begin with nothing to send.

        Args:
            connected: a non-blocking socket.
            tls: encrypts what is sent; None without TLS.
            sender: flushes this outbox.
            out_bytes_max: bytes that may wait, besides messages that are larger than this.
            large: holds those messages, for all connections.
            address: the peer's, which they may be charged to.
        """
        self._address = address
        self._socket = connected
        self._tls = tls
        self._sender = sender
        self._out: list[Piece] = []
        self._out_bytes = 0
        self._out_bytes_max = self._checked_above = out_bytes_max
        self._charged = 0
        self._payer = ""
        self._left = 0
        """Bytes that have been sent of what was put in."""
        self._large = large
        self._backlog: Backlog | None = None
        """Large messages that wait; None before the first."""
        self._overdue: trio.Event | None = None
        """Set while a task sends what the kernel's buffer had no room for."""
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
            self._charge_waiting()
            while self._out:
                await self._wait_writable()
                if not self._out:  # the peer has been cut off meanwhile
                    break
                self._send_first()
                self._charge_waiting()
        except (OSError, trio.ClosedResourceError):
            self._drop()
        finally:
            self._charge(0)
            self._checked_above = self._out_bytes_max
            self._overdue = None
            overdue.set()

    def _send_first(self) -> bool:
        """Send the first of what is overdue; return whether the kernel took all of it."""
        waiting = self._out[0]
        rest = self._send(waiting)
        sent = len(waiting) - len(rest)
        self._out_bytes -= sent
        self._left += sent
        if self._backlog is not None:
            self._backlog.note_sent(self._left)
        if rest:
            self._out[0] = rest
            return False
        del self._out[0]
        if self._out:
            self._put_back(self._take_out())
        return True

    async def _wait_writable(self) -> None:
        """Wait until the kernel takes more; give up a client that takes none of a large message."""
        while self._socket.fileno() >= 0:  # it may be closed as the patience ends
            has_large = self._backlog is not None and self._backlog.size > 0
            with trio.move_on_after(self._large.stall_seconds_max):
                await trio.lowlevel.wait_writable(self._socket)
                return
            if has_large:
                self._close_overloaded()
        raise trio.ClosedResourceError

    def _close_overloaded(self) -> None:
        """Close the connection to a client that does not read."""
        raise NotImplementedError

    def _cut_off(self) -> None:
        """End the connection at once, and throw away what waits: see `_drop`."""
        raise NotImplementedError

    def _drop(self) -> None:
        """Throw away everything that waits."""
        self._out.clear()
        self._out_bytes = 0
        if self._backlog is not None:
            self._backlog.clear()
        self._charge(0)

    def _charge_waiting(self) -> None:
        """Charge what waits, large messages aside; a peer without a share for it is cut off."""
        if not self._charge(self._count_waiting()):
            self._cut_off()

    def _count_waiting(self) -> int:
        """Return how many bytes wait, large messages aside."""
        large = 0 if self._backlog is None else self._backlog.count_waiting(self._left)
        return self._out_bytes - large

    def _charge(self, waiting: int) -> bool:
        """Charge so many waiting bytes instead of those before; return whether that may be."""
        pieces = -(-(waiting - UNCHARGED_BYTES) // CHARGED_BYTES)
        wanted, charged = max(0, pieces) * CHARGED_BYTES, self._charged
        if wanted > charged:
            if not charged:  # it may have changed with the first request
                self._payer = address_key(self._address)
            if not self._large.take(self._payer, wanted - charged):
                return False
        elif wanted < charged:
            self._large.give_back(self._payer, charged - wanted)
        self._charged = wanted
        self._checked_above = min(self._out_bytes_max, UNCHARGED_BYTES + wanted)
        return True

    def _put(self, data: Piece) -> None:
        """Send soon, behind everything before."""
        out = self._out
        if not out and self._overdue is None:
            self._sender.add(self)
        out.append(data)
        self._out_bytes += len(data)

    def _is_too_much(self, data: Piece) -> bool:
        """Return whether more bytes wait than may, once the kernel has taken what it can.

        Messages larger than all that may wait are counted by themselves; see `Backlog`.

        Args:
            data: the bytes that were put in last.
        """
        self._send_out()
        waiting_max = self._out_bytes_max
        if self._out_bytes <= self._checked_above:
            return False
        backlog = self._backlog
        if len(data) > waiting_max:
            if backlog is None:
                backlog = self._backlog = Backlog(self._large)
            end = self._left + self._out_bytes
            if not backlog.add(data, end, self._address):
                return True
        if self._count_waiting() > waiting_max and self._overdue is not None:
            while self._out and self._send_first():  # the client may have read since the last try
                pass
        if self._count_waiting() > waiting_max:
            return True
        self._charge_waiting()
        return False

    def _put_back(self, data: Piece) -> None:
        """Put back what has been taken out, before everything else."""
        self._out.insert(0, data)
        self._out_bytes += len(data)
        self._left -= len(data)

    def _send_out(self) -> None:
        """Send what the kernel takes now; the rest is for a task, which the next `flush` starts."""
        while self._overdue is None and self._out:
            rest = self._send(self._take_out())
            if rest:
                self._put_back(rest)
                self._overdue = trio.Event()
                self._needs_task = True
                self._checked_above = min(self._out_bytes_max, UNCHARGED_BYTES)

    def _take_out(self) -> Piece:
        """Return the bytes that wait, in one piece and encrypted; empty if TLS is broken.

        Other members' tasks send to this peer, too: an error of its connection must not reach them.
        """
        if self._out_bytes > SEND_BYTES_MAX:
            data = self._take_first()
        else:
            out = self._out
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            self._left += self._out_bytes
            self._out_bytes = 0
        try:
            return data if self._tls is None else self._tls.encrypt(data)
        except TlsBroken:  # the connection's own task finds out by itself
            return b""

    def _take_first(self) -> Piece:
        """Return the first of the bytes that wait, as many as are sent at a time."""
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
        self._left += len(data)
        return data

    def _send(self, data: Piece) -> Piece:
        """Send what the kernel takes now; return the rest. A broken connection takes everything."""
        try:
            sent = self._socket.send(data)
        except OSError as error:
            sent = count_sent(data, error)
        return b"" if sent == len(data) else memoryview(data)[sent:]


def count_sent(data: Piece, error: OSError) -> int:
    """Return how many bytes count as sent after an error. A broken connection takes everything."""
    if isinstance(error, (BlockingIOError, InterruptedError)):
        return 0
    return len(data)  # the connection's own task finds out by itself
