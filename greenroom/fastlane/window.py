"""Checks which packet numbers have come already: each is accepted once, very old ones never.

The sliding window of RFC 4303, section 3.4.3, with the numbers as bits of one integer.
"""

from __future__ import annotations

from typing import Final

WINDOW: Final = 1_024
"""How far behind the highest number a packet may be."""

_MASK: Final = (1 << WINDOW) - 1


class ReplayWindow:
    """The numbers of one direction.

    Attributes:
        highest: the highest number taken; 0 before the first.
        taken: how many were taken.
    """

    __slots__ = ("_seen", "_skipped", "highest", "taken")

    def __init__(self) -> None:
        """Begin with nothing taken."""
        self.highest = 0
        self.taken = 0
        self._seen = 0
        self._skipped = 0

    @property
    def lost(self) -> int:
        """Return how many have not come; a jump of more than `WINDOW` is no loss."""
        return max(0, self.highest - self._skipped - self.taken)

    def is_fresh(self, number: int) -> bool:
        """Return whether a number has not come yet, and is not too old to know."""
        behind = self.highest - number
        if behind < 0:
            return True
        return number > 0 and behind < WINDOW and not self._seen >> behind & 1

    def take(self, number: int) -> None:
        """Note a fresh number, once its packet has proved genuine."""
        ahead = number - self.highest
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & _MASK if ahead < WINDOW else 1
            self.highest = number
            if ahead > WINDOW:
                self._skipped += ahead - 1
        else:
            self._seen |= 1 << -ahead
        self.taken += 1
