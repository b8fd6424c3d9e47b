"""The bus between machines: NATS, with a client of our own (docs/decisions has the reasons).

A node has two subscriptions, its own subject and one for all nodes. What it publishes is sealed.
An ask names a reply subject. If nobody is subscribed to what is asked, the server itself says so
there. Answers come as messages to the asker's own subject.

If the connection breaks, asks that were sent end with `BusLost`. Those that come meanwhile wait for
the next connection for a second at most; tells and answers are dropped. A server that is about to
stop (lame duck) is left for another one before it does. For a moment both connections are read, and
what comes over both is taken once.
"""

from __future__ import annotations

import logging
import re
from typing import Final

import trio

from greenroom.bus.asks import Ask, BusLink
from greenroom.bus.bus import BusUnusable
from greenroom.bus.envelope import EVERYBODY, Seals
from greenroom.bus.exchange import Exchange
from greenroom.bus.nats_connection import NatsConnection, NatsUnreachable, open_connection
from greenroom.bus.nats_protocol import (
    NO_RESPONDERS,
    NatsComplaint,
    NatsEvent,
    NatsInfo,
    NatsMessage,
    NatsTooLong,
    encode_publish,
)
from greenroom.bus.nats_servers import NatsOptions, NatsServer, NatsServers

_logger = logging.getLogger(__name__)

START_SECONDS_MAX: Final = 10.0
"""How long a start waits for a server that is not up yet."""
PAUSE_SECONDS: Final = 0.05
PAUSE_SECONDS_MAX: Final = 1.0
"""The shortest and the longest pause between two rounds of all servers."""
OVERLAP_SECONDS: Final = 0.5
"""How long a connection is read on after another one has replaced it."""
COMPLAINTS_MAX: Final = 16
"""Different errors of servers that are logged between two connections."""

_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _NatsLink:
    """The way to all nodes, over whichever connection there is; `BusLink`."""

    def __init__(self, seals: Seals, node_id: int, prefix: bytes) -> None:
        self.connection: NatsConnection | None = None
        self.subjects = [b"%b%d.*" % (prefix, node_id), b"%ball" % prefix]
        """The node subscribes to these."""
        self._seals = seals
        self._reply = b"%b%d.%%d" % (prefix, node_id)
        self._prefix = prefix
        self._waiting: list[tuple[Ask, bytes]] = []
        """Asks that wait for a connection."""

    @property
    def bytes_unsent(self) -> int:
        if self.connection is not None:
            return self.connection.wire.bytes_unsent
        self._waiting = [entry for entry in self._waiting if not entry[0].is_over]
        return sum(len(frame) for _, frame in self._waiting)

    @property
    def is_open(self) -> bool:
        return self.connection is not None and self.connection.wire.is_open

    def send(self, node_id: int, frame: bytes, ask: Ask | None = None) -> bool:
        if self.connection is None:
            if ask is not None:
                self._waiting.append((ask, frame))
            return ask is not None
        reply = b""
        if ask is not None:
            ask.is_sent = True
            reply = self._reply % (ask.frame or ask.number)
        last = b"all" if node_id == EVERYBODY else b"%d.m" % node_id
        sealed = self._seals.close(node_id, frame)
        return self.connection.wire.put(encode_publish(self._prefix + last, sealed, reply))

    def use(self, connection: NatsConnection) -> None:
        """Send over a connection from now on, first what has waited."""
        self.connection = connection
        waiting, self._waiting = self._waiting, []
        for ask, frame in waiting:
            if not ask.is_over:
                self.send(ask.node_id, frame, ask)


