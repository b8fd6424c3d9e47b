"""The realtime port: accepts connections of the control channel, serves each behind a fence."""

from __future__ import annotations

import logging
import socket
from collections import Counter

import trio

from greenroom import sockets
from greenroom.actors.flows.world import World
from greenroom.transport.connection import Connection, ConnectionContext
from greenroom.transport.handshake import overloaded
from greenroom.transport.hub import Hub
from greenroom.transport.options import RealtimeOptions
from greenroom.transport.udp import UdpPort

_logger = logging.getLogger(__name__)


class RealtimePort:
    """The TCP port of the control channel. A service for a supervisor; it can be run again."""

    def __init__(
        self, options: RealtimeOptions, world: World, hub: Hub, udp: UdpPort | None = None
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            options: where to listen, and the bounds.
            world: where the rooms are.
            hub: what the rooms reach their members by.
            udp: where members may have a fast lane.
        """
        self._options = options
        self._context = ConnectionContext(options, world, hub, udp)
        self._nursery: trio.Nursery | None = None
        self._by_address: Counter[str] = Counter()
        self.connections = 0
        """Connections being served."""
        self.port = options.port
        """The bound port once it runs, the same when it is run again."""

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; started with the bound port.

        Raises:
            ListenError: the port cannot be opened.

        Cancellation closes the port, and every connection at once (1001).
        """
        listeners = await sockets.bind_tcp(self._options.host, self.port)
        self.port = listeners[0].getsockname()[1]
        self._context.watch.tick(trio.current_time())
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._context.sender.run)
                nursery.start_soon(self._context.watch.run)
                for listener in listeners:
                    nursery.start_soon(sockets.accept_forever, listener, self._take)
                task_status.started(self.port)
        finally:
            for listener in listeners:
                listener.close()

    def _take(self, connected: socket.socket, peer: str) -> None:
        """Serve a connection, or refuse it when there are too many."""
        options = self._options
        per_address = options.connections_per_address_max or -(-options.connections_max // 2)
        assert self._nursery is not None
        if self.connections >= options.connections_max or self._by_address[peer] >= per_address:
            _refuse(connected, is_plain=options.tls is None)
            return
        self.connections += 1
        self._by_address[peer] += 1
        self._nursery.start_soon(self._serve_fenced, connected, peer)

    async def _serve_fenced(self, connected: socket.socket, peer: str) -> None:
        """Serve one connection; nothing that happens in it reaches any other."""
        connection = Connection(self._context, connected)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await connection.run()
        except (OSError, trio.ClosedResourceError) as error:
            _logger.debug("a realtime connection was lost: %r", error)
        except Exception:
            _logger.exception("a realtime connection crashed")
            connection.fail()
        finally:
            connection.end()
            self.connections -= 1
            self._by_address[peer] -= 1
            if not self._by_address[peer]:
                del self._by_address[peer]


def _refuse(connected: socket.socket, *, is_plain: bool) -> None:
    """Tell one connection too many to come back later, if it listens, and close."""
    try:
        if is_plain:
            connected.send(overloaded())
    except OSError:
        pass
    finally:
        connected.close()
