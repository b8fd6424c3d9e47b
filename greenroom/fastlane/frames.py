"""The frames inside a packet. Integers are big-endian, texts UTF-8, `data` JSON.

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

target: 0 all, 1 host, 2 others, 3 specific. Player ids follow for `specific` alone (n is 0 else).
flags: bit 0 is set when the sender is host. A sender id of 0 is the room itself. Messages of stream
0 are independent. Of another stream, a receiver takes only messages with a later sequence than the
last one taken: up to 2³¹ - 1 above it, modulo 2³².
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import msgspec

from greenroom.contract.allowed_values import GroupWord

TARGETS: Final[tuple[GroupWord, ...]] = ("all", "host", "others", "specific")
"""By their number in a packet."""

COMMAND_BYTES_MAX: Final = 64
PLAYER_IDS_MAX: Final = 16
TOKEN_BYTES: Final = 8

PADDING, PING, PONG, CHALLENGE, RESPONSE, MESSAGE = range(6)

_STAMP: Final = struct.Struct(">BI")
_SENT_HEAD: Final = struct.Struct(">BBHIB")
_RECEIVED_HEAD: Final = struct.Struct(">BBHIQ")
_IS_HOST, _IS_SERVER = 1, 2
"""The flags of a server's message."""
_LENGTH: Final = struct.Struct(">H")
_ID_BYTES: Final = 8


class MalformedFrame(Exception):
    """A genuine packet whose frames make no sense: its sender has a bug."""


class Ping(msgspec.Struct, frozen=True, gc=False):
    """A request for a `Pong`."""

    stamp: int


class Pong(msgspec.Struct, frozen=True, gc=False):
    """The answer to a `Ping`, with its stamp."""

    stamp: int


class Challenge(msgspec.Struct, frozen=True, gc=False):
    """Show that you read what is sent to your address."""

    token: bytes


class Response(msgspec.Struct, frozen=True, gc=False):
    """The answer to a `Challenge`, with its token."""

    token: bytes


class ClientMessage(msgspec.Struct, frozen=True, gc=False):
    """A client's message."""

    command: str
    data: bytes
    target: GroupWord = "all"
    player_ids: tuple[int, ...] = ()
    stream: int = 0
    sequence: int = 0


class ServerMessage(msgspec.Struct, frozen=True, gc=False):
    """A server's message: what a client, or the room, has sent."""

    command: str
    data: bytes
    sender_id: int
    is_host: bool = False
    stream: int = 0
    sequence: int = 0
    is_server: bool = False


Frame = Ping | Pong | Challenge | Response | ClientMessage | ServerMessage

_STAMPED: Final[Mapping[int, type[Ping | Pong]]] = {PING: Ping, PONG: Pong}
_TOKENED: Final[Mapping[int, type[Challenge | Response]]] = {
    CHALLENGE: Challenge,
    RESPONSE: Response,
}


def encode(frame: Frame) -> bytes:
    """Return a frame's bytes.

    Raises:
        ValueError: a command, or a list of players, is too long, or a command is empty.
    """
    match frame:
        case Ping():
            return _STAMP.pack(PING, frame.stamp)
        case Pong():
            return _STAMP.pack(PONG, frame.stamp)
        case Challenge():
            return bytes((CHALLENGE,)) + frame.token
        case Response():
            return bytes((RESPONSE,)) + frame.token
        case ClientMessage():
            return _encode_sent(frame)
        case ServerMessage():
            return encode_received(frame)


def _encode_sent(frame: ClientMessage) -> bytes:
    player_ids = frame.player_ids if frame.target == "specific" else ()
    count = len(player_ids)
    if count > PLAYER_IDS_MAX:
        raise ValueError(f"at most {PLAYER_IDS_MAX} players, not {count}")
    target = TARGETS.index(frame.target)
    head = _SENT_HEAD.pack(MESSAGE, target, frame.stream, frame.sequence, count)
    ids = struct.pack(f">{count}Q", *player_ids)
    return head + ids + _encode_said(frame.command, frame.data)


