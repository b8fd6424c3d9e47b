"""Callgrind: the commands that have it run processes, and count their instructions.

It counts nothing until it is told. So a start costs a tenth of what a load does.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import processes

PROGRAMS = ("valgrind", "callgrind_control")
SLOWNESS = 50
"""The factor by which a server is slower, and its clocks are."""
SLOW_CLOCK = processes.BENCH / "support" / "slow_clock.py"
ENVIRONMENT = ("env", "PYTHONHASHSEED=0")


def require() -> None:
    """Require that it is installed.

    Raises:
        SystemExit: it is not.
    """
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise SystemExit(f"there is no {program}: apt install valgrind")


def command(folder: Path) -> tuple[str, ...]:
    """Return what runs a process under callgrind, which writes its counts into a folder."""
    return (
        *("valgrind", "--tool=callgrind", "--instr-atstart=no", "--cache-sim=no"),
        f"--callgrind-out-file={folder}/callgrind.%p",
    )


class Counts:
    """Instructions of some processes."""

    def __init__(self, folder: Path, pids: Sequence[int]) -> None:
        """Hold where the counts go, and the processes."""
        self._folder = folder
        self._pids = pids
        self.instructions = 0
        """The last count, of all processes together."""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count while this runs."""
        self._control("-i", "on")
        self._control("-z")
        yield
        before = self._find_dumps()
        self._control("-d")
        found = self._find_dumps() - before
        assert len(found) == len(self._pids), found
        self.instructions = sum(map(read_total, found))
        self._control("-i", "off")

    def _control(self, *arguments: str) -> None:
        for pid in self._pids:
            command = ["callgrind_control", *arguments, str(pid)]
            subprocess.run(command, check=True, capture_output=True)

    def _find_dumps(self) -> set[Path]:
        return set(self._folder.glob("callgrind.*"))


def read_total(dump: Path) -> int:
    """Return the instructions that a dump tells of."""
    with dump.open() as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("totals:"))
