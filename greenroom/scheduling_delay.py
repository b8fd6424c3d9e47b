"""The delay of scheduling: how late the event loop wakes a task whose time has come.

It is the one number that tells whether the process keeps pace, whatever it is that holds it up.
"""

from __future__ import annotations

from typing import Final

import trio

from greenroom.histogram import Histogram

MEASURE_SECONDS: Final = 0.1
"""Ten looks a second, which take a ten-thousandth of a core."""
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class SchedulingDelay:
    """Measures while it runs. A service for a supervisor; it can be run again."""

    def __init__(self) -> None:
        """Start at zero."""
        self.histogram = Histogram(BOUNDS)
        """How late tasks woke, in seconds."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Measure until cancelled."""
        task_status.started()
        while True:
            due = trio.current_time() + MEASURE_SECONDS
            await trio.sleep_until(due)
            self.histogram.observe(max(0.0, trio.current_time() - due))
