"""Free memory in the middle of the heap is given back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from greenroom.memory import trim as memory

BLOCK_BYTES = 3_000
BLOCKS = 16_000


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(memory.find_trim() is None, reason="not glibc")
async def test_holes_in_the_heap_are_given_back_within_a_minute(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    assert autojump_clock is not None
    await nursery.start(memory.trim_for_ever)
    blocks = [bytearray(BLOCK_BYTES) for _ in range(BLOCKS)]
    kept = blocks[::50]
    blocks.clear()
    before = resident_bytes()
    await trio.sleep(memory.TRIM_SECONDS * 1.5)
    given_back = before - resident_bytes()
    assert given_back > BLOCK_BYTES * BLOCKS // 2, len(kept)


async def test_without_such_a_function_nothing_happens(
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert autojump_clock is not None
    monkeypatch.setattr(memory, "find_trim", lambda: None)
    await nursery.start(memory.trim_for_ever)
    await trio.sleep(memory.TRIM_SECONDS * 3)


FAULTS = """
import resource, sys
from greenroom.memory import trim

if sys.argv[1] == "kept":
    trim.keep_for_reuse()

def count_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def use() -> None:
    body = bytes(1 << 20)
    answer = body + b"more"
    again = answer + b"more"

use()
before = count_faults()
for _ in range(100):
    use()
print(count_faults() - before)
"""


def count_faults(how: str) -> int:
    """Return how many pages are made anew while 3 MiB are used a hundred times."""
    command = [sys.executable, "-c", FAULTS, how]
    return int(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)


@pytest.mark.skipif(memory.find_trim() is None, reason="not glibc")
def test_large_blocks_that_are_freed_are_used_again():
    assert count_faults("kept") < 1_000
    assert count_faults("as it is") > 10_000
