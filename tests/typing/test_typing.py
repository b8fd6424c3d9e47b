"""The kernel's and the client's types catch mistakes; the files beside this one are the cases."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def checked(name: str) -> set[tuple[int, str]]:
    """Return line and code of every error that mypy finds in a file, under the project's rules."""
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", f"tests/typing/{name}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode < 2, run.stdout + run.stderr
    found = re.findall(
        r"^tests/typing/(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", run.stdout, re.MULTILINE
    )
    assert all(file == name for file, _, _ in found), run.stdout
    return {(int(line), code) for _, line, code in found}


@pytest.mark.parametrize("name", ["api.py", "client.py"])
def test_what_is_right_type_checks(name: str) -> None:
    assert checked(name) == set()


def test_every_mistake_is_an_error_on_its_line_and_nothing_else_is() -> None:
    expected: set[tuple[int, str]] = set()
    for number, line in enumerate((HERE / "mistakes.py").read_text("utf-8").splitlines(), 1):
        _, mark, codes = line.partition("  # error: ")
        if mark:
            expected |= {(number, code) for code in codes.split(", ")}
    assert expected
    assert checked("mistakes.py") == expected
