"""The two clocks that actors see: calendar time for records, monotonic time for durations."""

from __future__ import annotations

import time
from typing import Protocol

import trio


class Clock(Protocol):
    """Where an actor gets its time from; tests give their own."""

    def now(self) -> int:
        """Return whole seconds since the Unix epoch, UTC."""
        ...

    def time(self) -> float:
        """Return seconds since the Unix epoch, UTC, with their fraction."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump, for measuring how long ago something was."""
        ...


class SystemClock:
    """The machine's calendar and trio's monotonic clock (which tests may autojump)."""

    def now(self) -> int:
        """Return whole seconds since the Unix epoch, UTC."""
        return int(time.time())

    def time(self) -> float:
        """Return seconds since the Unix epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return trio's current time in seconds."""
        return trio.current_time()


async def sleep_until_tick(seconds: float) -> None:
    """Sleep until trio's time is next a multiple of `seconds`.

    So whatever ticks, and does next to nothing each time, ticks together: to wake a server that
    is idle costs many times what is then done. Cancellation ends the sleep.
    """
    now = trio.current_time()
    due = (now // seconds + 1) * seconds
    await trio.sleep_until(due if due > now else due + seconds)  # it is rounded
