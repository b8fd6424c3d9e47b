"""A short torture: one fault after the other, a planted bug that must be found.

`scripts/torture --minutes 20 --seed 7` makes long runs; their reports are in `reports/`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from torture_run import torture

SEED = int(os.environ.get("TORTURE_SEED", str(random.SystemRandom().randrange(10**6))))
SECONDS = 30.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_nothing_is_lost_doubled_or_stuck_under_torture() -> None:
    print(f"TORTURE_SEED={SEED}")  # noqa: T201 - to run it again
    outcome = trio.run(torture, SECONDS, SEED)
    assert not outcome.violations, outcome.report()
    assert not outcome.errors, outcome.report()
    assert outcome.faults.total() >= 3
    assert all(checked for _, checked, _ in outcome.crowds.values()), outcome.report()


def test_a_commit_that_is_dropped_is_found() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "torture.py"
    given = ["--minutes", "1", "--mutation", "drop-commits", "--faults", "killed_server"]
    done = subprocess.run(
        [sys.executable, str(script), "--seed", str(SEED), *given],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Violations: **0**" not in done.stdout
