"""The bounds of the realtime port, from the settings."""

from __future__ import annotations

import msgspec

from greenroom.config import DEFAULTS
from greenroom.network.tls import TlsContext


class RealtimeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the realtime port. Sizes are in bytes, times in seconds."""

    host: str
    port: int = 0
    """The TCP port; 0 takes a free one."""
    tls: TlsContext | None = None
    """The context of each new connection; plain WebSocket if not given."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose X-Forwarded-For is believed; their connections are not counted by address."""
    connections_max: int = DEFAULTS.realtime_connections_max
    connections_per_address_max: int | None = None
    """Connections from one address; by default half of all."""
    message_bytes_max: int = DEFAULTS.realtime_message_bytes_max
    """Bytes of one message from a client; a larger one closes its connection (1009)."""
    messages_per_second: float = DEFAULTS.realtime_messages_per_second
    """From one connection; it is read more slowly beyond it, after a second's worth at once."""
    room_messages_per_second: float = DEFAULTS.realtime_room_messages_per_second
    """From all members of a room together, likewise."""
    bytes_per_message: int = DEFAULTS.realtime_bytes_per_message
    """A message counts once more for each so many bytes of it, for its connection and its room."""
    outbox_bytes_max: int = DEFAULTS.realtime_outbox_bytes_max
    """Bytes that may wait for a client that does not read, beside messages that are larger; beyond
    it, the connection is closed (1013)."""
    large_bytes_max: int = DEFAULTS.realtime_large_bytes_max
    """Bytes that wait for all clients together; such a larger message is counted once."""
    address_share_max: float = DEFAULTS.address_share_max
    """An address may have so many times what is free of them."""
    stall_seconds_max: float = 10.0
    """A client may take nothing for so long while one of them waits for it."""
    inactive_seconds_max: float = DEFAULTS.realtime_inactive_seconds_max
    """Without a message for so long, a connection is closed."""
    ping_seconds: float = 25.0
    """A connection silent for so long is pinged."""
    pong_seconds_max: float = 15.0
    """One that stays silent for so long after it is dead."""
    handshake_seconds_max: float = 10.0
    """Seconds for TLS, the request and the token together."""
    close_seconds_max: float = 5.0
    """How long a closed connection waits for the other side to see it."""
    udp_keys_over_plain_ws: bool = DEFAULTS.udp_keys_over_plain_ws
    """Permission to send the fast lane's keys over an unencrypted connection from another machine.
    """
    alive_seconds: float = 5.0
    """A member who speaks is noted to be alive about as often, and no more seldom."""
