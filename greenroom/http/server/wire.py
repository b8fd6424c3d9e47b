"""The two transports of bytes: a plain socket used directly, and any trio stream (TLS).

A plain socket is used directly because that is where a request's time goes. trio's own `recv` and
`send` cost a checkpoint each. A connection needs only one for each request, and `wait_readable` is
one.
"""

from __future__ import annotations

import contextlib
import math
import socket
import struct
from collections.abc import Callable
from typing import Protocol

import trio

from greenroom.http.overload.accept_queue import AcceptQueue, QueuedConnection
from greenroom.http.overload.body_memory import Unsent
from greenroom.http.overload.turns import AddressTurns
from greenroom.network.pass_sender import PassSender

RECEIVE_BYTES = 1 << 16
LINGER_BYTES_MAX = 1 << 20
"""How much is read after the last answer before the peer has had its chance to see it."""
UNSENT_BYTES_MIN = 4 << 10
"""Less than that is never held of what an address may have unsent, where it is not known how much
the kernel takes."""
UNHELD_SECONDS = 1.0
"""How long a peer has to read what its address has no room for; then the connection ends."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""`struct linger`: on, zero seconds."""


TcpStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class ConnectionLost(Exception):
    """The peer is gone; there is nobody to tell."""


class Wire(Protocol):
    """A connection as bytes. Every method but `receive` may be called once it is lost."""

    is_late: bool
    """True if the bytes received last have waited too long for their turn."""

    def take_turns(self, turns: AddressTurns, key: str) -> None:
        """Read only in the turns of an address, while there are any."""
        ...

    def count_unsent(self, unsent: Unsent) -> None:
        """Hold of `unsent` what the peer does not read."""
        ...

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

    def post(self, data: bytes) -> bool:
        """Send soon, behind everything posted before; return False if only `send` can.

        If the connection breaks, the next call says so.
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

    def release_stream(self) -> TcpStream:
        """Return it as a trio stream, for another server; not used here any more."""
        ...


async def linger(wire: Wire) -> None:
    """Say that nothing more will come, and read on for a while.

    Raises:
        ConnectionLost: it broke.
    """
    await wire.finish_sending()
    left = LINGER_BYTES_MAX
    while left > 0 and (data := await wire.receive()):
        left -= len(data)


class SocketWire:
    """A plain TCP connection; checkpoints in `receive`, and in `send` only when it must wait.

    What was posted and does not fit into the kernel's buffer is overdue: until a task of the
    `PassSender` has sent it, nothing is read and nothing more is sent.
    """

    __slots__ = (
        *("_arrival", "_arrivals", "_due", "_early", "_overdue", "_posted", "_sender", "_socket"),
        *("_is_due", "_key", "_turns", "_unsent", "is_late", "turn_away"),
    )

    def __init__(
        self, connected: socket.socket, sender: PassSender, arrivals: AcceptQueue | None = None
    ) -> None:
        """Own a non-blocking connected socket.

        Args:
            connected: the socket.
            sender: what is posted goes through it.
            arrivals: the queue to wait in while the server is behind; None if there is none.
        """
        self._socket = connected
        self._sender = sender
        self._arrivals = arrivals
        self._arrival: QueuedConnection | None = None
        """The place in the accept queue while `receive` waits there."""
        self.turn_away: Callable[[], bool] | None = None
        """See `QueuedConnection`; while there is none, `receive` waits as ever."""
        self._turns: AddressTurns | None = None
        self._unsent: Unsent | None = None
        self._key = ""
        self.is_late = False
        self._early = b""
        """Bytes that were received and put back."""
        self._posted = b""
        self._overdue: trio.Event | None = None
        self._is_due = False
        """Nothing is read until what is expected has been posted."""
        self._due: trio.Event | None = None
        """Set then, if something has come meanwhile."""

    async def receive(self) -> bytes:
        """See `Wire`."""
        if self._overdue is not None:
            await self._overdue.wait()
        connected, arrivals = self._socket, self._arrivals
        while True:
            arrival = self._arrival
            if arrivals is not None and (arrivals.is_wanted or arrival is not None):
                arrival = self._watch(arrivals)
            if arrival is None:
                await trio.lowlevel.wait_readable(connected)
            else:
                await arrival.wait()
            if self._is_due or self._overdue is not None:
                await self._wait_posted()
            turns = self._turns
            self.is_late = (
                turns is not None
                and turns.is_on
                and not turns.take(self._key)
                and await turns.wait(self._key)
            )
            if self._early:
                early, self._early = self._early, b""
                return early
            try:
                data = connected.recv(RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                if arrival is not None:
                    arrival.is_ready = False
                continue
            except OSError as error:
                raise ConnectionLost from error
            if arrival is not None and len(data) < RECEIVE_BYTES:
                arrival.is_ready = False
            return data

    def take_turns(self, turns: AddressTurns, key: str) -> None:
        """See `Wire`. There is a turn once something can be read."""
        self._turns, self._key = turns, key

    def count_unsent(self, unsent: Unsent) -> None:
        """See `Wire`."""
        self._unsent = unsent

    def _watch(self, arrivals: AcceptQueue) -> QueuedConnection | None:
        """Return what to wait for while the server is behind, None else."""
        arrival = self._arrival
        if self.turn_away is None:
            return None
        if not arrivals.is_wanted:
            if arrival is not None:
                arrivals.forget(arrival)
                self._arrival = None
            return None
        if arrival is None:
            arrival = self._arrival = arrivals.watch(self._socket, self.turn_away)
        return arrival

    def receive_early(self) -> bytes:
        """Return what has come, for a task that waits in `receive`; `b""` if it must do that."""
        arrival = self._arrival
        if arrival is None or self._posted:  # which may be overdue
            return b""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except OSError:
            return b""
        if len(data) < RECEIVE_BYTES:
            arrival.is_ready = False
        return data

    def put_back(self, data: bytes) -> None:
        """Give the task what was received early."""
        self._early = data

    def post_early(self, data: bytes) -> None:
        """Post the answer to what was received early."""
        self._sender.add(self)
        self._posted = data

    def post(self, data: bytes) -> bool:
        """See `Wire`."""
        if self._overdue is not None:
            return False
        if not self._posted:
            self._sender.add(self)
        self._posted += data
        return True

    def expect(self) -> bool:
        """Read nothing until `post_due` or `end_due`; False, for never, if something is unsent."""
        self._is_due = self._overdue is None and not self._posted
        return self._is_due

    def post_due(self, data: bytes) -> None:
        """Post what was expected; nothing else has been since."""
        self._is_due = False
        if self._due is not None:
            self.end_due()
        self._sender.add(self)
        self._posted = data

    def end_due(self) -> None:
        """Read on."""
        self._is_due = False
        if self._due is not None:
            self._due.set()
            self._due = None

    async def _wait_posted(self) -> None:
        """Wait until what is expected has been posted, and nothing is overdue."""
        if self._is_due:
            self._due = trio.Event()
            await self._due.wait()
        if self._overdue is not None:
            await self._overdue.wait()

    def flush(self) -> bool:
        """See `Flushable`."""
        data = self._posted
        if not data:  # it went with what was sent directly since
            return True
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # closed or broken: the connection's own task finds out by itself
            sent = len(data)
        if sent == len(data):
            self._posted = b""
            return True
        self._posted = data[sent:]
        self._overdue = trio.Event()
        return False

    async def send_rest(self) -> None:
        """See `Flushable`."""
        rest, overdue = self._posted, self._overdue
        assert overdue is not None
        try:
            await self._send_rest(memoryview(rest), len(rest))
        except (ConnectionLost, trio.ClosedResourceError):
            pass
        finally:
            self._posted = b""
            self._overdue = None
            overdue.set()

    async def send(self, data: bytes) -> None:
        """See `Wire`."""
        if self._overdue is not None:
            await self._overdue.wait()
        if self._posted:
            data, self._posted = self._posted + data, b""
        if not data:
            return
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            raise ConnectionLost from error
        if sent != len(data):
            await self._send_rest(memoryview(data)[sent:], len(data))

    async def _send_rest(self, rest: memoryview, held_bytes: int) -> None:
        """Send what the kernel's buffer had no room for.

        Args:
            rest: what it is.
            held_bytes: what it is a part of, and what memory it takes.

        Raises:
            ConnectionLost: it broke.
            trio.ClosedResourceError: it was closed meanwhile.
        """
        unsent = self._unsent
        is_held = unsent is None or unsent.hold(held_bytes)
        try:
            with trio.move_on_after(math.inf if is_held else UNHELD_SECONDS):
                while rest:
                    await trio.lowlevel.wait_writable(self._socket)
                    try:
                        rest = rest[self._socket.send(rest) :]
                    except (BlockingIOError, InterruptedError):
                        continue
        except OSError as error:
            raise ConnectionLost from error
        finally:
            if unsent is not None:
                unsent.release()
        if rest:
            self._break_off()
            raise ConnectionLost

    def _break_off(self) -> None:
        """Have the connection end as if its peer had left, and drop what is on its way there."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._socket.shutdown(socket.SHUT_RDWR)

    async def finish_sending(self) -> None:
        """See `Wire`."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        """See `Wire`; never waits."""
        self.flush()
        self._close()

    async def abort(self) -> None:
        """Reset the connection: a plain close would look like the end of an HTTP/1.0 answer."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._close()

    def give(self, give: Callable[[socket.socket], bool]) -> bool:
        """Offer the connection to another process; return whether it takes it.

        If it does, this end is closed, and the other process goes on with the same connection.

        Args:
            give: sends the socket to the other process, and returns whether that has worked.
        """
        if self._overdue is not None or self._early or not give(self._socket):
            return False
        self._close()
        return True

    def _close(self) -> None:
        """Close; a task that still sends what is overdue gets a `ClosedResourceError`."""
        self._let_go()
        if self._overdue is not None:
            trio.lowlevel.notify_closing(self._socket)
        self._posted = b""
        self._socket.close()

    def _let_go(self) -> None:
        """Stop watching the socket.

        Whoever turns away and this object hold each other, like `RequestParser` and its parser.
        """
        self.turn_away = None
        if self._arrival is not None and self._arrivals is not None:
            self._arrivals.forget(self._arrival)
            self._arrival = None

    def release_stream(self) -> trio.SocketStream:
        """See `Wire`."""
        self._let_go()
        return trio.SocketStream(trio.socket.from_stdlib_socket(self._socket))


