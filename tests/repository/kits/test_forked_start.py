"""A fork of `forked_start` is like a process of its own, and is not used where it would not be."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_kit import inherited
from forked_start import ForkedProcess, Starter
from server_kit import START_SECONDS_MAX, ServerProcess
from waiting import block_until

PROBE = """
import json, locale, os, resource, signal, sys

from greenroom.behaviour import RoomBehaviour

FOUND = {
    "arguments": sys.argv,
    "descriptors": sorted(
        os.readlink(f"/proc/self/fd/{number}")
        for number in os.listdir("/proc/self/fd")
        if int(number) < 3
    ),
    "directory": os.getcwd(),
    "encoding": (sys.stdout.encoding, sys.stdout.errors, sys.stderr.encoding),
    "environment": dict(os.environ),
    "flags": list(sys.flags),
    "is_leader": os.getsid(0) == os.getpid(),
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in ("RLIMIT_NOFILE",)},
    "locale": locale.getlocale(),
    "path": sys.path,
    "program": sys.modules["__main__"].__spec__.name,
    "signals": {
        int(number): getattr(handler, "__qualname__", str(handler))
        for number in signal.valid_signals()
        for handler in [signal.getsignal(number)]
    },
    "umask": os.umask(0o022),
}
with open(os.environ["PROBE_FILE"], "w") as file:
    json.dump(FOUND, file)


class Probe(RoomBehaviour[None]):
    pass
"""


@pytest.fixture
def starter() -> Iterator[Starter]:
    """A starter of this test alone."""
    found = Starter()
    found.is_cold = False
    yield found
    found.end()


def look(starter: Starter, folder: Path, database_url: str, *, is_cold: bool) -> Any:
    """Return what a server finds that is started by a fork, or is cold."""
    file = folder / "found.json"
    file.unlink(missing_ok=True)
    server = ServerProcess(folder)
    command = [
        *(*server._command, "--database-url", database_url),
        *("--behaviours-dir", str(folder), "--behaviours", "*/probe=probe:Probe"),
    ]
    variables = server._environment | {"PROBE_FILE": str(file)}
    with (folder / "log").open("w") as log:
        process = starter.start(command, variables, log, is_cold=is_cold)
    assert isinstance(process, subprocess.Popen if is_cold else ForkedProcess)
    try:
        ready = (folder / "ready.json").exists
        block_until(
            lambda: ready() or process.poll() is not None, explain=(folder / "log").read_text
        )
        assert ready(), (folder / "log").read_text()
        process.terminate()
        assert process.wait(START_SECONDS_MAX) == 0
    finally:
        process.kill()
    return json.loads(file.read_text())


def test_a_fork_finds_what_a_process_of_its_own_finds(
    starter: Starter, data_dir: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data_dir / "probe.py").write_text(PROBE)
    assert look(starter, data_dir, database_url, is_cold=False)["umask"] != 0o027
    monkeypatch.chdir(data_dir)  # all that follows is other than when the fork server began
    monkeypatch.setenv("PROBE_MORE", "something")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    umask = os.umask(0o027)
    try:
        fork = look(starter, data_dir, database_url, is_cold=False)
        cold = look(starter, data_dir, database_url, is_cold=True)
    finally:
        os.umask(umask)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert fork["umask"] == 0o027
    assert fork["directory"] == str(data_dir)
    assert fork == cold


def test_its_end_is_told(starter: Starter, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+") as log:
        shown = start(starter, log, "--version")
        assert (shown.wait(), shown.poll(), shown.returncode) == (0, 0, 0)
        assert start(starter, log, "nonsense").wait() == 2
        killed = start(starter, log, "config", "show")
        killed.kill()
        assert killed.wait() in {-signal.SIGKILL, 0}
        killed.terminate()  # it is gone: nobody else gets the signal


def test_one_that_runs_on_is_waited_for_within_a_limit(starter: Starter, data_dir: Path) -> None:
    with (data_dir / "log").open("w") as log:
        running = start(starter, log, "serve", "--data-dir", str(data_dir))
        assert running.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.01)
        running.kill()
        assert running.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    "changed", [{"LC_ALL": "C"}, {"PYTHONUTF8": "0"}, {"PYTHONPATH": "/elsewhere"}, {"TZ": "UTC+9"}]
)
def test_what_python_reads_only_when_it_starts_makes_a_start_cold(
    starter: Starter, tmp_path: Path, changed: dict[str, str]
) -> None:
    with (tmp_path / "log").open("w") as log:
        assert is_cold(starter, log, **changed)
        assert not is_cold(starter, log, GREENROOM_PORT="1")


def test_so_does_a_signal_that_it_would_inherit(starter: Starter, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log, inherited(signal.SIGHUP, signal.SIG_IGN):
        assert is_cold(starter, log)


def start(starter: Starter, log: Any, *arguments: str) -> ForkedProcess:
    """Start a fork."""
    process = starter.start([sys.executable, "-m", "greenroom", *arguments], os.environ, log)
    assert isinstance(process, ForkedProcess)
    return process


def is_cold(starter: Starter, log: Any, **changed: str) -> bool:
    """Return whether a command is no fork in these circumstances."""
    line = [sys.executable, "-m", "greenroom", "--version"]
    process = starter.start(line, os.environ | changed, log)
    process.wait()
    return isinstance(process, subprocess.Popen)
