"""Messages larger than an outbox, while they wait for clients who read them slowly.

An update over HTTP may be a MiB, and all members of a room get the same bytes. Such a message is
counted once, however many wait for it, and charged to the address of the first who does.
"""

from __future__ import annotations

from collections import deque
from typing import Final, cast

from greenroom.network.addresses import address_key
from greenroom.network.shares import Shares

BACKLOG_BYTES_MAX: Final = 8 << 20
"""Bytes of large messages that wait for one client; a single one may be larger still."""


class LargeMessages:
    """All large messages that wait for clients of a port, and the bytes of small ones.

    Overload: what would be too much for all, or for an address, is not held, and the client for
    whom it is loses its connection. It may come back.
    """

    __slots__ = ("_held", "_shares", "stall_seconds_max")

    def __init__(
        self, bytes_max: int, address_share_max: float, stall_seconds_max: float = 10.0
    ) -> None:
        """Hold nothing.

        Args:
            bytes_max: of all together.
            address_share_max: an address may have so many times what is free.
            stall_seconds_max: a client may take nothing for so long while one waits.
        """
        self._shares = Shares(bytes_max, address_share_max)
        self._held: dict[int, tuple[int, int, str]] = {}
        """By the identity of a message, which those who wait keep alive: how many clients wait for
        it, its bytes, and the address that it is charged to."""
        self.stall_seconds_max = stall_seconds_max

    @property
    def size(self) -> int:
        """Return what they hold together, in bytes."""
        return self._shares.held

    def take(self, key: str, size: int) -> bool:
        """Count bytes of small messages in; return whether there is space.

        Args:
            key: of the client's address; see `address_key`.
            size: in bytes; `give_back` is told as many.
        """
        return self._shares.take(key, size)

    def give_back(self, key: str, size: int) -> None:
        """Count bytes of small messages out again; arguments as of `take`."""
        self._shares.give_back(key, size)

    def hold(self, frames: bytes, key: str) -> bool:
        """Hold a message for one client more; return whether there is space.

        Args:
            frames: the message; it must be kept until `release`.
            key: of the client's address; see `address_key`.
        """
        count, size, payer = self._held.get(id(frames), (0, len(frames), key))
        if not count and not self._shares.take(payer, size):
            return False
        self._held[id(frames)] = count + 1, size, payer
        return True

    def release(self, frames: bytes) -> None:
        """Count one client less that a message waits for."""
        count, size, payer = self._held.pop(id(frames))
        if count > 1:
            self._held[id(frames)] = count - 1, size, payer
        else:
            self._shares.give_back(payer, size)


class Backlog:
    """The large messages that wait for one client, in order.

    Attributes:
        size: in bytes, of those of which anything still waits.
    """

    __slots__ = ("_messages", "_waiting", "size")

    def __init__(self, messages: LargeMessages) -> None:
        """Begin with none."""
        self._messages = messages
        self._waiting: deque[tuple[int, bytes]] = deque()
        self.size = 0

    def add(self, data: bytes | memoryview, end: int, address: str) -> bool:
        """Let a message wait; return whether it may.

        Args:
            data: the message, or what is left of it.
            end: how many bytes will have been sent over the connection when it has been.
            address: of the client.
        """
        frames = cast("bytes", data.obj) if isinstance(data, memoryview) else data
        size = len(frames)
        if self.size and self.size + size > BACKLOG_BYTES_MAX:
            return False
        if not self._messages.hold(frames, address_key(address)):
            return False
        self._waiting.append((end, frames))
        self.size += size
        return True

    def count_waiting(self, position: int) -> int:
        """Return how many bytes of them wait when the connection has sent up to a position."""
        if not self._waiting:
            return 0
        end, first = self._waiting[0]
        return self.size - max(0, len(first) - (end - position))

    def note_sent(self, position: int) -> None:
        """Forget the messages that end before a position: they have been sent."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            frames = waiting.popleft()[1]
            self.size -= len(frames)
            self._messages.release(frames)

    def clear(self) -> None:
        """Forget everything: nothing waits any more."""
        while self._waiting:
            self._messages.release(self._waiting.popleft()[1])
        self.size = 0
