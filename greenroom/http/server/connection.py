"""One HTTP/1.1 connection, in one task: reads requests, has them answered, writes the answers.

A request's way: bytes → `parser.py` → `Request` → the dispatcher → `Answer` → `writer.py` → bytes.
Answers to pipelined requests leave together. Nothing is read while a request is answered, so a
client that does not read its answers is no longer read from: that is all the backpressure there is.

An answer that another node gives, as it has given others like it, is written as it comes. The task
of the connection waits for the next request meanwhile, and is not woken; see `_begin`.

A connection ends by:

- the peer's close;
- an answer that says `Connection: close`;
- a broken protocol (400, then closed);
- a limit of the reaper's (400 while a request is being read, 500 while it is answered);
- a stop of the server, after an answer that says so. A connection that is idle moves to a process
  that stays. If there is none it is read once more, for a request may be on its way;
- a move to the process that has the client's game.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from functools import partial

import trio

from greenroom.http.errors import (
    OVERLOAD_RETRY_SECONDS,
    error_answer,
    internal_server_error,
    too_many_requests,
)
from greenroom.http.overload.body_memory import ANSWER_BYTES_MIN, BodyLease, Unsent
from greenroom.http.overload.cpu_shares import ADDRESS
from greenroom.http.overload.pass_budget import PROBES, PassBudget
from greenroom.http.ports import Begin, BegunAnswer
from greenroom.http.request import Answer, Request
from greenroom.http.server.connection_context import ConnectionContext
from greenroom.http.server.parser import (
    HTTP_2,
    HTTP_2_IN_CLEAR,
    INCOMPLETE,
    NEED_DATA,
    REQUEST,
    TIMED_OUT,
    TOO_LARGE,
    BadRequest,
    RequestParser,
    is_one_plain_request,
)
from greenroom.http.server.reaper import ANSWERING, CLOSING, HANDED, IDLE, READING, Phase
from greenroom.http.server.wire import RECEIVE_BYTES, ConnectionLost, SocketWire, Wire, linger
from greenroom.http.server.writer import CONTINUE, LAST_CHUNK, chunk, close_parts
from greenroom.network.addresses import address_key
from greenroom.network.pieces import LARGE_BYTES

_logger = logging.getLogger(__name__)

OUT_BYTES_MAX = 1 << 16
"""Answers to pipelined requests that may wait for each other."""
PIPELINED_A_TURN_MAX = 32
"""Requests answered before other connections get their turn."""
LAST_LOOK_SECONDS = 0.2
"""How long an idle connection is still read when it is to end. Clients that ask one thing after the
other have asked again by then."""
PART_TRIES = 20
PART_PAUSE_SECONDS = 0.01
"""How often an idle connection is offered to others, which take a few at a time; and the pause."""
BEGUN_MAX, WAITED_MIN = 256, 8
"""The task waits for the first few of so many answers itself, so the connection may move then."""
MOVES_MAX = 2
"""How often a connection moves. That of a client of several games would go to and fro for ever."""


class _Overloaded(Exception):
    """There is no memory for the body of this request."""


class _ArrivedLate(Exception):
    """A request came at the moment at which its idle connection was to end."""


class Connection:
    """Serves one connection from its first byte to its end."""

    __slots__ = (
        *("_answered", "_answered_by", "_arrived", "_begun", "_body", "_context", "_expired_in"),
        *("_heeds_forwarded", "_held", "_moves", "_out", "_parser", "_peer"),
        *("_must_finish", "_plain", "_scope", "_sending", "_streaming"),
        *("_trusted", "_turns_key", "_unsent", "_vouched", "_wire", "phase", "since"),
    )

    def __init__(self, context: ConnectionContext, wire: Wire, peer: str, moves: int = 0) -> None:
        """Serve `wire`.

        Args:
            context: shared by the server's connections.
            wire: the bytes; owned by the caller, who closes it after `run`.
            peer: the address at the other end, without a port.
            moves: how often it has come from another process.
        """
        options = context.options
        self._context = context
        self._wire = wire
        self._plain = wire if isinstance(wire, SocketWire) else None
        self._peer = peer
        self._trusted = context.proxies.trusts(peer)
        self._heeds_forwarded = context.proxies.heeds(peer)
        self._parser = RequestParser(
            options.header_bytes_max, options.body_bytes_max, options.drain_bytes_max, context.heads
        )
        self._body = BodyLease(context.budgets.requests)
        self._held = BodyLease(context.budgets.answers)
        self._vouched = False
        """The tokens of the request that is being read are good."""
        self._answered = 0  # requests
        self._moves = moves
        self._answered_by = 0
        """The other node that gave the last answer, if one did."""
        self._out = b""  # waits to be sent in one piece
        self._sending = False
        """A part of what was to be sent may have been sent."""
        self._streaming = False
        """A streamed answer has begun and is not complete."""
        self._scope = trio.CancelScope()
        self._begun: BegunAnswer | None = None
        """The answer that another node is to give, if no task waits for it."""
        self._must_finish = False
        """The task is woken to wait for that answer, or to do what comes after it."""
        self._expired_in: Phase | None = None
        self._arrived: bool | None = None
        """True if the request that has arrived must be refused, if that is decided."""
        if self._plain is not None:
            self._plain.turn_away = partial(self._turn_away, self._plain)
        key = address_key(peer)
        self._unsent = Unsent(context.budgets.answers, key)
        wire.count_unsent(self._unsent)
        self._turns_key = "" if self._trusted else key
        wire.take_turns(context.limits.turns, self._turns_key)
        self.phase = IDLE
        self.since = context.reaper.now

    async def run(self) -> bytes | None:
        """Serve until the connection is over.

        Returns:
            The bytes with which another server must take over, None when nothing is left to do but
            to close. Cancellation leaves the wire open.
        """
        try:
            while True:
                last: Answer | None = None
                with self._scope:
                    try:
                        return await self._converse()
                    except BadRequest as error:
                        self._context.limits.note_broken(self._peer, time.monotonic())
                        last = error_answer(error.status, str(error))
                    except _Overloaded:
                        last = too_many_requests(OVERLOAD_RETRY_SECONDS)
                    except _ArrivedLate:
                        pass
                if self._must_finish and self._expired_in is None:
                    self._scope = trio.CancelScope()
                    continue
                if self._expired_in is not IDLE:
                    break
                if self._context.parting:
                    await self._flush()  # what the peer has not read yet is an answer in flight
                    if await self._part():
                        return None
                if not await self._look_once_more():
                    break
            await self._say_goodbye(last)
        except ConnectionLost:
            self.phase = CLOSING
        finally:
            self._drop_begun()
            self._body.release()
            self._held.release()
            self._parser.close()
        return None

    def expire(self) -> None:
        """End it: the reaper found that it has been in its phase for too long."""
        self._expired_in = self.phase
        self._scope.cancel()

    def stop(self) -> None:
        """End it if it is idle; otherwise the answer in flight is the last, as the context says."""
        if self.phase is IDLE:
            self.expire()

    async def _look_once_more(self) -> bool:
        """Return whether an idle connection that was to end has brought a request after all."""
        parser = self._parser
        if not (parser.in_message or parser.has_rest):
            data = b""
            with trio.move_on_after(LAST_LOOK_SECONDS):
                data = await self._wire.receive()
            if not data:
                return False
            parser.receive(data)
        self._expired_in, self._scope = None, trio.CancelScope()
        return True

    async def _converse(self) -> bytes | None:
        """Answer one request after the other; see `run` for what is returned.

        Raises:
            _ArrivedLate: the parser has been given what came.
        """
        parser, pace, begin = self._parser, self._context.pace, self._context.begin
        while True:
            event = REQUEST if self._must_finish else parser.read_next()
            if event is REQUEST:
                is_decided = self._arrived is not None
                if self._must_finish:
                    await self._answer()
                elif (pace.is_behind or is_decided) and self._must_refuse(pace):
                    pace.note_refusing()
                    await self._refuse()
                elif begin is not None and self._begin(begin):
                    continue
                else:
                    await self._answer()
                self._answered += 1
                if parser.has_rest and not self._answered % PIPELINED_A_TURN_MAX:
                    await self._context.limits.turns.pause(self._turns_key)
            elif event is NEED_DATA and (not parser.in_message or await self._is_worth_reading()):
                if not await self._receive():
                    return None
                continue
            elif event is TOO_LARGE or event is NEED_DATA:
                self._arrived = None
                parser.keep_alive = parser.keep_alive and parser.drains
                await self._answer(body_too_large=True)
                await self._flush()
                self._answered += 1
            else:
                assert event is HTTP_2
                may_be = self._plain is not None and self._context.http2_clear.trusts(self._peer)
                if self._answered or not may_be:  # over TLS it is agreed on before
                    raise BadRequest(HTTP_2_IN_CLEAR)
                await self._flush()
                self.phase = HANDED
                return parser.take_rest()
            if not parser.keep_alive:
                await self._flush()
                if parser.has_rest or parser.is_discarding:
                    await self._linger()
                return None
            self.since = self._context.reaper.now
            if self._answered_by and await self._move():
                return None

    async def _move(self) -> bool:
        """Let the process go on that has answered; return whether it does.

        Not a trusted proxy's connection, which carries calls of many clients, nor one over TLS,
        whose keys are here.
        """
        node_id, self._answered_by = self._answered_by, 0
        others, moves = self._context.others, self._moves + 1
        if others is None or self._trusted or moves > MOVES_MAX:
            return False
        return await self._give(partial(others.give, peer=self._peer, moves=moves, node_id=node_id))

    async def _part(self) -> bool:
        """Let a process go on that stays, as this one stops; return whether one does."""
        others = self._context.others
        if others is None:
            return False
        for _ in range(PART_TRIES):
            if await self._give(partial(others.give_any, peer=self._peer)):
                return True
            await trio.sleep(PART_PAUSE_SECONDS)
        return False

    async def _give(self, give: Callable[[socket.socket], bool]) -> bool:
        """Give the connection away between two requests; return whether that has worked."""
        if self._plain is None or not self._parser.is_between_requests:
            return False
        await self._flush()
        return self._plain.give(give)

    async def _receive(self) -> bool:
        """Send what waits, then take more bytes; return whether there were any.

        Raises:
            BadRequest: the end came in the middle of a request.
            _ArrivedLate: the parser has been given what came.
            _Overloaded: there is no memory for its body.
        """
        parser = self._parser
        if parser.expects_continue:
            parser.expects_continue = False
            self._out += CONTINUE
        if self._out:
            data, self._out = self._out, b""
            if not self._wire.post(data):
                self._sending = True
                await self._wire.send(data)
                self._sending = False
        if parser.in_message:
            if not self._body.hold(parser.held_bytes, address_key(self._find_address())):
                raise _Overloaded
            self.phase = READING
            data = await self._wire.receive()
            if len(data) >= LARGE_BYTES:
                await self._context.pieces.turn(address_key(self._find_address()))
        else:
            if self._begun is None:
                self.phase = IDLE
                if self._context.parting:
                    self.expire()
            data = await self._wire.receive()
            if self._wire.is_late:
                self._arrived = True
                self._context.pace.note_late()
            self.since = self._context.reaper.now
        if data:
            parser.receive(data)
            if self._expired_in is IDLE:
                raise _ArrivedLate
            return True
        if parser.in_message:
            raise BadRequest(INCOMPLETE)
        return False

    async def _is_worth_reading(self) -> bool:
        """Return whether more is to be read; if not, the body is thrown away from now on.

        Whoever brings no good token may send a small body, or one that comes at once, and no more.
        """
        parser, context = self._parser, self._context
        if self._vouched or parser.expected_bytes <= context.options.unvouched_bytes_max:
            return True
        self.phase = ANSWERING
        self.since = context.reaper.now
        self._vouched = await context.answerer.vouches(self._make_request(b""))
        if not self._vouched:
            parser.discard()
        return self._vouched

    def _find_address(self) -> str:
        """Return the client's address; before the head has been read, that of the other end."""
        if not self._heeds_forwarded:
            return self._peer
        forwarded_for = self._parser.headers.get("x-forwarded-for")
        if forwarded_for is None:  # nearly always: no proxy is asked about then
            return self._peer
        return self._context.proxies.find_client_address(self._peer, forwarded_for)

    def _make_request(self, body: bytes, *, body_too_large: bool = False) -> Request:
        """Return the parser's request with this body."""
        parser, address = self._parser, self._find_address()
        head = parser.head
        return Request(
            parser.method,
            parser.path,
            parser.query,
            parser.headers,
            body,
            address,
            body_too_large,
            None if head is None else head.find_notes(address),
        )

    def _begin(self, begin: Begin) -> bool:
        """Have another node answer the parser's request, if it is known which; return whether.

        `_take_answer` writes the answer. Nothing is read until then.
        """
        parser = self._parser
        if (head := parser.head) is None or (notes := head.notes) is None or notes.away is None:
            return False
        context, plain = self._context, self._plain
        is_early = self._answered % BEGUN_MAX < WAITED_MIN
        is_last = parser.has_rest or not parser.keep_alive or context.stopping
        if plain is None or is_early or is_last or self._out or self._body.held:
            return False
        if not plain.expect():
            return False
        self.phase = ANSWERING
        self.since = context.reaper.now
        self._vouched = False
        request = self._make_request(parser.body)
        if self._trusted:
            self._work_for(request)
        try:
            begun = self._begun = begin(request, self._take_answer)
        except Exception as error:  # noqa: BLE001 - it is logged
            plain.end_due()
            self._answered += 1
            self._out += self._fail(error)  # it may have been sent on, so it is not tried again
            return True
        if begun is None:
            plain.end_due()
        elif begun.is_refused:
            self._must_finish = True
        return begun is not None

    def _work_for(self, request: Request) -> None:
        """Let the client be charged, of all whose requests a proxy sends here."""
        self._unsent.key = address_key(request.address)
        ADDRESS.set(self._unsent.key)

    def _take_answer(self) -> None:
        """Write the answer that another node has given, or wake the task to do what is left."""
        begun, plain, context = self._begun, self._plain, self._context
        if begun is None or plain is None or self._expired_in is not None:
            return
        answer = None if context.stopping else begun.read()
        if answer is None:
            self._must_finish = True
            self._scope.cancel()
            return
        try:
            data = self._encode(answer)
        except Exception as error:  # noqa: BLE001 - it is logged
            data = self._fail(error)
        self._begun = None
        self._answered += 1
        self.phase = IDLE
        self.since = context.reaper.now
        plain.post_due(data)

    def _drop_begun(self) -> None:
        """Wait for no other node's answer any longer."""
        if self._begun is not None and self._plain is not None:
            self._begun.drop()
            self._begun = None
            self._plain.end_due()

    async def _answer(self, *, body_too_large: bool = False) -> None:
        """Answer the parser's request, or end what `_begin` has begun."""
        parser, context, begun = self._parser, self._context, self._begun
        if begun is None:
            self.phase = ANSWERING
            self.since = context.reaper.now
            self._vouched = False
            request = self._make_request(parser.body, body_too_large=body_too_large)
            if self._trusted:
                self._work_for(request)
        else:
            self._must_finish = False
            request = begun.request
        try:
            coming = context.answerer.answer(request) if begun is None else begun.finish()
            answer = await coming
            size = len(answer.body)
            if size > ANSWER_BYTES_MIN and not self._held.hold(size, address_key(request.address)):
                answer = too_many_requests(OVERLOAD_RETRY_SECONDS)
            self._answered_by = answer.answered_by
            if answer.stream is None:
                self._out += self._encode(answer)
        except Exception as error:  # noqa: BLE001 - it is logged
            answer = None
            self._out += self._fail(error)
        if answer is not None and answer.stream is not None:
            await self._stream(answer, answer.stream)
        elif len(self._out) > OUT_BYTES_MAX:
            del answer  # what is sent is a copy of its body
            await self._flush()
        if self._body.held:
            self._body.release()
        if self._held.held:
            self._held.release()
        if begun is not None:
            self._drop_begun()

    def _must_refuse(self, pace: PassBudget) -> bool:
        """Return whether the parser's request must be refused, as may have been decided already."""
        must_refuse, self._arrived = self._arrived, None
        parser = self._parser
        if parser.method == "OPTIONS" or parser.path in PROBES:
            return False  # a browser takes a refused preflight for a broken server
        return pace.must_refuse(self._find_address()) if must_refuse is None else must_refuse

    async def _refuse(self) -> None:
        """Answer that there is too much to do."""
        parser, writer = self._parser, self._context.writer
        self._vouched = False
        is_common = parser.keep_alive and not (parser.http_1_0 or self._context.stopping)
        if is_common and parser.method != "HEAD":
            self._out += writer.overloaded
        else:
            self._out += self._encode(too_many_requests(OVERLOAD_RETRY_SECONDS))
        if len(self._out) > OUT_BYTES_MAX:
            await self._flush()
        self._body.release()

    def _turn_away(self, wire: SocketWire) -> bool:
        """Refuse what has arrived if it must be, before the task is woken and anything is read.

        Refusing must cost a fraction of answering, or a server that is asked for several times what
        it can do will do nothing but refuse. See `QueuedConnection`.
        """
        context = self._context
        if self.phase is not IDLE or context.stopping or self._trusted:
            return False  # a proxy's is judged by the address that its head names
        must_refuse = self._arrived = context.pace.must_refuse(self._peer)
        if not must_refuse:
            return False
        data = wire.receive_early()
        if len(data) == RECEIVE_BYTES or not is_one_plain_request(data):
            wire.put_back(data)
            return False
        self._arrived = None
        self.since = context.reaper.now
        wire.post_early(context.writer.overloaded)
        return True

    def _fail(self, error: Exception) -> bytes:
        """Log why the parser's request has no answer, and return the bytes that say so."""
        parser = self._parser
        _logger.error("no answer to %s %r", parser.method, parser.path, exc_info=error)
        return self._encode(internal_server_error())

    def _encode(self, answer: Answer) -> bytes:
        """Return the bytes of an answer to the request; as a server stops, it is the last one."""
        parser, context = self._parser, self._context
        goes_on = parser.keep_alive = parser.keep_alive and not context.stopping
        is_head = parser.method == "HEAD"
        return context.writer.encode(
            answer, head_only=is_head, close=not goes_on, http_1_0=parser.http_1_0
        )

    async def _stream(self, answer: Answer, parts: AsyncIterator[bytes]) -> None:
        """Send an answer part by part; one that fails half-way never ends as if it were whole."""
        parser, context = self._parser, self._context
        chunked = not parser.http_1_0
        if context.stopping or not chunked:
            parser.keep_alive = False
        self._streaming = True
        try:
            self._out += context.writer.encode_head(
                answer, chunked=chunked, close=not parser.keep_alive
            )
            if parser.method != "HEAD":
                async for part in parts:
                    if part:
                        self._out += chunk(part) if chunked else part
                        await self._flush()
                        self.since = context.reaper.now
                if chunked:
                    self._out += LAST_CHUNK
            self._streaming = False
        except ConnectionLost:
            raise
        except Exception as error:
            _logger.exception("the answer to %s %r failed half-way", parser.method, parser.path)
            await self._wire.abort()
            raise ConnectionLost from error
        finally:
            await close_parts(parts)

    async def _say_goodbye(self, last: Answer | None) -> None:
        """End a conversation that was broken off, with this answer unless the reaper did it."""
        expired_in = self._expired_in
        self._scope = trio.CancelScope()
        self._drop_begun()
        if expired_in is IDLE or expired_in is CLOSING:
            return
        if self._sending or self._streaming:
            await self._wire.abort()
            return
        if expired_in is READING:
            last = error_answer(400, TIMED_OUT)
        elif expired_in is ANSWERING:
            _logger.error("no answer to %r in time", self._parser.path)
            last = internal_server_error()
        with self._scope:
            self._parser.keep_alive = False
            if last is not None and not self._parser.is_discarding:
                self.phase = ANSWERING
                self.since = self._context.reaper.now
                self._out += self._context.writer.encode(last, close=True)
            await self._flush()
            await self._linger()

    async def _linger(self) -> None:
        """Read on for a while: closing on unread bytes would destroy the answer on its way."""
        self.phase = CLOSING
        self.since = self._context.reaper.now
        await linger(self._wire)

    async def _flush(self) -> None:
        """Send what waits, in one write, behind what was posted."""
        data, self._out = self._out, b""
        self._unsent.begin(self._parser.rest_bytes, is_counted=self._held.held > 0)
        self._sending = True
        await self._wire.send(data)
        self._unsent.begin()  # what is posted from now on is held by nobody yet
        self._sending = False
