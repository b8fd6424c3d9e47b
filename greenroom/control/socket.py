"""The server's side of the control socket: a supervised service beside the other listeners.

A process that can open the socket may do everything. The kernel lets only the server's user and
root open it, because its mode is 0600.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from greenroom.control.admin.auditing import user_text
from greenroom.control.admin.calls import answer_call
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.routing import run_anywhere
from greenroom.control.errors import SocketError
from greenroom.control.files import why_not
from greenroom.control.protocol import (
    CALL_BYTES_MAX,
    STILL_AT_IT_SECONDS,
    CallOutcome,
    reachable,
)

CONNECTIONS_MAX = 16
"""Commands served at a time. More of them wait in the backlog, for people can wait."""
CALL_SECONDS_MAX = 10.0
"""Seconds that a client may take to send its line, and to read each part of the answer."""
BACKLOG = 64

_logger = logging.getLogger(__name__)


class Calls(Protocol):
    """Takes the calls that come over the control socket."""

    async def take(self, line: bytes, stream: trio.SocketStream) -> None:
        """Take one call, and send its answer, or have it sent.

        Args:
            line: the client's line.
            stream: the connection, which the caller closes here once this returns.

        Raises:
            BrokenResourceError, TooSlowError: the client has left, or does not read.
        """
        ...


async def run(
    calls: Calls,
    path: Path,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the command line until cancelled. The socket exists once this has started.

    A socket that exists already belongs to a dead server and is replaced. The lock of the data
    directory, which the caller holds, keeps a living server away.

    Raises:
        SocketError: the socket cannot be made.
    """
    listener = _listen(path)
    try:
        free = trio.Semaphore(CONNECTIONS_MAX)
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                await free.acquire()
                nursery.start_soon(_serve, calls, await _accept(listener), free)
    finally:
        listener.socket.close()
        _remove(path)


def _listen(path: Path) -> trio.SocketListener:
    """Bind, set the mode, and only then listen. Nobody can connect before."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        with reachable(path) as address:
            bound.bind(address)
            Path(address).chmod(0o600)
        bound.listen(BACKLOG)
        return trio.SocketListener(trio.socket.from_stdlib_socket(bound))
    except OSError as error:
        bound.close()
        advice = why_not(error, "name another data directory")
        raise SocketError(f"Cannot open the control socket {path} {advice}") from None
    except BaseException:
        bound.close()
        raise


def _remove(path: Path) -> None:
    with suppress(OSError):  # a socket without a listener says "no server", too
        path.unlink(missing_ok=True)


async def _accept(listener: trio.SocketListener) -> trio.SocketStream:
    """Wait for the next client. Without descriptors, wait until there are some."""
    while True:
        try:
            return await listener.accept()
        except OSError as error:
            _logger.warning("cannot accept a control connection: %s", error.strerror)
            await trio.sleep(1)


class Desk:
    """Carries calls out in this process."""

    def __init__(self, context: AdminContext) -> None:
        """Work on a world.

        Args:
            context: where operations act.
        """
        self._context = context

    async def take(self, line: bytes, stream: trio.SocketStream) -> None:
        """Carry a call out, and answer it; see `Calls`."""
        by = user_text(_peer_uid(stream.socket))
        await send_outcome(stream, await _answer_patiently(self._context, line, by, stream))


async def send_outcome(stream: trio.SocketStream, outcome: CallOutcome) -> None:
    """Send the answer of a call.

    Raises:
        BrokenResourceError, TooSlowError: the client has left, or does not read.
    """
    await _send(stream, msgspec.json.encode(outcome) + b"\n")


@contextmanager
def fenced() -> Generator[None]:
    """Let any error of a connection end with it."""
    try:
        yield
    except (trio.BrokenResourceError, trio.TooSlowError):
        _logger.debug("a control client left before its answer; what it asked for is done")
    except Exception:
        _logger.exception("a control connection failed")


async def _serve(calls: Calls, stream: trio.SocketStream, free: trio.Semaphore) -> None:
    """Take one call. Any error ends with this connection."""
    try:
        with fenced():
            async with stream:
                line = None
                with trio.move_on_after(CALL_SECONDS_MAX):
                    line = await _read_line(stream)
                if line is not None:
                    await calls.take(line, stream)
    finally:
        free.release()


async def _read_line(stream: trio.SocketStream) -> bytes | None:
    """Return the client's line, or `None` if none will come."""
    received = bytearray()
    while b"\n" not in received:
        chunk = await stream.receive_some(1 << 16)
        received += chunk
        if not chunk or len(received) > CALL_BYTES_MAX:
            return None
    return bytes(received).partition(b"\n")[0]


async def _send(stream: trio.SocketStream, content: bytes) -> None:
    for start in range(0, len(content), 1 << 16):
        with trio.fail_after(CALL_SECONDS_MAX):
            await stream.send_all(content[start : start + (1 << 16)])


async def _answer_patiently(
    context: AdminContext, line: bytes, by: str, stream: trio.SocketStream
) -> CallOutcome:
    """Carry out the call, and tell the client from time to time that it goes on."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_say_still_at_it, stream)
        answer = await answer_call(context, line, by, run_anywhere)
        nursery.cancel_scope.cancel()
    return answer


async def _say_still_at_it(stream: trio.SocketStream) -> None:
    """Send empty lines until cancelled. If the client has gone, the operation still goes on."""
    while True:
        await trio.sleep(STILL_AT_IT_SECONDS)
        try:
            await _send(stream, b"\n")
        except (trio.BrokenResourceError, trio.TooSlowError):
            return


def _peer_uid(connection: trio.socket.SocketType) -> int:
    """Return the user at the other end, as the kernel knows them."""
    size = struct.calcsize("3i")  # pid, uid, gid
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    uid: int = struct.unpack("3i", credentials)[1]
    return uid
