"""Finds the node that has a connection's room, and connects to its realtime port.

A token names its room, and the room's shard is looked up in the database, for the id of an old room
names none. Over TLS the other node must show the same certificate as this one has: so the relay
needs no names, and no certificates of its own.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakSet

import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.shards import shard_of
from greenroom.cluster.relaying.first_line import RelayLines
from greenroom.cluster.shard_map import ClusterNode, NoOwner, ShardMap
from greenroom.http.metrics import Sample
from greenroom.network.addresses import is_loopback
from greenroom.network.proxies import plain_address
from greenroom.network.sockets import leave_unpaced, notice_loss
from greenroom.network.tls_codec import TlsBroken, TlsCodec
from greenroom.transport.ports import NobodyToRelayTo, RelaySide, RelayTarget

_logger = logging.getLogger(__name__)

WAIT_SECONDS_MAX: Final = 5.0
"""How long a connection waits for somebody who serves its room's shard."""
NEWS_SECONDS_MAX: Final = 1.0
"""How long a relayed connection waits for the news that its room's shard is this node's. The node
that relays it may hear first of a hand-over."""
CONNECT_SECONDS_MAX: Final = 3.0
RECEIVE_BYTES: Final = 16 << 10
WAITING_BYTES_MAX: Final = 64 << 10
"""Bytes from the owner that wait in the kernel, which may double it. By itself it lets megabytes
wait; then the owner would not see for long that a client does not read."""
PEERS_MAX: Final = 1_024
"""Addresses of other machines that are remembered."""
_ROOM_ID_DIGITS: Final = 32
_TOKEN: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class RoomShards(Protocol):
    """The shards of rooms in the database."""

    async def find_shard_of_room(self, room_id: str) -> int | None:
        """Return the shard of a room, None if there is no such room.

        Raises:
            ActorUnavailable: it could not be found out.
        """
        ...


class RelayNode(ClusterNode, Protocol):
    """A node's row, as far as the relay needs it."""

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return how the node is reached; `realtime` is host and port of its own realtime port."""
        ...


AnyRelayNode = TypeVar("AnyRelayNode", bound=RelayNode)


class RealtimeRelay(Generic[AnyRelayNode]):
    """Relays realtime connections to the owners of their rooms; see `transport.ports.Relay`."""

    def __init__(
        self,
        shards: ShardMap[AnyRelayNode],
        rooms: RoomShards,
        lines: RelayLines,
        *,
        has_room: Callable[[str], bool],
        certificate: Callable[[], bytes] | None = None,
    ) -> None:
        """Connect to other nodes.

        Args:
            shards: who owns which, and the rows of the nodes.
            rooms: where the shards of rooms are looked up.
            lines: writes and reads first lines.
            has_room: whether a room is in memory here.
            certificate: returns the one that the ports of all nodes have, as DER; None if they
                speak no TLS.
        """
        self._shards = shards
        self._rooms = rooms
        self._lines = lines
        self._has_room = has_room
        self._certificate = certificate
        self._peers: dict[str, None] = {}
        """Addresses that good lines have come from, oldest first."""
        self._connected: dict[int, WeakSet[socket.socket]] = {}
        """By node, the open connections to it."""
        shards.call_when_gone(self._give_up)
        self.relayed = 0
        """Connections that were relayed."""
        self._failed = 0

    def read_samples(self) -> Iterator[Sample]:
        """Yield what the metrics show."""
        help_text = "Realtime connections that were relayed to another node, or could not be."
        for outcome, count in (("relayed", self.relayed), ("failed", self._failed)):
            labels = {"outcome": outcome}
            yield Sample("greenroom_cluster_relayed", help_text, count, labels, "counter")
        help_text = "First lines of relayed connections that were forged, old or came twice."
        refused = self._lines.refused
        yield Sample("greenroom_cluster_relay_lines_refused", help_text, refused, {}, "counter")

    def may_relay(self, peer: str) -> bool:
        """See `Relay`."""
        if is_loopback(peer) or peer in self._peers:
            return True
        return any(
            plain_address(_address_of(node)[0]) == peer for node in self._shards.iterate_nodes()
        )

    def read_line(self, line: bytes, peer: str) -> str | None:
        """See `Relay`. Whoever has sent one good line is a node, whatever its address is called."""
        address = self._lines.read(line)
        if address is not None and peer not in self._peers:
            self._peers[peer] = None
            while len(self._peers) > PEERS_MAX:
                del self._peers[next(iter(self._peers))]
        return address

    async def wait_here(self, token: str) -> bool:
        """See `Relay`."""
        room_id, shards = token[:_ROOM_ID_DIGITS], self._shards
        if _TOKEN.fullmatch(token) is None or self._has_room(room_id):
            return True
        shard = shard_of(room_id)
        if shard is None:
            return True
        with trio.move_on_after(NEWS_SECONDS_MAX):
            while not shards.owns(shard):
                await shards.wait_changed()
        try:
            return await shards.wait_for_owner(shard, WAIT_SECONDS_MAX) == shards.node_id
        except NoOwner:
            return False

    async def find(self, token: str) -> RelayTarget | None:
        """See `Relay`."""
        room_id = token[:_ROOM_ID_DIGITS]
        if _TOKEN.fullmatch(token) is None:
            return None
        try:
            if self._has_room(room_id) and not await self._wait_until_gone(room_id):
                return None
            shard = await self._find_shard(room_id)
            if shard is None:
                return None
            node_id = await self._shards.wait_for_owner(shard, WAIT_SECONDS_MAX)
        except NoOwner as error:
            raise NobodyToRelayTo from error
        if node_id == self._shards.node_id:
            return None
        node = self._shards.find_node(node_id)
        if node is None:
            raise NobodyToRelayTo
        return RelayTarget(node_id, *_address_of(node), room_id)

    async def connect(self, target: RelayTarget, address: str) -> RelaySide:
        """See `Relay`."""
        connected: socket.socket | None = None
        try:
            with trio.fail_after(CONNECT_SECONDS_MAX):
                connected = await _connect(target)
                line = self._lines.write(target.node_id, address)
                if self._certificate is None:
                    tls = None
                else:
                    tls = await _shake_hands(connected, target.host, self._certificate())
                    line = tls.encrypt(line)
                await _send_all(connected, line)
        except (OSError, trio.TooSlowError, TlsBroken, _WrongCertificate) as error:
            self._failed += 1
            _logger.warning("cannot relay to node %d: %r", target.node_id, error)
            _close(connected)
            raise NobodyToRelayTo from error
        except BaseException:
            _close(connected)
            raise
        if self._shards.find_node(target.node_id) is None:
            _close(connected)
            raise NobodyToRelayTo
        self._connected.setdefault(target.node_id, WeakSet()).add(connected)
        self.relayed += 1
        return RelaySide(connected, tls)

    def _give_up(self, node_id: int) -> None:
        """End the connections to a node that is gone.

        A machine that has lost power or its network, or stands still, closes none by itself. One
        that stays, but cannot be reached any more, is found out by the kernel.
        """
        for connected in self._connected.pop(node_id, ()):
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    async def _wait_until_gone(self, room_id: str) -> bool:
        """Wait while a room of ours is being handed over; return whether it is gone then.

        Raises:
            NoOwner: that takes too long.
        """
        shard = shard_of(room_id)
        is_leaving = (
            shard is not None
            and self._shards.is_mine(shard)
            and not self._shards.takes_connections(shard)
        )
        if shard is None or not is_leaving:
            return False
        await self._shards.wait_until_left(shard, WAIT_SECONDS_MAX)
        return not self._has_room(room_id)

    async def _find_shard(self, room_id: str) -> int | None:
        """Return a room's shard; by its id alone while the database is away."""
        try:
            return await self._rooms.find_shard_of_room(room_id)
        except ActorUnavailable:
            return shard_of(room_id)


