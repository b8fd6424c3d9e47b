"""`python -m greenroom` that counts what it holds when it is asked.

    python bench/operation/watched.py FILE LINGER serve …

This does as `greenroom serve …`, but rooms that have ended leave memory after LINGER seconds.
Usually they stay for the five minutes for which their tokens are good. SIGUSR1 writes the count to
FILE, with the open descriptors by kind.

Collects garbage first, so that only what is reachable counts. With `PYTHONTRACEMALLOC=10` the count
names the lines that hold more than at the count before.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import tracemalloc
from collections import Counter
from contextlib import suppress
from pathlib import Path

from greenroom.actors.world.loaders import RoomLoader
from greenroom.cli.main import main
from greenroom.persistence.settings import StorageSettings

LINES_MAX = 25
DATABASE_CONNECTION = "connection to the database"
SOCKET_NAME = ".s.PGSQL."
"""Part of the name of every Unix socket on which Postgres listens."""


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
        opened = descriptors()
        counts = {
            "blocks": sys.getallocatedblocks(),
            "objects": kinds.total() + gc.get_freeze_count(),
            "kinds": kinds,
            "database_connections": opened.pop(DATABASE_CONNECTION, 0),
            "database_connections_max": 1 + StorageSettings().loader_connections,
            "descriptors": opened,
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


def descriptors() -> Counter[str]:
    """Return how many descriptors are open, by what they are."""
    kinds = Counter[str]()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the directory itself is closed by now
            kinds[kind_of(int(each.name), str(each.readlink()))] += 1
    return kinds


def kind_of(descriptor: int, link: str) -> str:
    """Return what a descriptor is, which the system says is a link to `link`."""
    if not link.startswith("socket:"):
        return link.rpartition("/")[2].removeprefix("anon_inode:[").partition(":[")[0].rstrip("]")
    with socket.socket(fileno=os.dup(descriptor)) as each:
        if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return "listening socket"
        if each.type == socket.SOCK_DGRAM:
            return "UDP socket"
        peer = each.getpeername() if each.family == socket.AF_UNIX else None
    if peer is None:
        return "TCP connection"
    return DATABASE_CONNECTION if SOCKET_NAME in os.fsdecode(peer) else "pair of sockets"


if __name__ == "__main__":
    watch = Watch(Path(sys.argv.pop(1)))
    RoomLoader.linger_seconds = int(sys.argv.pop(1))
    signal.signal(signal.SIGUSR1, watch.count)
    sys.exit(main())
