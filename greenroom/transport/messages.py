"""The messages in the frames: decodes those of clients, and encodes those of the server.

`contract.realtime` has the frames as structs. What is done all the time is put together by hand,
and what clients send is read more kindly than the structs say. Tests hold both against them.

A client of the kind `engine` (or `unity`) cannot read free JSON: `data` is a string, `data_json`.
"""

from __future__ import annotations

import enum
import time
from functools import lru_cache
from typing import Any, Final

import msgspec

from greenroom.actors.room.messages import Group
from greenroom.actors.room.ports import Happened, Message, Receive, Settled
from greenroom.actors.text.nesting import nests_too_deep
from greenroom.contract.allowed_values import RequestId
from greenroom.contract.fields import timestamp
from greenroom.contract.realtime import (
    ConnectedData,
    ConnectedFrame,
    ErrorData,
    ErrorFrame,
    HeartbeatAckFrame,
    MessageSender,
    RefusedData,
    RefusedFrame,
    SentFrame,
    UdpCountsData,
    UdpFrame,
    UdpKeys,
    UdpStatsFrame,
)
from greenroom.fastlane.suites import SUITES
from greenroom.transport.requests import (
    ABSENT,
    ActionRequest,
    MalformedMessage,
    fitting_id,
    read_request,
    read_scalar,
)
from greenroom.transport.websocket.frames import TEXT, encode_frame

MALFORMED_TEXT: Final = "Failed to process message"
TOO_MANY_TEXT: Final = "Too many requests"
"""The text for a message that was to be stored, as HTTP has it."""
SENT_FRAMES_MAX: Final = 1_024
"""Answers to senders that are kept, for games have few commands and rooms few members."""
SUITES_BYTES_MAX: Final = 512
"""Names of suites that a client offers; longer ones hold none of ours."""
SENT_COMMAND_MAX: Final = 64
"""Characters; answers to longer commands are not kept."""
SENDERS_MAX: Final = 8_192
"""Those who spoke last, whose names are kept as they are encoded."""
_NO_DATA: Final = b"{}"
GROUPS: Final = {word: Group(word) for word in ("all", "host", "others")}
"""The groups whose words need no ids."""


class ClientKind(enum.IntEnum):
    """The form in which a client wants data."""

    JSON = 0
    ENGINE = 1


CLIENT_KINDS: Final = {"engine": ClientKind.ENGINE, "unity": ClientKind.ENGINE}
"""By the words in the query; anything else is JSON."""


class HeartbeatWanted:
    """The client sent a heartbeat, and wants an answer."""


HEARTBEAT: Final = HeartbeatWanted()


class UdpStatusWanted:
    """The client wants to know how its fast lane does."""


UDP_STATUS: Final = UdpStatusWanted()


class StateWanted:
    """The client wants to see the state of the room as a whole."""


WANT_STATE: Final = StateWanted()


class UdpOpen(msgspec.Struct, frozen=True):
    """The client wants a fast lane, in one of these suites; what it sent, None for any."""

    suites: object
    request_id: RequestId | None = None


class Send(msgspec.Struct, frozen=True, gc=False):
    """The client has something to say; `data` is JSON."""

    command: str
    data: bytes
    targets: Group
    request_id: RequestId | None = None


Wanted = Send | ActionRequest | HeartbeatWanted | UdpOpen | UdpStatusWanted | StateWanted


class _Incoming(msgspec.Struct, gc=False):
    type: str = ""
    id: msgspec.Raw = ABSENT
    command: str | None = None
    data: msgspec.Raw = ABSENT
    data_json: str | None = None
    target: str | None = None
    target_ids: list[int] | None = None
    suites: msgspec.Raw = ABSENT


class _Unfitting(msgspec.Struct, gc=False):
    """The fields that count in an object whose fields are not those of a `send`."""

    type: msgspec.Raw = ABSENT
    id: msgspec.Raw = ABSENT
    suites: msgspec.Raw = ABSENT


_decode: Final = msgspec.json.Decoder(_Incoming, strict=False).decode
_decode_unfitting: Final = msgspec.json.Decoder(_Unfitting).decode
_decode_suites: Final = msgspec.json.Decoder().decode
_decode_raw: Final = msgspec.json.Decoder(msgspec.Raw).decode
_encode: Final = msgspec.json.Encoder().encode


