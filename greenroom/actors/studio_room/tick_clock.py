"""When ticks are due: at a fixed rate, without drift, and never more than a few at once.

Late ticks are made up for, one after the other. Beyond `LATE_MAX` of them the rest are left out.
So a room that cannot keep up slows down, and holds nobody else up. Pure: times come in.
"""

from __future__ import annotations

from typing import Final

LATE_MAX: Final = 5


class TickClock:
    """The times of one room's ticks.

    Attributes:
        dt: seconds of game time that a tick stands for.
    """

    __slots__ = ("_due", "dt")

    def __init__(self, hz: float) -> None:
        """Start with no tick planned.

        Args:
            hz: ticks a second.
        """
        self.dt = 1.0 / hz
        self._due: float | None = None

    def plan_next(self, now: float) -> float:
        """Plan the tick after this, and return in how many seconds it is due.

        Args:
            now: seconds of a monotonic clock.
        """
        if self._due is None:
            self._due = now + self.dt
            return self.dt
        self._due += self.dt
        behind = now - self._due
        if behind <= 0:
            return -behind
        if behind > LATE_MAX * self.dt:
            self._due += int(behind / self.dt) * self.dt
        return 0.0

    def stop(self) -> None:
        """Plan no tick; the next plan does not make up for those left out."""
        self._due = None
