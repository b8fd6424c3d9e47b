"""How busy a thread is, with a memory: what is done about a high load must not end by helping."""

from __future__ import annotations

from typing import Final

HIGH: Final = 0.6
LOW: Final = 0.4
"""Shares of a core."""


class Load:
    """The share of a core that a thread uses. Pure: times come in.

    Attributes:
        is_high: whether it was above `HIGH` between two looks, and not below `LOW` since.
    """

    __slots__ = ("_looked_at", "_used_seconds", "is_high")

    def __init__(self) -> None:
        """Begin idle."""
        self.is_high = False
        self._looked_at = 0.0
        self._used_seconds = 0.0

    def look(self, now: float, used_seconds: float) -> None:
        """Judge the time since the last look.

        Args:
            now: monotonic seconds.
            used_seconds: CPU time of the thread so far.
        """
        if now > self._looked_at:
            share = (used_seconds - self._used_seconds) / (now - self._looked_at)
            self.is_high = share > (LOW if self.is_high else HIGH)
        self._looked_at, self._used_seconds = now, used_seconds
