"""The postmaster, Postgres's first process: started, found again, watched, signalled.

A process id alone says little, because the process may have died and another one may have its id.
On Linux a pidfd is opened first and the command line read after that. So the process that is
signalled and waited for is the one that was checked.
"""

from __future__ import annotations

import os
import re
import select
import signal
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import trio

USER = "greenroom"
DATABASE = "greenroom"
PORT = 5432
"""Part of the socket's name. Nothing listens on TCP."""

POLL_SECONDS = 0.02
"""Seconds between two questions to a starting postmaster if it accepts connections."""

PROBE_SECONDS_MAX = 2.0
CANNOT_CONNECT_NOW = b"C57P03\0"
"""Part of the refusal of a Postgres that is starting or stopping."""

PID_FILE = "postmaster.pid"


class PidFile(msgspec.Struct, frozen=True):
    """The content of a postmaster's pid file in its data directory."""

    pid: int
    socket_directory: Path | None
    status: str
    """`starting`, `ready`, `stopping` or `standby`; empty before the postmaster has written it."""


class Postmaster:
    """A running postmaster: our child, or one that outlived the server that started it."""

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None = None) -> None:
        """Open a process.

        Raises:
            ProcessLookupError: there is no such process.
        """
        self.pid = pid
        self._child = child
        self._pidfd = _open_pidfd(pid)

    def close(self) -> None:
        """Close the handle; the process goes on."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def is_alive(self) -> bool:
        """Return whether the process still runs; an exited child is reaped."""
        if self._child is not None:
            return self._child.poll() is None
        if self._pidfd is not None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            return not poll.poll(0)
        return _exists(self.pid)

    @property
    def was_killed(self) -> bool:
        """Return whether a signal ended the process, which is known only of a child."""
        return not self.is_alive() and self._child is not None and self._child.returncode < 0

    def send(self, number: signal.Signals) -> None:
        """Send a signal; do nothing if the process has ended."""
        if not self.is_alive():
            return
        try:
            if self._pidfd is not None and sys.platform == "linux":
                signal.pidfd_send_signal(self._pidfd, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    async def wait_dead(self) -> None:
        """Wait until the process has exited.

        Cancellation leaves it running.
        """
        while self.is_alive():
            if self._pidfd is not None:
                await trio.lowlevel.wait_readable(self._pidfd)
            else:
                await trio.sleep(0.1)
        await trio.lowlevel.checkpoint()


def find_postmaster(cluster: Path) -> Postmaster | None:
    """Return the postmaster that runs on this data directory, or `None`.

    A stale pid file does not count, even if its process id is in use by another program.
    """
    file = read_pid_file(cluster)
    if file is None:
        return None
    try:
        postmaster = Postmaster(file.pid)
    except ProcessLookupError:
        return None
    if postmaster.is_alive() and _is_postmaster_of(file.pid, cluster):
        return postmaster
    postmaster.close()
    return None


def read_pid_file(cluster: Path) -> PidFile | None:
    """Return the content of the postmaster's pid file, or `None` if it is missing or damaged."""
    try:
        lines = (cluster / PID_FILE).read_text(encoding="utf-8", errors="surrogateescape")
        fields = [line.strip() for line in lines.splitlines()]
        pid = int(fields[0])
    except (OSError, ValueError, IndexError):
        return None
    if pid <= 0:
        return None
    fields += [""] * (8 - len(fields))
    socket_directory = Path(fields[4]) if fields[4] else None
    return PidFile(pid=pid, socket_directory=socket_directory, status=fields[7])


def disown_pid_file(cluster: Path) -> None:
    """Write our own process id into a stale pid file, whose id may be another program's by now.

    Postgres refuses to start while a process with that id is alive, unless it is its parent. That
    is us. The file is not removed, because Postgres reads in it which shared memory to check for
    processes of the dead server that may still write.
    """
    try:
        descriptor = os.open(cluster / PID_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb+") as file:
        _, newline, rest = file.read().partition(b"\n")
        file.seek(0)
        file.write(b"%d" % os.getpid() + newline + rest)
        file.truncate()


def socket_path(directory: Path) -> Path:
    """Return the path of the socket that Postgres makes in a directory."""
    return directory / f".s.PGSQL.{PORT}"


async def takes_connections(directory: Path) -> bool:
    """Return whether Postgres accepts connections at the socket in this directory."""
    fields = f"user\0{USER}\0database\0{DATABASE}\0\0".encode()
    hello = struct.pack("!ii", len(fields) + 8, 196608) + fields
    try:
        with trio.fail_after(PROBE_SECONDS_MAX):
            async with await trio.open_unix_socket(socket_path(directory)) as stream:
                await stream.send_all(hello)
                answer = await stream.receive_some(1024)
                if answer.startswith(b"R"):
                    await stream.send_all(b"X\0\0\0\4")
                # any other refusal, too many connections for one, is that of a running server
                return answer != b"" and CANNOT_CONNECT_NOW not in answer
    except (OSError, trio.BrokenResourceError, trio.TooSlowError):
        return False


async def wait_ready(postmaster: Postmaster, cluster: Path, directory: Path) -> bool:
    """Wait until Postgres accepts connections; return False if it exits instead.

    Args:
        postmaster: the process to wait for.
        cluster: its data directory.
        directory: the directory of its socket.
    """
    while postmaster.is_alive():
        file = read_pid_file(cluster)
        # ask only once it calls itself ready; else its log would fill with refusals
        if file is not None and file.status == "ready" and await takes_connections(directory):
            return True
        await trio.sleep(POLL_SECONDS)
    return False


def _open_pidfd(pid: int) -> int | None:
    """Return a descriptor of a process, or `None` if the system has no such thing."""
    if sys.platform == "linux":
        try:
            return os.pidfd_open(pid)
        except ProcessLookupError:
            raise
        except OSError:  # an old kernel, or a sandbox without it
            pass
    if not _exists(pid):
        raise ProcessLookupError(pid)
    return None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def connections_of(postmaster: Postmaster) -> int | None:
    """Return the `max_connections` that a postmaster was started with, None if none was given."""
    found = re.search(r" max_connections=(\d+)", _command_line(postmaster.pid))
    return int(found[1]) if found else None


def _is_postmaster_of(pid: int, cluster: Path) -> bool:
    """Return whether a process was started by us as the postmaster of a data directory."""
    return f"/postgres -D {cluster} -c listen_addresses= " in _command_line(pid)


def _command_line(pid: int) -> str:
    """Return a process's command line, joined by blanks; empty if there is none."""
    if sys.platform == "linux":
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            words = b""
    else:
        command = ("/bin/ps", "-ww", "-o", "command=", "-p", str(pid))
        words = subprocess.run(command, capture_output=True, check=False).stdout
    return os.fsdecode(words.replace(b"\0", b" "))
