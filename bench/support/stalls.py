"""The event loop, its collections, commits, or the machine: which of them held calls up.

An outlier of a latency explains itself then. Where the server waited for its core, or the players'
core was late, other programs kept the machine busy. A commit takes no less than the disk does: a
small file beside the database is synced all the time, and its longest wait is the floor.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import NamedTuple, Self

import processes

LOOK_SECONDS = 0.005
"""A hundredth of a core, all looks together."""
SYNC_SECONDS = 0.02
"""Syncs at this pace take next to nothing of a disk."""
SYNCED_BYTES = 8_192
"""A page of Postgres."""
SCRAPE_SECONDS_MAX = 30.0
HISTOGRAMS = {
    "loop": "greenroom_scheduling_delay_seconds",
    "collection": "greenroom_collection_seconds",
    "commit": "greenroom_storage_commit_seconds",
}
HEADER = (
    "| flood | the server waited for its core, s | its event loop late, at most ms "
    "| collections | each at most ms | commits at most ms "
    "| the disk alone at most ms | the players' core late, at most ms |"
)

Buckets = dict[float, int]
"""Upper bound in seconds → how many were up to it."""


class Stalls(NamedTuple):
    """The longest waits of a time. One from a histogram is the upper bound of its bucket."""

    waited_seconds: float
    """For how long others used the server's core while it had something to do, in all."""
    loop_ms: float
    collections: int
    collection_ms: float
    commit_ms: float
    disk_ms: float
    """The longest sync of a page on the database's disk, by another program."""
    other_core_ms: float
    """How late a program on the players' core woke."""


def read_buckets(text: str, name: str) -> Buckets:
    """Return a histogram without labels from what `/metrics` shows."""
    begin = f'{name}_bucket{{le="'
    lines = [line.removeprefix(begin) for line in text.splitlines() if line.startswith(begin)]
    pairs = (line.split('"} ') for line in lines)
    return {float(bound): int(float(count)) for bound, count in pairs}


def find_longest(before: Buckets, after: Buckets) -> tuple[int, float]:
    """Return how many there were in between, and the bound in seconds that all kept to."""
    grown = {bound: count - before.get(bound, 0) for bound, count in after.items()}
    count = grown.get(math.inf, 0)
    return count, min(bound for bound in grown if grown[bound] == count) if count else 0.0


class Watch:
    """Watches a server, and the players' core, from its beginning to its end."""

    def __init__(self, target: processes.Target) -> None:
        """Prepare."""
        self._target = target
        self._over = Event()
        self._late_seconds = 0.0
        self._sync_seconds = 0.0
        self._threads = [Thread(target=self._look), Thread(target=self._sync)]

    def __enter__(self) -> Self:
        self._before = self._read()
        self._waited_before = self._read_waited()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def read_stalls(self) -> Stalls:
        """Return what there has been since the beginning."""
        after = self._read()
        found = {each: find_longest(self._before[each], after[each]) for each in HISTOGRAMS}
        longest_ms = {each: 1_000 * seconds for each, (_, seconds) in found.items()}
        return Stalls(
            self._read_waited() - self._waited_before,
            longest_ms["loop"],
            found["collection"][0],
            longest_ms["collection"],
            longest_ms["commit"],
            1_000 * self._sync_seconds,
            1_000 * self._late_seconds,
        )

    def _read(self) -> dict[str, Buckets]:
        with urllib.request.urlopen(
            f"{self._target.url}/metrics", timeout=SCRAPE_SECONDS_MAX
        ) as it:
            text = it.read().decode()
        return {each: read_buckets(text, name) for each, name in HISTOGRAMS.items()}

    def _read_waited(self) -> float:
        """Return for how long the server's main thread has waited for its core; Linux counts it."""
        pid = self._target.pid
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9

    def _look(self) -> None:
        """Note how late this thread wakes on the players' core."""
        os.sched_setaffinity(0, {processes.OTHER_CORE})  # of this thread alone
        processes.let_go_first(0)
        while not self._over.is_set():
            due = time.monotonic() + LOOK_SECONDS
            time.sleep(LOOK_SECONDS)
            self._late_seconds = max(self._late_seconds, time.monotonic() - due)

    def _sync(self) -> None:
        """Note how long it takes to sync a page where the benchmarks' databases lie."""
        os.sched_setaffinity(0, {processes.OTHER_CORE})
        processes.let_go_first(0)
        with tempfile.TemporaryFile(prefix="greenroom-bench-") as file:
            while not self._over.wait(SYNC_SECONDS):
                began = time.monotonic()
                os.pwrite(file.fileno(), os.urandom(SYNCED_BYTES), 0)
                os.fdatasync(file.fileno())
                self._sync_seconds = max(self._sync_seconds, time.monotonic() - began)


def row(name: str, rounds: Iterable[Stalls]) -> str:
    """Return a row below `HEADER`: the most of all rounds."""
    most = Stalls(*(max(values) for values in zip(*rounds, strict=True)))
    cells = (f"{most.waited_seconds:.2f}", *(f"{value:,.0f}" for value in most[1:]))
    return f"| {name} | {' | '.join(cells)} |"
