"""Hypercorn behind a fence: it serves the connections it is given and cannot take the server down.

Its trio worker can be killed from outside: a WebSocket upgrade followed by one stray byte ends the
process. So none of it runs here but the class that serves one connection, every exception caught.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import h2.errors
import h11
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import Response
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import MAX_RECV, TCPServer
from hypercorn.typing import ASGIFramework, LifespanState

from greenroom.http.errors import error_answer
from greenroom.http.limits import CallLimits
from greenroom.http.overload.body_memory import BodyLease, Budgets
from greenroom.http.overload.delayed_refusals import HELD_UP, HeldUp
from greenroom.http.ports import Answerer
from greenroom.http.server.asgi_fence import AsgiFence
from greenroom.http.server.connection import LAST_LOOK_SECONDS
from greenroom.http.server.handoff import PushbackStream, TlsPushbackStream
from greenroom.http.server.http2_frames import FrameMeter, FrameTooLarge, TooManyFrames
from greenroom.http.server.http2_protocol import Context, Http2Protocol, exact_method
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.parser import HTTP_2_IN_CLEAR
from greenroom.http.server.wire import TcpStream, abort_stream
from greenroom.http.server.writer import AnswerWriter
from greenroom.network.addresses import address_key
from greenroom.network.head_limits import INVALID_REQUEST
from greenroom.network.limiter import Limiter, Rate
from greenroom.network.pieces import Pieces
from greenroom.network.proxies import TrustedProxies

_logger = logging.getLogger(__name__)

REQUESTS_A_CONNECTION_MAX = 10_000
"""Then it closes; bounds what a peer can do with streams that it opens and resets."""
LINGER_BYTES_MAX = 1 << 20
"""How much is read after a refusal before the peer has had its chance to see it."""
LAST_PASSES = 3
"""Passes of the scheduler after the last look, in which what has arrived is read."""
STREAMS_MAX = 100
"""HTTP/2 requests at a time on one connection."""
FRAMES = Rate(per_second=100.0, burst=1_000.0)
"""HTTP/2 frames of one connection besides those that its answers pay for: see `frames.py`."""


class HypercornServer:
    """Serves connections with Hypercorn and an ASGI application."""

    def __init__(
        self,
        app: ASGIFramework,
        options: HttpOptions,
        budgets: Budgets,
        answerer: Answerer,
        limits: CallLimits,
    ) -> None:
        """Serve `app` with these bounds, as far as Hypercorn has them.

        Args:
            app: the application.
            options: the bounds.
            budgets: what all connections together may hold.
            answerer: vouches for requests whose bodies are large.
            limits: how many frames an address may send.
        """
        self._budgets = budgets
        self._answerer = answerer
        self._limits = limits
        self._proxies = TrustedProxies(options.trusted_proxies)
        self._app = app
        self._options = options
        self._pieces = Pieces()
        self._context = Context()
        self._config = _config(options)

    async def serve(
        self, stream: TcpStream, rest: bytes, peer: str, *, may_be_http_2: bool
    ) -> None:
        """Serve one connection to its end and close it.

        Args:
            stream: the connection, its handshake done.
            rest: bytes already read from it.
            peer: the address at the other end.
            may_be_http_2: whether it may begin with HTTP/2 where TLS has not agreed on that.

        Nothing is raised but the caller's cancellation, which closes the connection.
        """
        seconds = self._options.answer_seconds_max
        wrapped: PushbackStream
        if isinstance(stream, trio.SSLStream):
            wrapped = TlsPushbackStream(stream, rest, seconds)
        else:
            wrapped = PushbackStream(stream, rest, seconds)
        abort = partial(abort_stream, stream)
        fence = AsgiFence(
            self._app,
            self._options,
            self._budgets,
            self._answerer,
            abort=abort,
            lost=wrapped.lost,
        )
        head = BodyLease(self._budgets.requests)
        server = self._make_server(wrapped, fence, head, peer)
        server.may_be_http_2 = may_be_http_2
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_when_lost, wrapped, fence, nursery.cancel_scope)
                nursery.start_soon(_cancel_when_idle, fence, self._options, nursery.cancel_scope)
                nursery.start_soon(server.end_when_draining)
                await server.run()
                nursery.cancel_scope.cancel()
        except* Exception as group:  # noqa: BLE001  the fence
            _logger.info("a connection ended badly in Hypercorn: %s", _summary(group))
        finally:
            head.release()
            _take_apart(server)
            await abort()

    def _make_server(
        self, wrapped: PushbackStream, fence: AsgiFence, head: BodyLease, peer: str
    ) -> _Server:
        """Return Hypercorn's part of a connection, with what is ours about it."""
        state: LifespanState = {}
        app = ASGIWrapper(fence)
        server = _Server(app, self._config, self._context, state, cast("Any", wrapped))
        server.linger_seconds_max = self._options.linger_seconds_max
        server.break_off = fence.break_off
        server.turn = trio.lowlevel.checkpoint
        if not self._proxies.trusts(peer):
            take_turn = partial(self.take_turn, address_key(peer))
            held_up = HeldUp(take_turn)
            HELD_UP.set(held_up)
            server.turn = partial(_turn, held_up, take_turn)
        server.frames = FrameMeter(
            partial(self._admit_frames, Limiter(FRAMES, 1), peer),
            partial(head.hold, key=address_key(peer)),
            self._options.header_bytes_max,
        )
        return server

    async def take_turn(self, key: str) -> None:
        """Wait for the turn of what an address has sent, or of a refusal of that.

        Cancellation: it had no turn, and is in nobody's way.
        """
        turns = self._limits.turns
        if turns.is_on and not turns.take(key):
            await turns.wait(key)
        await self._pieces.turn(key)

    def _admit_frames(self, own: Limiter, peer: str, frames: int) -> bool:
        """Charge a connection and its address; a trusted proxy's are many clients'."""
        now = time.monotonic()
        if own.charge(peer, now, frames):
            return False
        return self._proxies.trusts(peer) or not self._limits.admit_frames(peer, now, frames)

    def drain(self) -> None:
        """Let each answer be the last of its connection."""
        self._context.draining.set()

    async def stop(self) -> None:
        """Close idle connections once they have been read for a moment, the others when they are.

        Hypercorn does not know what has arrived and is not read yet. So a request over HTTP/1.1
        that comes at the very end of that moment is lost.
        """
        self.drain()
        await trio.sleep(LAST_LOOK_SECONDS)
        await self._context.terminated.set()


