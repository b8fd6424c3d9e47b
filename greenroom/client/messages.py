"""Messages of the control channel: received ones as structs, sent ones as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from greenroom.client.decoding import NotDecoded, decode, decode_any
from greenroom.contract.room_exchange import ResultEntry
from greenroom.contract.words import RequestId
from greenroom.fastlane.frames import Target
from greenroom.fastlane.suites import SuiteName


class Receive(msgspec.Struct, frozen=True):
    """A message of another member, or of the room.

    Attributes:
        command: a word that the game defines.
        data: any JSON value, decoded.
        sender_id: the sender's player id; 0 is the room itself.
        sender_is_host: whether the sender was host then; for what the server says, True.
        sender_name: the sender's name; None for what came over UDP.
        is_fast: True if it was sent as one that may be lost, so that others may be lost or late. It
            came over UDP, or over the WebSocket to a member without UDP.
        sender_is_server: whether the room's behaviour says this. No member can send such a message.
    """

    command: str
    data: Any
    sender_id: int
    sender_is_host: bool
    sender_name: str | None = None
    is_fast: bool = False
    sender_is_server: bool = False


class Event(msgspec.Struct, frozen=True):
    """An event of the room: `member_joined`, `host_changed`, `replay_gap` and so on."""

    event: str
    data: Any


class Sent(msgspec.Struct, frozen=True):
    """A message of ours was taken, for so many receivers."""

    command: str
    target_count: int


class Complaint(msgspec.Struct, frozen=True):
    """The server did not understand a message, or refused it.

    Attributes:
        text: the reason.
        retry_after: seconds after which to try again; None where that would change nothing.
        request_id: the id of the message that it is about, if that had one.
    """

    text: str
    retry_after: float | None = None
    request_id: RequestId | None = None


Message = Receive | Event | Sent | Complaint
"""The messages that iterating over a channel gives."""


class Connected(msgspec.Struct, frozen=True):
    """The first message of a connection."""

    connection_id: str
    player_id: int
    player_name: str
    room_id: str


class Answered(msgspec.Struct, frozen=True):
    """The result of an action of ours."""

    request_id: RequestId
    result: ResultEntry


class HeartbeatAck(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""


class UdpKeys(msgspec.Struct, frozen=True):
    """The keys and address of the fast lane; see docs/reference/realtime-protocol.md."""

    host: str
    port: int
    session: str
    suite: SuiteName
    client_key: str
    server_key: str
    ping_seconds: float = 10.0

    def __repr__(self) -> str:
        return f"UdpKeys(host={self.host!r}, port={self.port})"


Incoming = Message | Answered | Connected | HeartbeatAck | UdpKeys


class _Sender(msgspec.Struct):
    game_player_id: int = 0
    is_host: bool = False
    is_server: bool = False
    player_name: str | None = None


class _Frame(msgspec.Struct):
    type: str
    command: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
    sender: _Sender = msgspec.field(default_factory=_Sender)
    event: str = ""
    target_count: int = 0
    unreliable: bool = False
    id: RequestId | None = None


class _ErrorData(msgspec.Struct):
    message: str = ""
    retry_after: float | None = None


_encode: Final = msgspec.json.Encoder().encode


def read(text: str | bytes) -> Incoming | None:
    """Return what a frame says, or None if it is unknown here or makes no sense."""
    try:
        frame = decode(text, _Frame)
        if frame.type == "action_result" and frame.id is not None:
            return Answered(frame.id, decode(text, ResultEntry))
        return _read(frame)
    except NotDecoded:
        return None


def _read(frame: _Frame) -> Incoming | None:
    match frame.type:
        case "receive":
            sender = frame.sender
            return Receive(
                frame.command,
                decode_any(frame.data),
                sender.game_player_id,
                sender.is_host,
                sender.player_name,
                is_fast=frame.unreliable,
                sender_is_server=sender.is_server,
            )
        case "event":
            return Event(frame.event, decode_any(frame.data))
        case "sent":
            return Sent(frame.command, frame.target_count)
        case "heartbeat_ack":
            return HeartbeatAck()
        case "error":
            about = decode(frame.data, _ErrorData)
            return Complaint(about.message, about.retry_after, frame.id)
        case "connected":
            return decode(frame.data, Connected)
        case "udp":
            return decode(frame.data, UdpKeys)
        case _:
            return None


HEARTBEAT: Final = '{"type":"heartbeat"}'
UDP_OPEN: Final = '{"type":"udp_open"}'
WANT_STATE: Final = '{"type":"state"}'


def encode_data(data: Any) -> bytes:
    """Return a value as JSON; bytes are taken as JSON already."""
    return data if isinstance(data, bytes) else _encode(data)


def write_send(command: str, data: bytes, target: Target, target_ids: Sequence[int]) -> str:
    """Return the frame that sends a message.

    Args:
        command: a word that the game defines.
        data: JSON.
        target: the receivers.
        target_ids: the ids of the members, for `specific`.
    """
    frame: dict[str, Any] = {
        "type": "send",
        "command": command,
        "data": msgspec.Raw(data),
        "target": target,
    }
    if target == "specific":
        frame["target_ids"] = list(target_ids)
    return _encode(frame).decode()


def write_action(
    request_id: str, action_type: str, request_data: bytes, target_id: int | None
) -> str:
    """Return the frame that asks for an action.

    Args:
        request_id: what the result will be found by.
        action_type: a word that the game defines.
        request_data: a JSON object.
        target_id: the member who is asked; None is the host.
    """
    frame: dict[str, Any] = {
        "type": "action",
        "id": request_id,
        "action_type": action_type,
        "request_data": msgspec.Raw(request_data),
    }
    if target_id is not None:
        frame["target_id"] = target_id
    return _encode(frame).decode()
