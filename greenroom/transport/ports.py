"""Protocols that the realtime port needs others to implement; see `ListeningServices`."""

from __future__ import annotations

import socket
from typing import Final, NamedTuple, Protocol

import msgspec

from greenroom.network.tls_codec import TlsCodec

RELAY_MARK: Final = b"GREENROOM-RELAY "
"""How the first line of a relayed connection begins; no request of HTTP does."""
RELAY_LINE_BYTES_MAX: Final = 512


class AddressLimits(Protocol):
    """How often an address may do what costs something before anybody knows who it is."""

    def admit_realtime(self, address: str, now: float) -> int:
        """Charge a new connection; return 0, or after how many whole seconds to try again.

        Args:
            address: the client's.
            now: seconds of `time.monotonic`.
        """
        ...

    def admit_stored(self, address: str, player_id: int, size: int, now: float) -> int:
        """Charge a message that is to be stored, as a call over HTTP that brings as much.

        Args:
            address: the client's.
            player_id: who sent it.
            size: in bytes.
            now: seconds of `time.monotonic`.

        Returns:
            0, or after how many whole seconds to try again.
        """
        ...

    def note_failed_token(self, address: str, now: float) -> None:
        """Charge a token that was nobody's."""
        ...


class NoLimits:
    """`AddressLimits` without limits, for a port that stands alone."""

    def admit_realtime(self, address: str, now: float) -> int:  # noqa: ARG002
        """Admit every connection."""
        return 0

    def admit_stored(
        self,
        address: str,  # noqa: ARG002
        player_id: int,  # noqa: ARG002
        size: int,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> int:
        """Admit every message."""
        return 0

    def note_failed_token(self, address: str, now: float) -> None:
        """Do nothing."""


class RelayTarget(msgspec.Struct, frozen=True):
    """The node that a connection is relayed to."""

    node_id: int
    host: str
    port: int
    room_id: str


class RelaySide(NamedTuple):
    """One of the two connections of a relayed client."""

    socket: socket.socket
    """A non-blocking one."""
    tls: TlsCodec | None
    """Decrypts and encrypts what passes it; None without TLS."""


class NobodyToRelayTo(Exception):
    """The node that has the room is not known yet, or cannot be reached; try again."""


class Relay(Protocol):
    """The other nodes, as the realtime port sees them."""

    def may_relay(self, peer: str) -> bool:
        """Return whether relayed connections may come from this address."""
        ...

    def read_line(self, line: bytes, peer: str) -> str | None:
        """Return the client's address by the first line of a relayed connection.

        None if the line is not another node's, or comes for the second time.

        Args:
            line: without its line break.
            peer: the address that it came from.

        Raises:
            NobodyToRelayTo: it is for a node that is gone, or for a worker that is away, for which
                this one accepts.
        """
        ...

    async def wait_here(self, token: str) -> bool:
        """Return whether this node answers for a realtime token, or none does.

        It waits for a room that is just coming to this node. Cancellation ends the wait.
        """
        ...

    async def find(self, token: str) -> RelayTarget | None:
        """Return the node to relay a connection to; None if it is to be served here.

        Raises:
            NobodyToRelayTo: nobody serves the room yet.

        Cancellation changes nothing.
        """
        ...

    async def connect(self, target: RelayTarget, address: str) -> RelaySide:
        """Return a connection to a node's realtime port that has said whose it is.

        Args:
            target: the node.
            address: the client's.

        Raises:
            NobodyToRelayTo: it cannot be reached.

        Cancellation closes it.
        """
        ...
