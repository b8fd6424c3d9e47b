"""Python begins no full collection by itself; the server has one when memory has grown."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from greenroom.actor_system import collections_paused
from greenroom.memory import garbage_collection
from greenroom.memory.garbage_collection import (
    GROWN_BYTES_MIN,
    LOOK_SECONDS,
    QUIET_GROWN_BYTES,
    QUIET_SHARE,
    GarbageCollection,
    is_full_collection_due,
)

MIB = 1 << 20
BUSY = 0.5


class Cycle:
    """Needs the collector once nobody holds it."""

    def __init__(self) -> None:
        self.me = self


@pytest.mark.parametrize(
    ("held", "floor", "busy", "is_due"),
    [
        (100 * MIB, 100 * MIB, BUSY, False),
        (100 * MIB + GROWN_BYTES_MIN - 1, 100 * MIB, BUSY, False),
        (100 * MIB + GROWN_BYTES_MIN, 100 * MIB, BUSY, True),
        (1_999 * MIB, 1_000 * MIB, BUSY, False),
        (2_000 * MIB, 1_000 * MIB, BUSY, True),
        (100 * MIB + QUIET_GROWN_BYTES - 1, 100 * MIB, 0.0, False),
        (100 * MIB + QUIET_GROWN_BYTES, 100 * MIB, 0.0, True),
        (100 * MIB + QUIET_GROWN_BYTES, 100 * MIB, QUIET_SHARE, False),
        (50 * MIB, 100 * MIB, 0.0, False),
    ],
)
def test_a_full_collection_is_due_once_memory_has_grown(
    held: int, floor: int, busy: float, *, is_due: bool
):
    assert is_full_collection_due(held, floor, busy) is is_due


class Process:
    """A process whose memory and use of the processor a test sets."""

    def __init__(self) -> None:
        self.held = 100 * MIB
        self.used_seconds = 0.0
        self.collections = 0

    def collect(self) -> int:
        self.collections += 1
        return 7

    def work(self) -> None:
        """Use much of the processor until the next look."""
        self.used_seconds += BUSY * LOOK_SECONDS


@pytest.fixture
def process() -> Process:
    return Process()


async def begin(process: Process, nursery: trio.Nursery) -> None:
    """Run the service for this process, until half a minute before a look."""
    garbage = GarbageCollection(
        read_held=lambda: process.held,
        read_used=lambda: process.used_seconds,
        collect=process.collect,
    )
    await nursery.start(garbage.run)
    await trio.sleep(LOOK_SECONDS / 2)


async def test_a_busy_server_collects_when_memory_has_grown_and_then_from_there(
    process: Process, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
):
    assert autojump_clock is not None
    await begin(process, nursery)
    process.held += GROWN_BYTES_MIN
    for _ in range(2):
        process.work()
        await trio.sleep(LOOK_SECONDS)
        assert process.collections == 1
    process.held += process.held
    process.work()
    await trio.sleep(LOOK_SECONDS)
    assert process.collections == 2


async def test_growth_counts_from_the_least_that_was_held(
    process: Process, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
):
    assert autojump_clock is not None
    await begin(process, nursery)
    process.held -= 40 * MIB
    process.work()
    await trio.sleep(LOOK_SECONDS)
    process.held += GROWN_BYTES_MIN
    process.work()
    await trio.sleep(LOOK_SECONDS)
    assert process.collections == 1


async def test_a_quiet_server_collects_sooner_and_says_so(
    process: Process,
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
):
    assert autojump_clock is not None
    caplog.set_level(logging.INFO, garbage_collection.__name__)
    await begin(process, nursery)
    process.held += QUIET_GROWN_BYTES
    process.work()
    await trio.sleep(LOOK_SECONDS)
    assert process.collections == 0
    await trio.sleep(LOOK_SECONDS)
    assert process.collections == 1
    (line,) = caplog.messages
    assert line.endswith("removed 7 objects: 116 MiB, then 116 MiB")


async def test_nothing_is_collected_while_collections_are_paused(
    process: Process, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
):
    assert autojump_clock is not None
    await begin(process, nursery)
    process.held += GROWN_BYTES_MIN
    with collections_paused():
        await trio.sleep(LOOK_SECONDS)
        assert process.collections == 0
    await trio.sleep(LOOK_SECONDS)
    assert process.collections == 1


async def test_collections_are_measured_while_the_service_runs():
    garbage = GarbageCollection()
    async with trio.open_nursery() as nursery:
        await nursery.start(garbage.run)
        before = sum(garbage.histogram.buckets)
        gc.collect(0)
        assert sum(garbage.histogram.buckets) >= before + 1
        nursery.cancel_scope.cancel()
    measured = sum(garbage.histogram.buckets)
    gc.collect(0)
    assert sum(garbage.histogram.buckets) == measured


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # as conftest.py has it


@pytest.mark.usefixtures("thawed")
def test_a_cycle_of_what_was_restored_is_found_by_a_full_collection():
    cycle = Cycle()
    gone = weakref.ref(cycle)
    gc.freeze()
    del cycle
    gc.collect()
    assert gone() is not None
    assert garbage_collection.collect_everything() >= 1
    assert gone() is None


PROGRAM = """
import gc
from greenroom.memory import garbage_collection
from greenroom.actor_system import collections_paused

gc.disable()
garbage_collection.begin()
young, intermediate, _ = gc.get_threshold()
full = gc.get_stats()[2]["collections"]
kept = []
for _ in range(30 * young * intermediate):
    kept.append([kept])
assert gc.get_stats()[1]["collections"] > 10
assert gc.get_stats()[2]["collections"] == full
assert gc.get_freeze_count() > 0
"""


def test_python_begins_young_collections_alone():
    """With Python's own thresholds, this makes several full ones."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)


def test_memory_is_known_on_every_system(monkeypatch: pytest.MonkeyPatch):
    assert garbage_collection.read_held_bytes() > 10 * MIB
    monkeypatch.setattr(garbage_collection, "Path", lambda path: Path(f"/nowhere{path}"))
    assert garbage_collection.read_held_bytes() > 1 * MIB