async def _turn(held_up: HeldUp, take_turn: Callable[[], Awaitable[None]]) -> None:
    """Wait for the turn of a piece, and for refusals of its connection that are held up."""
    await held_up.wait()
    await take_turn()


class _Http2InClear(Exception):
    """The peer began with HTTP/2 where it may not."""


class _Http1(H11Protocol):
    """Hypercorn's HTTP/1.1, which becomes no other protocol because a client asks for that.

    The request is answered as if it had not asked. It is the last of its connection, for a proxy
    may take what follows for the other protocol, and pass it on unread.
    """

    may_be_http_2 = False
    _is_last = False

    async def stream_send(self, event: StreamEvent) -> None:
        """Send; see Hypercorn."""
        is_last = self._is_last or cast("Context", self.context).draining.is_set()
        if is_last and isinstance(event, Response):
            kept = [(name, value) for name, value in event.headers if name != b"connection"]
            headers = [*kept, (b"connection", b"close")]
            event = Response(event.stream_id, headers, event.status_code)
        await super().stream_send(event)

    async def _maybe_recycle(self) -> None:
        """Go on after an answer, unless it said that it is the last; see Hypercorn.

        Hypercorn ends a connection here as the server stops, even if the answer did not say so.
        """
        await self._close_stream()
        goes_on = self.connection.our_state is self.connection.their_state is h11.DONE
        if goes_on:
            self.connection.start_next_cycle()
            self.response = self.scope = None
        await self.can_read.set()
        await self.send(Updated(idle=True) if goes_on else Closed())

    async def _check_protocol(self, event: h11.Request) -> None:
        """Find out whether this is HTTP/2; see Hypercorn."""
        if event.method == b"PRI":
            if not self.may_be_http_2 or self.keep_alive_requests:
                raise _Http2InClear
            await super()._check_protocol(event)

    async def _create_stream(self, request: h11.Request) -> None:
        """Begin to answer a request; see Hypercorn."""
        headers = request.headers.raw_items()
        kept = [(name, value) for name, value in headers if name.lower() != b"upgrade"]
        if len(kept) < len(headers) or request.method == b"CONNECT":
            self._is_last = True
        method = exact_method(request.method)
        if self._is_last or method != request.method:
            request = h11.Request(
                method=method,
                headers=kept,
                target=request.target,
                http_version=request.http_version,
            )
        await super()._create_stream(request)


