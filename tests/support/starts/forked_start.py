"""Starts `greenroom` as a fork of a process that has imported it: a fifth of the processor time.

Only `python -m greenroom` with this process's Python can be started so, on Linux. `start` begins
anything else, and what the fork would not be like, as `subprocess.Popen` does.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from fork_server import LIMITS, REQUEST_BYTES_MAX

PROGRAM: Final = "import sys; sys.path.append(sys.argv[2]); import fork_server; fork_server.main()"
ROOT: Final = str(Path(__file__).resolve().parents[3])
COMMAND: Final = (sys.executable, "-m", "greenroom")
_OF_THE_START: Final = ("PYTHON", "LC_", "LD_", "MALLOC", "GLIBC", "OPENSSL", "SSL_", "COVERAGE")
"""Beginnings of the variables that Python or a library reads only once."""
_NAMES_OF_THE_START: Final = frozenset({"LANG", "LANGUAGE", "TZ", "HOME"})
_SIGNALS: Final = (signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class ForkedProcess:
    """A fork, used like `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], pid: int, status: int) -> None:
        self.args = arguments
        self.pid = pid
        self.returncode: int | None = None
        self._status = status
        self._reading = threading.Lock()

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit status."""
        found = self._read(timeout)
        if found is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return found

    def _read(self, seconds_max: float | None) -> int | None:
        with self._reading:
            if self.returncode is None and select.select([self._status], [], [], seconds_max)[0]:
                self.returncode = int(os.read(self._status, 16))
                os.close(self._status)
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that forks."""

    def __init__(self, requests: socket.socket, pid: int) -> None:
        """Send requests to a child of this process."""
        self._requests = requests
        self._pid = pid
        self._turn = threading.Lock()

    @classmethod
    def start(cls) -> ForkServer:
        """Start it, which takes as long as a cold start of `greenroom`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            given = str(theirs.fileno()), str(Path(__file__).parent)
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *given],
                env=os.environ | {"PYTHONPATH": make_search_path()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        process.returncode = 0  # `end` waits for it, and nobody else asks
        return cls(ours, process.pid)

    def end(self) -> None:
        """End it, and wait for that. Its forks go on."""
        self._requests.close()
        os.waitpid(self._pid, 0)

    def fork(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Mapping[int, int],
        *,
        is_session: bool = False,
    ) -> ForkedProcess:
        """Have a fork run `greenroom` with arguments.

        Args:
            arguments: the command line's, without the program.
            environment: all its variables.
            descriptors: what it has open, by the number that it has there.
            is_session: whether it is the first process of a new session.
        """
        umask = os.umask(0o077)
        os.umask(umask)
        request = {
            "arguments": arguments,
            "environment": dict(environment),
            "directory": str(Path.cwd()),
            "umask": umask,
            "limits": {name: resource.getrlimit(getattr(resource, name)) for name in LIMITS},
            "descriptors": list(descriptors),
            "is_session": is_session,
        }
        line = json.dumps(request).encode()
        assert len(line) < REQUEST_BYTES_MAX
        ours, theirs = os.pipe()
        try:
            with self._turn:
                socket.send_fds(self._requests, [line], [theirs, *descriptors.values()])
                pid = int(self._requests.recv(16))
        finally:
            os.close(theirs)
        return ForkedProcess(arguments, pid, ours)


class Starter:
    """Starts commands of `greenroom`, most of them as forks of one process."""

    def __init__(self) -> None:
        """Start nothing before the first command."""
        self._server: ForkServer | None = None
        self._turn = threading.Lock()
        self.is_cold = True
        """True if every command is a process from its beginning on."""

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: IO[Any],
        errors: IO[Any] | None = None,
        *,
        is_cold: bool = False,
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        """Start a command that writes into a file, and its log and errors into the same or another.

        It is cold, too, where a fork would not be like it.

        Args:
            command: the program and its arguments.
            environment: all its variables.
            output: the file that it writes into.
            errors: the file for its log and errors; the same one if not given.
            is_cold: whether it must be no fork.
        """
        errors = errors or output
        if is_cold or not self._may_fork(command, environment):
            return subprocess.Popen(command, env=environment, stdout=output, stderr=errors)
        with self._turn:
            if self._server is None:
                self._server = ForkServer.start()
        arguments = command[len(COMMAND) :]
        given = {0: 0, 1: output.fileno(), 2: errors.fileno()}
        return self._server.fork(arguments, environment, given)

    def end(self) -> None:
        """End what was started for this."""
        if self._server is not None:
            self._server.end()
            self._server = None

    def _may_fork(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Return whether a fork is what a process of its own would be."""
        return (
            not self.is_cold
            and hasattr(os, "pidfd_open")
            and tuple(command[: len(COMMAND)]) == COMMAND
            and _early(environment) == _early(os.environ | {"PYTHONPATH": make_search_path()})
            and all(signal.getsignal(number) is signal.SIG_DFL for number in _SIGNALS)
        )


STARTER: Final = Starter()
"""Starts all commands. It is cold but in tests; see `tests/conftest.py`."""


def make_search_path() -> str:
    """Return the `PYTHONPATH` with which servers of tests are started."""
    return os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])


def _early(environment: Mapping[str, str]) -> dict[str, object]:
    """Return what Python reads only when it starts, and each path of its search once."""
    return {
        name: set(value.split(os.pathsep)) - {""} if name == "PYTHONPATH" else value
        for name, value in environment.items()
        if name.startswith(_OF_THE_START) or name in _NAMES_OF_THE_START
    }


def fork_workers(forks: ForkServer) -> None:
    """Have the workers that this process starts from now on be forks."""
    import trio

    from greenroom.workers.parent import COMMAND as WORKER

    usual = trio.lowlevel.open_process
    atexit.register(forks.end)

    async def open_process(
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        start_new_session: bool,
        **options: Any,
    ) -> trio.Process:
        if tuple(command[: len(WORKER)]) != WORKER:
            return await usual(
                command,
                env=env,
                pass_fds=pass_fds,
                start_new_session=start_new_session,
                **options,
            )
        given = {0: _nothing(), 1: 1, 2: 2} | {number: number for number in pass_fds}
        process: Any = forks.fork(
            command[WORKER.index("worker") :], env, given, is_session=start_new_session
        )
        make: Any = trio.Process
        made: trio.Process = make._create(process, None, None, None)
        return made

    lowlevel: Any = trio.lowlevel
    lowlevel.open_process = open_process


@cache
def _nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY)
