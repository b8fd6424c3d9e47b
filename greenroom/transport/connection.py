"""One connection of the control channel, in one task: handshake, token, then messages.

It ends by the client's close, a broken protocol or too big a message, the room (see `hub.py`), or a
stop of the server. It also ends by silence, and by a client that does not read (`look`, `put`).
After our close frame the other side has `close_seconds_max` to read it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Final

import trio

from greenroom.actors.flows import realtime
from greenroom.actors.flows.realtime import Admission
from greenroom.actors.kernel.errors import ActorUnavailable, Refused
from greenroom.actors.plans.refusals import WRITTEN_TOO_MUCH, PlayersRefused
from greenroom.actors.room.ports import Happened
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.room.rules.refusals import TokenInvalidated, TokenUnknown
from greenroom.actors.room.studio_messages import ShowState
from greenroom.actors.studio_room.refusals import RefusedByBehaviour
from greenroom.contract.allowed_values import RequestId
from greenroom.contract.realtime import ConnectedData
from greenroom.contract.refusals import REALTIME_HINTS
from greenroom.fastlane.suites import choose_suite
from greenroom.network.addresses import is_loopback, names_loopback
from greenroom.network.tls_codec import TlsBroken, TlsCodec
from greenroom.transport.arrival.arrival import RETRY_SECONDS, Arrival, Arrived, Lost
from greenroom.transport.arrival.handshake import Opening, overloaded
from greenroom.transport.arrival.relaying import carry
from greenroom.transport.audience import Replay
from greenroom.transport.context import RealtimeContext
from greenroom.transport.fanout import Fanout
from greenroom.transport.liveness import Liveness
from greenroom.transport.messages import (
    HEARTBEAT,
    KEYS_NEED_TLS,
    MALFORMED_TEXT,
    NO_SUCH_SUITE,
    NO_UDP_PORT,
    TOO_MANY_TEXT,
    UDP_STATUS,
    WANT_STATE,
    ClientKind,
    Send,
    UdpOpen,
    encode,
    encode_connected,
    encode_error,
    encode_heartbeat_ack,
    encode_refused,
    encode_stopping,
    encode_udp,
    encode_udp_stats,
    read,
)
from greenroom.transport.outbox import Outbox, Piece, count_sent
from greenroom.transport.ports import NobodyToRelayTo, RelaySide, RelayTarget
from greenroom.transport.rates import MessageRate
from greenroom.transport.reader import MORE
from greenroom.transport.requests import ActionRequest, MalformedMessage, request_action
from greenroom.transport.udp.session import SessionOwner, UdpSession
from greenroom.transport.websocket.frames import PING, TEXT, encode_frame
from greenroom.transport.websocket.session import GOING_AWAY, NORMAL, Session, SessionPhase

RECEIVE_BYTES: Final = 4 << 10
"""Bytes read at a time, unless more of a frame is to come: a long pass keeps everybody waiting."""
RECEIVE_BYTES_MAX: Final = 64 << 10
LINGER_BYTES_MAX: Final = 1 << 20
"""Bytes that are read after the last frame before the peer has had its chance to see it."""

POLICY: Final = 1008
SERVER_ERROR: Final = 1011
OVERLOAD: Final = 1013

_PING: Final = encode_frame(PING, b"")
# By name, because an enum's member is found more slowly, and these are asked for often.
_OPEN: Final = SessionPhase.OPEN
_OVER: Final = SessionPhase.OVER


class RealtimeConnection(Outbox):
    """Serves one connection; a `Link` of the hub, `Timed`, and `Flushable`."""

    __slots__ = (
        "_closed_at",
        "_context",
        "_frames",
        "_heard_at",
        "_host",
        "_is_drained",
        "_is_local",
        "_is_over",
        "_is_pinged",
        "_liveness",
        "_member",
        "_pace",
        "_room",
        "_session",
        "_spoke_at",
        "connection_id",
        "fanout",
        "kind",
        "lane",
        "occupant",
        "told",
    )

    def __init__(self, context: RealtimeContext, connected: socket.socket, peer: str) -> None:
        """Take over a non-blocking connected socket; `end` closes it.

        Args:
            context: shared by all connections of the port.
            connected: the socket.
            peer: the address at its other end.
        """
        options = context.options
        tls = None if options.tls is None else TlsCodec(options.tls())
        super().__init__(
            connected,
            tls,
            context.sender,
            options.outbox_bytes_max,
            large=context.large,
            address=peer,
        )
        self.occupant = peer
        """The address that the connection counts for."""
        self._context = context
        self._session = Session(self._put_bounded, options.message_bytes_max)
        self._is_over = False
        self._member: Admission | None = None
        self._pace = MessageRate(options.messages_per_second, options.bytes_per_message)
        self._room = ""  # in whose turn the connection is read
        self._heard_at = self._spoke_at = context.deadlines.now
        self._closed_at = 0.0
        self._frames = 0  # that have been counted against the rates
        self._is_drained = True  # the last read took everything that there was
        self._is_pinged = False
        self._liveness: Liveness | None = None  # before there is a member
        self._host = ""
        self._is_local = False
        self.kind = ClientKind.JSON
        self.connection_id = ""
        self.lane: UdpSession | None = None
        self.told = 0
        self.fanout: Fanout | None = None

    async def run(self) -> None:
        """Serve the connection until it has ended.

        Cancellation leaves the socket open, for `end` to close.
        """
        try:
            context, arrived = self._context, None
            with trio.move_on_after(context.options.handshake_seconds_max):
                arrival = Arrival(context, self._socket, self._tls, self._address)
                arrived = await arrival.read()
            if arrived is not None:
                await self._serve(arrived)
            await self._linger()
        except Lost:
            return

    async def _serve(self, arrived: Arrived) -> None:
        """Answer a beginning, and serve what follows if it is for this node."""
        self._address = arrived.address
        if arrived.is_relayed and not self._context.occupancy.move(self.occupant, self._address):
            self._put(overloaded(RETRY_SECONDS))
            return
        if arrived.is_relayed:
            self.occupant = self._address
        if arrived.target is not None:
            await self._relay(arrived, arrived.target)
        elif arrived.opening is None:
            self._put(arrived.answer)
        else:
            self._begin(arrived.opening)
            await self._admit(arrived.opening, arrived.as_of)
            await self._converse(arrived.rest)

    def _begin(self, opening: Opening) -> None:
        """Agree to the WebSocket."""
        self._put(opening.answer)
        self._session.begin()
        self.kind, self._host = opening.kind, opening.host
        is_called = names_loopback(opening.host) and not opening.is_forwarded
        self._is_local = is_called and is_loopback(self._address)
        self._context.deadlines.add(self, self._heard_at)

    async def _relay(self, arrived: Arrived, target: RelayTarget) -> None:
        """Carry the connection to another node until it ends."""
        relay, options = self._context.relay, self._context.options
        assert relay is not None
        try:
            owner = await relay.connect(target, self._address)
        except NobodyToRelayTo:
            self._put(overloaded(RETRY_SECONDS))
            return
        with owner.socket:
            await carry(
                RelaySide(self._socket, self._tls),
                owner,
                arrived.head + arrived.rest,
                self._context.reader,
                target.room_id,
                stall_seconds_max=options.stall_seconds_max,
                close_seconds_max=options.close_seconds_max,
            )

    async def refuse(self, retry_seconds: int) -> None:
        """Tell the client when to come back, and do not serve it; cancellation as in `run`."""
        self._put(overloaded(retry_seconds))
        with contextlib.suppress(Lost):
            await self._linger()

    def end(self) -> None:
        """Close the connection, whatever its state, and ask a member to come back; never waits."""
        if self.connection_id:
            self.put(encode_stopping())
        self.close(GOING_AWAY, "Server is stopping")
        self.flush()
        self._is_over = True
        self._leave()
        self._session.end()
        self._drop()
        if self._overdue is not None:
            trio.lowlevel.notify_closing(self._socket)
        self._socket.close()

    def fail(self) -> None:
        """Close the connection because of a bug of ours."""
        self.close(SERVER_ERROR, "Internal server error")

    # What the hub and the deadlines ask.

    def tell(self, frames: Piece, count: int) -> None:
        """See `Link`; a client that lets too much wait is closed."""
        self.told += count
        self._put(frames)
        if self._out_bytes > self._checked_above:
            self._relieve(frames)

    def tell_now(self, frames: bytes, count: int) -> None:
        """See `Listener`; likewise."""
        if self._out or self._overdue is not None or self._tls is not None:
            self.tell(frames, count)
            return
        try:  # not by `_send`: this is done for every message and member
            sent = self._socket.send(frames)
        except OSError as error:
            sent = count_sent(frames, error)
        if sent == len(frames):
            self.told += count
        else:
            self.tell(memoryview(frames)[sent:], count)

    def put(self, frame: bytes) -> None:
        """See `Link`; likewise."""
        if self._session.phase is _OPEN:
            self._put_bounded(frame)

    def offer(self, frame: bytes) -> None:
        """See `Link`."""
        if self._out_bytes <= self._out_bytes_max // 4:
            self.put(frame)

    def hear(self) -> None:
        """See `Link`."""
        with contextlib.suppress(Lost):
            self._take_some(trio.current_time())

    def close(self, code: int, reason: str) -> None:
        """See `Link`."""
        if self._session.phase is _OPEN:
            self._session.close(code, reason)
            self._leave()
            self._await_close()

    def part(self, last: bytes, code: int, reason: str) -> None:
        """See `Link`."""
        self.put(last)
        if self._session.phase is _OPEN:
            self._session.part(code, reason)
            self.fanout = None
            self._close_lane()
            self._await_close()

    def _await_close(self) -> None:
        self._closed_at = now = self._context.deadlines.now
        self._context.deadlines.add(self, now + self._context.options.close_seconds_max)

    def look(self, now: float) -> float | None:
        """See `Timed`."""
        options = self._context.options
        if self._is_over:
            return None
        if self._session.phase is not _OPEN:
            if now < self._closed_at + options.close_seconds_max:
                return self._closed_at + options.close_seconds_max
            self._abort()
            return None
        inactive_at = self._spoke_at + options.inactive_seconds_max
        if now >= inactive_at:
            self.close(NORMAL, "Inactive timeout")
            return None
        ping_at = self._heard_at + options.ping_seconds
        lost_at = ping_at + options.pong_seconds_max
        if self._is_pinged and now >= lost_at:
            self._abort()
            return None
        if not self._is_pinged and now >= ping_at:
            if lost_at >= inactive_at:  # the ping could not tell anything before that
                return inactive_at
            self._is_pinged = True
            self.tell_now(_PING, 0)
        return min(lost_at if self._is_pinged else ping_at, inactive_at)

    def may_store(self, size: int, request_id: RequestId | None = None) -> bool:
        """See `Link`."""
        member, context = self._member, self._context
        if member is None:
            return True
        address, world, text = self._address, context.world, TOO_MANY_TEXT
        wait = context.limits.admit_stored(address, member.player_id, size, time.monotonic())
        if not wait:
            text = WRITTEN_TOO_MUCH
            wait = world.ledger.count_written(member.game_id, address, size, world.clock.now())
        if wait:
            self.put(encode_error(text, wait, request_id))
        return not wait

    # Sending.

    def _put_bounded(self, data: bytes) -> None:
        """Send soon. A client that lets too much wait is closed."""
        fanout = self.fanout
        if fanout is not None and fanout.said:
            fanout.settle()
        self._put(data)
        if self._out_bytes > self._checked_above:
            self._relieve(data)

    def _relieve(self, data: Piece) -> None:
        """Close the connection if too much waits; `data` is the last of it."""
        if self._is_too_much(data):
            self._close_overloaded()

    def _close_overloaded(self) -> None:
        """Close the connection: the client does not read what waits for it."""
        self.close(OVERLOAD, "Overload")

    def _cut_off(self) -> None:
        """See `Outbox`; the reason would have to wait behind what the client does not read."""
        self.close(OVERLOAD, "Overload")
        self._drop()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    # Receiving.

    def _receive_now(self) -> bytes:
        """Return the bytes that have come; empty if there are none yet.

        Raises:
            Lost: nothing more will come.
        """
        size = RECEIVE_BYTES
        if not self._is_drained:
            size = max(size, min(self._session.reader.lacking, RECEIVE_BYTES_MAX))
        try:
            data = self._socket.recv(size)
            self._is_drained = len(data) < size
            if data:
                return data if self._tls is None else self._tls.decrypt(data)
        except (BlockingIOError, InterruptedError):
            self._is_drained = True
            return b""
        except (OSError, TlsBroken):
            raise Lost from None
        raise Lost

    async def _admit(self, opening: Opening, as_of: int | None) -> None:
        """Let the client in, or close with the reason why not."""
        context, member = self._context, None
        if opening.token is None:
            self._turn_away(opening, "Token required", REALTIME_HINTS["required"])
            return
        try:
            member = await realtime.admit(context.world, opening.token, self._address, as_of)
        except (TokenUnknown, TokenInvalidated) as refusal:
            if isinstance(refusal, TokenUnknown):
                context.limits.note_failed_token(self._address, time.monotonic())
            self._turn_away(opening, str(refusal), refusal.hint)
            return
        except (ActorUnavailable, PlayersRefused) as failure:
            self.close(OVERLOAD, str(failure) if isinstance(failure, Refused) else "Overload")
            return
        self.connection_id = os.urandom(16).hex()
        self._member = member
        self._liveness = Liveness(
            context.world, context.deadlines, member.player_id, context.options.alive_seconds
        )
        replay = context.hub.attach(member.room_id, member.player_id, self, opening.resume)
        self._pace.room = context.hub.get_allowance(
            member.room_id, context.options.room_messages_per_second
        )
        self._greet(member, replay)
        realtime.note_connection(member, is_connected=True)

    def _turn_away(self, opening: Opening, text: str, hint: str | None) -> None:
        """Close the connection of a client without a good token.

        Clients take the first frame for `connected`. So only those get the hint, in a frame, that
        have asked for it.
        """
        if opening.wants_hints:
            self.put(encode_refused(text, hint))
        self.close(POLICY, text)

    def _greet(self, member: Admission, replay: Replay | None) -> None:
        """Tell the member who is connected, then what they missed."""
        data = ConnectedData(
            connection_id=self.connection_id,
            player_id=member.player_id,
            player_name=member.player_name,
            room_id=member.room_id,
            client_type="engine" if self.kind is ClientKind.ENGINE else "json",
        )
        self.put(encode_connected(data))
        if replay is not None:
            if replay.missed != 0:
                self.put(encode(Happened("replay_gap", {"missed": replay.missed}), self.kind))
            for message in replay.messages:
                self.put(encode(message, self.kind))

    async def _converse(self, rest: bytes) -> None:
        """Receive messages until the session is over."""
        pause = self._take_messages(rest, trio.current_time())
        if pause is not None:
            await trio.sleep(pause)
            self._room = self.connection_id if self._member is None else self._member.room_id
            await self._context.reader.read(self._socket, self._room, self._take_some)

    def _take_some(self, now: float) -> float | None:
        """Take in what has come; return what `Reader.read` expects of `take`.

        Raises:
            Lost: the peer is gone.
        """
        data = self._receive_now()
        pause: float | None = 0.0
        if data:
            self._heard_at = self._context.deadlines.now
            liveness = self._liveness
            if liveness is not None and self._member is not None:
                if self._is_pinged:
                    liveness.note_pong()
                else:
                    liveness.note()
            self._is_pinged = False
            pause = self._take_messages(data, now)
        return pause if pause != 0.0 or self._is_drained else MORE

    def _take_messages(self, data: bytes, now: float) -> float | None:
        """Take in every message that has come whole.

        Returns:
            For how many seconds to read no more, None for ever.
        """
        session, reader, member = self._session, self._session.reader, self._member
        if session.phase is _OPEN and (text := reader.take_alone(data)) is not None:
            self._spoke_at = self._heard_at
            if member is not None:
                self._take(member, TEXT, text)
            return self._pace.charge(1, len(data), now)
        session.receive(data)
        while not reader.is_drained and (message := session.read_next()) is not None:
            self._spoke_at = self._heard_at
            if member is not None:
                self._take(member, *message)
        if session.phase is _OVER:
            self._leave()
            return None
        frames, self._frames = reader.frames - self._frames, reader.frames
        return self._pace.charge(frames, len(data), now)

    def _take(self, member: Admission, opcode: int, payload: bytes) -> None:
        """Carry out a client's message."""
        request_id: RequestId | None = None
        try:
            if opcode != TEXT:
                raise MalformedMessage
            wanted = read(payload)
            if isinstance(wanted, Send):
                request_id = wanted.request_id
                what = wanted.command, wanted.data, wanted.targets, None, request_id
                member.room.post(SendMessage(member.player_id, *what))
            elif isinstance(wanted, ActionRequest):
                request_id = wanted.request_id
                if self.may_store(len(payload), request_id):
                    member.room.post(request_action(member.player_id, wanted))
            elif wanted is HEARTBEAT:
                self.put(encode_heartbeat_ack(self._context.world.clock.time()))
            elif isinstance(wanted, UdpOpen):
                self._open_lane(member, wanted)
            elif wanted is UDP_STATUS:
                lane = self.lane
                self.put(encode_udp_stats(None if lane is None else lane.describe()))
            elif wanted is WANT_STATE:
                member.room.post(ShowState(member.player_id))
        except RefusedByBehaviour as refused:
            self.put(encode_error(str(refused), None, request_id))
        except MalformedMessage as malformed:
            self.put(encode_error(malformed.text or MALFORMED_TEXT, None, malformed.request_id))
        except (Refused, ActorUnavailable):
            self.put(encode_error(MALFORMED_TEXT, None, request_id))

    # The fast lane.

    def _open_lane(self, member: Admission, wanted: UdpOpen) -> None:
        """Open a fast lane and send its keys; the keys before are void."""
        context, udp = self._context, self._context.udp
        name = choose_suite(wanted.suites)
        if udp is None:
            self.put(encode_error(NO_UDP_PORT, None, wanted.request_id))
        elif not self._may_have_keys():
            self.put(encode_error(KEYS_NEED_TLS, None, wanted.request_id))
        elif name is None:
            self.put(encode_error(NO_SUCH_SUITE, None, wanted.request_id))
        else:
            self._close_lane()
            assert self._pace.room is not None
            assert self._liveness is not None
            allowances = (self._pace.own, self._pace.room)
            owner = SessionOwner(member, allowances, context.deadlines, self._liveness.note)
            address = context.world.realtime_address
            where = None if address is None else address()
            self.lane, keys = udp.open(
                name,
                owner,
                self._host if where is None else where.choose_host(self._host),
                None if where is None else where.udp_port,
            )
            self.put(encode_udp(keys))

    def _may_have_keys(self) -> bool:
        """Return whether nobody on the way reads along, or the operator does not mind."""
        has_tls = self._tls is not None
        return has_tls or self._is_local or self._context.options.udp_keys_over_plain_ws

    def _close_lane(self) -> None:
        lane, self.lane = self.lane, None
        if lane is not None and self._context.udp is not None:
            self._context.udp.close(lane)

    # The end.

    async def _linger(self) -> None:
        """Read on for a while: closing with unread bytes would destroy the last frame."""
        with trio.move_on_after(self._context.options.close_seconds_max):
            if not self.flush():
                await self.send_rest()
            if self._overdue is not None:
                await self._overdue.wait()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            left = LINGER_BYTES_MAX
            while left > 0 and not self._is_over:  # the deadline may have been the first
                await trio.lowlevel.wait_readable(self._socket)
                with contextlib.suppress(BlockingIOError, InterruptedError):
                    data = self._socket.recv(RECEIVE_BYTES)
                    if not data:
                        return
                    left -= len(data)

    def _leave(self) -> None:
        """Detach the connection from its room; the seat stays."""
        member, self._member = self._member, None
        self._close_lane()
        if member is None:
            return
        self.fanout = None
        if self._context.hub.detach(member.room_id, member.player_id, self):
            realtime.note_connection(member, is_connected=False)

    def _abort(self) -> None:
        """Give the peer up: throw away what waits for it, and end its task."""
        self._is_over = True
        self._leave()
        self._drop()
        self._context.reader.stop(self._socket, self._room)
        self._socket.close()
