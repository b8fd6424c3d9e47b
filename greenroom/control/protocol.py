"""How the command line and a running server talk: one line of JSON each way on a unix socket.

The client sends one `Call` and reads lines: empty ones, which say that the server is still at it,
and then one `Answer`, after which the server closes. Knows no socket.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from greenroom.control.errors import SocketError

SOCKET_FILE_NAME = "control.sock"
SOCKET_PATH_BYTES_MAX = 107
"""What a unix socket's address has room for on Linux."""

CALL_BYTES_MAX = 64 << 10
ANSWER_BYTES_MAX = 64 << 20
STILL_AT_IT_SECONDS = 5.0
"""How often a server that works on a call says so."""
PATIENCE_SECONDS = 30.0
"""A server that says nothing for so long is taken for dead."""


class Call(msgspec.Struct, frozen=True):
    """One operation with its arguments."""

    operation: str
    arguments: msgspec.Raw
    version: str
    """Of the client, for the text when the two do not understand each other."""


NOTHING = msgspec.Raw(b"null")


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of it: either a result or an error's sentence."""

    result: msgspec.Raw = NOTHING
    error: str | None = None


def socket_path(data_dir: Path) -> Path:
    """Return where the server of a data directory listens for the command line."""
    return data_dir / SOCKET_FILE_NAME


@contextmanager
def reachable(path: Path) -> Generator[str]:
    """Give an address for a socket's path that is short enough, valid inside the `with` block.

    A path of more than 107 bytes is reached through a descriptor of its directory: no second
    place is needed, so nobody can squat on it.

    Raises:
        SocketError: too long, and this system has no such descriptors.
        OSError: the directory cannot be opened.
    """
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        yield str(path)
        return
    if not Path("/proc/self/fd").is_dir():
        raise SocketError(f"The path {path} is too long for a socket: choose a shorter --data-dir.")
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
