"""The bounds of the realtime port, from the settings."""

from __future__ import annotations

import ssl

import msgspec


class RealtimeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the realtime port. Sizes are in bytes, times in seconds."""

    host: str
    port: int = 0
    """The TCP port; 0 takes a free one."""
    tls: ssl.SSLContext | None = None
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose X-Forwarded-For is believed; their connections are not counted by address."""
    connections_max: int = 10_000
    connections_per_address_max: int | None = None
    """Connections from one address; by default half of all."""
    message_bytes_max: int = 64 << 10
    """Bytes of one message from a client; a larger one closes its connection (1009)."""
    messages_per_second: float = 200.0
    """From one connection; it is read more slowly beyond it, after a second's worth at once."""
    room_messages_per_second: float = 2_000.0
    """From all members of a room together, likewise."""
    bytes_per_message: int = 4 << 10
    """A message counts once more for each so many bytes of it, for its connection and its room."""
    outbox_bytes_max: int = 256 << 10
    """Bytes that may wait for a client that does not read, beside messages that are larger; beyond
    it, the connection is closed (1013)."""
    large_bytes_max: int = 256 << 20
    """Bytes of such larger messages for all clients together, each counted once."""
    address_share_max: float = 1.0
    """An address may have so many times what is free of them."""
    stall_seconds_max: float = 10.0
    """A client may take nothing for so long while one of them waits for it."""
    inactive_seconds_max: float = 60.0
    """Without a message for so long, a connection is closed."""
    ping_seconds: float = 25.0
    """A connection silent for so long is pinged."""
    pong_seconds_max: float = 15.0
    """One that stays silent for so long after it is dead."""
    handshake_seconds_max: float = 10.0
    """Seconds for TLS, the request and the token together."""
    close_seconds_max: float = 5.0
    """How long a closed connection waits for the other side to see it."""
    udp_keys_over_plain_ws: bool = False
    """Permission to send the fast lane's keys over an unencrypted connection from another machine.
    """
    alive_seconds: float = 5.0
    """A member who speaks is noted to be alive about as often, and no more seldom."""
