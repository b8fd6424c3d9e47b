"""The HTTP service: accepts connections, serves each behind a fence, drains them when it stops."""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING, Final

import trio

from greenroom.http.errors import too_many_requests
from greenroom.http.limits import CallLimits
from greenroom.http.overload.accept_queue import HAS_EPOLL, AcceptQueue
from greenroom.http.overload.body_memory import Budgets
from greenroom.http.overload.concurrency import ConcurrencyLimit
from greenroom.http.overload.cpu_shares import ADDRESS, CpuShares
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.ports import Answerer, Begin, OtherWorkers
from greenroom.http.server.connection import Connection
from greenroom.http.server.connection_context import ConnectionContext
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.reaper import Reaper
from greenroom.http.server.tls_handshake import shake_hands
from greenroom.http.server.wire import (
    ConnectionLost,
    SocketWire,
    StreamWire,
    TcpStream,
    Wire,
    abort_stream,
    linger,
)
from greenroom.http.server.writer import AnswerWriter
from greenroom.http.site.front import Front, Routes
from greenroom.network.addresses import address_key
from greenroom.network.connection_counts import Occupancy
from greenroom.network.listeners import Listeners, OwnListeners
from greenroom.network.pass_sender import PassSender
from greenroom.network.pieces import Pieces
from greenroom.network.tls import TlsContext

if TYPE_CHECKING:
    from hypercorn.typing import ASGIFramework

    from greenroom.http.server.hypercorn_server import HypercornServer

_logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 5
"""Seconds that a client is told to wait that found all connections taken."""
REFUSALS_MAX = 256
"""Refused connections that are closed with patience at a time; beyond, without."""
HTTP_2_PLACES: Final = 4
"""Connections of its address that one of HTTP/2 counts for. A silent one takes some 100 KiB, a
silent one of HTTP/1.1 some 10."""


