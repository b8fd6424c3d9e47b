"""A realtime room as a member has it: messages both ways, over connections that may be lost."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import msgspec
import trio

from greenroom.behaviour.view import View
from greenroom.client.actions import ACTION_SECONDS_MAX, Actions
from greenroom.client.caller import JsonObject
from greenroom.client.connection import ABNORMAL, Connection, serve_connection
from greenroom.client.decoding import NotDecoded, decode_any
from greenroom.client.errors import (
    ChannelClosed,
    ChannelLost,
    ConnectionFailed,
    GreenroomError,
    RateLimited,
    SeatLost,
    ServerError,
    TokenRefused,
)
from greenroom.client.messages import (
    HEARTBEAT,
    UDP_OPEN,
    WANT_STATE,
    Answered,
    Complaint,
    Event,
    Message,
    Receive,
    Sent,
    counts_for_resume,
    encode_data,
    read,
    write_send,
)
from greenroom.client.retries import Retries, pause
from greenroom.client.udp import FastLane
from greenroom.contract.allowed_values import GroupWord
from greenroom.contract.realtime import HeartbeatAckFrame, TokenReply, UdpKeys
from greenroom.contract.room_exchange import ResultEntry
from greenroom.fastlane import frames
from greenroom.fastlane.frames import ServerMessage
from greenroom.fastlane.link import LinkStatistics

HEARTBEAT_SECONDS: Final = 20.0
ACK_SECONDS_MAX: Final = 15.0
"""Seconds to wait for the answer to a heartbeat. Beyond it the connection counts as lost."""
GREETING_SECONDS_MAX: Final = 15.0
TOKEN_SECONDS_MAX: Final = 240.0
"""Seconds for which a token is used; the server accepts it for five minutes."""
INCOMING_MAX: Final = 1_024
"""Messages that wait to be iterated over. Beyond it nothing more is read, and in the end the
server closes the connection, so no message is dropped in between. Messages that came over UDP
are dropped."""
UDP_SECONDS_MAX: Final = 3.0

_BACKOFF: Final = Retries(backoff_seconds=0.2, backoff_seconds_max=5.0)
_MENDABLE: Final = (ChannelLost, ConnectionFailed, RateLimited, ServerError)


class ChannelStatistics(msgspec.Struct):
    """Counts of a channel."""

    connections: int = 0
    """How often it was connected."""
    messages_received: int = 0
    fast_messages_dropped: int = 0
    """Messages that came over UDP and were dropped because too many waited."""
    round_trip_seconds: float | None = None
    """Seconds that the last heartbeat took."""


class Channel:
    """A realtime room: iterate over it to receive, call `send` to send.

    `Player.realtime` makes one. A lost connection is opened again, and missed messages are
    replayed. Two tasks must not iterate at the same time. If nobody iterates, nothing is read once
    `INCOMING_MAX` messages wait.

    Attributes:
        statistics: counts of this channel.
        room_id: the room's id.
    """

    def __init__(
        self,
        mint: Callable[[], Awaitable[TokenReply]],
        room_id: str,
        *,
        tls: ssl.SSLContext | None,
        chance: Random,
        reconnect_seconds_max: float,
    ) -> None:
        """Prepare; see `open_channel`."""
        self.room_id = room_id
        self.statistics = ChannelStatistics()
        self._mint = mint
        self._tls = tls
        self._chance = chance
        self._reconnect_seconds_max = reconnect_seconds_max
        self._token: TokenReply | None = None
        self._minted_at = 0.0
        self._connection: Connection | None = None
        self._connection_id = ""
        self._sequence = 0
        self._is_stalled = False
        self._is_closing = False
        self._error: GreenroomError | None = None
        self._changed = trio.Event()
        self._ack = trio.Event()
        self._put_in, self._incoming = trio.open_memory_channel[Message](INCOMING_MAX)
        self._view = View()
        self._is_asking = False
        """True while the whole state has been asked for and has not come."""
        self._state_changed = trio.Event()
        self._lane: FastLane | None = None
        self._wants_lane = False
        self._lane_answered = trio.Event()
        self._streams: dict[int, int] = {}
        self._actions = Actions()

    # What comes.

    def __aiter__(self) -> Channel:
        """Return itself."""
        return self

    async def __anext__(self) -> Message:
        """Wait for the next message.

        Raises:
            ChannelClosed: the channel is over; all messages before have been returned.
            ApiError: a new token was refused.

        Cancellation: nothing is lost.
        """
        try:
            return await self._incoming.receive()
        except trio.EndOfChannel:
            if self._error is None:
                raise StopAsyncIteration from None
            raise self._error from None

    @property
    def state(self) -> Any:
        """Return the state that the room's behaviour shows to all members; None if there is none.

        The object is changed in place as changes come. Copy what you want to keep.
        """
        return self._view.shared

    @property
    def private_state(self) -> Any:
        """Return the state that only this player may see, such as a hand of cards; None if none.

        See `state`.
        """
        return self._view.private

    async def states(self) -> AsyncGenerator[Any]:
        """Yield the state now, and the newest one after every change; older ones are skipped.

        Raises:
            ChannelClosed: the channel is over.
            ApiError: a new token was refused.

        Cancellation: nothing has changed.
        """
        seen = 0
        while True:
            while self._view.changes == seen:
                if self._error is not None:
                    raise self._error
                await self._state_changed.wait()
            seen = self._view.changes
            yield self._view.shared

    # What goes.

    async def send(
        self,
        command: str,
        data: Any = None,
        *,
        target: GroupWord = "all",
        target_ids: Sequence[int] = (),
    ) -> None:
        """Send a message. While the connection is being opened again, wait for that.

        When this returns, the message is on its way. Only `Sent` says that the server has taken it.
        If the connection is lost before that, nobody knows.

        Args:
            command: a word that the game defines.
            data: any JSON value, or the bytes of one.
            target: the receivers; never the sender.
            target_ids: the ids of the members, for `specific`.

        Raises:
            ChannelLost: the connection was cut just now; the message may have arrived or not.
            ChannelClosed, ApiError: the channel is over.

        Cancellation: nothing was sent.
        """
        text = write_send(command, encode_data(data), target, target_ids)
        connection = await self._require_connection()
        await connection.put(text)

    async def send_fast(
        self,
        command: str,
        data: Any = None,
        *,
        target: GroupWord = "all",
        target_ids: Sequence[int] = (),
        stream: int = 0,
    ) -> bool:
        """Send a message that may be lost: over UDP if the fast lane is up, else as `send`.

        Args:
            command: a word that the game defines, at most 64 bytes.
            data: any JSON value, or the bytes of one.
            target: the receivers; never the sender.
            target_ids: the ids of the members, for `specific`; at most 16.
            stream: 1 to 65,535. Receivers take only messages newer than the last one of this stream
                and sender. With 0, each message is independent.

        Returns:
            True if it was sent over UDP.

        Raises:
            ValueError: the command is too long, or there are too many receivers.
            ChannelClosed, ApiError: the channel is over.

        Cancellation: the message may have been sent.
        """
        encoded = encode_data(data)
        if self._lane is not None:
            sequence = self._streams[stream] = self._streams.get(stream, 0) + 1
            ids = tuple(target_ids) if target == "specific" else ()
            frame = frames.ClientMessage(
                command, encoded, target, ids, stream, sequence if stream else 0
            )
            if await self._lane.send(frame):
                return True
        await self.send(command, encoded, target=target, target_ids=target_ids)
        return False

    async def action(
        self,
        action_type: str,
        request_data: JsonObject | None = None,
        *,
        target_id: int | None = None,
        seconds_max: float = ACTION_SECONDS_MAX,
    ) -> ResultEntry:
        """Ask a member for something, and wait for the result, over lost connections, too.

        After a lost connection it is asked for again, unless it was taken. It happens once at most.

        Args:
            action_type: a word that the game defines.
            request_data: an object that the game defines.
            target_id: the member; None is the host. Only the host may ask another member.
            seconds_max: seconds to wait for the result.

        Raises:
            ActionRefused: it was not taken; nothing has changed.
            ActionFailed: it was settled, and has failed.
            ActionLost: no result came; it may have happened, or happen yet.
            ChannelClosed, ApiError: the channel is over; it may have happened.

        Cancellation: it may have happened, or happen yet.
        """
        encoded = encode_data(request_data or {})
        about = (action_type, encoded, target_id, seconds_max)
        return await self._actions.ask(self._require_connection, *about)

    async def open_udp(self, *, seconds_max: float = UDP_SECONDS_MAX) -> bool:
        """Ask for the fast lane. It is kept open, and opened again with each connection.

        Args:
            seconds_max: seconds to wait for it.

        Returns:
            True if it is open. If not, the server refuses it (a `Complaint` says why), or no packet
                gets through yet. Then `send_fast` uses the WebSocket.

        Raises:
            ChannelClosed, ApiError: the channel is over.

        Cancellation: the fast lane is opened all the same.
        """
        with trio.move_on_after(seconds_max):
            self._wants_lane = True
            if self._lane is None:
                self._lane_answered = trio.Event()
                connection = await self._require_connection()
                await connection.put(UDP_OPEN)
                await self._lane_answered.wait()
            if self._lane is not None:
                await self._lane.wait_up()
        return self.is_udp_up

    @property
    def is_connected(self) -> bool:
        """Return whether the connection is open now, as far as is known."""
        return self._connection is not None

    @property
    def is_udp_up(self) -> bool:
        """Return whether `send_fast` uses UDP now."""
        return self._lane is not None and self._lane.is_up

    @property
    def udp_statistics(self) -> LinkStatistics | None:
        """Return the counts of the present fast lane; None without one."""
        return None if self._lane is None else self._lane.statistics

    async def _require_connection(self) -> Connection:
        while self._connection is None:
            if self._error is not None:
                raise self._error
            await self._changed.wait()
        return self._connection

    # The tasks behind it.

    async def run(self, nursery: trio.Nursery, *, task_status: trio.TaskStatus[None]) -> None:
        """Connect, and connect again whenever the connection is lost; started once connected.

        Raises:
            GreenroomError: the first connection could not be opened. Later ones end the channel.
        """
        lost_at, failures, is_started = trio.current_time(), 0, False
        while True:
            error: GreenroomError
            try:
                connection = await self._connect(nursery)
                if not is_started:
                    task_status.started()
                is_started, failures = True, 0
                error = await self._live(connection)
                if self._is_closing:
                    return
                lost_at = trio.current_time()
            except GreenroomError as failed:
                if not is_started:
                    raise
                error = failed
            failures += 1
            if not isinstance(error, _MENDABLE):
                self.finish(error)
                return
            wait = pause(_BACKOFF, failures, self._chance)
            if isinstance(error, RateLimited):
                wait += max(error.retry_after, 0.0)
            if trio.current_time() + wait > lost_at + self._reconnect_seconds_max:
                lost = ChannelLost(ABNORMAL, f"not connected again in time: {error}")
                lost.__cause__ = error
                self.finish(lost)
                return
            await trio.sleep(wait)

    async def _connect(self, nursery: trio.Nursery) -> Connection:
        """Open a connection and read its greeting, with a new token if the old one is refused."""
        while True:
            is_new = await self._renew_token()
            assert self._token is not None
            resume = f"{self._connection_id}.{self._sequence}" if self._connection_id else None
            try:
                connection: Connection = await nursery.start(
                    serve_connection, self._token, resume, self._tls
                )
            except ConnectionFailed:
                self._token = None  # a restarted server may listen elsewhere
                raise
            try:
                with trio.move_on_after(GREETING_SECONDS_MAX):
                    greeting = await connection.await_greeting()
                    if greeting is not None:
                        self._connection_id, self._sequence = greeting.connection_id, 0
                        return connection
                raise ChannelLost(ABNORMAL, "the server did not say hello")
            except TokenRefused:
                connection.cut()
                if is_new:
                    raise
                self._token = None
            except BaseException:
                connection.cut()
                raise

    async def _renew_token(self) -> bool:
        """Make sure that the token is good; return whether it is a new one."""
        now = trio.current_time()
        if self._token is not None and now < self._minted_at + TOKEN_SECONDS_MAX:
            return False
        token = await self._mint()
        if token.player_info.room_id != self.room_id:
            raise SeatLost(ABNORMAL, "the player has a seat in another room")
        self._token, self._minted_at = token, now
        return True

    async def _live(self, connection: Connection) -> ChannelClosed:
        """Use a connection until it is over; return the reason."""
        self.statistics.connections += 1
        self._connection, self._is_asking = connection, False
        frames = self._actions.take_frames_again()
        self._notify()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._actions.ask_again, connection, frames)
            nursery.start_soon(self._send_heartbeats, connection)
            if self._wants_lane:
                nursery.start_soon(self._ask_lane, connection)
            error = await self._read(connection, nursery)
            nursery.cancel_scope.cancel()
        self._connection = self._lane = None
        if not self._is_closing:
            connection.cut()
        return error

    async def _read(self, connection: Connection, nursery: trio.Nursery) -> ChannelClosed:
        while True:
            try:
                message = read(await connection.take())
            except ChannelClosed as error:
                return error
            self._sequence += counts_for_resume(message)
            match message:
                case Event() if self._take_state(message):
                    if self._view.is_lost:
                        await self._ask_state(connection)
                case Answered():
                    self._actions.take(message)
                case Complaint() if self._actions.refuse(message):
                    pass
                case Receive() | Event() | Sent():
                    await self._give(message)
                case Complaint():
                    self._lane_answered.set()
                    await self._give(message)
                case HeartbeatAckFrame():
                    self._ack.set()
                case UdpKeys():
                    self._open_lane(message, nursery)
                case _:
                    pass

    async def _give(self, message: Message) -> None:
        """Queue a message for the iterating task; wait while too many are queued."""
        self.statistics.messages_received += 1
        try:
            self._put_in.send_nowait(message)
        except trio.WouldBlock:
            self._is_stalled = True
            await self._put_in.send(message)
            self._is_stalled = False

    async def _ask_state(self, connection: Connection) -> None:
        """Ask for the whole state, unless it has been asked for and not come yet."""
        if not self._is_asking:
            self._is_asking = True
            with contextlib.suppress(ChannelLost):
                await connection.put(WANT_STATE)

    def _take_state(self, event: Event) -> bool:
        before = self._view.changes
        is_state = self._view.take(event.event, event.data)
        self._is_asking = self._is_asking and self._view.is_lost
        if self._view.changes != before:
            self._notify_state()
        return is_state

    async def _send_heartbeats(self, connection: Connection) -> None:
        """Send heartbeats; cut the connection if one is not answered."""
        while True:
            await trio.sleep(HEARTBEAT_SECONDS)
            self._ack, began = trio.Event(), trio.current_time()
            try:
                await connection.put(HEARTBEAT)
            except ChannelLost:
                return
            with trio.move_on_after(ACK_SECONDS_MAX):
                await self._ack.wait()
                self.statistics.round_trip_seconds = trio.current_time() - began
                continue
            if not self._is_stalled:
                connection.cut()
                return

    async def _ask_lane(self, connection: Connection) -> None:
        with contextlib.suppress(ChannelLost):
            await connection.put(UDP_OPEN)

    def _open_lane(self, keys: UdpKeys, nursery: trio.Nursery) -> None:
        """Replace the fast lane by one with these keys."""
        if self._lane is not None:
            self._lane.close()
        try:
            self._lane = FastLane(keys, self._take_fast)
        except ValueError:
            self._lane = None
        else:
            nursery.start_soon(self._lane.run)
        self._lane_answered.set()

    def _take_fast(self, received: ServerMessage) -> None:
        """Queue a message that came over UDP for the iterating task, or drop it."""
        try:
            data = decode_any(received.data)
            self._put_in.send_nowait(
                Receive(
                    received.command,
                    data,
                    received.sender_id,
                    received.is_host,
                    is_fast=True,
                    sender_is_server=received.is_server,
                )
            )
            self.statistics.messages_received += 1
        except (NotDecoded, trio.WouldBlock):
            self.statistics.fast_messages_dropped += 1

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _notify_state(self) -> None:
        self._state_changed.set()
        self._state_changed = trio.Event()

    def finish(self, error: GreenroomError | None) -> None:
        """Let the iterating task read all that came, then stop or raise the error."""
        self._error = error or self._error
        self._put_in.close()
        self._actions.end(self._error or ChannelLost(ABNORMAL, "the channel was closed"))
        self._notify()
        self._notify_state()

    async def close(self) -> None:
        """Close the connection in order. Shielded, for two seconds at most."""
        self._is_closing = True
        if self._connection is not None:
            await self._connection.close()


@asynccontextmanager
async def open_channel(
    mint: Callable[[], Awaitable[TokenReply]],
    room_id: str,
    *,
    tls: ssl.SSLContext | None,
    chance: Random,
    reconnect_seconds_max: float,
) -> AsyncGenerator[Channel]:
    """Connect to a room for as long as the block lasts; `Player.realtime` calls it.

    Args:
        mint: gets a new token from the server.
        room_id: the room that the tokens must be for.
        tls: the authorities to trust; the system's if left out.
        chance: spreads clients that were cut off together.
        reconnect_seconds_max: seconds for which a lost connection is tried again.

    Raises:
        GreenroomError: the first connection could not be opened.
    """
    channel = Channel(
        mint, room_id, tls=tls, chance=chance, reconnect_seconds_max=reconnect_seconds_max
    )
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(channel.run, nursery)
            yield channel
        except Exception as error:  # noqa: BLE001 (raised again outside, so that it is no group)
            failure = error
        finally:
            await channel.close()
            nursery.cancel_scope.cancel()  # first: a task may wait to put in a message
            channel.finish(None)
    if failure is not None:
        raise failure
