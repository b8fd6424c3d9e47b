"""The bus between the processes of one machine: unix sockets in a directory of their user.

The directory has a socket for each node, named after it. Whoever has something to send connects,
and both nodes then use that one connection. Two nodes may connect to each other in the same moment.
Then each goes on sending over the connection that it chose first, so that order is kept.

Only processes of the same user get in: the directory's mode is 0700, and the kernel is asked who is
at the other end. The first frame of a connection is sealed, so it shows which node it is, and that
the installation is the same.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from greenroom.bus.asks import Ask, BusLink
from greenroom.bus.bus import BusUnusable, NobodyThere, OffBus, TooBusy
from greenroom.bus.envelope import Seals
from greenroom.bus.exchange import Exchange
from greenroom.bus.frames import FRAME_BYTES_MAX
from greenroom.bus.wire import BusWire
from greenroom.network.pass_sender import PassSender
from greenroom.network.sockets import accept_forever
from greenroom.network.unix_paths import socket_address

_logger = logging.getLogger(__name__)

BACKLOG: Final = 128
LINKS_MAX: Final = 4
"""Connections to one node; a further one is closed."""
STRANGERS_MAX: Final = 64
"""Connections that have not said who they are; a further one is closed."""
HELLO_SECONDS_MAX: Final = 5.0
"""How long whoever connects may take to say who they are."""
SUFFIX: Final = ".sock"

_LENGTH: Final = struct.Struct(">I")
_CREDENTIALS: Final = struct.Struct("3i")
_HELLO: Final = b"hello"


class FrameTooLong(Exception):
    """The other end announces a frame that nobody may send."""


class FrameBuffer:
    """Cuts what a connection brings into frames. Holds one frame at most, and what came with it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._held = bytearray()

    @property
    def is_empty(self) -> bool:
        """Return whether no frame has begun."""
        return not self._held

    def feed(self, received: bytes) -> list[bytes]:
        """Return the frames that are whole now.

        Raises:
            FrameTooLong: the connection cannot go on; frames that came with it are lost.
        """
        held: bytes | bytearray = received
        if self._held:
            self._held += received
            held = self._held
        found: list[bytes] = []
        start, end = 0, len(held)
        while end - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(held, start)
            if length > FRAME_BYTES_MAX:
                raise FrameTooLong
            after = start + _LENGTH.size + length
            if after > end:
                break
            found.append(bytes(held[start + _LENGTH.size : after]))
            start = after
        if held is received:  # nearly always: what came are whole frames
            self._held += received[start:]
        else:
            del self._held[:start]
        return found


class _UnixLink(BusWire):
    """A connection to a node; `BusLink`."""

    __slots__ = ("node_id",)

    def __init__(self, connected: socket.socket, sender: PassSender, node_id: int = 0) -> None:
        super().__init__(connected, sender)
        self.node_id = node_id
        """The node, 0 while nobody knows it."""

    def send(
        self,
        node_id: int,  # noqa: ARG002 (it has one other end)
        frame: bytes,
        ask: Ask | None = None,
    ) -> bool:
        if ask is not None:
            ask.is_sent = True
        return self.put(_LENGTH.pack(len(frame)) + frame)


