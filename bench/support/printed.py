"""Scenarios that are scripts of their own: what they print is the result."""

from __future__ import annotations

import subprocess
import sys

import processes
from scenario import Run, Scenario


def scenario(
    name: str, summary: str, script: str, *, is_default: bool, minutes: int = 1
) -> Scenario:
    """Return the scenario that a script measures; `script` is its path below bench/."""

    def measure(run: Run) -> str:
        run.say(f"python bench/{script}")
        command = [sys.executable, str(processes.BENCH / script)]
        finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return f"```\n{finished.stdout.strip()}\n```"

    return Scenario(name, summary, measure, is_default=is_default, minutes=minutes)