def _never_upgrading(old: H11Protocol, *, may_be_http_2: bool) -> _Http1:
    """Return ours in place of Hypercorn's."""
    protocol = _Http1(
        *(old.app, old.config, old.context, old.task_group, old.connection_state),
        *(old.ssl, old.client, old.server, old.send),
    )
    protocol.may_be_http_2 = may_be_http_2
    return protocol


class _Server(TCPServer):
    """Hypercorn's connection, with some of its ways changed.

    Its refusals of malformed HTTP/1.1, which have no body, get ours, and the peer time to read it.
    A connection whose peer has finished is closed after the last answer; Hypercorn lets it lie
    until the idle time is up. No client can change the protocol. And HTTP/2 is read some frames at
    a time, and over once the peer has finished: then Hypercorn would wait with the answers for
    windows that nobody opens any more.
    """

    frames: FrameMeter
    break_off: Callable[[], None]
    """Ends the answer that is being sent."""
    turn: Callable[[], Awaitable[None]]
    """Waits for the turn of a piece of what comes."""

    linger_seconds_max = 0.0
    may_be_http_2 = False
    _idle = True
    _in_hand: trio.Event | None = None
    """Is set once what has been read is dealt with; None while there is nothing."""
    _peer_finished = False

    async def protocol_send(self, event: Event) -> None:
        """Send; see Hypercorn."""
        if isinstance(event, RawData) and _is_bare_refusal(event.data):
            await self._refuse(INVALID_REQUEST)
            return
        if isinstance(event, Updated):
            self._idle = event.idle
            if event.idle and self._peer_finished:
                return
        if isinstance(event, RawData):
            self.frames.note_sent(event.data)
        await super().protocol_send(event)

    async def end_when_draining(self) -> None:
        """Tell a peer who speaks HTTP/2 and asks nothing that the connection ends, once it does."""
        await cast("Context", self.context).draining.wait()
        if (protocol := self._get_http_2()) is not None:
            await protocol.end_when_idle()

    async def _idle_timeout(self) -> None:
        """End the connection once it has been idle for too long, or is to end; see Hypercorn."""
        with trio.move_on_after(self.config.keep_alive_timeout):
            await self.context.terminated.wait()
            await trio.sleep(LAST_LOOK_SECONDS)
            for _ in range(LAST_PASSES):  # a slow pass may have brought all of it at once
                await trio.lowlevel.checkpoint()
            while self._in_hand is not None:  # it waits for its turn
                await self._in_hand.wait()
        with trio.CancelScope(shield=True):
            if (protocol := self._get_http_2()) is not None:
                await protocol.end()
            await self._initiate_server_close()

    def _get_http_2(self) -> Http2Protocol | None:
        """Return the protocol if it is HTTP/2; there is none before the handshake."""
        wrapper = vars(self).get("protocol")
        protocol = None if wrapper is None else wrapper.protocol
        return protocol if isinstance(protocol, Http2Protocol) else None

    async def _refuse(self, text: str) -> None:
        """Answer 400 and close once the peer can have read it."""
        refused = error_answer(400, text)
        data = AnswerWriter(time.time()).encode(refused, close=True)
        await super().protocol_send(RawData(data))
        await self._linger()
        await super().protocol_send(Closed())

    async def _linger(self) -> None:
        """Read on for a while: closing on unread bytes would destroy the answer on its way."""
        gone = trio.BrokenResourceError, trio.ClosedResourceError
        with trio.move_on_after(self.linger_seconds_max), contextlib.suppress(*gone):
            await self.stream.send_eof()
            left = LINGER_BYTES_MAX
            while left > 0 and (data := await self.stream.receive_some(left)):
                left -= len(data)

    async def _read_data(self) -> None:
        """Read until the peer has finished, or has sent too much; see Hypercorn."""
        wrapper = self.protocol
        if isinstance(wrapper.protocol, H11Protocol):
            wrapper.protocol = _never_upgrading(wrapper.protocol, may_be_http_2=self.may_be_http_2)
        try:
            await self._read_pieces()
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            pass
        except _Http2InClear:
            await self._refuse(HTTP_2_IN_CLEAR)
        except FrameTooLarge:
            self.break_off()
            await self._end_http_2(h2.errors.ErrorCodes.FRAME_SIZE_ERROR)
        except TooManyFrames:
            self.break_off()
            await self._end_http_2(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
        if self.frames.is_http_2:
            self.break_off()
        await self.protocol.handle(Closed())
        self._peer_finished = True
        if self._idle:
            await self.idle_task.stop()

    async def _read_pieces(self) -> None:
        """Hand on what comes, up to its end, and that."""
        data = None
        while data != b"":
            data = bytes(await self.stream.receive_some(MAX_RECV))
            self._in_hand = in_hand = trio.Event()
            try:
                for piece in self.frames.cut(data):
                    await self.turn()
                    await self.protocol.handle(RawData(piece))
            finally:
                self._in_hand = None
                in_hand.set()

    async def _end_http_2(self, reason: h2.errors.ErrorCodes) -> None:
        """Tell the peer why the connection ends."""
        protocol = self.protocol.protocol
        if isinstance(protocol, H2Protocol):
            protocol.connection.close_connection(reason)
            await self.protocol_send(RawData(protocol.connection.data_to_send()))
            await self._linger()


def _take_apart(server: _Server) -> None:
    """Let go of what a connection that is over has held.

    Its parts refer to each other. Hundreds of streams would wait for the garbage collector, which
    stops everybody for as long as it frees them all.
    """
    wrapper = vars(server).pop("protocol", None)
    if wrapper is None:
        return  # there was no agreement on a protocol
    protocol = wrapper.protocol
    vars(protocol.connection).clear()
    vars(protocol).clear()


async def _cancel_when_lost(
    stream: PushbackStream, fence: AsgiFence, scope: trio.CancelScope
) -> None:
    """End what waits in Hypercorn for an answer that can no longer be sent: it would for ever.

    A cancellation ends that, too: it comes when the time for answers in flight is up.
    """
    try:
        await stream.lost.wait()
        scope.cancel()
    finally:
        fence.break_off()


async def _cancel_when_idle(
    fence: AsgiFence, options: HttpOptions, scope: trio.CancelScope
) -> None:
    """End a connection that asks for nothing, where Hypercorn's own timer does not run.

    That is before the first request of HTTP/2 in the clear, and after a handshake that it refused.
    Where its timer runs it may end first, because it says goodbye.
    """
    seconds = options.idle_seconds_max + options.linger_seconds_max
    while (left := seconds - fence.measure_idle_seconds()) > 0:  # noqa: ASYNC110  there is no event
        await trio.sleep(left)
    scope.cancel()


def _is_bare_refusal(data: bytes) -> bool:
    """Return whether this is an error without a body; the application sends none such.

    501 is what h11 says of a transfer coding that it does not know.
    """
    return data.startswith((b"HTTP/1.1 4", b"HTTP/1.1 501")) and b"content-length: 0\r\n" in data


def _config(options: HttpOptions) -> Config:
    """Return Hypercorn's settings for these bounds; it logs no requests."""
    config = Config()
    config.accesslog = None
    config.errorlog = logging.getLogger("hypercorn.error")
    config.include_server_header = False
    config.h11_max_incomplete_size = options.header_bytes_max
    config.h2_max_header_list_size = options.header_bytes_max
    config.h2_max_concurrent_streams = STREAMS_MAX
    config.keep_alive_max_requests = REQUESTS_A_CONNECTION_MAX
    config.keep_alive_timeout = options.idle_seconds_max
    return config


def _summary(error: BaseException) -> str:
    """Return what went wrong without a traceback: a peer can cause any number of these."""
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(_summary(each) for each in error.exceptions)
    return f"{type(error).__name__}: {error}"