def _address_of(node: RelayNode) -> tuple[str, int]:
    """Return host and realtime port of a node; port 0, where nobody listens, if it has none."""
    host, _, port = node.addresses.get("realtime", "").rpartition(":")
    return host.strip("[]"), int(port or "0")


class _WrongCertificate(Exception):
    """The other node shows another certificate than ours."""


async def _connect(target: RelayTarget) -> socket.socket:
    """Return a non-blocking connection."""
    stream = await trio.open_tcp_stream(target.host, target.port)
    connected = socket.socket(fileno=stream.socket.detach())
    connected.setblocking(False)
    leave_unpaced(connected)
    notice_loss(connected)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WAITING_BYTES_MAX)
    return connected


async def _shake_hands(connected: socket.socket, host: str, certificate: bytes) -> TlsCodec:
    """Return TLS over a connection whose other end has the same certificate as we.

    Raises:
        OSError: the connection is lost.
        TlsBroken: TLS cannot be agreed on.
        _WrongCertificate: it has another.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the certificate itself is compared
    codec = TlsCodec(context, host)
    is_done, out = codec.shake_hands(b"")
    while True:
        await _send_all(connected, out)
        if is_done:
            break
        await trio.lowlevel.wait_readable(connected)
        received = connected.recv(RECEIVE_BYTES)
        if not received:
            raise ConnectionResetError("closed during the TLS handshake")
        is_done, out = codec.shake_hands(received)
    if codec.peer_certificate != certificate:
        raise _WrongCertificate("it shows another TLS certificate than this node has")
    return codec


async def _send_all(connected: socket.socket, data: bytes) -> None:
    """Send bytes over a non-blocking connection."""
    while data:
        await trio.lowlevel.wait_writable(connected)
        data = data[connected.send(data) :]


def _close(connected: socket.socket | None) -> None:
    if connected is not None:
        connected.close()
