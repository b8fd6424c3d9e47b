"""The connections of each room's members, and the way from a room to them.

A fan-out is encoded once for each kind of client, and the same bytes go to all. A member who was
connected once has a place here until they leave the room. What they miss while their connection is
down is counted, and the room's last messages are kept, so that they can be sent afterwards.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

import msgspec

from greenroom.actors.kernel.message import Command
from greenroom.actors.room.ports import Accepted, Happened, Message, Receive, Settled
from greenroom.actors.room.studio_messages import Tick
from greenroom.contract.words import RequestId
from greenroom.fastlane.frames import ServerMessage, encode_received
from greenroom.fastlane.link import SEQUENCES, fits
from greenroom.network.sender import Sender
from greenroom.transport.fanout import UNENCODED, Fanout
from greenroom.transport.link import Link
from greenroom.transport.load import Load
from greenroom.transport.messages import (
    MALFORMED_TEXT,
    encode,
    encode_error,
    encode_sent,
    encode_state,
)
from greenroom.transport.rates import Allowance
from greenroom.transport.reader import Reader
from greenroom.transport.websocket.session import NORMAL

LOG_MESSAGES_MAX: Final = 128
"""Messages that a room keeps for members who come back."""
LOG_BYTES_MAX: Final = 64 << 10
"""Bytes of the data of these; beyond either limit the oldest is dropped, and is a gap."""
LOGS_BYTES_MAX: Final = 128 << 20
"""Bytes of the logs of all rooms together: where there are very many, each keeps less."""

STREAMS_MAX: Final = 64
"""Most streams that a room itself names; messages of further ones belong to no stream."""

_NOBODY: Final[frozenset[int]] = frozenset()


class _Place:
    """A member who is connected, or was."""

    __slots__ = ("connection_id", "count")

    def __init__(self) -> None:
        self.connection_id = ""
        """The id of the member's last connection."""
        self.count = 0
        """Messages for the member since that connection began, less those that it sent them."""


class _Kept(msgspec.Struct, gc=False):
    """A message that was sent, and to whom."""

    message: Message
    size: int
    """Bytes of the message's data."""
    player_ids: tuple[int, ...] | None
    """The members it was for; None for all but its sender."""


class _Roster:
    """The members of one room who are connected, or were."""

    __slots__ = ("allowance", "fanout", "log", "log_bytes", "places", "sequence", "streams")

    def __init__(self, sender: Sender) -> None:
        self.places: dict[int, _Place] = {}
        self.fanout = Fanout(sender)
        """The links of connected members, and the way to them."""
        self.log: deque[_Kept] | None = None
        self.log_bytes = 0
        self.allowance: Allowance | None = None
        self.sequence = 0
        """The sequence of the last unreliable message, whoever sent it."""
        self.streams: dict[str, int] = {}
        """Numbers of the room's own streams, by name."""


class Replay(msgspec.Struct, frozen=True):
    """The messages that a member missed.

    `missed` counts those that are no longer kept, None if nobody knows.
    """

    messages: tuple[Message, ...]
    missed: int | None


class HubStatistics(msgspec.Struct, frozen=True):
    """Counts of the realtime port."""

    rooms: int
    """Rooms with members who are connected, or were."""
    members: int
    """Connected members."""
    messages: int
    """Messages that were passed on, one for each receiver, since the start."""


