"""Decode JSON into structs, whatever games and players have put into it.

msgspec is quick, but refuses numbers that no float can hold, and other players may send such. Then
the standard library decodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from greenroom.contract.fields import Reply

T = TypeVar("T")
ReplyT = TypeVar("ReplyT", bound=Reply)

_FAILURES = (ValueError, RecursionError)
"""msgspec.DecodeError and UnicodeDecodeError are ValueErrors."""


class NotDecoded(Exception):
    """The data is not JSON, or not of the type that was asked for."""


def _make_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=False)


_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = cache(_make_decoder)


def decode(data: bytes | str | msgspec.Raw, kind: type[T]) -> T:
    """Return a value of a type. Numbers may be strings, and unknown fields are left out.

    Raises:
        NotDecoded: the data is not of that type.
    """
    found: T = _decode(data, kind)
    return found


def _make_keeper(reply: type[ReplyT]) -> type[ReplyT]:
    keeper = msgspec.defstruct(reply.__name__, [], bases=(reply,), kw_only=True, gc=True, dict=True)
    return cast("type[ReplyT]", keeper)


_keeper: Callable[[Any], Any] = cache(_make_keeper)
"""By a type of reply, the same type with room for `Reply.raw`. The server's replies have none."""


def decode_reply(data: bytes, kind: type[ReplyT]) -> ReplyT:
    """Return a reply that remembers the bytes it was read from.

    Raises:
        NotDecoded: the data is not of this type.
    """
    reply: ReplyT = _decode(data, _keeper(kind))
    vars(reply)["raw_bytes"] = data
    return reply


def decode_any(data: bytes | str | msgspec.Raw) -> Any:
    """Return any JSON value.

    Raises:
        NotDecoded: the data is not JSON.
    """
    return _decode(data, Any)


def _decode(data: bytes | str | msgspec.Raw, kind: Any) -> Any:
    try:
        return _decoder(kind).decode(data)
    except _FAILURES:
        try:
            text = data if isinstance(data, str) else bytes(data)
            return msgspec.convert(json.loads(text), kind, strict=False)
        except _FAILURES as error:
            raise NotDecoded(str(error)) from error