class NatsBus(Exchange):
    """One node's end of NATS."""

    def __init__(self, node_id: int, options: NatsOptions, *, key: bytes, cluster_id: str) -> None:
        """Begin without a connection.

        Args:
            node_id: the node whose end this is.
            options: see `read_options`.
            key: see `Seals`.
            cluster_id: see `Seals`; subjects begin with it. Letters, digits, `_` and `-`.

        Raises:
            ValueError: the id, the key or the name of the cluster is of no use.
        """
        super().__init__(node_id)
        if _CLUSTER_ID.fullmatch(cluster_id) is None:
            raise ValueError("the id of a cluster has letters, digits, _ and - only")
        self._options = options
        self._seals = Seals(node_id, key, cluster_id, self._counts)
        self._link = _NatsLink(self._seals, node_id, f"greenroom.{cluster_id}.".encode())
        self._servers = NatsServers(options.servers)
        self._wanted = trio.Event()
        """Set when another connection is needed."""
        self._last: NatsServer | None = None
        """The server that was used last; it is tried after the others."""
        self._told: set[str] = set()
        """Errors that have been logged since the last connection."""

    def tell_all(self, message: bytes) -> None:
        """See `Bus`."""
        self._check_length(message)
        self._tell(self._link, EVERYBODY, message)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See `Bus`."""
        unusable: BusUnusable | None = None
        self._wanted = trio.Event()
        async with self._open_nursery() as nursery:
            try:
                self._use(await self._open_first(), nursery)
                task_status.started()
                await self._stay_connected(nursery)
            except BusUnusable as error:
                unusable = error
            finally:
                self._link.connection = None
        if unusable is not None:
            raise unusable

    def _find_link(self, node_id: int) -> BusLink:  # noqa: ARG002 (there is one way to all)
        return self._link

    def _list_links(self) -> list[BusLink]:
        return [self._link] if self._link.connection is not None else []

    async def _open_first(self) -> NatsConnection:
        """Return a connection to any server; wait for one for a while.

        Raises:
            BusUnusable: those that answer cannot be used, or none answers.
        """
        reason: Exception | None = None
        with trio.move_on_after(START_SECONDS_MAX):
            while not isinstance(reason, BusUnusable):
                for server in self._servers.list_after(None):
                    try:
                        return await self._open(server)
                    except (NatsUnreachable, BusUnusable) as error:
                        if not isinstance(reason, BusUnusable):
                            reason = error
                await trio.sleep(PAUSE_SECONDS)
        if isinstance(reason, BusUnusable):
            raise reason
        servers = ", ".join(map(str, self._options.servers))
        raise BusUnusable(
            f"No NATS server at {servers} can be used ({reason or 'none answers'}): start one, or "
            "correct the setting bus."
        )

    async def _stay_connected(self, nursery: trio.Nursery) -> None:
        """Open another connection whenever one is needed, until cancelled."""
        while True:
            await self._wanted.wait()
            connection = await self._open_next()
            leaving, self._wanted = self._link.connection, trio.Event()
            self._use(connection, nursery)
            if leaving is not None:
                nursery.start_soon(self._leave, leaving)

    async def _open_next(self) -> NatsConnection:
        """Return a connection to any server but the one that is about to stop."""
        pause = PAUSE_SECONDS
        while True:
            for server in self._servers.list_after(self._last):
                in_use = self._link.connection
                if in_use is None or server != in_use.server:
                    try:
                        return await self._open(server)
                    except (NatsUnreachable, BusUnusable) as error:
                        self._log_once(str(error))
            await trio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _open(self, server: NatsServer) -> NatsConnection:
        name = f"greenroom node {self._node_id}"
        return await open_connection(server, self._options, self._link.subjects, name, self._sender)

    def _use(self, connection: NatsConnection, nursery: trio.Nursery) -> None:
        """Send over a connection from now on, and read from it."""
        self._last = connection.server
        if self._connected_since is None:
            self._connected_since = trio.current_time()
        self._told.clear()
        self._servers.note(connection.info.connect_urls, connection.server)
        self._link.use(connection)
        nursery.start_soon(self._serve, connection)
        _logger.info("connected to the NATS server %s", connection.server)

    async def _serve(self, connection: NatsConnection) -> None:
        """Hand on what comes over a connection until it ends, and note that it has."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, connection)
                reason = await self._read(connection)
                nursery.cancel_scope.cancel()
        finally:
            connection.wire.close()
        if self._link.connection is connection:
            _logger.warning("%s", reason)
            self._link.connection = None
            self._connected_since = None
            self._counts.connections_lost += 1
            self._counts.truncated += not connection.is_whole
            self._lose(self._link)
            self._wanted.set()

    async def _read(self, connection: NatsConnection) -> str:
        """Hand on what comes; return why no more comes."""
        for event in connection.early:
            self._take_event(event, connection)
        try:
            while True:
                for event in await connection.receive():
                    self._take_event(event, connection)
        except NatsUnreachable as error:
            return str(error)

    async def _watch(self, connection: NatsConnection) -> None:
        """End a connection whose server does not answer any more."""
        await connection.watch()
        self._log_once(f"the NATS server {connection.server} does not answer any more")
        connection.wire.close()

    async def _leave(self, connection: NatsConnection) -> None:
        """End a connection that another one has replaced, once nothing new can come over it.

        The servers of a cluster tell each other of our new subscriptions, which takes a moment.
        """
        await trio.sleep(OVERLAP_SECONDS)
        connection.wire.close()

    def _take_event(self, event: NatsEvent, connection: NatsConnection) -> None:
        match event:
            case NatsMessage(subject, _, status) if status:
                number = subject.rpartition(b".")[2]
                if status == NO_RESPONDERS and number.isdigit():
                    self._end_unanswered(int(number))
            case NatsMessage(_, payload):
                opened = self._seals.open(payload)
                if opened is not None:
                    sender, frame = opened
                    self._take(sender, (frame,), self._link)
            case NatsTooLong():
                self._counts.oversized += 1
            case NatsInfo():
                self._servers.note(event.connect_urls, connection.server)
                if event.is_lame_duck and connection is self._link.connection:
                    _logger.info("the NATS server %s is about to stop", connection.server)
                    self._wanted.set()
            case NatsComplaint(text):
                self._log_once(f"the NATS server {connection.server} complains: {text}")
            case _:
                pass

    def _log_once(self, text: str) -> None:
        """Log an error that may come again and again."""
        if text not in self._told and len(self._told) < COMPLAINTS_MAX:
            self._told.add(text)
            _logger.warning("%s", text)
