"""A simulated cluster of three nodes stands, whatever befalls it; and defects are found.

`scripts/simulate` runs many more seeds, and plants more defects. A failure names its seed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from seeds import SEED

SIMULATE = Path(__file__).parents[2] / "scripts" / "simulate.py"
RUNS = 2
SECONDS = 6.0
SHORT_SECONDS = 2.0
QUICKLY_FOUND = ("no-fence", "forgotten-rooms", "early-joins", "half-merges", "kept-copies")
"""The defects that nearly every seed shows."""

pytestmark = [pytest.mark.chance, pytest.mark.timeout(600)]


def simulate(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the script in a process of its own, which draws all chance from the seed."""
    command = [sys.executable, str(SIMULATE), "--first", SEED, *arguments]
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, timeout=580
    )


def test_nothing_is_lost_doubled_or_stuck():
    found = simulate("--seeds", RUNS, "--seconds", SECONDS)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"failed: **0** of {RUNS}" in found.stdout
    for history in ("document", "friendship", "room", "inbox", "listing", "ban", "token"):
        assert re.search(rf"^\| {history} \| [1-9]", found.stdout, re.MULTILINE), history


@pytest.mark.parametrize("mutation", QUICKLY_FOUND)
def test_a_planted_defect_is_found_by_its_checker(mutation: str):
    found = simulate("--prove", "--mutation", mutation, "--seconds", SECONDS)
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_seed_makes_the_same_run_again():
    one, two = (simulate("--seeds", 1, "--seconds", SHORT_SECONDS, "--digests") for _ in range(2))
    assert one.returncode == 0, one.stdout + one.stderr
    digest = re.compile(r"^seed \d+: [0-9a-f]{32}$", re.MULTILINE)
    assert digest.findall(one.stdout)
    assert digest.findall(one.stdout) == digest.findall(two.stdout)
