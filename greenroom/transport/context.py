"""The objects that all connections of the realtime port share."""

from __future__ import annotations

from greenroom.actors.world.world import World
from greenroom.network.connection_counts import Occupancy
from greenroom.network.pieces import Pieces
from greenroom.network.proxies import TrustedProxies
from greenroom.transport.backlog import LargeMessages
from greenroom.transport.deadlines import Deadlines
from greenroom.transport.hub import Hub
from greenroom.transport.options import RealtimeOptions
from greenroom.transport.ports import AddressLimits, Relay
from greenroom.transport.udp.port import UdpPort


class RealtimeContext:
    """The port, as its connections see it; made once."""

    __slots__ = (
        *("deadlines", "hub", "large", "limits", "occupancy", "options", "proxies", "reader"),
        *("handshakes", "relay", "sender", "udp", "world"),
    )

    def __init__(
        self,
        options: RealtimeOptions,
        world: World,
        hub: Hub,
        udp: UdpPort | None,
        limits: AddressLimits,
        *,
        relay: Relay | None = None,
    ) -> None:
        """Share these, and make deadlines."""
        self.options = options
        self.proxies = TrustedProxies(options.trusted_proxies)
        self.occupancy = Occupancy(
            options.connections_max, options.connections_per_address_max, self.proxies
        )
        self.handshakes = Pieces()
        self.relay = relay
        self.udp = udp
        self.limits = limits
        self.world = world
        self.hub = hub
        self.sender = hub.sender
        self.large = LargeMessages(
            options.large_bytes_max, options.address_share_max, options.stall_seconds_max
        )
        self.reader = hub.reader
        shortest_seconds = min(
            options.inactive_seconds_max,
            options.ping_seconds,
            options.pong_seconds_max,
            options.close_seconds_max,
        )
        self.deadlines = Deadlines(shortest_seconds)
