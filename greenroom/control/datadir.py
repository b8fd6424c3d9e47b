"""The data directory: created if missing, and held by one process at a time."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

from greenroom.control.errors import DataDirError, DataDirInUse
from greenroom.control.files import give_to_owner

LOCK_FILE_NAME = "lock"
ORPHANS_SECONDS_MAX = 60.0
"""Seconds that a start waits for the workers of a server that was killed. They stop in order."""
RETRY_SECONDS = 0.1

Purpose = Literal["server", "command"]


class Holder(msgspec.Struct, frozen=True):
    """The process that holds a data directory, as its lock file says."""

    pid: int
    host: str
    purpose: Purpose


@contextmanager
def hold_data_dir(data_dir: Path, purpose: Purpose = "server") -> Generator[int]:
    """Hold the data directory for the length of a `with` block; create it if missing.

    A new directory is its owner's alone (0700). Created by root, it can be passed through (0711):
    the embedded Postgres runs as another user and has its files inside. What is secret there has
    mode 0600.

    The lock is the kernel's. It ends with the process, however that ends. Children do not inherit
    it, but for workers, which are given the descriptor. So after a kill of their parent it ends
    with the last of them; a server that starts waits for that. The file stays, and names the
    process that holds it.

    Args:
        data_dir: the directory; its parents are created, too.
        purpose: `server`, or `command` for a command line that works without a server.

    Yields:
        The descriptor of the lock file.

    Raises:
        DataDirInUse: another process holds it; the text says which.
        DataDirError: it cannot be created or written to.
    """
    descriptor = _open_lock(data_dir)
    try:
        _lock(descriptor, data_dir, patience_seconds=ORPHANS_SECONDS_MAX * (purpose == "server"))
        holder = Holder(pid=os.getpid(), host=socket.gethostname(), purpose=purpose)
        _write(descriptor, msgspec.json.encode(holder) + b"\n", data_dir)
        yield descriptor
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder_of(data_dir: Path) -> Holder | None:
    """Return the process that the lock file names, or `None` if it names none."""
    try:
        return msgspec.json.decode((data_dir / LOCK_FILE_NAME).read_bytes(), type=Holder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _open_lock(data_dir: Path) -> int:
    try:
        if not data_dir.is_dir():
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.geteuid() == 0:
                data_dir.chmod(0o711)
    except FileExistsError:
        raise DataDirError(
            f"The data directory {data_dir} is not a directory: choose another with --data-dir."
        ) from None
    except OSError as error:
        raise DataDirError(
            f"Cannot make the data directory {data_dir} ({error.strerror}): "
            "choose another with --data-dir, or make it writable."
        ) from None
    path, flags = data_dir / LOCK_FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            descriptor = os.open(path, flags | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(path, flags, 0o600)
        give_to_owner(descriptor, data_dir)
        return descriptor
    except OSError as error:
        raise _unwritable(data_dir, error) from None


def _lock(descriptor: int, data_dir: Path, patience_seconds: float) -> None:
    """Take the lock. Workers whose parent was killed are waited for: they are about to end."""
    deadline = time.monotonic() + patience_seconds
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = holder_of(data_dir)
                if time.monotonic() > deadline or not _has_died(holder):
                    raise DataDirInUse(_in_use(data_dir, holder)) from None
                time.sleep(RETRY_SECONDS)
            else:
                return
    except OSError as error:
        raise DataDirError(
            f"Cannot lock {data_dir / LOCK_FILE_NAME} ({error.strerror}): "
            "the data directory must lie on a file system with locks."
        ) from None


def _has_died(holder: Holder | None) -> bool:
    """Return whether a holder ran on this machine, and has ended."""
    if holder is None or holder.host != socket.gethostname():
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _write(descriptor: int, content: bytes, data_dir: Path) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)
    except OSError as error:
        raise _unwritable(data_dir, error) from None


def _in_use(data_dir: Path, holder: Holder | None) -> str:
    if holder is None:
        return f"The data directory {data_dir} is in use by another greenroom process."
    if holder.purpose == "command":
        return f"A greenroom command (pid {holder.pid}) is at work in {data_dir}: wait for it."
    return (
        f"A greenroom server (pid {holder.pid} on {holder.host}) already uses the data directory "
        f"{data_dir}: stop it, or choose another with --data-dir."
    )


def _unwritable(data_dir: Path, error: OSError) -> DataDirError:
    path = data_dir / LOCK_FILE_NAME
    with suppress(OSError):
        if (uid := path.lstat().st_uid) != os.geteuid():
            return DataDirError(
                f"Cannot open {path} ({error.strerror}): it belongs to the user {uid}. Run this as "
                f"that user, or give the directory away as root: chown -R {os.geteuid()} {data_dir}"
            )
    return DataDirError(
        f"Cannot write to the data directory {data_dir} ({error.strerror}): "
        "choose another with --data-dir, or make it writable."
    )
