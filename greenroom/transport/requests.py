"""Actions over the control channel: reads and checks the requests of clients."""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from greenroom.actors.room.messages import RequestAction
from greenroom.actors.text.nesting import nests_too_deep
from greenroom.contract.allowed_values import REQUEST_ID_CHARACTERS_MAX, REQUEST_ID_MAX, RequestId
from greenroom.contract.room_exchange import ACTION_TYPE_TEXT

ID_TEXT: Final = (
    f"id must be a string of 1 to {REQUEST_ID_CHARACTERS_MAX} characters"
    f" or a whole number from 0 to {REQUEST_ID_MAX}"
)
_EMPTY: Final = b"{}"


class MalformedMessage(Exception):
    """The message is not a JSON object, or a field of a `send` or `action` is missing or wrong."""

    def __init__(self, text: str | None = None, request_id: RequestId | None = None) -> None:
        """Store the text for the client, if there is one, and the id of the message."""
        super().__init__(text)
        self.text = text
        self.request_id = request_id


class ActionRequest(msgspec.Struct, frozen=True):
    """The client asks a member, the host unless `target_id` names another, to do something."""

    request_id: RequestId
    action_type: str
    request_data: bytes
    target_id: int | None
    is_again: bool = False
    """True if it may have been sent before, over a connection that was lost."""


def request_action(player_id: int, request: ActionRequest) -> RequestAction:
    """Return the room's command for a member's request."""
    return RequestAction(
        player_id=player_id,
        request_id=request.request_id,
        target_id=request.target_id,
        action_type=request.action_type,
        request_data=request.request_data,
        seed=os.urandom(16),
        is_again=request.is_again,
    )


ABSENT: Final = msgspec.Raw()
"""A field that is not there."""
_NO_SCALAR: Final = object()
_OPENING: Final = frozenset(b"{[")


class _Incoming(msgspec.Struct):
    id: msgspec.Raw = ABSENT
    action_type: msgspec.Raw = ABSENT
    request_data: msgspec.Raw = ABSENT
    request_data_json: msgspec.Raw = ABSENT
    target_id: msgspec.Raw = ABSENT
    again: msgspec.Raw = ABSENT


_decode_value: Final = msgspec.json.Decoder().decode
_decode: Final = msgspec.json.Decoder(_Incoming).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read_scalar(raw: msgspec.Raw) -> Any:
    """Return a string, number, truth value or None, which a field that is not there has, too.

    An array or object of other things would take long to decode: 64 KiB of numbers such as 1e300
    takes 170 ms. No field takes one, so it is something that fits nowhere.
    """
    if raw is ABSENT:
        return None
    if memoryview(raw)[0] in _OPENING:
        return _NO_SCALAR
    try:
        return _decode_value(raw)
    except msgspec.ValidationError:  # a number beyond all bounds
        return _NO_SCALAR


def fitting_id(value: object) -> RequestId | None:
    """Return a client's own id for a message, None if answers cannot carry it."""
    if type(value) is float and value.is_integer():  # some engines know no other numbers
        value = int(value)
    if type(value) is int:
        return value if 0 <= value <= REQUEST_ID_MAX else None
    if type(value) is str:
        return value if 0 < len(value) <= REQUEST_ID_CHARACTERS_MAX else None
    return None


def read_request(text: bytes) -> ActionRequest:
    """Return the request of a frame of type `action`.

    Raises:
        MalformedMessage: a field is missing or wrong; the text says which.
    """
    incoming = _decode(text)
    request_id = fitting_id(read_scalar(incoming.id))
    if request_id is None:
        raise MalformedMessage(ID_TEXT)
    try:
        return ActionRequest(
            request_id,
            _read_type(read_scalar(incoming.action_type)),
            _read_data(bytes(incoming.request_data), read_scalar(incoming.request_data_json)),
            _read_target(read_scalar(incoming.target_id)),
            is_again=read_scalar(incoming.again) is True,
        )
    except MalformedMessage as malformed:
        malformed.request_id = request_id
        raise


def _read_type(value: object) -> str:
    if value is None or value == "":
        raise MalformedMessage(ACTION_TYPE_TEXT)
    if not isinstance(value, str) or "\0" in value:  # no database column takes it
        raise MalformedMessage("action_type must be a string")
    return value


def _read_data(data: bytes, data_json: object) -> bytes:
    """Return the request's document; an empty one if there is none."""
    if data and data != b"null":
        if not data.startswith(b"{"):
            raise MalformedMessage("request_data must be an object")
        return data
    if data_json is None or data_json == "":
        return _EMPTY
    if not isinstance(data_json, str):
        raise MalformedMessage("request_data_json must be a string")
    data = data_json.strip().encode()
    try:
        if not nests_too_deep(data):
            _decode_object(data)
            return data
    except (msgspec.DecodeError, RecursionError):
        pass
    raise MalformedMessage("request_data is not valid JSON")


def _read_target(value: object) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 18:
        return int(value)
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise MalformedMessage("target_id must be an integer")
    return value
