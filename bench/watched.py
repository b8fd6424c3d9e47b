"""`python -m greenroom` that counts what it holds when it is asked.

    python bench/watched.py FILE LINGER serve …

does as `greenroom serve …`, but rooms that have ended leave memory after LINGER seconds in place of
the five minutes for which their tokens are good; SIGUSR1 writes the count to FILE.

Collects garbage first, so that only what is reachable counts. With `PYTHONTRACEMALLOC=10` the
count names the lines that hold more than at the count before.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

from greenroom.actors.flows.seats import Rooms
from greenroom.cli.main import main

LINES_MAX = 25


class Watch:
    """Writes the counts."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before: tracemalloc.Snapshot | None = None

    def count(self, *_: object) -> None:
        """Write what there is now, in one move."""
        gc.collect()
        kinds = Counter(
            f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects()
        )
        counts = {
            "blocks": sys.getallocatedblocks(),
            "objects": kinds.total() + gc.get_freeze_count(),
            "kinds": kinds,
            "lines": self._lines(),
        }
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(counts))
        fresh.rename(self._file)

    def _lines(self) -> list[str]:
        """Return where more was allocated than before."""
        if not tracemalloc.is_tracing():
            return []
        now, before = tracemalloc.take_snapshot(), self._before
        self._before = now
        if before is None:
            return []
        grown = now.compare_to(before, "traceback")[:LINES_MAX]
        return [f"{each}\n" + "\n".join(each.traceback.format()) for each in grown]


if __name__ == "__main__":
    watch = Watch(Path(sys.argv.pop(1)))
    Rooms.linger_seconds = int(sys.argv.pop(1))
    signal.signal(signal.SIGUSR1, watch.count)
    sys.exit(main())