class HttpServer:
    """One HTTP port, plain or TLS. A service for a supervisor; it can be run again."""

    def __init__(
        self,
        options: HttpOptions,
        answerer: Answerer,
        pages: Routes,
        limits: CallLimits | None = None,
        in_flight: ConcurrencyLimit | None = None,
        *,
        tls: TlsContext | None = None,
        listeners: Listeners | None = None,
        others: OtherWorkers | None = None,
        begin: Begin | None = None,
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            options: where to listen, and the bounds.
            answerer: answers everything under `/api/`.
            pages: path → what answers there: `/openapi.json`, `/healthz`, `/mcp`, …
            limits: how often an address may connect, and ask for pages; the defaults if not given.
            in_flight: what the answerer has under way.
            tls: what each new connection is served with; plain HTTP if not given.
            listeners: what to accept from; the port of the options if not given.
            others: the other processes of this machine, whose connections come here, and where
                those of this one go.
            begin: sends on what other nodes answer; everything is the answerer's if not given.
        """
        self._options = options
        self._listeners = listeners or OwnListeners(options.host, options.port, options.backlog)
        self._tls = tls
        self._writer = AnswerWriter(time.time())
        self._reaper = Reaper(options, self._writer)
        self._sender = PassSender()
        self._budgets = Budgets(options)
        self._limits = limits or CallLimits()
        self._others = others
        self._turns = self._limits.turns
        self._pace = PassBudget(
            self._limits.refused,
            in_flight,
            CpuShares(self._turns),
            self._turns,
            addresses=lambda: self._occupancy.addresses,
        )
        self._arrivals = AcceptQueue(self._pace, self._sender) if HAS_EPOLL else None
        self._front = front = Front(answerer, pages, self._limits)
        self._context = ConnectionContext(
            options,
            front,
            self._writer,
            self._reaper,
            self._budgets,
            pace=self._pace,
            limits=self._limits,
            others=others,
            begin=begin,
        )
        self._hypercorn: HypercornServer | None = None
        """There while it runs, if anything may need it."""
        self._nursery: trio.Nursery | None = None
        self._own: set[Connection] = set()
        self._handed: set[trio.abc.Stream] = set()
        self._occupancy = Occupancy(
            options.connections_max, options.connections_per_address_max, self._context.proxies
        )
        self._handshakes = Pieces()
        self._refusals = 0
        self._is_ending = False
        self.port = options.port
        """The bound port once it runs; kept for the next run, so that a restart changes nothing."""

    def _make_hypercorn(self) -> HypercornServer | None:
        """Return what serves the other connections; it cannot be run again once stopped.

        Loading it takes a fifth of a server's start, so it is loaded only where HTTP/2 may come.
        That is agreed on over TLS, or a setting names who may speak it in the clear.
        """
        options, front = self._options, self._front
        if self._tls is None and options.server != "hypercorn" and not options.http2_clear_from:
            return None
        from greenroom.http.server.hypercorn_server import HypercornServer

        app: ASGIFramework
        if options.server == "hypercorn":
            from greenroom.http.server.quart_app import build_app

            app = build_app(front, options, self._pace)
        else:
            from greenroom.http.server.front_app import FrontApp

            app = FrontApp(front, options, self._pace)
        return HypercornServer(app, options, self._budgets, front, self._limits)

    @property
    def connections(self) -> int:
        """Return how many connections are being served."""
        return self._occupancy.connections

    @property
    def scheme(self) -> str:
        """`https` or `http`."""
        return "http" if self._tls is None else "https"

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen and serve until cancelled; started with the bound port.

        Raises:
            ListenError: the port cannot be opened.

        Cancellation closes the port, and waits up to `stop_seconds_max` for answers in flight. Idle
        connections move to other processes, if these take them, or are read once more and closed.
        """
        self.port = await self._listeners.open()
        self._context.stopping = self._context.parting = self._is_ending = False
        self._hypercorn = self._make_hypercorn()
        self._reaper.tick()
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            self._nursery = await nursery.start(self._hold_connections, stop)
            trio.lowlevel.add_instrument(self._pace)
            try:
                async with trio.open_nursery() as acceptors:
                    if self._others is not None:
                        await acceptors.start(self._others.run, self._take_over)
                    acceptors.start_soon(self._listeners.accept_forever, self._take)
                    task_status.started(self.port)
            finally:
                trio.lowlevel.remove_instrument(self._pace)
                self._pace.rest()  # nobody would find out that it is not behind any more
                self._listeners.close(self._take)
                stop.set()

    async def _hold_connections(
        self, stop: trio.Event, *, task_status: trio.TaskStatus[trio.Nursery]
    ) -> None:
        """Keep the connections out of the reach of a cancellation, and drain them on `stop`."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as helpers:
                helpers.start_soon(self._reaper.run)
                await helpers.start(self._sender.run)  # before the pace, which counts it, too
                helpers.start_soon(self._turns.run)
                if self._arrivals is not None:
                    helpers.start_soon(self._arrivals.run)
                async with trio.open_nursery() as connections:
                    task_status.started(connections)
                    await stop.wait()
                    helpers.start_soon(self._force_stop)
                    deadline = trio.current_time() + self._options.stop_seconds_max
                    connections.cancel_scope.deadline = deadline
                    await self._begin_stop()
                helpers.cancel_scope.cancel()

    def drain(self) -> None:
        """Go on serving, but tell each client with its answer that the connection ends."""
        self._context.stopping = True
        if self._hypercorn is not None:
            self._hypercorn.drain()

    async def _begin_stop(self) -> None:
        """Close what is idle, or move it; everything else ends after the answer it is in."""
        self.drain()
        self._is_ending = self._context.parting = True
        for connection in self._own:
            connection.stop()
        if self._hypercorn is not None:
            await self._hypercorn.stop()

    async def _force_stop(self) -> None:
        """Cut off, when the time is up, what shields itself: Hypercorn in the middle of a send."""
        await trio.sleep(self._options.stop_seconds_max)
        for stream in tuple(self._handed):
            await abort_stream(stream)

    def _take(self, connected: socket.socket, peer: str) -> None:
        """Begin to serve a new connection, or refuse it when there are too many."""
        retry_seconds = self._admit(peer)
        if retry_seconds:
            self._refuse(connected, retry_seconds)
            return
        self._begin(connected, peer)

    def _take_over(self, connected: socket.socket, peer: str, moves: int) -> None:
        """Begin to serve a connection that another process has accepted, and charged for."""
        if self._occupancy.has_room(peer):
            self._begin(connected, peer, moves)
        else:
            connected.close()

    def _begin(self, connected: socket.socket, peer: str, moves: int = 0) -> None:
        self._occupancy.enter(peer)
        assert self._nursery is not None
        self._nursery.start_soon(self._serve_fenced, connected, peer, moves)

    def _admit(self, peer: str) -> int:
        """Return 0, or after how many seconds this peer may try to connect again."""
        if not self._occupancy.has_room(peer):
            return RETRY_AFTER_SECONDS
        if self._context.proxies.trusts(peer):
            return 0
        return self._limits.admit_connection(peer, time.monotonic())

    def _refuse(self, connected: socket.socket, retry_seconds: int) -> None:
        """Tell one connection too many to come back later, if even that is not too much."""
        if self._tls is not None or self._refusals >= REFUSALS_MAX:
            connected.close()
            return
        self._refusals += 1
        assert self._nursery is not None
        self._nursery.start_soon(self._refuse_patiently, connected, retry_seconds)

    async def _refuse_patiently(self, connected: socket.socket, retry_seconds: int) -> None:
        """Answer 429 and close once the client can have read it."""
        answer = too_many_requests(retry_seconds)
        wire = SocketWire(connected, self._sender)
        try:
            with trio.move_on_after(self._options.linger_seconds_max):
                await wire.send(self._writer.encode(answer, close=True))
                await linger(wire)
        except ConnectionLost:
            pass
        finally:
            self._refusals -= 1
            await wire.close()

    async def _serve_fenced(self, connected: socket.socket, peer: str, moves: int) -> None:
        """Serve one connection; nothing that happens in it reaches any other."""
        ADDRESS.set(address_key(peer))
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._serve(connected, peer, moves)
        except* OSError as group:
            _logger.debug("a connection was lost: %r", group)
        except* Exception:
            _logger.exception("a connection crashed")
        finally:
            connected.close()
            self._occupancy.leave(peer)

    async def _serve(self, connected: socket.socket, peer: str, moves: int) -> None:
        """Find out which server the connection is for, and let it serve."""
        wire: Wire
        if self._tls is None:
            if self._options.server == "hypercorn":
                await self._hand_over(_stream(connected), b"", peer)
                return
            wire = SocketWire(connected, self._sender, self._arrivals)
        else:
            stream = await self._shake_hands(_stream(connected), self._tls, address_key(peer))
            if stream is None:
                return
            if self._options.server == "hypercorn" or stream.selected_alpn_protocol() == "h2":
                is_http_2 = stream.selected_alpn_protocol() == "h2"
                await self._hand_over(stream, b"", peer, is_http_2=is_http_2)
                return
            wire = StreamWire(stream)
        connection = Connection(self._context, wire, peer, moves)
        self._reaper.connections.add(connection)
        self._own.add(connection)
        if self._is_ending:
            connection.stop()
        rest: bytes | None = None
        try:
            rest = await connection.run()
        finally:
            self._reaper.connections.discard(connection)
            self._own.discard(connection)
            if rest is None:
                await wire.close()
        if rest is not None:
            await self._hand_over(wire.release_stream(), rest, peer, is_http_2=True)

    async def _shake_hands(
        self, plain: trio.SocketStream, tls: TlsContext, key: str
    ) -> trio.SSLStream[trio.SocketStream] | None:
        """Return the TLS stream, None when there is no agreement in time."""
        with trio.move_on_after(self._options.handshake_seconds_max):
            try:
                return await shake_hands(plain, tls(), self._handshakes, key)
            except trio.BrokenResourceError:
                pass
        await abort_stream(plain)
        return None

    async def _hand_over(
        self, stream: TcpStream, rest: bytes, peer: str, *, is_http_2: bool = False
    ) -> None:
        """Let Hypercorn serve the connection to its end, if its address may have one more."""
        assert self._hypercorn is not None
        more = HTTP_2_PLACES - 1 if is_http_2 else 0
        if not self._occupancy.grow(peer, more):
            await abort_stream(stream)
            return
        self._handed.add(stream)
        may_be_http_2 = self._tls is None and self._context.http2_clear.trusts(peer)
        try:
            await self._hypercorn.serve(stream, rest, peer, may_be_http_2=may_be_http_2)
        finally:
            self._handed.discard(stream)
            self._occupancy.shrink(peer, more)


def _stream(connected: socket.socket) -> trio.SocketStream:
    """Return a connected socket as a trio stream."""
    return trio.SocketStream(trio.socket.from_stdlib_socket(connected))
