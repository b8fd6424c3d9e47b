"""Write small files whole or not at all."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def why_not(error: OSError, place: str = "name another place") -> str:
    """Return why something could not be written, and what to do, as the end of a sentence.

    Args:
        error: what the system said.
        place: how to choose another place.
    """
    reason = error.strerror or str(error)
    match error.errno:
        case errno.EACCES | errno.EPERM:
            advice = f"let the user {_user()} write there, or {place}"
        case errno.ENOSPC | errno.EDQUOT:
            advice = f"make space there, or {place}"
        case errno.EROFS:
            advice = f"mount it so that it can be written to, or {place}"
        case errno.EIO:
            advice = f"look at the disk (dmesg), or {place}"
        case errno.ENAMETOOLONG:
            advice = "choose a shorter name"
        case _:
            advice = place
    return f"({reason}): {advice}."


def _user() -> str:
    """Return the name of who runs this; the number where it has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file so that a reader, or a restart after a power cut, sees all of it or none.

    What root writes belongs to the owner of the directory.

    Args:
        path: the file; an older one is replaced.
        content: all of its content.
        mode: the permissions, which it has from the first moment on.

    Raises:
        OSError: it could not be written; the old file is unharmed.
    """
    with replacing(path, mode) as stream:
        give_to_owner(stream.fileno(), path.parent)
        stream.write(content)


def give_to_owner(descriptor: int, directory: Path) -> None:
    """Let a new file belong to the owner of its directory, if this is root: a server may need it.

    Args:
        descriptor: a file that this process has made. Another's may be a link to anything.
        directory: where it lies.
    """
    if os.geteuid() == 0:
        owner = directory.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Generator[IO[bytes]]:
    """Give a new file to write to. It takes its name when the `with` block ends without an error.

    Args:
        path: the file; an older one is replaced.
        mode: the permissions, which it has from the first moment on.

    Raises:
        OSError: it could not be written; the old file is unharmed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            os.fchmod(stream.fileno(), mode)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make renames and removals in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
