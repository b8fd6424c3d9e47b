"""The command line's side of the control socket. It is blocking and without trio, to start fast."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from greenroom import __version__
from greenroom.control.admin.messages import Operation, result_type
from greenroom.control.errors import OperationRefused, SocketError
from greenroom.control.protocol import (
    ANSWER_BYTES_MAX,
    PATIENCE_SECONDS,
    Call,
    CallOutcome,
    reachable,
)

Result = TypeVar("Result")


class NoServer(SocketError):
    """No server runs on this data directory: nothing listens on the control socket."""


def call(path: Path, operation: Operation[Result]) -> Result:
    """Have the running server carry out an operation.

    Args:
        path: the control socket.
        operation: what to do.

    Raises:
        NoServer: no server listens there; nothing was done.
        OperationRefused: the server refused, or could not do it; the text is the server's.
        SocketError: the server has another version, or stopped answering; it may have been done.
    """
    request = Call(
        operation=operation.name,
        arguments=msgspec.Raw(msgspec.json.encode(operation)),
        version=__version__,
    )
    with _connected(path) as connection:
        try:
            connection.sendall(msgspec.json.encode(request) + b"\n")
            line = _read_answer(connection)
        except TimeoutError:
            raise SocketError(
                "The server does not answer on its control socket: it hangs. What was asked for "
                "may have been done."
            ) from None
        except OSError as error:
            raise SocketError(f"The server hung up ({error.strerror}): see its log.") from None
    return _decode(line, operation)


@contextmanager
def _connected(path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE_SECONDS)
        try:
            with reachable(path) as address:
                connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise NoServer(
                f"No server runs on {path.parent}: start one with greenroom serve, or name"
                " another directory with --data-dir."
            ) from None
        except BlockingIOError:
            raise SocketError(
                "Too many commands wait for the server: try again when some have ended."
            ) from None
        except OSError as error:
            raise SocketError(
                f"Cannot reach the server through {path} ({error.strerror or error}): "
                "run this as the user that the server runs as."
            ) from None
        yield connection


def _read_answer(connection: socket.socket) -> bytes:
    """Read up to the first line that is not empty."""
    with connection.makefile("rb") as reader:
        while (line := reader.readline(ANSWER_BYTES_MAX)) == b"\n":
            pass
    if line.endswith(b"\n"):
        return line
    if len(line) == ANSWER_BYTES_MAX:
        raise SocketError("The server's answer is too long: ask for less.")
    raise SocketError(
        "The server stopped before it answered: look whether what was asked for was done."
    )


def _decode(line: bytes, operation: Operation[Result]) -> Result:
    try:
        answer = msgspec.json.decode(line, type=CallOutcome)
        if answer.error is None:
            result: Result = msgspec.json.decode(answer.result, type=result_type(type(operation)))
            return result
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise SocketError(
            "The server's answer cannot be understood: use the greenroom command of its version "
            f"(this one is {__version__})."
        ) from None
    raise OperationRefused(answer.error)
