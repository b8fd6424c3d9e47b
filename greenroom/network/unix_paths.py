"""Addresses of unix sockets, for paths of every length."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ADDRESS_BYTES_MAX: Final = 107
"""The length of a unix socket's address on Linux."""


class SocketPathTooLong(OSError):
    """The path is too long, and this system has no way round it."""


@contextmanager
def socket_address(path: Path) -> Generator[str]:
    """Give a short enough address for a socket's path, valid inside the `with` block.

    A path of more than 107 bytes is reached through a descriptor of its directory. No second place
    is needed, so nobody can occupy it first.

    Raises:
        SocketPathTooLong: the path is too long, and this system has no such descriptors.
        OSError: the directory cannot be opened.
    """
    if len(os.fsencode(path)) <= ADDRESS_BYTES_MAX:
        yield str(path)
        return
    if not Path("/proc/self/fd").is_dir():
        raise SocketPathTooLong(errno.ENAMETOOLONG, "the path is too long for a socket")
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
