"""Connections of HTTP clients that move to the worker which has their game.

The kernel gives a connection to any worker of a machine. Where that one has to send calls on, each
costs twice as much. So the connection itself is sent on: its descriptor goes to the owner's process
over a unix socket, and from then on all its calls are answered there. What is on the wire waits in
the kernel, and is lost by nobody. When a process stops and others stay, its idle connections go to
those: a client whose connection is closed may just be sending a call over it.

Each node has a datagram socket in the directory of the bus, which others have no access to. A
connection that cannot be sent stays where it is, and its calls are sent on as before.
"""

from __future__ import annotations

import array
import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import trio

from greenroom.http.metrics import Sample
from greenroom.http.ports import TakeOver
from greenroom.network.unix_paths import socket_address

_logger = logging.getLogger(__name__)

SUFFIX: Final = ".conn"
MESSAGE_BYTES_MAX: Final = 512
TAKEN_A_TURN_MAX: Final = 64
"""Connections that are taken before other tasks run."""
_DESCRIPTOR_BYTES: Final = array.array("i").itemsize


class _Passed(msgspec.Struct, frozen=True, array_like=True):
    """A connection as it is told. Fields that are added later need defaults."""

    peer: str
    """The address at the other end, without a port."""
    moves: int
    """How often it has moved, this time included."""


class ConnectionPassing:
    """Sends connections to other nodes of this machine, and takes theirs; `OtherWorkers`."""

    def __init__(
        self,
        node_id: int,
        directory: Path,
        stayers: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            node_id: whose end this is.
            directory: the bus's; see `UnixBus`.
            stayers: returns the nodes of this machine that stay while this one stops.
        """
        self._list_stayers = stayers
        self._given_any = 0
        self._directory = directory
        self._node_id = node_id
        self._socket: socket.socket | None = None
        self._counts = {"given": 0, "kept": 0, "taken": 0}

    def give(self, connected: socket.socket, peer: str, moves: int, node_id: int) -> bool:
        """See `OtherWorkers`."""
        gave = self._socket is not None and self._send(
            self._socket, connected, _Passed(peer, moves), node_id
        )
        self._counts["given" if gave else "kept"] += 1
        return gave

    def give_any(self, connected: socket.socket, peer: str) -> bool:
        """See `OtherWorkers`; the nodes that stay take turns."""
        nodes = self._list_stayers()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as through:
            for _ in nodes:
                self._given_any += 1
                node_id = nodes[self._given_any % len(nodes)]
                if self._send(through, connected, _Passed(peer, 0), node_id):
                    self._counts["given"] += 1
                    return True
        return False

    def _send(
        self, through: socket.socket, connected: socket.socket, passed: _Passed, node_id: int
    ) -> bool:
        """Return whether it has left: the other node is there, and takes what is sent to it."""
        descriptors = array.array("i", [connected.fileno()])
        try:
            with socket_address(self._make_path(node_id)) as address:
                through.sendmsg(
                    [msgspec.msgpack.encode(passed)],
                    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)],
                    0,
                    address,
                )
        except OSError:  # it is on another machine, has ended, or is behind with taking
            return False
        return True

    async def run(
        self, take: TakeOver, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """See `OtherWorkers`."""
        path = self._make_path(self._node_id)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mailbox:
            mailbox.setblocking(False)
            path.unlink(missing_ok=True)
            with socket_address(path) as address:
                mailbox.bind(address)
            self._socket = mailbox
            task_status.started()
            try:
                while True:
                    await trio.lowlevel.wait_readable(mailbox)
                    self._take_some(mailbox, take)
            finally:
                self._socket = None
                path.unlink(missing_ok=True)
                while self._take_some(mailbox, take):
                    pass

    def _take_some(self, mailbox: socket.socket, take: TakeOver) -> bool:
        """Hand on what has come; return whether there may be more."""
        for _ in range(TAKEN_A_TURN_MAX):
            try:
                received = mailbox.recvmsg(
                    MESSAGE_BYTES_MAX, socket.CMSG_SPACE(_DESCRIPTOR_BYTES), socket.MSG_CMSG_CLOEXEC
                )
            except OSError:
                return False
            self._take(received[0], _descriptors(received[1]), take)
        return True

    def _take(self, message: bytes, connections: list[socket.socket], take: TakeOver) -> None:
        """Hand one connection on; whatever else came is closed."""
        passed = None
        with suppress(msgspec.MsgspecError):
            passed = msgspec.msgpack.decode(message, type=_Passed)
        if passed is None or len(connections) != 1:
            _logger.warning("another process has sent what is no connection")
            for each in connections:
                each.close()
            return
        (connected,) = connections
        connected.setblocking(False)
        self._counts["taken"] += 1
        take(connected, passed.peer, passed.moves)

    def _make_path(self, node_id: int) -> Path:
        return self._directory / f"{node_id}{SUFFIX}"

    def read_samples(self) -> Iterator[Sample]:
        """Yield what the metrics show."""
        about = "Connections that have moved to the worker of their game, or could not."
        for outcome, count in self._counts.items():
            labels = {"outcome": outcome}
            yield Sample("greenroom_cluster_connections_moved", about, count, labels, "counter")


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[socket.socket]:
    """Return the sockets that came with a message."""
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return [socket.socket(fileno=number) for number in found]
