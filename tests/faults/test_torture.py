"""A short torture: one fault after the other, a planted bug that must be found.

`scripts/torture --minutes 20 --seed 7` makes long runs; their reports are in `reports/`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from seeds import SEED

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "torture.py"

pytestmark = [pytest.mark.chance, pytest.mark.slow, pytest.mark.timeout(400)]


def torture(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script: what it leaves open when it is cut off is closed with it."""
    command = [sys.executable, str(SCRIPT), "--seed", str(SEED), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_nothing_is_lost_doubled_or_stuck_under_torture() -> None:
    done = torture("--minutes", "0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Violations: **0**" in done.stdout
    assert "level error" not in done.stdout, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("mutation", ["read-old-documents", "read-old-rosters"])
def test_an_answer_that_is_old_is_found_in_histories(mutation: str) -> None:
    planted = ("--mutation", mutation, "--crowds", "Sharers", "--faults", "crashed_actor")
    done = torture("--minutes", "1", *planted)
    assert done.returncode == 1, done.stderr
    assert "not linearizable" in done.stdout or "older than promised" in done.stdout


def test_a_commit_that_is_dropped_is_found() -> None:
    planted = ("--mutation", "drop-commits", "--faults", "killed_server")
    done = torture("--minutes", "1", *planted)
    assert done.returncode == 1, done.stderr
    assert "Violations: **0**" not in done.stdout
