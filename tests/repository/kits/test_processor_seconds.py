"""The table of what takes the processors."""

from __future__ import annotations

import subprocess
import sys

from processor_seconds import table, used_seconds

SECONDS = 0.5
TOLD_SECONDS = 0.4
"""The kernel rounds each figure down."""
BURN = f"""
import sys, time
while time.process_time() < {SECONDS}:
    pass
print(flush=True)
sys.stdin.read()
"""


def test_processes_count_while_they_run_and_when_they_have_ended() -> None:
    before = used_seconds()
    below = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", BURN]
    with subprocess.Popen(below, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        running = used_seconds()
        assert running - before >= TOLD_SECONDS
        process.communicate(b"\n")
    assert used_seconds() - before >= TOLD_SECONDS


def test_the_table_begins_with_what_takes_most() -> None:
    assert table({"a.py": 1.0, "b.py": 2.5}) == [
        "    3.5  all files",
        "    2.5  b.py",
        "    1.0  a.py",
    ]
