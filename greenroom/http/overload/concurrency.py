"""A limit on the requests under way at once: no more than are soon answered.

Besides passes of the scheduler (`pass_budget.py`), requests wait for commits. If commits are slower
than requests come, the queue grows to its bound, and by Little's law everybody waits for that bound
divided by the rate of answers. So the limit follows from the rate: as many as are answered in
`WAIT_SECONDS_AIM`. As in CoDel (Nichols and Jacobson, RFC 8289), a standing queue is acted upon and
not a burst: the least count of an interval matters. Only young requests count: one that has waited
for long (for a large leaderboard, for a database that is away) is ahead of nobody.

No address takes everybody's places. Of all requests it has its share (`Shares`). Where fewer may be
under way, an address that has less than an even part of those is still let in.
"""

from __future__ import annotations

import math
from typing import Final

from greenroom.config import DEFAULTS
from greenroom.network.shares import Shares

WAIT_SECONDS_AIM: Final = 0.15
"""Seconds that a request should wait at most for those before it."""
INTERVAL_SECONDS: Final = 0.25
YOUNG_INTERVALS: Final = 3
"""A request is young in the interval of its beginning, and in those behind it."""
STANDING_INTERVALS: Final = 2
"""In a row in which more than that waited all the time: then it is no burst."""
HOLD_SECONDS: Final = 1.0
"""After the last refusal, the bound stays in force for so long."""
ALWAYS: Final = 512
"""Requests that are always let in, however few are answered: they make a slow disk's commits worth
it."""


class ConcurrencyLimit:
    """Counts requests under way. Constant memory, no clock of its own."""

    def __init__(
        self, requests_max: int, address_share_max: float = DEFAULTS.address_share_max
    ) -> None:
        """Begin with none.

        Args:
            requests_max: at once, young and old, whatever the rate.
            address_share_max: an address may have so many times what is left of these.
        """
        self._shares = Shares(requests_max, address_share_max)
        self.is_cut = False
        """True if fewer than usual may be under way."""
        self._requests_max = self._bound = requests_max
        self._begun = [0] * YOUNG_INTERVALS
        """Under way, by the interval in which they began."""
        self._young = 0
        self._number = 0
        """The number of this interval."""
        self._began = -math.inf
        self._answered = 0
        self._least = 0
        """Young ones at any moment of this interval."""
        self._standing = 0
        """Intervals in a row with too many under way."""
        self._refused_at = -math.inf

    @property
    def count(self) -> int:
        """Return how many requests are under way."""
        return self._shares.held

    def enter(self, now: float, key: str) -> int | None:
        """Begin a request.

        Args:
            now: monotonic seconds.
            key: the address that it comes from; see `address_key`.

        Returns:
            What `leave` wants to know; None if too many are under way: then it is to be refused.
        """
        if now - self._began >= INTERVAL_SECONDS:  # seldom, so most requests need no call
            self.look(now)
        is_full = self._young >= self._bound and not self._has_little(key)
        if is_full or not self._shares.take(key):
            self._refused_at = now
            return None
        self._young += 1
        self._begun[self._number % YOUNG_INTERVALS] += 1
        return self._number

    def must_refuse(self, now: float, key: str) -> bool:
        """Return whether a request that begins now must be refused; it counts as refused."""
        if self._shares.may_take(key) and (self._young < self._bound or self._has_little(key)):
            return False
        self._refused_at = now
        return True

    def _has_little(self, key: str) -> bool:
        """Return whether an address has less than an even part of the young that may be."""
        own = self._shares.count_held(key)
        return own * (self._shares.addresses + (not own)) < self._bound

    def leave(self, entered: int, key: str) -> None:
        """End a request, however it ended; `entered` is what `enter` returned."""
        self._shares.give_back(key)
        self._answered += 1
        if self._number - entered < YOUNG_INTERVALS:
            self._begun[entered % YOUNG_INTERVALS] -= 1
            self._young -= 1
            if self._young < self._least:  # noqa: PLR1730 - with every call, so no call of min
                self._least = self._young

    def look(self, now: float) -> None:
        """Judge the interval that is over, if it is, and begin the next."""
        seconds = now - self._began
        if seconds < INTERVAL_SECONDS:
            return
        soon = max(ALWAYS, int(self._answered / seconds * WAIT_SECONDS_AIM))
        self._standing = self._standing + 1 if self._least > soon else 0
        is_holding = now - self._refused_at < HOLD_SECONDS
        self.is_cut = is_holding or self._standing >= STANDING_INTERVALS
        self._bound = min(soon, self._requests_max) if self.is_cut else self._requests_max
        for _ in range(int(min(YOUNG_INTERVALS, seconds / INTERVAL_SECONDS))):
            self._number += 1
            place = self._number % YOUNG_INTERVALS
            self._young -= self._begun[place]
            self._begun[place] = 0
        self._began, self._answered, self._least = now, 0, self._young
