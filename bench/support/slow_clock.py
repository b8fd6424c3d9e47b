"""Runs a program of ours whose clocks are slow: `slow_clock.py FACTOR MODULE ARGUMENTS…`.

Under callgrind a server is some 50 times slower. By its own clocks it would be overloaded, and do
other things than it does otherwise. With clocks that are as slow as itself, it does the same.

The parent of workers is not to be counted. It runs them by the command in `SLOW_WORKERS_UNDER`, and
their clocks are slow, too.
"""

from __future__ import annotations

import functools
import os
import runpy
import shlex
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


def slow_boot_clock() -> None:
    """Slow the clock by which a node trusts its lease."""
    read = time.clock_gettime
    began = {time.CLOCK_BOOTTIME: read(time.CLOCK_BOOTTIME)}

    def slow(clock: int) -> float:
        first = began[clock]
        return first + (read(clock) - first) / FACTOR

    time.clock_gettime = slow


def slow_workers() -> None:
    """Have workers run under another program, with slow clocks."""
    from greenroom.workers import parent

    under = shlex.split(os.environ["SLOW_WORKERS_UNDER"])
    assert parent.serve.__kwdefaults__ is not None
    parent.serve.__kwdefaults__["command"] = (
        *(*under, sys.executable, __file__, sys.argv[1], "greenroom", "worker"),
    )


def main() -> None:
    """Slow all clocks, then run the module."""
    for name in CLOCKS:  # before anybody else has imported them
        setattr(time, name, slowed(getattr(time, name)))
    slow_boot_clock()
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
    if "SLOW_WORKERS_UNDER" in os.environ and "--workers" in sys.argv:
        slow_workers()
    sys.argv[:] = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