class Hub:
    """The open connections of all rooms; implements `Connections` of the room actors."""

    def __init__(self) -> None:
        """Begin with nobody connected."""
        self._rosters: dict[str, _Roster] = {}
        self.sender = Sender()
        """The sender of all connections."""
        self.reader = Reader(self.sender, Load())
        """Reads for all connections."""
        self._log_bytes_max = LOG_BYTES_MAX
        self.sent = 0
        """Messages that were passed on, one for each receiver."""

    # For connections.

    def attach(
        self, room_id: str, player_id: int, link: Link, resume: tuple[str, int] | None
    ) -> Replay | None:
        """Let a member's new connection take the place of an older one.

        Args:
            room_id: the room.
            player_id: the member.
            link: the connection.
            resume: the id of the last connection and how many messages it got, if the client asks
                for what it missed.

        Returns:
            The messages that the member missed, None if the client did not ask.
        """
        roster = self._rosters.get(room_id)
        if roster is None:
            roster = self._rosters[room_id] = _Roster(self.sender)
            self._log_bytes_max = min(LOG_BYTES_MAX, LOGS_BYTES_MAX // len(self._rosters))
        place = roster.places.setdefault(player_id, _Place())
        old = roster.fanout.find(player_id)
        if old is not None:
            old.hear()
            old.close(NORMAL, "Connection replaced")
            self.detach(room_id, player_id, old)
        replay = None if resume is None else _replay(roster, player_id, place, *resume)
        place.connection_id = link.connection_id
        place.count = 0 if replay is None else len(replay.messages) + (replay.missed != 0)
        roster.fanout.connect(player_id, link)
        return replay

    def detach(self, room_id: str, player_id: int, link: Link) -> bool:
        """Note that a connection is gone; the member's place is kept.

        Older connections are ignored.

        Returns:
            Whether it was the member's present connection.
        """
        roster = self._rosters.get(room_id)
        if roster is None or roster.fanout.links.get(player_id) is not link:
            return False
        if roster.fanout.disconnect(player_id, link):
            roster.places[player_id].count += link.told
        return True

    def allowance(self, room_id: str, per_second: float) -> Allowance:
        """Return the allowance of messages that all connected members of a room share.

        Args:
            room_id: a room with an attached member.
            per_second: messages a second.
        """
        roster = self._rosters[room_id]
        if roster.allowance is None:
            roster.allowance = Allowance(per_second)
        return roster.allowance

    def statistics(self) -> HubStatistics:
        """Return how many members are connected, and how much was passed on."""
        connected = sum(len(roster.fanout.links) for roster in self._rosters.values())
        return HubStatistics(len(self._rosters), connected, self.sent)

    # For the supervisor of rooms.

    def before_timer(self, room_id: str, command: Command[Any, Any]) -> None:
        """Read what members have sent if the room is about to tick; see `Reader.listen`.

        What they have sent becomes turns of the room, so this is called outside of any turn.
        """
        if type(command) is Tick and command.takes_input:
            self.reader.listen(room_id)

    # For rooms; see `Connections`.

    def connected(self, room_id: str) -> Container[int]:
        """Return the members who have an open connection; the container is live."""
        roster = self._rosters.get(room_id)
        return _NOBODY if roster is None else roster.fanout.links

    def push(self, room_id: str, player_ids: Iterable[int], message: Message) -> None:
        """Send a message to some members."""
        roster = self._rosters.get(room_id)
        if roster is None:
            return
        targets, places = tuple(player_ids), roster.places
        _keep(roster, message, targets, self._log_bytes_max)
        absent = roster.fanout.tell(targets, message)
        self.sent += len(targets) - len(absent)
        for player_id in absent:
            if player_id in places:
                places[player_id].count += 1

    def push_others(
        self,
        room_id: str,
        message: Receive,
        members: Mapping[int, Any],
        request_id: RequestId | None = None,
    ) -> bool:
        """Send a message to all members but the sender, and acknowledge it."""
        roster = self._rosters.get(room_id)
        if roster is None:
            return False
        fanout = roster.fanout
        if fanout.links.keys() != members.keys():  # somebody is away, or on the way in or out
            return False
        others = len(members) - 1
        _keep(roster, message, None, self._log_bytes_max)
        fanout.say(message, encode_sent(message.command, others, request_id))
        self.sent += others
        return True

    def push_all(self, room_id: str, message: Message) -> None:
        """Send a message to every member."""
        roster = self._rosters.get(room_id)
        if roster is not None:
            self.push(room_id, roster.places, message)

    def push_unreliable(
        self,
        room_id: str,
        player_ids: Iterable[int] | None,
        message: Receive,
        stream: int | str | None,
    ) -> None:
        """Send some members, or all, a message that may be lost.

        All messages of a room are numbered in one sequence. So the sequence of each stream rises
        even if its sender leaves, comes back, or begins to count anew.
        """
        roster = self._rosters.get(room_id)
        if roster is None:
            return
        links = roster.fanout.links
        packed: bytes | None = None
        frames = UNENCODED.copy()
        for player_id in tuple(links) if player_ids is None else player_ids:
            link = links.get(player_id)
            if link is None:
                continue
            self.sent += 1
            lane = link.lane
            if lane is not None:
                if packed is None:
                    packed = _pack(roster, message, stream)
                if packed and lane.put(packed):
                    continue
            kind = link.kind
            frame = frames[kind]
            if not frame:
                frame = frames[kind] = encode(message, kind, unreliable=True)
            link.offer(frame)

    def push_state(self, room_id: str, player_ids: Iterable[int], message: Happened) -> None:
        """Send the room's state to some members; it is neither counted nor kept."""
        roster = self._rosters.get(room_id)
        if roster is None:
            return
        links, frames = roster.fanout.links, UNENCODED.copy()
        for player_id in player_ids:
            link = links.get(player_id)
            if link is None:
                continue
            self.sent += 1
            kind = link.kind
            frame = frames[kind]
            if not frame:
                frame = frames[kind] = encode_state(message, kind)
            link.put(frame)

    def answer(self, room_id: str, player_id: int, answer: Accepted) -> None:
        """Acknowledge a message to its sender."""
        roster = self._rosters.get(room_id)
        link = None if roster is None else roster.fanout.links.get(player_id)
        if link is not None:
            link.put(encode_sent(answer.command, answer.target_count, answer.request_id))

    def may_store(
        self, room_id: str, player_id: int, size: int, request_id: RequestId | None = None
    ) -> bool:
        """Charge a message that is to be stored to its sender.

        If it is refused, the sender is told.
        """
        roster = self._rosters.get(room_id)
        link = None if roster is None else roster.fanout.links.get(player_id)
        return link is None or link.may_store(size, request_id)

    def refuse(
        self,
        room_id: str,
        player_id: int,
        reason: str | None,
        retry_seconds: int | None = None,
        request_id: RequestId | None = None,
    ) -> None:
        """Tell a sender why their message has been refused; None if there is nothing to say."""
        roster = self._rosters.get(room_id)
        link = None if roster is None else roster.fanout.links.get(player_id)
        if link is not None:
            link.put(encode_error(reason or MALFORMED_TEXT, retry_seconds, request_id))

    def part(self, room_id: str, player_id: int) -> None:
        """Close the connection of a player who is no longer a member, and forget their place."""
        roster = self._rosters.get(room_id)
        if roster is None:
            return
        link = roster.fanout.take(player_id)
        roster.places.pop(player_id, None)
        if link is not None:
            link.close(NORMAL, "Player disconnect")
        if not roster.places:
            del self._rosters[room_id]

    def end(self, room_id: str) -> None:
        """Close all connections of a room that is over, and forget it."""
        roster = self._rosters.pop(room_id, None)
        if roster is not None:
            for link in roster.fanout.take_all():
                link.close(NORMAL, "Room cleanup")


def _pack(roster: _Roster, message: Receive, stream: int | str | None) -> bytes:
    """Return the fast lane's frame for a message; empty if the message is too large for one."""
    if isinstance(stream, int):
        sender_id, number = message.sender_id, stream
    else:
        sender_id, number = 0, _number(roster.streams, stream)
    roster.sequence = (roster.sequence + 1) % SEQUENCES
    try:
        frame = encode_received(
            ServerMessage(
                message.command,
                message.data,
                sender_id,
                is_host=message.is_host,
                is_server=message.is_server,
                stream=number,
                sequence=roster.sequence,
            )
        )
    except (ValueError, struct.error):  # too long a command, or too much data for any packet
        return b""
    return frame if fits(frame) else b""


def _number(streams: dict[str, int], name: str | None) -> int:
    """Return the number of one of a room's own streams, in the order of their first use."""
    if name is None:
        return 0
    number = streams.get(name)
    if number is None:
        if len(streams) >= STREAMS_MAX:
            return 0
        number = streams[name] = len(streams) + 1
    return number


def _keep(
    roster: _Roster, message: Message, player_ids: tuple[int, ...] | None, log_bytes_max: int
) -> None:
    """Put a message into the room's log, and drop the oldest beyond its bounds."""
    log = roster.log
    if log is None:
        log = roster.log = deque()
    size = _size(message)
    log.append(_Kept(message, size, player_ids))
    roster.log_bytes += size
    while len(log) > LOG_MESSAGES_MAX or roster.log_bytes > log_bytes_max:
        roster.log_bytes -= log.popleft().size


def _size(message: Message) -> int:
    """Return the bytes of a message's data."""
    if isinstance(message, Receive):
        return len(message.data)
    return len(message.result.response_data or b"") if isinstance(message, Settled) else 0


def _is_for(kept: _Kept, player_id: int) -> bool:
    if kept.player_ids is None:
        return isinstance(kept.message, Receive) and kept.message.sender_id != player_id
    return player_id in kept.player_ids


def _replay(
    roster: _Roster, player_id: int, place: _Place, connection_id: str, received: int
) -> Replay:
    """Return what a member has not received; `received` counts messages on the last connection."""
    if not connection_id or connection_id != place.connection_id or received > place.count:
        return Replay((), None)
    wanted = place.count - received
    kept = [k.message for k in roster.log or () if _is_for(k, player_id)] if wanted else []
    messages = tuple(kept[-wanted:]) if wanted else ()
    return Replay(messages, wanted - len(messages))
