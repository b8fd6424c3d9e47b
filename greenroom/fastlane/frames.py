"""Frames: what is inside a packet. Integers are big-endian, texts UTF-8, `data` JSON.

    type  frame      fields
    0     PADDING    the rest of the packet, ignored
    1     PING       u32 stamp                             answered by a PONG with the same stamp
    2     PONG       u32 stamp
    3     CHALLENGE  8 bytes                               answered by a RESPONSE with the same
    4     RESPONSE   8 bytes
    5     MESSAGE    from a client:  u8 target, u16 stream, u32 sequence, u8 n, n u64 player ids,
                                     u8 length, command, u16 length, data
                     from a server:  u8 flags,  u16 stream, u32 sequence, u64 sender id,
                                     u8 length, command, u16 length, data

target: 0 all, 1 host, 2 others, 3 specific; player ids follow for `specific` alone (n is 0 else).
flags: bit 0 set when the sender is host. A sender id of 0 is the room itself. Messages of stream 0
stand for themselves; of another stream a receiver takes only what has a higher sequence than the
last that he took.
"""

from __future__ import annotations

import struct
from typing import Final, Literal

import msgspec

Target = Literal["all", "host", "others", "specific"]
TARGETS: Final[tuple[Target, ...]] = ("all", "host", "others", "specific")

COMMAND_BYTES_MAX: Final = 64
PLAYER_IDS_MAX: Final = 16

PADDING, PING, PONG, CHALLENGE, RESPONSE, MESSAGE = range(6)

_STAMP: Final = struct.Struct(">BI")
_HEAD: Final = struct.Struct(">BBHI")
_LENGTH: Final = struct.Struct(">H")
_ID: Final = struct.Struct(">Q")


class Malformed(Exception):
    """A genuine packet whose frames make no sense: its sender has a bug."""


class Ping(msgspec.Struct, frozen=True, gc=False):
    """Are you there?"""

    stamp: int


class Pong(msgspec.Struct, frozen=True, gc=False):
    """Yes."""

    stamp: int


class Challenge(msgspec.Struct, frozen=True, gc=False):
    """Show that you read what is sent to your address."""

    token: bytes


class Response(msgspec.Struct, frozen=True, gc=False):
    """This is what was sent there."""

    token: bytes


class Sent(msgspec.Struct, frozen=True, gc=False):
    """A client's message."""

    command: str
    data: bytes
    target: Target = "all"
    player_ids: tuple[int, ...] = ()
    stream: int = 0
    sequence: int = 0


class Received(msgspec.Struct, frozen=True, gc=False):
    """A server's message: what a client, or the room, has sent."""

    command: str
    data: bytes
    sender_id: int
    is_host: bool = False
    stream: int = 0
    sequence: int = 0


Frame = Ping | Pong | Challenge | Response | Sent | Received


def encode(frame: Frame) -> bytes:
    """Return a frame's bytes.

    Raises:
        ValueError: a command, or a list of players, is too long.
    """
    match frame:
        case Ping():
            return _STAMP.pack(PING, frame.stamp)
        case Pong():
            return _STAMP.pack(PONG, frame.stamp)
        case Challenge():
            return b"\x03" + frame.token
        case Response():
            return b"\x04" + frame.token
        case Sent():
            return _encode_sent(frame)
        case Received():
            return _encode_received(frame)


def _encode_sent(frame: Sent) -> bytes:
    player_ids = frame.player_ids if frame.target == "specific" else ()
    if len(player_ids) > PLAYER_IDS_MAX:
        raise ValueError(f"at most {PLAYER_IDS_MAX} players, not {len(player_ids)}")
    head = _HEAD.pack(MESSAGE, TARGETS.index(frame.target), frame.stream, frame.sequence)
    ids = bytes((len(player_ids),)) + b"".join(map(_ID.pack, player_ids))
    return head + ids + _encode_said(frame.command, frame.data)


def _encode_received(frame: Received) -> bytes:
    head = _HEAD.pack(MESSAGE, frame.is_host, frame.stream, frame.sequence)
    return head + _ID.pack(frame.sender_id) + _encode_said(frame.command, frame.data)


def _encode_said(command: str, data: bytes) -> bytes:
    name = command.encode()
    if len(name) > COMMAND_BYTES_MAX:
        raise ValueError(f"a command has at most {COMMAND_BYTES_MAX} bytes, not {len(name)}")
    return bytes((len(name),)) + name + _LENGTH.pack(len(data)) + data


class _Reader:
    """A packet's body, read from front to back."""

    __slots__ = ("at", "body")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0

    def take(self, count: int) -> bytes:
        taken = self.body[self.at : self.at + count]
        if len(taken) != count:
            raise Malformed("a frame is cut off")
        self.at += count
        return taken

    def unpack(self, form: struct.Struct) -> tuple[int, ...]:
        return form.unpack(self.take(form.size))

    def byte(self) -> int:
        return self.take(1)[0]


def decode(body: bytes, *, from_client: bool) -> list[Frame]:
    """Return the frames of a packet, padding left out.

    Args:
        body: what the packet held, opened.
        from_client: who sent it; the two sides' messages have different forms.

    Raises:
        Malformed: it makes no sense.
    """
    reader, frames = _Reader(body), list[Frame]()
    while reader.at < len(body):
        kind = body[reader.at]
        if kind == PADDING:
            break
        frames.append(_decode_frame(reader, kind, from_client=from_client))
    return frames


def _decode_frame(reader: _Reader, kind: int, *, from_client: bool) -> Frame:
    match kind:
        case 5:
            return _decode_sent(reader) if from_client else _decode_received(reader)
        case 1:
            return Ping(reader.unpack(_STAMP)[1])
        case 2:
            return Pong(reader.unpack(_STAMP)[1])
        case 3:
            return Challenge(reader.take(9)[1:])
        case 4:
            return Response(reader.take(9)[1:])
        case _:
            raise Malformed(f"there is no frame of type {kind}")


def _decode_sent(reader: _Reader) -> Sent:
    _, target, stream, sequence = reader.unpack(_HEAD)
    count = reader.byte()
    if target >= len(TARGETS) or count > PLAYER_IDS_MAX:
        raise Malformed("no such target")
    player_ids = tuple(reader.unpack(_ID)[0] for _ in range(count))
    command, data = _decode_said(reader)
    return Sent(command, data, TARGETS[target], player_ids, stream, sequence)


def _decode_received(reader: _Reader) -> Received:
    _, flags, stream, sequence = reader.unpack(_HEAD)
    (sender_id,) = reader.unpack(_ID)
    command, data = _decode_said(reader)
    return Received(command, data, sender_id, bool(flags & 1), stream, sequence)


def _decode_said(reader: _Reader) -> tuple[str, bytes]:
    name = reader.take(reader.byte())
    if not 1 <= len(name) <= COMMAND_BYTES_MAX:
        raise Malformed(f"a command has 1 to {COMMAND_BYTES_MAX} bytes")
    data = reader.take(reader.unpack(_LENGTH)[0])
    try:
        return name.decode(), data
    except UnicodeDecodeError:
        raise Malformed("a command is not UTF-8") from None
