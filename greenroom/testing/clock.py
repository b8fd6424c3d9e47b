"""A clock for tests: time passes only when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenroom.actors.kernel.message import Command

START = 1_700_000_000.0


class HandClock:
    """The `Clock` of a room in a test."""

    def __init__(self) -> None:
        """Start at `START`."""
        self.seconds = 0.0

    def now(self) -> int:
        """Return whole Unix seconds."""
        return int(self.time())

    def time(self) -> float:
        """Return Unix seconds."""
        return START + self.seconds

    def monotonic(self) -> float:
        """Return seconds since the start."""
        return self.seconds


class HandTimers:
    """A room's timers in a test: commands that the room gets when they are due."""

    def __init__(self, clock: HandClock) -> None:
        """Start without timers."""
        self._clock = clock
        self._due: dict[str, tuple[float, int, Command[Any, Any]]] = {}
        self._count = 0

    def start(
        self,
        name: str,
        seconds: float,
        command: Command[Any, Any],
        first: Callable[[], None] | None = None,  # noqa: ARG002 - nothing waits to be read here
    ) -> None:
        """Deliver a command in so many seconds; replaces the timer of that name."""
        self._count += 1
        self._due[name] = (self._clock.seconds + seconds, self._count, command)

    def stop(self, name: str) -> None:
        """Stop a timer."""
        self._due.pop(name, None)

    def take_next(self, until: float) -> tuple[float, Command[Any, Any]] | None:
        """Remove and return the first timer due and its time; None if none is due until `until`."""
        name = min(self._due, key=lambda name: self._due[name][:2], default=None)
        if name is None or self._due[name][0] > until:
            return None
        due, _, command = self._due.pop(name)
        return due, command
