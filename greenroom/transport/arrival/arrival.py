"""The beginning of a connection: TLS, the request, whose it is, and which node serves it."""

from __future__ import annotations

import socket
import time
from typing import Final

import msgspec
import trio

from greenroom.network.addresses import address_key
from greenroom.network.tls_codec import TlsBroken, TlsCodec
from greenroom.transport.arrival.handshake import (
    HEAD_BYTES_MAX,
    NotAnOpening,
    Opening,
    overloaded,
    read_opening,
)
from greenroom.transport.context import RealtimeContext
from greenroom.transport.ports import (
    RELAY_LINE_BYTES_MAX,
    RELAY_MARK,
    NobodyToRelayTo,
    Relay,
    RelayTarget,
)

RECEIVE_BYTES: Final = 4 << 10
RETRY_SECONDS: Final = 1
"""When to come back, for a client whose room is just going to another node."""
_END: Final = b"\r\n\r\n"


class Lost(Exception):
    """The peer is gone."""


class Arrived(msgspec.Struct, frozen=True):
    """A connection that has said what it wants. Without `opening` and `target` it is closed."""

    address: str
    """The client's, as trusted proxies or another node say."""
    answer: bytes = b""
    opening: Opening | None = None
    """A WebSocket for a room of this node, or for none."""
    target: RelayTarget | None = None
    """The node that serves it."""
    is_relayed: bool = False
    """Set if another node has relayed it."""
    head: bytes = b""
    """The request as it came, without the line of a relay."""
    rest: bytes = b""
    """The bytes that came behind it."""
    as_of: int | None = None
    """`World.as_of` when this node was found to serve it."""


class Arrival:
    """Reads the beginning of one connection."""

    def __init__(
        self, context: RealtimeContext, connected: socket.socket, tls: TlsCodec | None, peer: str
    ) -> None:
        """Read from a non-blocking socket.

        Args:
            context: shared by all connections of the port.
            connected: the socket.
            tls: the server's side of TLS, None without it.
            peer: the address at the other end.
        """
        self._context = context
        self._socket = connected
        self._tls = tls
        self._peer = peer

    async def read(self) -> Arrived:
        """Return what the peer wants, once it has said so.

        Raises:
            Lost: it is gone, or speaks no TLS.

        Cancellation leaves the socket open.
        """
        data = b"" if self._tls is None else await self._shake_tls_hands(self._tls)
        relay, bytes_max = self._context.relay, HEAD_BYTES_MAX
        while _END not in data and len(data) <= bytes_max:
            data += await self._receive()
            if relay is not None and data.startswith(RELAY_MARK):
                bytes_max = HEAD_BYTES_MAX + RELAY_LINE_BYTES_MAX
        address: str | None = None
        if relay is not None and data.startswith(RELAY_MARK):
            line, _, request = data.partition(b"\r\n")
            try:
                address = relay.read_line(line, self._peer)
            except NobodyToRelayTo:
                return Arrived(self._peer, overloaded(RETRY_SECONDS))
            data = data if address is None else request  # a bad line is no request either
        head, end, rest = data.partition(_END)
        head += end
        try:
            opening = read_opening(head)
        except NotAnOpening as other:
            return Arrived(self._peer, other.answer)
        retry_seconds, client = self._judge(opening, address)
        if retry_seconds:
            return Arrived(client, overloaded(retry_seconds))
        found = Arrived(client, b"", opening, None, address is not None, head, rest)
        if relay is None:
            return found
        found = await _find_node(relay, found)
        return msgspec.structs.replace(found, as_of=self._context.world.as_of)

    def _judge(self, opening: Opening, relayed: str | None) -> tuple[int, str]:
        """Charge the address of a client whose own it is not that the socket names.

        Returns:
            0 or how many seconds to wait, and the client's address.
        """
        context, peer = self._context, self._peer
        proxies, relay = context.proxies, context.relay
        if relayed is not None:
            address = relayed
        elif proxies.trusts(peer):
            address = proxies.find_client_address(peer, opening.forwarded_for)
        elif relay is None or not relay.may_relay(peer):
            return 0, peer
        else:
            address = peer
        return context.limits.admit_realtime(address, time.monotonic()), address

    async def _receive(self) -> bytes:
        """Return the bytes that came next.

        Raises:
            Lost: nothing more will come.
        """
        data = b""
        while not data:
            try:
                await trio.lowlevel.wait_readable(self._socket)
                received = self._socket.recv(RECEIVE_BYTES)
                if not received:
                    raise Lost
                data = received if self._tls is None else self._tls.decrypt(received)
            except (BlockingIOError, InterruptedError):
                continue
            except (OSError, trio.ClosedResourceError, TlsBroken):
                raise Lost from None
        return data

    async def _shake_tls_hands(self, tls: TlsCodec) -> bytes:
        """Do the TLS handshake; return the bytes that came behind it.

        Each step that follows from the peer's bytes waits for a turn of its address.
        """
        received, key = b"", address_key(self._peer)
        while True:
            try:
                is_done, answer = tls.shake_hands(received)
                if answer:
                    self._socket.send(answer)
                if is_done:
                    return tls.decrypt(b"")
                await trio.lowlevel.wait_readable(self._socket)
                received = self._socket.recv(RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                received = b""
            except (OSError, trio.ClosedResourceError, TlsBroken):
                raise Lost from None
            else:
                if not received:
                    raise Lost
                await self._context.handshakes.turn(key)


async def _find_node(relay: Relay, found: Arrived) -> Arrived:
    """Return what came, with the node that serves it if that is another one."""
    opening = found.opening
    if opening is None or opening.token is None:
        return found
    if found.is_relayed:  # once is enough
        is_here = await relay.wait_here(opening.token)
        return found if is_here else Arrived(found.address, overloaded(RETRY_SECONDS))
    try:
        target = await relay.find(opening.token)
    except NobodyToRelayTo:
        return Arrived(found.address, overloaded(RETRY_SECONDS))
    return msgspec.structs.replace(found, target=target)
