"""A plugin of pytest: which files of tests take the processors, with all processes they start.

`scripts/test` prints its table, and so does pytest with `-p scripts.processor_seconds`. A
fixture that several files share counts for the file that is tested meanwhile. A process that
outlives the one that started it is not seen.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

ROWS_MAX: Final = 60
"""The table has no more: the other files take little."""
_KEY: Final = "processor_seconds"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_TIMES: Final = slice(11, 15)
"""The times in `/proc/PID/stat`, behind the name: its own, and of children that have ended."""


def used_seconds() -> float:
    """Return the seconds of processors that this process and all below it have had."""
    total, below = sum(os.times()[:4]), _children(os.getpid())
    while below:
        pid = below.pop()
        with suppress(OSError):  # it has ended meanwhile
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[_TIMES])) / _TICKS
            below += _children(pid)
    return total


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def table(seconds: Mapping[str, float]) -> list[str]:
    """Return the lines that show which files took most."""
    most = sorted(seconds, key=lambda file: -seconds[file])[:ROWS_MAX]
    rows = [f"{seconds[file]:7.1f}  {file}" for file in most]
    return [f"{sum(seconds.values()):7.1f}  all files", *rows]


class Meter:
    """Watches the process that runs the tests."""

    def __init__(self) -> None:
        """Begin now."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._before = used_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Book on a file what its tests took, after the last: each look takes a millisecond."""
        done = yield
        file = item.location[0]
        if nextitem is None or nextitem.location[0] != file:
            now = used_seconds()
            self.seconds[file] += now - self._before
            self._before = now
        return done

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that prints."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = dict(self.seconds)


class Summary:
    """Collects what all processes took, and prints it."""

    def __init__(self, own: defaultdict[str, float]) -> None:
        """Print what this process took, and what others tell."""
        self._seconds = own

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process of xdist has told, unless it died."""
        for file, spent in getattr(node, "workeroutput", {}).get(_KEY, {}).items():
            self._seconds[file] += spent

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table."""
        terminalreporter.section("seconds of processors")
        for line in table(self._seconds):
            terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Measure where tests run; print where all is told."""
    is_worker = hasattr(config, "workerinput")
    runs_tests = is_worker or not config.getoption("numprocesses", None)
    meter = Meter()
    if runs_tests:
        config.pluginmanager.register(meter)
    if not is_worker:
        config.pluginmanager.register(Summary(meter.seconds))