class UnixBus(Exchange):
    """One node's end of the sockets in a directory."""

    def __init__(self, node_id: int, directory: Path, *, key: bytes, cluster_id: str) -> None:
        """Begin without a socket.

        Args:
            node_id: the node whose end this is.
            directory: made by the first node, with mode 0700; all nodes have the same.
            key: see `Seals`.
            cluster_id: see `Seals`.

        Raises:
            ValueError: the id or the key is of no use.
        """
        super().__init__(node_id)
        self._directory = directory
        self._seals = Seals(node_id, key, cluster_id, self._counts)
        self._nursery: trio.Nursery | None = None
        self._ways: dict[int, list[_UnixLink]] = {}
        """The connections to each node; what is sent takes the first."""
        self._strangers = 0

    def tell_all(self, message: bytes) -> None:
        """See `Bus`."""
        self._check_length(message)
        for node_id in _nodes_in(self._directory):
            if node_id != self._node_id:
                self.tell(node_id, message)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See `Bus`."""
        listener = _listen(self._directory, self._node_id)
        try:
            async with self._open_nursery() as nursery:
                self._nursery = nursery
                self._connected_since = trio.current_time()
                task_status.started()
                await accept_forever(listener, self._take_connection)
        finally:
            self._nursery = None
            _path(self._directory, self._node_id).unlink(missing_ok=True)
            listener.close()
            for links in self._ways.values():
                for link in links:
                    link.close()
            self._ways.clear()

    def _list_links(self) -> list[BusLink]:
        return [link for links in self._ways.values() for link in links]

    def _find_link(self, node_id: int) -> BusLink:
        links = self._ways.get(node_id)
        return links[0] if links else self._connect(node_id)

    def _connect(self, node_id: int) -> _UnixLink:
        """Open a connection. A unix socket is connected at once, or not at all.

        Raises:
            NobodyThere: nobody listens.
            TooBusy: more connect than the other node accepts.
        """
        if self._nursery is None:
            raise OffBus("the bus of this node does not run")
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.setblocking(False)
            with socket_address(_path(self._directory, node_id)) as address:
                connected.connect(address)
        except BlockingIOError:
            connected.close()
            raise TooBusy(f"node {node_id} does not accept connections") from None
        except OSError as error:
            connected.close()
            raise NobodyThere(f"node {node_id} is not there: {error.strerror}") from None
        if not _is_of_our_user(connected):
            connected.close()
            raise NobodyThere(f"the socket of node {node_id} belongs to another user")
        link = _UnixLink(connected, self._sender, node_id)
        link.send(node_id, self._seals.close(node_id, _HELLO))
        self._ways.setdefault(node_id, []).append(link)
        self._nursery.start_soon(self._read, link, FrameBuffer(), [])
        return link

    def _take_connection(self, connected: socket.socket, _: str) -> None:
        """Serve a connection that was accepted."""
        if self._strangers < STRANGERS_MAX and _is_of_our_user(connected):
            assert self._nursery is not None
            self._strangers += 1
            self._nursery.start_soon(self._welcome, _UnixLink(connected, self._sender))
        else:
            connected.close()

    async def _welcome(self, link: _UnixLink) -> None:
        """Learn which node has connected, and serve it."""
        buffer, received = FrameBuffer(), list[bytes]()
        try:
            with trio.move_on_after(HELLO_SECONDS_MAX):
                received = await _read_hello(link, buffer)
        finally:
            self._strangers -= 1
            node_id = self._judge(received)
            if node_id is None:
                link.close()
        if node_id is not None:
            link.node_id = node_id
            self._ways.setdefault(node_id, []).append(link)
            await self._read(link, buffer, received[1:])

    def _judge(self, received: list[bytes]) -> int | None:
        """Return the node that has connected; `None` if the connection is to be closed."""
        if not received:
            return None
        opened = self._seals.open(received[0])
        if opened is None or opened[1] != _HELLO:
            _logger.warning("a connection that belongs to no node of this installation was closed")
            return None
        if len(self._ways.get(opened[0], ())) >= LINKS_MAX:
            _logger.warning("node %s has connected more than %s times", opened[0], LINKS_MAX)
            return None
        return opened[0]

    async def _read(self, link: _UnixLink, buffer: FrameBuffer, found: list[bytes]) -> None:
        """Hand on what has come and what comes, until the connection ends."""
        try:
            self._take(link.node_id, found, link)
            while received := await link.receive():
                self._take(link.node_id, buffer.feed(received), link)
        except FrameTooLong:
            self._counts.oversized += 1
            _logger.warning("node %s sends frames that are too long", link.node_id)
        finally:
            if not buffer.is_empty:
                self._counts.truncated += 1
            self._drop_link(link)

    def _drop_link(self, link: _UnixLink) -> None:
        link.close()
        links = self._ways[link.node_id]
        links.remove(link)
        if not links:
            del self._ways[link.node_id]
        self._counts.connections_lost += 1
        self._lose(link)


async def _read_hello(wire: BusWire, buffer: FrameBuffer) -> list[bytes]:
    """Return the first frames of a connection; none if it ends before, or says nonsense."""
    with suppress(FrameTooLong):
        while received := await wire.receive():
            if found := buffer.feed(received):
                return found
    return []


def _path(directory: Path, node_id: int) -> Path:
    return directory / f"{node_id}{SUFFIX}"


def _nodes_in(directory: Path) -> list[int]:
    """Return the nodes that have a socket, in order; some may have died."""
    with suppress(OSError):
        names = [path.stem for path in directory.iterdir() if path.suffix == SUFFIX]
        return sorted(int(name) for name in names if name.isdecimal())
    return []


def _is_of_our_user(connected: socket.socket) -> bool:
    """Return whether the process at the other end has our user, as far as the kernel tells."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:  # then the directory's mode alone keeps others out
        return True
    credentials = connected.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(credentials)[1]
    return uid == os.geteuid()


def _listen(directory: Path, node_id: int) -> socket.socket:
    """Open a node's socket. It gets its name when it accepts, so nobody is refused before.

    Raises:
        BusUnusable: the directory cannot be used.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        prepare_directory(directory)
        _remove_dead(directory)
        nameless = directory / f"{node_id}.new"
        nameless.unlink(missing_ok=True)
        listener.setblocking(False)
        with socket_address(nameless) as address:
            listener.bind(address)
        listener.listen(BACKLOG)
        nameless.rename(_path(directory, node_id))
    except OSError as error:
        listener.close()
        raise BusUnusable(f"Cannot open a socket in {directory}: {error.strerror}.") from None
    except BaseException:
        listener.close()
        raise
    return listener


def prepare_directory(directory: Path) -> None:
    """Make the directory, or check that it is ours alone.

    Raises:
        BusUnusable: others have access.
        OSError: it cannot be made.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    is_private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    if not is_private or found.st_uid != os.geteuid():
        raise BusUnusable(
            f"Others have access to {directory}, where the server's processes talk to each other: "
            f"let the server's user own it, and run chmod 700 {directory}."
        )


def _remove_dead(directory: Path) -> None:
    """Remove the sockets of processes that were killed. Ids of nodes are never used again."""
    for node_id in _nodes_in(directory):
        path = _path(directory, node_id)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                with socket_address(path) as address:
                    probe.connect(address)
            except ConnectionRefusedError:
                path.unlink(missing_ok=True)
            except OSError:
                continue
