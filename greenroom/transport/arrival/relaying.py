"""Carries the bytes of a connection whose room is on another node, there and back, unread.

The port's `Reader` reads for both sides in a turn of their room, and what came is sent on at once.
So passing bytes on wakes no task, and relayed rooms and those of this node wait in one queue. The
longer it is, the more is passed on at a time.

At most `RECEIVE_BYTES` of each direction are held. Whoever does not read is waited for as long as
a client that does not read a large message; then both connections end. Everything else is the
owner's: pings, limits, the end. So the owner learns at once that a client has ended.

If this server stops, it ends its side of the connection to the owner, who then says good-bye to the
client. An owner that is gone cannot; then this server does, unless it is in the midst of a frame.
"""

from __future__ import annotations

import math
import socket
from contextlib import suppress
from typing import Final

import trio

from greenroom.network.tls_codec import TlsBroken
from greenroom.transport.ports import RelaySide
from greenroom.transport.reader import MORE, Reader
from greenroom.transport.websocket.frames import PassingFrames, encode_close
from greenroom.transport.websocket.session import GOING_AWAY

RECEIVE_BYTES: Final = 64 << 10
GOODBYE_SECONDS_MAX: Final = 1.0
"""How long the owner may take to say good-bye to a client of a server that stops."""
Rest = bytes | memoryview

_LOST: Final = encode_close(GOING_AWAY, "Node is gone")
_ENDS: Final = (OSError, TlsBroken, trio.TooSlowError, trio.ClosedResourceError)
"""The ends of one direction."""


async def carry(
    client: RelaySide,
    owner: RelaySide,
    first: bytes,
    reader: Reader,
    room: str,
    *,
    stall_seconds_max: float,
    close_seconds_max: float,
) -> None:
    """Pass bytes on in both directions until one side has ended.

    Args:
        client: the client's connection.
        owner: the connection to the node that has the room.
        first: what goes to that node before anything else.
        reader: reads for both.
        room: in whose turn they are read.
        stall_seconds_max: for how long either side may read nothing.
        close_seconds_max: for how long the owner may still answer a client that has ended.

    Cancellation leaves both connections open, once the owner has said good-bye.
    """
    up = _Way(client, owner, reader, room)
    down = _Way(owner, client, reader, room, PassingFrames())

    async def upstream() -> None:
        await up.run(stall_seconds_max, first)
        with suppress(OSError):
            owner.socket.shutdown(socket.SHUT_WR)
        nursery.cancel_scope.deadline = trio.current_time() + close_seconds_max

    async with trio.open_nursery() as nursery:
        nursery.start_soon(upstream)
        try:
            await down.run(stall_seconds_max)
        except trio.Cancelled:
            if nursery.cancel_scope.deadline == math.inf:  # the client has not ended: we stop
                with suppress(OSError):
                    owner.socket.shutdown(socket.SHUT_WR)
                with trio.move_on_after(GOODBYE_SECONDS_MAX, shield=True):
                    await down.finish()
                down.end()
            raise
        down.end()
        nursery.cancel_scope.cancel()


class _Way:
    """One direction. What the sink does not take at once is waited for, and nothing read before."""

    __slots__ = ("_frames", "_is_over", "_reader", "_rest", "_room", "_sink", "_source")

    def __init__(
        self,
        source: RelaySide,
        sink: RelaySide,
        reader: Reader,
        room: str,
        frames: PassingFrames | None = None,
    ) -> None:
        self._source = source
        self._sink = sink
        self._reader = reader
        self._room = room
        self._frames = frames
        self._rest: Rest = b""
        self._is_over = False

    async def run(self, stall_seconds_max: float, first: bytes = b"") -> None:
        """Pass `first` on, and then what comes, until nothing more does or nobody takes it."""
        with suppress(*_ENDS):
            self._send(first)
            while not self._is_over:
                while self._rest:
                    with trio.fail_after(stall_seconds_max):
                        await trio.lowlevel.wait_writable(self._sink.socket)
                    self._send_rest()
                await self._reader.read(self._source.socket, self._room, self._take)

    async def finish(self) -> None:
        """Pass on what still comes after `run` was cancelled, without the reader, until it ends."""
        with suppress(*_ENDS):
            while not self._is_over:
                if self._rest:
                    await trio.lowlevel.wait_writable(self._sink.socket)
                    self._send_rest()
                else:
                    await trio.lowlevel.wait_readable(self._source.socket)
                    self._take(0.0)

    def end(self) -> None:
        """Tell the sink, a client, that its node is gone, unless it has been told of an end."""
        if self._frames is not None and self._frames.may_end and not self._rest:
            with suppress(*_ENDS):
                self._send(_LOST)

    def _take(self, now: float) -> float | None:  # noqa: ARG002
        """See `Take`."""
        source = self._source
        try:
            data = source.socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return 0.0
        has_more = len(data) == RECEIVE_BYTES
        if not data:
            self._is_over = True
            return None
        if source.tls is not None:
            data = source.tls.decrypt(data)
        if self._frames is not None:
            self._frames.note(data)
        self._send(data)
        if self._rest:
            return None
        return MORE if has_more else 0.0

    def _send(self, data: bytes) -> None:
        tls = self._sink.tls
        if data:
            self._rest = data if tls is None else tls.encrypt(data)
            self._send_rest()

    def _send_rest(self) -> None:
        """Send what the kernel takes now."""
        rest = self._rest
        try:
            sent = self._sink.socket.send(rest)
        except (BlockingIOError, InterruptedError):
            return
        self._rest = b"" if sent == len(rest) else memoryview(rest)[sent:]
