"""The members of one room who are connected, or were, and the last messages that they were sent.

When a room moves to another node, its audience goes along, packed. So a member who comes back there
asks for what they missed, as they would have here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from greenroom.actors.room.ports import Happened, Message, Receive, Settled
from greenroom.network.sender import Sender
from greenroom.transport.fanout import Fanout
from greenroom.transport.rates import Allowance

LOG_MESSAGES_MAX: Final = 128
"""Messages that a room keeps for members who come back."""
LOG_BYTES_MAX: Final = 64 << 10
"""Bytes of the data of these; beyond either limit the oldest is dropped, and is a gap."""


Resume = tuple[str, int]
"""The id of a connection, and how many messages a member says that they got on it."""


class Attendance:
    """A member who is connected, or was."""

    __slots__ = ("connection_id", "count", "parted_at", "resumed")

    def __init__(
        self,
        connection_id: str = "",
        count: int = 0,
        parted_at: int | None = None,
        resumed: Resume | None = None,
    ) -> None:
        """Begin with what is known of the member's last connection."""
        self.connection_id = connection_id
        """The id of the member's last connection."""
        self.count = count
        """Messages for the member since that connection began, less those that it sent them."""
        self.parted_at = parted_at
        """The count when they were asked to come back; None if they were not."""
        self.resumed = resumed
        """The connection that their last one has resumed, if nothing was missing. A client that
        never heard of the last one asks for the same again."""

    def count_received(self, received: int) -> int:
        """Return how many of the counted messages a member has.

        Args:
            received: how many they say they got. The event that asked them to come back is one that
                they count, and that is not counted here: they may or may not have got it.
        """
        has_event = self.parted_at is not None and received > self.parted_at
        return received - has_event


class Kept(msgspec.Struct, gc=False):
    """A message that was sent, and to whom."""

    message: Message
    size: int
    """Bytes of the message's data."""
    player_ids: tuple[int, ...] | None
    """The members it was for; None for all but its sender."""


class Replay(msgspec.Struct, frozen=True):
    """The messages that a member missed.

    `missed` counts those that are no longer kept, None if nobody knows.
    """

    messages: tuple[Message, ...]
    missed: int | None


class Audience:
    """The members of one room, and its log. It is bounded by the room's seats and by the log's."""

    __slots__ = ("allowance", "fanout", "log", "log_bytes", "places", "sequence", "streams")

    def __init__(self, sender: Sender) -> None:
        """Begin with nobody.

        Args:
            sender: flushes what is sent.
        """
        self.places: dict[int, Attendance] = {}
        self.fanout = Fanout(sender)
        """The links of connected members, and the way to them."""
        self.log: deque[Kept] | None = None
        self.log_bytes = 0
        self.allowance: Allowance | None = None
        self.sequence = 0
        """The sequence of the last unreliable message, whoever sent it."""
        self.streams: dict[str, int] = {}
        """Numbers of the room's own streams, by name."""

    def keep(
        self, message: Message, player_ids: tuple[int, ...] | None, log_bytes_max: int
    ) -> None:
        """Put a message into the log, and drop the oldest beyond its bounds."""
        log = self.log
        if log is None:
            log = self.log = deque()
        size = len(message.data) if isinstance(message, Receive) else _size(message)
        log.append(Kept(message, size, player_ids))
        self.log_bytes += size
        while len(log) > LOG_MESSAGES_MAX or self.log_bytes > log_bytes_max:
            self.log_bytes -= log.popleft().size

    def replay(self, player_id: int, connection_id: str, received: int) -> Replay:
        """Return what a member has not received.

        Args:
            player_id: the member, who has a place.
            connection_id: the id of what they say was their last connection. It may be the one
                before, if they never heard of the last.
            received: how many messages they got on it.
        """
        place = self.places[player_id]
        if (connection_id, received) == place.resumed:
            received = 0
        elif connection_id and connection_id == place.connection_id:
            received = place.count_received(received)
        else:
            return Replay((), None)
        if received > place.count:
            return Replay((), None)
        wanted = place.count - received
        kept = [k.message for k in self.log or () if _is_for(k, player_id)] if wanted else []
        messages = tuple(kept[-wanted:]) if wanted else ()
        return Replay(messages, wanted - len(messages))


