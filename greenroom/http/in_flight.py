"""How many requests may be under way at once: no more than are soon answered.

Behind passes of the scheduler (`pace.py`) requests wait for commits. Where those come more slowly
than requests, the queue for them grows to whatever bound it has, and by Little's law everybody
waits for that bound divided by the rate of answers. So the bound follows from the rate: what is
answered in `WAIT_SECONDS_AIM`. As in CoDel (Nichols and Jacobson, RFC 8289) it is a queue that
stands, not a burst, that is acted upon: the least of an interval counts.
"""

from __future__ import annotations

import math
from typing import Final

WAIT_SECONDS_AIM: Final = 0.15
"""What a request should wait at most for those before it."""
INTERVAL_SECONDS: Final = 0.25
STANDING_INTERVALS: Final = 2
"""In a row in which more than that waited all the time: then it is no burst."""
HOLD_SECONDS: Final = 1.0
"""After the last refusal, the bound stays in force for so long."""
ALWAYS: Final = 256
"""So many are let in however few are answered: with them a slow disk's commits are worth it."""


class InFlight:
    """Counts requests under way. Constant memory, no clock of its own."""

    def __init__(self, requests_max: int) -> None:
        """Begin with none.

        Args:
            requests_max: at once, whatever the rate.
        """
        self.count = 0
        self.is_cut = False
        """Whether fewer than ever may be under way."""
        self._requests_max = self._bound = requests_max
        self._answered = 0
        self._least = 0
        """Under way at any moment of this interval."""
        self._began = -math.inf
        self._standing = 0
        """Intervals in a row with too many under way."""
        self._refused_at = -math.inf

    def enter(self, now: float) -> bool:
        """Begin a request, unless too many are under way: then it is to be refused.

        Args:
            now: monotonic seconds.
        """
        if now - self._began >= INTERVAL_SECONDS:
            self._look(now)
        if self.must_refuse(now):
            return False
        self.count += 1
        return True

    def must_refuse(self, now: float) -> bool:
        """Return whether a request that begins now must be refused; it counts as refused."""
        if self.count < self._bound:
            return False
        self._refused_at = now
        return True

    def leave(self) -> None:
        """End a request, however it ended."""
        self.count -= 1
        self._answered += 1
        self._least = min(self._least, self.count)

    def _look(self, now: float) -> None:
        """Judge the interval that is over, and begin the next."""
        soon = max(ALWAYS, int(self._answered / (now - self._began) * WAIT_SECONDS_AIM))
        self._standing = self._standing + 1 if self._least > soon else 0
        is_holding = now - self._refused_at < HOLD_SECONDS
        self.is_cut = is_holding or self._standing >= STANDING_INTERVALS
        self._bound = min(soon, self._requests_max) if self.is_cut else self._requests_max
        self._began, self._answered, self._least = now, 0, self.count
