"""The one task that looks after connections, in place of a timer for each.

Each connection is looked at when it says that it is due, to the second, and not in between. So the
looks are spread over time. The task also keeps the time that connections read: a clock that stands
still between two ticks costs nothing to read.
"""

from __future__ import annotations

from typing import Protocol

import trio

from greenroom.actors.kernel.clock import sleep_until_tick

TICK_SECONDS = 1.0


class Timed(Protocol):
    """A connection, as `Deadlines` sees it."""

    def look(self, now: float) -> float | None:
        """Do what is due.

        Args:
            now: trio's time, in seconds.

        Returns:
            When to look again, None for never.
        """
        ...


class Deadlines:
    """Looks at connections. Bounded by them: each is in here once, closed ones until they are due.

    It ticks faster where a limit is shorter than a few seconds, which tests and nobody else want.
    """

    def __init__(self, shortest_seconds: float) -> None:
        """Begin with no connection.

        Args:
            shortest_seconds: the shortest of all limits that are looked after.
        """
        self.tick_seconds = min(TICK_SECONDS, shortest_seconds / 4)
        self.now = 0.0
        """trio's time at the last tick, in seconds."""
        self._due: dict[int, list[Timed]] = {}
        self._last_tick = 0

    def add(self, connection: Timed, due: float) -> None:
        """Look at a connection at a time, or up to two ticks later."""
        tick = max(self._last_tick + 1, int(due / self.tick_seconds) + 1)
        self._due.setdefault(tick, []).append(connection)

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            self.tick(trio.current_time())
            await sleep_until_tick(self.tick_seconds)

    def tick(self, now: float) -> None:
        """Look at every connection that is due."""
        self.now = now
        last, tick = self._last_tick, int(now / self.tick_seconds)
        self._last_tick = tick
        if tick - last > len(self._due):  # the first, or after a long pause
            due = sorted(number for number in self._due if number <= tick)
        else:
            due = [number for number in range(last + 1, tick + 1) if number in self._due]
        for number in due:
            for connection in self._due.pop(number):
                again = connection.look(now)
                if again is not None:
                    self.add(connection, again)
