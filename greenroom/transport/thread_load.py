"""How busy a thread is, with a memory: what is done about a high load must not end by helping."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

HIGH: Final = 0.6
LOW: Final = 0.4
"""Below this part of the time being busy, the load is low."""
_SCHEDULED: Final = Path("/proc/thread-self/schedstat")


def busy_seconds() -> float:
    """Return for how long this thread has had something to do, since it began.

    It may have run, or waited for a core that others had. Where the kernel does not tell that (it
    may have no such file, or one of zeros), its CPU time.
    """
    used = time.thread_time()
    try:
        ran, waited, _ = _SCHEDULED.read_text().split()
    except OSError:
        return used
    return max(used, (int(ran) + int(waited)) / 1e9)


class Load:
    """The share of its time in which a thread has something to do. Pure: times come in.

    Attributes:
        is_high: whether it was above `HIGH` between two looks, and not below `LOW` since.
    """

    __slots__ = ("_busy_seconds", "_looked_at", "is_high")

    def __init__(self) -> None:
        """Begin idle."""
        self.is_high = False
        self._busy_seconds = 0.0
        self._looked_at = 0.0

    def look(self, now: float, busy_seconds: float) -> None:
        """Judge the time since the last look.

        Args:
            now: monotonic seconds.
            busy_seconds: of the thread so far; see `busy_seconds`.
        """
        if now > self._looked_at:
            share = (busy_seconds - self._busy_seconds) / (now - self._looked_at)
            self.is_high = share > (LOW if self.is_high else HIGH)
        self._looked_at, self._busy_seconds = now, busy_seconds
