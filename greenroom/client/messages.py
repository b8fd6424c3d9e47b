"""Messages of the control channel: received ones as structs, sent ones as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from greenroom.behaviour.view import DELTA, WHOLE
from greenroom.client.decoding import NotDecoded, decode, decode_any
from greenroom.contract.allowed_values import GroupWord, RequestId
from greenroom.contract.realtime import (
    ActionFrame,
    ActionResultFrame,
    ConnectedData,
    ConnectedFrame,
    ErrorFrame,
    EventFrame,
    HeartbeatAckFrame,
    HeartbeatFrame,
    ReceiveFrame,
    RefusedData,
    RefusedFrame,
    SendFrame,
    SentFrame,
    ServerFrame,
    StateFrame,
    UdpFrame,
    UdpKeys,
    UdpOpenFrame,
    UdpStatsFrame,
)
from greenroom.contract.room_exchange import ResultEntry


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


class Answered(msgspec.Struct, frozen=True):
    """The result of an action of ours."""

    request_id: RequestId
    result: ResultEntry


Incoming = Message | Answered | ConnectedData | RefusedData | HeartbeatAckFrame | UdpKeys


_encode: Final = msgspec.json.Encoder().encode


def read(text: str | bytes) -> Incoming | None:
    """Return what a frame says, or None if it is unknown here or makes no sense."""
    try:
        return _read(decode(text, cast("type[ServerFrame]", ServerFrame)))
    except NotDecoded:
        return None


def _read(frame: ServerFrame) -> Incoming | None:
    match frame:
        case ReceiveFrame(sender=sender):
            return Receive(
                frame.command,
                decode_any(frame.data),
                sender.game_player_id,
                sender.is_host,
                sender.player_name,
                is_fast=frame.unreliable,
                sender_is_server=sender.is_server,
            )
        case EventFrame():
            return Event(frame.event, decode_any(frame.data))
        case SentFrame():
            return Sent(frame.command, frame.target_count)
        case ActionResultFrame():
            result = {name: getattr(frame, name) for name in ResultEntry.__struct_fields__}
            return Answered(frame.id, ResultEntry(**result))
        case HeartbeatAckFrame():
            return frame
        case ErrorFrame(data=about):
            return Complaint(about.message, about.retry_after, frame.id)
        case ConnectedFrame() | RefusedFrame() | UdpFrame():
            return frame.data
        case UdpStatsFrame():
            return None


def counts_for_resume(message: Incoming | None) -> bool:
    """Return whether a message counts in the sequence that a client resumes with."""
    match message:
        case Answered():
            return True
        case Receive():
            return not message.is_fast
        case Event():
            return message.event not in {WHOLE, DELTA}
        case _:
            return False


HEARTBEAT: Final = _encode(HeartbeatFrame()).decode()
UDP_OPEN: Final = _encode(UdpOpenFrame()).decode()
WANT_STATE: Final = _encode(StateFrame()).decode()


def encode_data(data: Any) -> bytes:
    """Return a value as JSON; bytes are taken as JSON already."""
    return data if isinstance(data, bytes) else _encode(data)


def write_send(command: str, data: bytes, target: GroupWord, target_ids: Sequence[int]) -> str:
    """Return the frame that sends a message.

    Args:
        command: a word that the game defines.
        data: JSON.
        target: the receivers.
        target_ids: the ids of the members, for `specific`.
    """
    ids = list(target_ids) if target == "specific" else None
    return _encode(SendFrame(command, msgspec.Raw(data), target, ids)).decode()


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
    frame = ActionFrame(
        id=request_id,
        action_type=action_type,
        request_data=msgspec.Raw(request_data),
        target_id=target_id,
    )
    return _encode(frame).decode()
