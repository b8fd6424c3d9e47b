"""A channel between a process and its child: whole messages, each with some open descriptors.

It is one end of a pair of unix sockets. The kernel closes it with the process at the other end,
however that ends. So each side knows when the other is gone. Knows no messages.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

import trio

MESSAGE_BYTES_MAX: Final = 1 << 20
"""A longer message is refused; settings and trees are far shorter."""
DESCRIPTORS_MAX: Final = 8
"""Descriptors of one message."""
SEND_SECONDS_MAX: Final = 5.0
"""Seconds that the other side may take to read a message. It hangs if it takes longer."""

_HEAD: Final = struct.Struct("!IB")
"""The length of a message, and how many descriptors come with it."""
_READ_BYTES: Final = 1 << 16


class ChannelClosed(Exception):
    """The process at the other end is gone, hangs, or does not keep to the protocol."""


class Channel:
    """One end; whoever holds it sends and receives. Messages arrive in order, each whole."""

    def __init__(self, end: socket.socket) -> None:
        """Hold one end of a pair.

        Args:
            end: the socket, which the channel closes.
        """
        self._socket = trio.socket.from_stdlib_socket(end)
        self._sending = trio.Lock()
        self._received = bytearray()
        self._descriptors: deque[int] = deque()

    def __enter__(self) -> Self:
        """Close it at the end of a `with` block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close it, with what has been received and not taken."""
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    async def send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a message, and copies of some descriptors with it.

        Args:
            message: at most `MESSAGE_BYTES_MAX` bytes.
            descriptors: at most `DESCRIPTORS_MAX`; they stay open here.

        Raises:
            ChannelClosed: the other side is gone, or has not read for `SEND_SECONDS_MAX`. The
                channel is closed then: nobody knows how much of the message has arrived.

        Cancellation: the message is sent whole if it was begun, and not at all otherwise.
        """
        assert len(message) <= MESSAGE_BYTES_MAX
        assert len(descriptors) <= DESCRIPTORS_MAX
        async with self._sending:
            with trio.CancelScope(shield=True), trio.move_on_after(SEND_SECONDS_MAX) as patience:
                try:
                    await self._send(message, descriptors)
                except (OSError, trio.ClosedResourceError):
                    raise ChannelClosed from None
        if patience.cancelled_caught:
            self.close()
            raise ChannelClosed

    async def _send(self, message: bytes, descriptors: Sequence[int]) -> None:
        rest = memoryview(_HEAD.pack(len(message), len(descriptors)) + message)
        if descriptors:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
            sent = await self._socket.sendmsg([rest], [rights])
            rest = rest[sent:]
        while rest:
            rest = rest[await self._socket.send(rest) :]

    async def receive(self) -> tuple[bytes, list[int]]:
        """Return the next message, and the descriptors that came with it, which are the caller's.

        Raises:
            ChannelClosed: the other side is gone, or what it sends makes no sense.

        Cancellation: nothing is lost; what has arrived in part is kept.
        """
        head = await self._have(_HEAD.size)
        length, count = _HEAD.unpack_from(head)
        if length > MESSAGE_BYTES_MAX or count > DESCRIPTORS_MAX:
            raise ChannelClosed
        whole = await self._have(_HEAD.size + length)
        if count > len(self._descriptors):
            raise ChannelClosed
        message = bytes(whole[_HEAD.size : _HEAD.size + length])
        del self._received[: _HEAD.size + length]
        return message, [self._descriptors.popleft() for _ in range(count)]

    async def _have(self, size: int) -> bytearray:
        """Wait until so many bytes have been received."""
        while len(self._received) < size:
            try:
                data, rights, flags, _ = await self._socket.recvmsg(
                    _READ_BYTES, socket.CMSG_SPACE(DESCRIPTORS_MAX * array.array("i").itemsize)
                )
            except (OSError, trio.ClosedResourceError):
                raise ChannelClosed from None
            self._keep(rights)
            if not data or flags & socket.MSG_CTRUNC:
                raise ChannelClosed
            self._received += data
        return self._received

    def _keep(self, rights: Sequence[tuple[int, int, bytes]]) -> None:
        for level, kind, data in rights:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
                for number in numbers:
                    os.set_inheritable(number, False)
                self._descriptors.extend(numbers)
