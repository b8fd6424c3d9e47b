"""A clock for trio that stands still while the machine leaves this process no time.

A test of time has both ends of a connection in one process. When other processes have the cores
for half a second, an end would find the other silent for so long, though neither got to do
anything. So time that passed while trio neither slept nor got round to its tasks counts as a pass.
"""

from __future__ import annotations

from time import perf_counter

import trio

PASS_SECONDS_MAX = 0.02
"""Seconds that a pass of the scheduler may take. If it took more, the process was stopped."""


class PatientClock(trio.abc.Clock):
    """Real time, less what this process was stopped for."""

    def __init__(self) -> None:
        """Begin now."""
        self._now = self._read_at = perf_counter()
        self._asleep_seconds = 0.0

    def start_clock(self) -> None:
        """Do nothing: it runs."""

    def current_time(self) -> float:
        """Return the seconds that this process had, from a point that says nothing."""
        read_at = perf_counter()
        allowed = self._asleep_seconds + PASS_SECONDS_MAX
        self._now += min(read_at - self._read_at, allowed)
        self._read_at, self._asleep_seconds = read_at, 0.0
        return self._now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how long trio may sleep; that long it is no wonder that nothing happens."""
        seconds = deadline - self.current_time()
        self._asleep_seconds = max(0.0, seconds)
        return seconds


def make_patient() -> None:
    """Let every `trio.run` of this process that names no clock have this one."""
    vars(trio._core._run)["SystemClock"] = PatientClock  # there is no public way
