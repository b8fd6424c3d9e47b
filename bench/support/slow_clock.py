"""Runs a program of ours whose clocks are slow: `slow_clock.py FACTOR MODULE ARGUMENTS…`.

Under callgrind a server is some 50 times slower. By its own clocks it would be overloaded, and do
other things than it does otherwise. With clocks that are as slow as itself, it does the same.
"""

from __future__ import annotations

import functools
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FACTOR = float(sys.argv[1])
CLOCKS = ("monotonic", "perf_counter", "process_time", "thread_time", "time")


def slowed(clock: Callable[[], float]) -> Callable[[], float]:
    """Return a clock that goes on from now, slowly."""
    began = clock()
    return lambda: began + (clock() - began) / FACTOR


def main() -> None:
    """Slow all clocks, then run the module."""
    for name in CLOCKS:  # before anybody else has imported them
        setattr(time, name, slowed(getattr(time, name)))
    import trio

    class SlowClock(trio.abc.Clock):
        def start_clock(self) -> None:
            """Do nothing: it runs."""

        def current_time(self) -> float:
            """Return slow seconds."""
            return time.perf_counter()

        def deadline_to_sleep_time(self, deadline: float) -> float:
            """Return real seconds."""
            return (deadline - time.perf_counter()) * FACTOR

    slow: Any = functools.partial(trio.run, clock=SlowClock())
    trio.run = slow
    module = sys.argv[2]
    sys.path[0] = str(Path.cwd())
    sys.argv[:] = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
