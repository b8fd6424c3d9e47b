"""The realtime port: accepts connections of the control channel, serves each behind a fence."""

from __future__ import annotations

import logging
import socket
import time
from typing import ClassVar, Final

import trio

from greenroom.actors.world.world import World
from greenroom.network import sockets
from greenroom.network.listeners import Listeners, OwnListeners
from greenroom.transport.connection import RealtimeConnection
from greenroom.transport.context import RealtimeContext
from greenroom.transport.hub import Hub
from greenroom.transport.options import RealtimeOptions
from greenroom.transport.ports import AddressLimits, NoLimits, Relay
from greenroom.transport.udp.port import UdpPort

RETRY_SECONDS: Final = 5
"""When to come back, for a client that found all connections taken."""
REFUSALS_MAX: Final = 256
"""Refused connections that are answered at a time; beyond, they are closed without a word."""
UNSENT_BYTES_MAX: Final = 64 << 10
"""Bytes that the kernel keeps unsent for a client.

By default it is megabytes for each slow reader.
"""

_logger = logging.getLogger(__name__)


class RealtimePort:
    """The TCP port of the control channel. A service for a supervisor; it can be run again."""

    connection_class: ClassVar[type[RealtimeConnection]] = RealtimeConnection
    """The class that serves each connection."""

    def __init__(
        self,
        options: RealtimeOptions,
        world: World,
        hub: Hub,
        udp: UdpPort | None = None,
        limits: AddressLimits | None = None,
        *,
        listeners: Listeners | None = None,
        relay: Relay | None = None,
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            options: where to listen, and the bounds.
            world: where the rooms are.
            hub: what the rooms reach their members by.
            udp: where members may have a fast lane.
            limits: how often an address may connect; none if not given.
            listeners: what to accept from; the port of the options if not given.
            relay: serves the rooms of other nodes; None if there are none.
        """
        self._listeners = listeners or OwnListeners(options.host, options.port)
        self._options = options
        self._limits = limits or NoLimits()
        self._context = RealtimeContext(options, world, hub, udp, self._limits, relay=relay)
        self._refusals = 0
        self._nursery: trio.Nursery | None = None
        self._occupancy = self._context.occupancy
        self.port = options.port
        """The bound port once it runs, the same when it is run again."""

    @property
    def connections(self) -> int:
        """Return how many connections are being served."""
        return self._occupancy.connections

    @property
    def large_bytes(self) -> int:
        """Return what large messages hold that wait for clients."""
        return self._context.large.size

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started with the bound port.

        Raises:
            ListenError: the port cannot be opened.

        Cancellation closes the port, and every connection at once (1001); relayed ones in a second.
        """
        self.port = await self._listeners.open()
        self._context.deadlines.tick(trio.current_time())
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._context.reader.run)
                nursery.start_soon(self._context.reader.keep_looking)
                nursery.start_soon(self._context.sender.run)
                nursery.start_soon(self._context.deadlines.run)
                nursery.start_soon(self._listeners.accept_forever, self._take)
                task_status.started(self.port)
        finally:
            self._listeners.close()

    def _take(self, connected: socket.socket, peer: str) -> None:
        """Serve a connection, or refuse it when there are too many."""
        assert self._nursery is not None
        retry_seconds = self._admit(peer)
        if not retry_seconds:
            self._occupancy.enter(peer)
            self._nursery.start_soon(self._serve, connected, peer)
        elif self._options.tls is None and self._refusals < REFUSALS_MAX:
            self._refusals += 1
            self._nursery.start_soon(self._refuse, connected, peer, retry_seconds)
        else:
            connected.close()

    def _admit(self, peer: str) -> int:
        """Return 0, or after how many seconds this peer may try to connect again."""
        if not self._occupancy.has_room(peer):
            return RETRY_SECONDS
        relay = self._context.relay
        if self._context.proxies.trusts(peer) or (relay is not None and relay.may_relay(peer)):
            return 0  # it is charged once its first request has told whose it is
        return self._limits.admit_realtime(peer, time.monotonic())

    async def _serve(self, connected: socket.socket, peer: str) -> None:
        """Serve one connection."""
        connection = self.connection_class(self._context, connected, peer)
        try:
            await self._run_fenced(connection, connected, 0)
        finally:
            self._occupancy.leave(connection.occupant)

    async def _refuse(self, connected: socket.socket, peer: str, retry_seconds: int) -> None:
        """Tell a client when to come back, and close once it can have read that."""
        try:
            connection = self.connection_class(self._context, connected, peer)
            await self._run_fenced(connection, connected, retry_seconds)
        finally:
            self._refusals -= 1

    async def _run_fenced(
        self, connection: RealtimeConnection, connected: socket.socket, retry_seconds: int
    ) -> None:
        """Run one connection; nothing that happens in it reaches any other."""
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets.leave_unpaced(connected)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
            await (connection.refuse(retry_seconds) if retry_seconds else connection.run())
        except (OSError, trio.ClosedResourceError) as error:
            _logger.debug("a realtime connection was lost: %r", error)
        except Exception:
            _logger.exception("a realtime connection crashed")
            connection.fail()
        finally:
            connection.end()
