"""Collections of cyclic garbage, kept short: Python's young ones, and full ones when they are due.

A collection holds the event loop. A young one looks at what has been made since the last, and takes
some milliseconds at most. A full one looks at every object: some 300 ms with 100,000 players. So
Python begins young ones alone. They leave behind what was still in use then, such as a room whose
behaviour holds cycles. A full collection finds that, once memory has grown enough to be worth it.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import trio

from greenroom.histogram import Histogram

_logger = logging.getLogger(__name__)

NEVER: Final = (1 << 31) - 1
THRESHOLDS: Final = (1_500, 0, NEVER)
"""When Python collects: after so many objects more than were freed, also what is older every second
time, and never everything. An object counts as freed whatever its age. So a young collection may
look at many times as many. With 2,000 and 5, it held a loop that was flooded for up to 25 ms. The
older ones look at no more than with 500 and 4. But with 500, each wave of calls was looked at while
it waited for its commit, and none of it was garbage."""
LOOK_SECONDS: Final = 60.0
"""Seconds between two looks at how memory has grown."""
GROWN_BYTES_MIN: Final = 256 << 20
"""Bytes that memory grows by at least until a full collection is due in any case."""
QUIET_SHARE: Final = 0.02
"""A part of a core. A server that used less of it since the last look has hardly anybody to keep
waiting."""
QUIET_GROWN_BYTES: Final = 16 << 20
"""Bytes by which memory must have grown for a full collection of a quiet server."""
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
BLOCK_BYTES: Final = 84
"""Bytes of memory for each block that Python has allocated, as measured with 100,000 players."""


def begin() -> None:
    """Let young collections begin once the server has started, and skip what is there by then.

    Until then there are none (`serve` sees to that): restoring 100,000 players and 10,000 rooms
    takes a third less time.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(*THRESHOLDS)


def is_full_collection_due(held: int, floor: int, busy: float) -> bool:
    """Return whether memory has grown enough for a full collection.

    Args:
        held: bytes of memory that the process holds now.
        floor: the fewest that it has held since the last full collection.
        busy: the part of a core that it has used since the last look.
    """
    grown = held - floor
    if busy < QUIET_SHARE:
        return grown >= QUIET_GROWN_BYTES
    return grown >= max(floor, GROWN_BYTES_MIN)


def read_held_bytes() -> int:
    """Return the memory that the process holds: resident, or as Python counts it elsewhere."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):  # not Linux
        return sys.getallocatedblocks() * BLOCK_BYTES
    return pages * os.sysconf("SC_PAGESIZE")


def collect_everything() -> int:
    """Collect all garbage, that of what was skipped so far, too; return how much was found."""
    gc.unfreeze()  # a room that was restored may have ended, and left cycles
    return gc.collect()


class GarbageCollection:
    """Measures all collections, and has full ones when they are due. A service for a supervisor."""

    def __init__(
        self,
        *,
        read_held: Callable[[], int] = read_held_bytes,
        read_used: Callable[[], float] = time.process_time,
        collect: Callable[[], int] = collect_everything,
    ) -> None:
        """Start at zero.

        Args:
            read_held: returns the bytes of memory that the process holds.
            read_used: returns the seconds of processor time that it has used.
            collect: has a full collection, and returns the number of objects that it removed.
        """
        self.histogram = Histogram(BOUNDS)
        """How long collections have held the event loop, in seconds."""
        self._read_held = read_held
        self._read_used = read_used
        self._collect = collect
        self._began = 0.0
        self._floor = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Measure, and look once a minute whether a full collection is due, until cancelled."""
        self._floor = self._read_held()
        used = self._read_used()
        gc.callbacks.append(self._note)
        try:
            task_status.started()
            while True:
                await trio.sleep(LOOK_SECONDS)
                used_before, used = used, self._read_used()
                self._look((used - used_before) / LOOK_SECONDS)
        finally:
            gc.callbacks.remove(self._note)

    def _look(self, busy: float) -> None:
        held = self._read_held()
        if not gc.isenabled():  # much is being brought to memory just now
            return
        if not is_full_collection_due(held, self._floor, busy):
            self._floor = min(self._floor, held)
            return
        began = time.perf_counter()
        found = self._collect()
        seconds = time.perf_counter() - began
        self._floor = self._read_held()
        _logger.info(
            "a full garbage collection took %.0f ms and removed %d objects: %d MiB, then %d MiB",
            1_000 * seconds,
            found,
            held >> 20,
            self._floor >> 20,
        )

    def _note(self, phase: str, _: Mapping[str, int]) -> None:
        """Measure a collection; Python calls this before and after each."""
        now = time.perf_counter()
        if phase == "start":
            self._began = now
        else:
            self.histogram.observe(now - self._began)
