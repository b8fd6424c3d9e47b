"""The connections of each room's members, and the way from a room to them.

A fan-out is encoded once for each kind of client, and the same bytes go to all. A member who was
connected once has a place here until they leave the room. What they miss while their connection is
down is counted, and the room's last messages are kept, so that they can be sent afterwards.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

import msgspec
import trio

from greenroom.actors.kernel.message import Command
from greenroom.actors.room.ports import Accepted, Happened, Message, Receive
from greenroom.actors.room.studio_messages import Tick
from greenroom.contract.allowed_values import RequestId
from greenroom.fastlane.frames import ServerMessage, encode_received
from greenroom.fastlane.link import SEQUENCES, fits
from greenroom.network.sender import Sender
from greenroom.transport.audience import LOG_BYTES_MAX, Attendance, Audience, Replay, pack, unpack
from greenroom.transport.fanout import UNENCODED
from greenroom.transport.link import Link
from greenroom.transport.messages import (
    MALFORMED_TEXT,
    encode,
    encode_error,
    encode_moved,
    encode_sent,
    encode_state,
)
from greenroom.transport.rates import Allowance
from greenroom.transport.reader import Reader
from greenroom.transport.thread_load import Load
from greenroom.transport.websocket.session import GOING_AWAY, NORMAL

LOGS_BYTES_MAX: Final = 128 << 20
"""Bytes of the logs of all rooms together: where there are very many, each keeps less."""

STREAMS_MAX: Final = 64
"""Most streams that a room itself names; messages of further ones belong to no stream."""

_NOBODY: Final[frozenset[int]] = frozenset()


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
        self._audiences: dict[str, Audience] = {}
        self.sender = Sender()
        """The sender of all connections."""
        self.reader = Reader(self.sender, Load())
        """Reads for all connections."""
        self._log_bytes_max = LOG_BYTES_MAX
        self._parting: set[Link] = set()
        """Connections that have been asked to come back, and have not closed yet."""
        self._all_parted = trio.Event()
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
        audience = self._audiences.get(room_id)
        if audience is None:
            audience = Audience(self.sender)
            self._add(room_id, audience)
        place = audience.places.setdefault(player_id, Attendance())
        old = audience.fanout.find(player_id)
        if old is not None:
            old.hear()
            old.close(NORMAL, "Connection replaced")
            self.detach(room_id, player_id, old)
        replay = None if resume is None else audience.replay(player_id, *resume)
        place.connection_id, place.parted_at = link.connection_id, None
        place.count = 0 if replay is None else len(replay.messages) + (replay.missed != 0)
        place.resumed = resume if replay is not None and replay.missed == 0 else None
        audience.fanout.connect(player_id, link)
        return replay

    def detach(self, room_id: str, player_id: int, link: Link) -> bool:
        """Note that a connection is gone; the member's place is kept.

        Older connections are ignored.

        Returns:
            Whether it was the member's present connection, even if it has been asked to come back.
        """
        if link in self._parting:
            self._parting.discard(link)
            if not self._parting:
                self._all_parted.set()
            return True
        audience = self._audiences.get(room_id)
        if audience is None or audience.fanout.links.get(player_id) is not link:
            return False
        if audience.fanout.disconnect(player_id, link):
            audience.places[player_id].count += link.told
        return True

    def get_allowance(self, room_id: str, per_second: float) -> Allowance:
        """Return the allowance of messages that all connected members of a room share.

        Args:
            room_id: a room with an attached member.
            per_second: messages a second.
        """
        audience = self._audiences[room_id]
        if audience.allowance is None:
            audience.allowance = Allowance(per_second)
        return audience.allowance

    def read_statistics(self) -> HubStatistics:
        """Return how many members are connected, and how much was passed on."""
        connected = sum(len(audience.fanout.links) for audience in self._audiences.values())
        return HubStatistics(len(self._audiences), connected, self.sent)

    # For rooms that move to another node, and for a node that has lost its rooms.

    def ask_to_come_back(self, room_ids: Iterable[str]) -> None:
        """Ask the members of rooms to connect again, and close; what they miss is counted.

        What they still send until their own close comes is taken in.
        """
        for room_id in room_ids:
            audience = self._audiences.get(room_id)
            if audience is None:
                continue
            for player_id, link in list(audience.fanout.links.items()):
                if self.detach(room_id, player_id, link):
                    place = audience.places[player_id]
                    place.parted_at = place.count
                    self._parting.add(link)
                    link.part(encode_moved(), GOING_AWAY, "Room has moved")

    async def wait_parted(self, seconds_max: float) -> None:
        """Wait until all who were asked to come back have closed, for so many seconds at most.

        Cancellation ends the wait.
        """
        with trio.move_on_after(seconds_max):
            while self._parting:
                self._all_parted = trio.Event()
                await self._all_parted.wait()

    def export(self, room_ids: Iterable[str], piece_bytes_max: int) -> list[bytes]:
        """Take the audiences of rooms out, packed for `adopt` at another node.

        Args:
            room_ids: the rooms. Whoever is connected still is asked to come back.
            piece_bytes_max: bytes of a piece at most.

        Returns:
            Pieces; none if nobody is or was connected to any of the rooms.
        """
        taken = [room_id for room_id in room_ids if room_id in self._audiences]
        self.ask_to_come_back(taken)
        return pack(((i, self._audiences.pop(i)) for i in taken), piece_bytes_max)

    def adopt(self, piece: bytes) -> None:
        """Take in a piece that `export` has returned; of rooms that are known here nothing changes.

        Raises:
            msgspec.DecodeError: it is no such piece.
        """
        for room_id, audience in unpack(piece, self.sender, self._log_bytes_max):
            if room_id not in self._audiences:
                self._add(room_id, audience)

    def close_all(self, code: int, reason: str) -> None:
        """Close every connection of a member; their places are kept."""
        for audience in list(self._audiences.values()):
            for link in list(audience.fanout.links.values()):
                link.close(code, reason)

    def _add(self, room_id: str, audience: Audience) -> None:
        self._audiences[room_id] = audience
        self._log_bytes_max = min(LOG_BYTES_MAX, LOGS_BYTES_MAX // len(self._audiences))

    # For the supervisor of rooms.

    def read_before_timer(self, room_id: str, command: Command[Any, Any]) -> None:
        """Read what members have sent if the room is about to tick; see `Reader.listen`.

        What they have sent becomes turns of the room, so this is called outside of any turn.
        """
        if type(command) is Tick and command.takes_input:
            self.reader.listen(room_id)

    # For rooms; see `Connections`.

    def get_connected(self, room_id: str) -> Container[int]:
        """Return the members who have an open connection; the container is live."""
        audience = self._audiences.get(room_id)
        return _NOBODY if audience is None else audience.fanout.links

    def push(self, room_id: str, player_ids: Iterable[int], message: Message) -> None:
        """Send a message to some members."""
        audience = self._audiences.get(room_id)
        if audience is None:
            return
        targets, places = tuple(player_ids), audience.places
        audience.keep(message, targets, self._log_bytes_max)
        absent = audience.fanout.tell(targets, message)
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
        audience = self._audiences.get(room_id)
        if audience is None:
            return False
        fanout = audience.fanout
        if fanout.links.keys() != members.keys():  # somebody is away, or on the way in or out
            return False
        others = len(members) - 1
        audience.keep(message, None, self._log_bytes_max)
        fanout.say(message, encode_sent(message.command, others, request_id))
        self.sent += others
        return True

    def push_all(self, room_id: str, message: Message) -> None:
        """Send a message to every member."""
        audience = self._audiences.get(room_id)
        if audience is not None:
            self.push(room_id, audience.places, message)

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
        audience = self._audiences.get(room_id)
        if audience is None:
            return
        links = audience.fanout.links
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
                    packed = _pack(audience, message, stream)
                if packed and lane.put(packed):
                    continue
            kind = link.kind
            frame = frames[kind]
            if not frame:
                frame = frames[kind] = encode(message, kind, unreliable=True)
            link.offer(frame)

    def push_state(self, room_id: str, player_ids: Iterable[int], message: Happened) -> None:
        """Send the room's state to some members; it is neither counted nor kept."""
        audience = self._audiences.get(room_id)
        if audience is None:
            return
        links, frames = audience.fanout.links, UNENCODED.copy()
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
        audience = self._audiences.get(room_id)
        link = None if audience is None else audience.fanout.links.get(player_id)
        if link is not None:
            link.put(encode_sent(answer.command, answer.target_count, answer.request_id))

    def may_store(
        self, room_id: str, player_id: int, size: int, request_id: RequestId | None = None
    ) -> bool:
        """Charge a message that is to be stored to its sender.

        If it is refused, the sender is told.
        """
        audience = self._audiences.get(room_id)
        link = None if audience is None else audience.fanout.links.get(player_id)
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
        audience = self._audiences.get(room_id)
        link = None if audience is None else audience.fanout.links.get(player_id)
        if link is not None:
            link.put(encode_error(reason or MALFORMED_TEXT, retry_seconds, request_id))

    def part(self, room_id: str, player_id: int) -> None:
        """Close the connection of a player who is no longer a member, and forget their place."""
        audience = self._audiences.get(room_id)
        if audience is None:
            return
        link = audience.fanout.take(player_id)
        audience.places.pop(player_id, None)
        if link is not None:
            link.close(NORMAL, "Player disconnect")
        if not audience.places:
            del self._audiences[room_id]

    def end(self, room_id: str) -> None:
        """Close all connections of a room that is over, and forget it."""
        audience = self._audiences.pop(room_id, None)
        if audience is not None:
            for link in audience.fanout.take_all():
                link.close(NORMAL, "Room cleanup")


def _pack(audience: Audience, message: Receive, stream: int | str | None) -> bytes:
    """Return the fast lane's frame for a message; empty if the message is too large for one."""
    if isinstance(stream, int):
        sender_id, number = message.sender_id, stream
    else:
        sender_id, number = 0, _number(audience.streams, stream)
    audience.sequence = (audience.sequence + 1) % SEQUENCES
    try:
        frame = encode_received(
            ServerMessage(
                message.command,
                message.data,
                sender_id,
                is_host=message.is_host,
                is_server=message.is_server,
                stream=number,
                sequence=audience.sequence,
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