def read(text: bytes) -> Wanted | None:
    """Return what a client wants; None for a type that is not known, which is ignored.

    Raises:
        MalformedMessage: it cannot be understood, or nests too deep.
    """
    if nests_too_deep(text):
        raise MalformedMessage
    try:
        incoming = _decode(text)
    except msgspec.ValidationError:
        return _read_unfitting(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedMessage from None
    if incoming.type == "send":
        return _read_send(incoming)
    if incoming.type == "action":
        return read_request(text)
    return _read_request(incoming.type, incoming.suites, incoming.id)


def _read_unfitting(text: bytes) -> Wanted | None:
    """Judge an object whose fields are not those of a `send`."""
    try:
        found = _decode_unfitting(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedMessage from None
    kind = read_scalar(found.type)
    if kind == "send":
        raise MalformedMessage(request_id=fitting_id(read_scalar(found.id)))
    if kind == "action":
        return read_request(text)
    return _read_request(kind, found.suites, found.id)


def _read_request(kind: object, suites: msgspec.Raw, own_id: msgspec.Raw) -> Wanted | None:
    match kind:
        case "heartbeat":
            return HEARTBEAT
        case "udp_open":
            return UdpOpen(_read_suites(suites), fitting_id(read_scalar(own_id)))
        case "udp_stats":
            return UDP_STATUS
        case "state":
            return WANT_STATE
        case _:
            return None


def _read_suites(suites: msgspec.Raw) -> object:
    """Return what a client offers, None for anything; of more than can be names, it is nothing."""
    if suites is ABSENT:
        return None
    if len(memoryview(suites)) > SUITES_BYTES_MAX:
        return ()
    try:
        return _decode_suites(suites)
    except (msgspec.DecodeError, RecursionError):
        return ()


def _read_send(incoming: _Incoming) -> Send:
    own_id = incoming.id
    request_id = None if own_id is ABSENT else fitting_id(read_scalar(own_id))
    try:
        targets = GROUPS.get(incoming.target or "")
        if targets is None:
            if incoming.target != "specific":
                raise MalformedMessage
            targets = Group("specific", frozenset(incoming.target_ids or ()))
        if incoming.command is None:
            raise MalformedMessage
        data = bytes(incoming.data)
        if incoming.data_json:
            data = read_data(incoming.data_json.strip().encode())
    except MalformedMessage as malformed:
        malformed.request_id = request_id
        raise
    return Send(incoming.command, data or _NO_DATA, targets, request_id)


def read_data(data: bytes) -> bytes:
    """Return data that a client has sent as it is passed on; nothing at all is `{}`.

    Raises:
        MalformedMessage: it is not JSON, or nests too deep.
    """
    if not data:
        return _NO_DATA
    if nests_too_deep(data):
        raise MalformedMessage
    try:
        data.decode()
        _decode_raw(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedMessage from None
    return data


# To clients.


def _encode_sender_anew(
    is_host: bool,  # noqa: FBT001
    player_id: int,
    name: str,
    is_server: bool,  # noqa: FBT001
) -> bytes:
    return _encode(MessageSender(is_host, player_id, name, is_server))


_encode_sender: Final = lru_cache(SENDERS_MAX)(_encode_sender_anew)
_encode_again: Final = lru_cache(SENT_FRAMES_MAX)(_encode)
_JSON: Final = ClientKind.JSON
_DATA: Final = {_JSON: b'"data"', ClientKind.ENGINE: b'"data_json"'}
_UNRELIABLE: Final = b',"unreliable":true'


def encode(message: Message, kind: ClientKind, *, unreliable: bool = False) -> bytes:
    """Return the frame that every client of a kind is sent for a message.

    Args:
        message: what to tell.
        kind: of the client.
        unreliable: it was meant for the fast lane, and is not counted for coming back.
    """
    if not isinstance(message, Receive):
        return _frame(_describe(message, kind))
    # Put together by hand: with structs it takes four times as long, and it is done all the time.
    command = message.command
    parts = (
        _encode_again(command) if len(command) <= SENT_COMMAND_MAX else _encode(command),
        _DATA[kind],
        message.data if kind is _JSON else _encode(_compact(message.data)),
        _encode_sender(message.is_host, message.sender_id, message.sender_name, message.is_server),
        _UNRELIABLE if unreliable else b"",
    )
    return encode_frame(TEXT, b'{"type":"receive","command":%b,%b:%b,"sender":%b%b}' % parts)


def _describe(message: Happened | Settled, kind: ClientKind) -> dict[str, Any]:
    """Return an event, or the result of an action, as its receiver's kind of client reads it."""
    if isinstance(message, Happened):
        return {"type": "event", "event": message.event, "data": message.data}
    settled = message
    result, data = settled.result, settled.result.response_data or b"null"
    response: dict[str, Any] = (
        {"response_data": msgspec.Raw(data)}
        if kind is _JSON
        else {"response_data_json": _compact(data)}
    )
    said_by = {"sender": {"is_server": True}} if result.is_server else {}
    return {
        "type": "action_result",
        "id": settled.request_id,
        "action_id": result.action_id,
        "action_type": result.action_type,
        "status": result.status,
        **response,
        "target_id": result.target_id,
        "is_host": result.is_host,
        "processed_at": timestamp(result.processed_at),
        **said_by,
    }


def encode_state(message: Happened, kind: ClientKind) -> bytes:
    """Return the frame that every client of a kind is sent for a part of the room's state."""
    if kind is ClientKind.ENGINE:
        data_json = _encode(message.data).decode()
        return _frame({"type": "event", "event": message.event, "data_json": data_json})
    return encode(message, kind)


def encode_sent(command: str, target_count: int, request_id: RequestId | None = None) -> bytes:
    """Return the frame that tells a sender how many members a message has reached."""
    if request_id is not None:
        return _frame(SentFrame(command, target_count, request_id))
    if len(command) > SENT_COMMAND_MAX:
        return _encode_sent(command, target_count)
    return _encode_sent_again(command, target_count)


def _encode_sent(command: str, target_count: int) -> bytes:
    return _frame(SentFrame(command, target_count))


_encode_sent_again: Final = lru_cache(SENT_FRAMES_MAX)(_encode_sent)


def encode_connected(data: ConnectedData) -> bytes:
    """Return the first frame of a connection."""
    return _frame(ConnectedFrame(data))


def encode_udp(keys: UdpKeys) -> bytes:
    """Return the frame that hands out the keys of a fast lane."""
    return _frame(UdpFrame(keys))


def encode_udp_stats(data: UdpCountsData | None) -> bytes:
    """Return the frame that tells how a fast lane does; None where there is none."""
    return _frame(UdpStatsFrame(data))


def encode_stopping() -> bytes:
    """Return the event that asks clients to come back: the server is stopped, or started anew."""
    return _frame({"type": "event", "event": "server_stopping", "data": {}})


def encode_moved() -> bytes:
    """Return the event that asks clients to come back: another node serves the room now."""
    return _frame({"type": "event", "event": "room_moved", "data": {}})


def encode_error(
    text: str, retry_seconds: int | None = None, request_id: RequestId | None = None
) -> bytes:
    """Return the frame that says what went wrong, and when to try again if that helps.

    `request_id` is the client's own id for what the error is about.
    """
    return _frame(ErrorFrame(id=request_id, data=ErrorData(text, retry_seconds)))


def encode_refused(text: str, hint: str | None) -> bytes:
    """Return the frame that tells a client with `hints=1` why it is not let in."""
    return _frame(RefusedFrame(data=RefusedData(text, hint)))


def encode_heartbeat_ack(unix_seconds: float) -> bytes:
    """Return the answer to a heartbeat, with the time to the millisecond."""
    seconds, milliseconds = divmod(int(unix_seconds * 1_000), 1_000)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return _frame(HeartbeatAckFrame(f"{moment}.{milliseconds:03d}Z"))


def _frame(value: object) -> bytes:
    return encode_frame(TEXT, _encode(value))


def _compact(data: bytes) -> str:
    """Return data as a string of JSON without white space; null becomes an empty object."""
    if data == b"null":
        return "{}"
    return msgspec.json.format(data, indent=-1).decode()


NO_UDP_PORT: Final = "This server has no UDP port"
KEYS_NEED_TLS: Final = (
    "UDP keys are given out over wss alone: see the setting udp_keys_over_plain_ws"
)
NO_SUCH_SUITE: Final = "Offer one of the suites " + ", ".join(SUITES)