def _size(message: Happened | Settled) -> int:
    """Return the bytes of a message's data."""
    return len(message.result.response_data or b"") if isinstance(message, Settled) else 0


def _is_for(kept: Kept, player_id: int) -> bool:
    if kept.player_ids is None:
        return isinstance(kept.message, Receive) and kept.message.sender_id != player_id
    return player_id in kept.player_ids


# Packing, for another node.

_KINDS: Final = (Receive, Happened, Settled)


class _PackedKept(msgspec.Struct, array_like=True):
    kind: int
    message: msgspec.Raw
    player_ids: tuple[int, ...] | None


class _PackedAudience(msgspec.Struct, array_like=True):
    room_id: str
    places: dict[int, tuple[str, int, int | None]]
    log: list[_PackedKept]
    sequence: int
    streams: dict[str, int]
    resumed: dict[int, Resume] = {}


_decode: Final = msgspec.msgpack.Decoder(list[_PackedAudience]).decode
_decoders: Final[list[msgspec.msgpack.Decoder[Message]]] = [
    msgspec.msgpack.Decoder(kind) for kind in _KINDS
]


def pack(audiences: Iterable[tuple[str, Audience]], bytes_max: int) -> list[bytes]:
    """Pack audiences whose members are no longer connected.

    Args:
        audiences: each with the id of its room.
        bytes_max: bytes of a piece at most. An audience that is larger goes without its log: its
            members are told of a gap.

    Returns:
        Pieces, each for `unpack`.
    """
    pieces: list[list[bytes]] = [[]]
    size = 0
    for room_id, audience in audiences:
        packed = _pack(room_id, audience)
        if len(packed) + _HEAD_BYTES > bytes_max:
            audience.log = None
            packed = _pack(room_id, audience)
        if size + len(packed) + _HEAD_BYTES > bytes_max and pieces[-1]:
            pieces.append([])
            size = 0
        pieces[-1].append(packed)
        size += len(packed)
    raw = [[msgspec.Raw(packed) for packed in piece] for piece in pieces if piece]
    return [msgspec.msgpack.encode(piece) for piece in raw]


_HEAD_BYTES: Final = 5
"""Bytes that a list takes besides its elements."""


def _pack(room_id: str, audience: Audience) -> bytes:
    log = [
        _PackedKept(
            _KINDS.index(type(kept.message)),
            msgspec.Raw(msgspec.msgpack.encode(kept.message)),
            kept.player_ids,
        )
        for kept in audience.log or ()
    ]
    places = {i: (p.connection_id, p.count, p.parted_at) for i, p in audience.places.items()}
    resumed = {i: p.resumed for i, p in audience.places.items() if p.resumed is not None}
    packed = _PackedAudience(room_id, places, log, audience.sequence, audience.streams, resumed)
    return msgspec.msgpack.encode(packed)


def unpack(piece: bytes, sender: Sender, log_bytes_max: int) -> list[tuple[str, Audience]]:
    """Return the audiences of a piece, each with the id of its room.

    Args:
        piece: what `pack` has returned.
        sender: flushes what is sent to members who come back.
        log_bytes_max: bytes of messages that each keeps.

    Raises:
        msgspec.DecodeError: it is no such piece.
    """
    return [(packed.room_id, _unpack(packed, sender, log_bytes_max)) for packed in _decode(piece)]


def _unpack(packed: _PackedAudience, sender: Sender, log_bytes_max: int) -> Audience:
    audience = Audience(sender)
    audience.places = {
        i: Attendance(*place, packed.resumed.get(i)) for i, place in packed.places.items()
    }
    audience.sequence, audience.streams = packed.sequence, packed.streams
    for kept in packed.log:
        if not 0 <= kept.kind < len(_KINDS):
            raise msgspec.DecodeError(f"no message is of kind {kept.kind}")
        message = _decoders[kept.kind].decode(kept.message)
        audience.keep(message, kept.player_ids, log_bytes_max)
    return audience
