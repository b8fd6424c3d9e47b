"""How the command line and a running server talk: one line of JSON each way on a unix socket.

The client sends one `Call` and reads lines. Empty lines say that the server is still working. One
`CallOutcome` follows, and the server closes. Knows no socket.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from greenroom.control.errors import SocketError
from greenroom.network.unix_paths import SocketPathTooLong, socket_address

SOCKET_FILE_NAME = "control.sock"

CALL_BYTES_MAX = 64 << 10
ANSWER_BYTES_MAX = 64 << 20
STILL_AT_IT_SECONDS = 5.0
"""Seconds between two signs that a server is still working on a call."""
PATIENCE_SECONDS = 30.0
"""Seconds of silence after which the client takes the server for dead."""


class Call(msgspec.Struct, frozen=True):
    """One operation with its arguments."""

    operation: str
    arguments: msgspec.Raw
    version: str
    """The client's version, for the error when the two do not understand each other."""


NOTHING = msgspec.Raw(b"null")


class CallOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome: either a result or the sentence of an error."""

    result: msgspec.Raw = NOTHING
    error: str | None = None


def socket_path(data_dir: Path) -> Path:
    """Return the path of the control socket of a data directory."""
    return data_dir / SOCKET_FILE_NAME


@contextmanager
def reachable(path: Path) -> Generator[str]:
    """Give a short enough address for a socket's path, valid inside the `with` block.

    Raises:
        SocketError: the path is too long, and this system has no way round it.
        OSError: the directory cannot be opened.
    """
    try:
        with socket_address(path) as address:
            yield address
    except SocketPathTooLong:
        raise SocketError(
            f"The path {path} is too long for a socket: choose a shorter --data-dir."
        ) from None
