"""The two clocks that actors see: calendar time for records, monotonic time for durations."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import trio


class Clock(Protocol):
    """Tells actors the time; tests give their own."""

    def now(self) -> int:
        """Return whole seconds since the Unix epoch, UTC."""
        ...

    def time(self) -> float:
        """Return seconds since the Unix epoch, UTC, with their fraction."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump, for measuring durations."""
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


class Calendar(Protocol):
    """The calendar of all nodes, as one of them reckons it."""

    booted_at: float
    """When its machine started, in Unix seconds."""


class SharedClock(SystemClock):
    """The same with a calendar that all nodes of a cluster share, however their machines' differ.

    So times go on where a shard came from another node.
    """

    def __init__(self, calendar: Calendar, boot_seconds: Callable[[], float]) -> None:
        """Go by a calendar, and by the seconds since the machine started."""
        self._calendar = calendar
        self._boot_seconds = boot_seconds

    def now(self) -> int:
        """Return whole seconds since the Unix epoch, UTC."""
        return int(self._calendar.booted_at + self._boot_seconds())

    def time(self) -> float:
        """Return seconds since the Unix epoch."""
        return self._calendar.booted_at + self._boot_seconds()


async def sleep_until_tick(seconds: float) -> None:
    """Sleep until trio's time is next a multiple of `seconds`.

    All loops with the same interval wake together: waking an idle server costs many times what each
    of them then does. Cancellation ends the sleep.
    """
    now = trio.current_time()
    due = (now // seconds + 1) * seconds
    await trio.sleep_until(due if due > now else due + seconds)  # it is rounded
