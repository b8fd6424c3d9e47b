"""How fast one connection, or one room, may send: pure arithmetic, time comes in."""

from __future__ import annotations


class Allowance:
    """A rate per second, with a burst of one second's worth.

    A caller over it waits; nothing is lost.
    """

    __slots__ = ("_full_at", "_interval")

    def __init__(self, per_second: float) -> None:
        """Start whole."""
        self._interval = 1.0 / per_second
        self._full_at = 0.0

    def charge(self, count: int, now: float) -> float:
        """Take so many; return for how many seconds to take no more.

        Args:
            count: messages that have come.
            now: monotonic seconds.
        """
        cost = count * self._interval
        if self._full_at <= now:
            self._full_at = now + cost
        else:
            self._full_at += cost
        return 0.0 if self._full_at <= now + 1.0 else self._full_at - now - 1.0

    def try_take(self, count: int, now: float) -> bool:
        """Take so many if there are so many; else none, for what is dropped and not waited for.

        Args:
            count: messages that have come.
            now: monotonic seconds.
        """
        full_at = max(self._full_at, now) + count * self._interval
        if full_at > now + 1.0:
            return False
        self._full_at = full_at
        return True


class MessageRate:
    """How fast one connection may send, by itself and together with all of its room.

    A message counts once more for each `bytes_per_message` of it.

    Attributes:
        own: what it may send by itself.
        room: what all of its room may; None before it is in one.
    """

    __slots__ = ("_bytes_per_message", "_uncounted", "own", "room")

    def __init__(self, per_second: float, bytes_per_message: int) -> None:
        """Start whole, with messages a second and bytes."""
        self.own = Allowance(per_second)
        self.room: Allowance | None = None
        self._bytes_per_message = bytes_per_message
        self._uncounted = 0

    def charge(self, count: int, size: int, now: float) -> float:
        """Take what has come; return for how many seconds to take no more.

        Args:
            count: messages, pings and fragments that have come whole.
            size: bytes that have come, those of parts of messages included.
            now: monotonic seconds.
        """
        spare = self._uncounted + size - count * self._bytes_per_message
        if spare > 0:
            more, self._uncounted = divmod(spare, self._bytes_per_message)
            count += more
        else:
            self._uncounted = 0
        wait = self.own.charge(count, now)
        if self.room is not None:
            room_wait = self.room.charge(count, now)
            if room_wait > wait:
                return room_wait
        return wait