def encode_received(frame: ServerMessage) -> bytes:
    """Return the bytes of a server's message; `encode` for who has no other frame.

    Raises:
        ValueError: the command is too long, or empty.
    """
    flags = _IS_HOST * frame.is_host | _IS_SERVER * frame.is_server
    head = _RECEIVED_HEAD.pack(MESSAGE, flags, frame.stream, frame.sequence, frame.sender_id)
    return head + _encode_said(frame.command, frame.data)


def _encode_said(command: str, data: bytes) -> bytes:
    name = command.encode()
    if not 1 <= len(name) <= COMMAND_BYTES_MAX:
        raise ValueError(f"a command has 1 to {COMMAND_BYTES_MAX} bytes, not {len(name)}")
    return bytes((len(name),)) + name + _LENGTH.pack(len(data)) + data


def decode(body: bytes, *, from_client: bool) -> list[Frame]:
    """Return the frames of a packet, padding left out.

    Args:
        body: what the packet held, opened.
        from_client: who sent it; the two sides' messages have different forms.

    Raises:
        MalformedFrame: it makes no sense.
    """
    found, at, end = list[Frame](), 0, len(body)
    read_message = _read_sent if from_client else _read_received
    frame: Frame
    try:
        while at < end:
            kind = body[at]
            if kind == MESSAGE:
                frame, at = read_message(body, at)
            elif kind == PADDING:
                break
            elif kind in _STAMPED:
                frame, at = _STAMPED[kind](_STAMP.unpack_from(body, at)[1]), at + _STAMP.size
            elif kind in _TOKENED:
                frame, at = _TOKENED[kind](_cut(body, at + 1, TOKEN_BYTES)), at + 1 + TOKEN_BYTES
            else:
                raise MalformedFrame(f"there is no frame of type {kind}")
            found.append(frame)
    except (struct.error, IndexError):
        raise MalformedFrame("a frame is cut off") from None
    return found


def _read_sent(body: bytes, at: int) -> tuple[ClientMessage, int]:
    _, target, stream, sequence, count = _SENT_HEAD.unpack_from(body, at)
    if target >= len(TARGETS) or count > PLAYER_IDS_MAX:
        raise MalformedFrame("no such target")
    at += _SENT_HEAD.size
    player_ids: tuple[int, ...] = ()
    if count:
        player_ids = struct.unpack_from(f">{count}Q", body, at)
        at += _ID_BYTES * count
    command, data, at = _read_said(body, at)
    return ClientMessage(command, data, TARGETS[target], player_ids, stream, sequence), at


def _read_received(body: bytes, at: int) -> tuple[ServerMessage, int]:
    _, flags, stream, sequence, sender_id = _RECEIVED_HEAD.unpack_from(body, at)
    command, data, at = _read_said(body, at + _RECEIVED_HEAD.size)
    is_host, is_server = bool(flags & _IS_HOST), bool(flags & _IS_SERVER)
    return ServerMessage(command, data, sender_id, is_host, stream, sequence, is_server), at


def _read_said(body: bytes, at: int) -> tuple[str, bytes, int]:
    length = body[at]
    if not 1 <= length <= COMMAND_BYTES_MAX:
        raise MalformedFrame(f"a command has 1 to {COMMAND_BYTES_MAX} bytes")
    data_at = at + 1 + length + _LENGTH.size
    end = data_at + _LENGTH.unpack_from(body, data_at - _LENGTH.size)[0]
    if end > len(body):
        raise MalformedFrame("a frame is cut off")
    try:
        return body[at + 1 : at + 1 + length].decode(), body[data_at:end], end
    except UnicodeDecodeError:
        raise MalformedFrame("a command is not UTF-8") from None


def _cut(body: bytes, at: int, count: int) -> bytes:
    taken = body[at : at + count]
    if len(taken) != count:
        raise MalformedFrame("a frame is cut off")
    return taken
