"""How fast one connection, or one room, may send: pure arithmetic, time comes in."""

from __future__ import annotations


class Allowance:
    """So many a second, and a second's worth at once. Over it, one waits; nothing is lost."""

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

    def admits(self, count: int, now: float) -> bool:
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