class StreamWire:
    """Any trio stream, TLS above all."""

    __slots__ = ("_close_seconds_max", "_key", "_stream", "_turns", "_unsent", "is_late")

    def __init__(self, stream: trio.abc.Stream, close_seconds_max: float = 2.0) -> None:
        """Own a stream.

        Args:
            stream: connected, any handshake done.
            close_seconds_max: for saying goodbye to a peer that does not read.
        """
        self._stream = stream
        self._unsent: Unsent | None = None
        self._close_seconds_max = close_seconds_max
        self._turns: AddressTurns | None = None
        self._key = ""
        self.is_late = False

    def take_turns(self, turns: AddressTurns, key: str) -> None:
        """See `Wire`. There is a turn before anything can be read: TLS reads by itself."""
        self._turns, self._key = turns, key

    def count_unsent(self, unsent: Unsent) -> None:
        """See `Wire`."""
        self._unsent = unsent

    async def receive(self) -> bytes:
        """See `Wire`."""
        turns = self._turns
        if turns is not None and turns.is_on and not turns.take(self._key):
            await turns.wait(self._key)
        try:
            return bytes(await self._stream.receive_some(RECEIVE_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLost from error

    async def send(self, data: bytes) -> None:
        """See `Wire`."""
        if not data:
            return
        unsent = self._unsent
        if unsent is None or len(data) < UNSENT_BYTES_MIN:
            await self._send(data)
            return
        try:
            if unsent.hold(len(data)):
                await self._send(data)
                return
            with trio.move_on_after(UNHELD_SECONDS):
                await self._send(data)
                return
        finally:
            unsent.release()
        await self.abort()
        raise ConnectionLost

    async def _send(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionLost from error

    def post(self, data: bytes) -> bool:  # noqa: ARG002 - the protocol's
        """See `Wire`; a stream has to be waited for in any case."""
        return False

    async def finish_sending(self) -> None:
        """Do nothing: TLS has no half-closed connections."""
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

    def release_stream(self) -> TcpStream:
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
