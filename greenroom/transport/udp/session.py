"""One connection's fast lane: messages in go to the room's turn, messages out leave in packets.

Nothing here is kept for long: what does not fit in is dropped and counted, for newer comes soon.
What is put before the room's turn ends leaves together, in as few packets as hold it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from greenroom.actors.flows.realtime import Admission
from greenroom.actors.kernel.errors import ActorUnavailable, Refused
from greenroom.actors.room.messages import Group
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.contract.realtime import UdpCountsData
from greenroom.fastlane.frames import ClientMessage
from greenroom.fastlane.link import ServerEnd
from greenroom.transport.deadlines import Deadlines
from greenroom.transport.messages import GROUPS, read_data
from greenroom.transport.rates import Allowance
from greenroom.transport.requests import MalformedMessage
from greenroom.transport.udp.turns import Address, QueuedRoom, Turns

FRAMES_A_TURN_MAX: Final = 64
"""Frames that a member is sent in one turn of the room; more are dropped."""


class UdpCounts(msgspec.Struct):
    """Counts of the sessions of a port, and of packets that belong to none."""

    packets_sent: int = 0
    bytes_sent: int = 0
    packets_received: int = 0
    """All packets that came, the dropped ones included."""
    bytes_received: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    noise: int = 0
    """Dropped: no packet of this protocol."""
    unknown: int = 0
    """Packets dropped: of no session."""
    late: int = 0
    """Dropped unread: they have waited too long."""
    malformed: int = 0
    """Messages dropped: their data is not JSON."""
    limited: int = 0
    """Packets dropped with their messages: their sender, or the sender's room, sends too fast."""
    refused: int = 0
    """Messages dropped: the room did not take them."""
    overflowed: int = 0
    """Messages dropped: too many for one member in one turn."""
    unsent: int = 0
    """Packets dropped: the kernel's buffer was full, or there is no way to their address."""


class SessionOwner(msgspec.Struct, frozen=True):
    """The member whose session it is, and what it shares with their control channel."""

    member: Admission
    allowances: tuple[Allowance, ...]
    """The member's own, and the room's."""
    deadlines: Deadlines
    note_life: Callable[[], None]
    """Called for each genuine packet."""


class UdpSession:
    """The server's end of one session; a `FastLane` of the hub."""

    __slots__ = ("_counts", "_deadlines", "_out", "_owner", "_turns", "end", "is_open", "room")

    def __init__(
        self,
        end: ServerEnd[Address],
        owner: SessionOwner,
        counts: UdpCounts,
        turns: Turns[UdpSession],
    ) -> None:
        """Begin without an address.

        Args:
            end: with the session's keys.
            owner: whose it is.
            counts: of the port.
            turns: gives it its turns, with the others of its room.
        """
        self.end = end
        self._owner = owner
        self._deadlines = owner.deadlines
        self._counts = counts
        self._turns = turns
        self.room: QueuedRoom[UdpSession] = turns.join(owner.member.room_id)
        self.is_open = True
        self._out: list[bytes] = []

    def describe(self) -> UdpCountsData:
        """Return what a client may know of its session, as the server sees it."""
        found = self.end.statistics
        trip = found.round_trip_seconds
        return UdpCountsData(
            is_up=self.is_up(),
            packets_sent=found.packets_sent,
            packets_received=found.packets_received,
            packets_lost=found.packets_lost,
            packets_dropped=found.packets_dropped,
            messages_outdated=found.messages_outdated,
            round_trip_ms=None if trip is None else round(trip * 1_000, 1),
        )

    def close(self) -> None:
        """Stop sending and receiving."""
        self.is_open = False
        self.end.forget_address()
        self._turns.leave(self._owner.member.room_id)

    # In.

    def receive(self, packet: bytes, address: Address, now: float) -> None:
        """Take a packet in, and pass on what it says.

        Args:
            packet: what came for this session, genuine or not.
            address: from where.
            now: trio's time, in seconds.
        """
        end = self.end
        before = end.packets_received
        messages, answers = end.receive(packet, address, now)
        if end.packets_received == before:
            return
        for answer, to in answers:
            self._send(answer, to)
        self._owner.note_life()
        count = len(messages) or 1
        for allowance in self._owner.allowances:
            if not allowance.try_take(count, now):
                self._counts.limited += 1
                return
        for message in messages:
            self._pass_on(message)

    def _pass_on(self, message: ClientMessage) -> None:
        """Let the room take a message in a turn of its own."""
        member, counts = self._owner.member, self._counts
        counts.messages_received += 1
        targets = GROUPS.get(message.target)
        if targets is None:
            targets = Group("specific", frozenset(message.player_ids))
        try:
            data = read_data(message.data)
            member.room.post(
                SendMessage(member.player_id, message.command, data, targets, message.stream)
            )
        except MalformedMessage:
            counts.malformed += 1
        except (Refused, ActorUnavailable):
            counts.refused += 1

    # Out.

    def is_up(self) -> bool:
        """Return whether messages can go this way now."""
        return self.end.is_up(self._deadlines.now)

    def put(self, frame: bytes) -> bool:
        """See `FastLane`; what is too much for one turn is dropped."""
        out = self._out
        if not out:
            if not self.end.is_up(self._deadlines.now):
                return False
            self._turns.add_departing(self.room, self)
        elif len(out) >= FRAMES_A_TURN_MAX:
            self._counts.overflowed += 1
            return True
        out.append(frame)
        return True

    def depart(self) -> None:
        """Send everything that has been put. What cannot be sent is lost."""
        out, address = self._out, self.end.address
        self._out = []
        if address is not None:
            self._counts.messages_sent += len(out)
            for packet in self.end.pack(out):
                self._send(packet, address)

    def _send(self, packet: bytes, address: Address) -> None:
        """Send a packet, or count it as unsent."""
        counts = self._counts
        try:
            address[0].sendto(packet, address[1])
        except OSError:
            counts.unsent += 1
        else:
            counts.packets_sent += 1
            counts.bytes_sent += len(packet)
