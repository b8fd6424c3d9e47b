"""Python values as Postgres's binary arrays: one parameter for a whole column of a batch."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from greenroom.persistence.driver import BOOL, BYTEA, INT8, JSON, TEXT

_HEADER = struct.Struct("!iiIii")  # dimensions, has nulls, element type, length, lower bound
_LENGTH = struct.Struct("!i")
_NULL = b"\xff\xff\xff\xff"
_INT8 = struct.Struct("!iq")
_FLOAT8 = struct.Struct("!d")
_TRUE, _FALSE = b"\0\0\0\x01\x01", b"\0\0\0\x01\x00"

Encode = Callable[[Sequence[object]], bytes]


class ColumnType(NamedTuple):
    """How a column is sent: the oid of its array type, and an encoder."""

    array_oid: int
    encode: Encode


def _array(oid: int, items: list[bytes]) -> bytes:
    """Join encoded elements, each with its length in front, behind the header of one dimension."""
    if not items:
        return _HEADER.pack(0, 0, oid, 0, 0)[:12]
    return _HEADER.pack(1, 1 if _NULL in items else 0, oid, len(items), 1) + b"".join(items)


def _int8(values: Sequence[object]) -> bytes:
    """Encode integers; `struct.error` for what is not one, or beyond 64 bits."""
    pack = _INT8.pack
    return _array(INT8, [_NULL if value is None else pack(8, value) for value in values])


def _bool(values: Sequence[object]) -> bytes:
    """Encode truth values."""
    return _array(BOOL, [_NULL if v is None else _TRUE if v else _FALSE for v in values])


def _bytes(oid: int) -> Encode:
    """Return an encoder for byte strings that travel as the element type `oid`."""
    pack = _LENGTH.pack

    def encode(values: Sequence[object]) -> bytes:
        items: list[bytes] = []
        for value in values:
            if value is None:
                items.append(_NULL)
            elif isinstance(value, bytes):
                items.append(pack(len(value)) + value)
            else:
                raise TypeError(f"bytes wanted, not {type(value).__name__}")
        return _array(oid, items)

    return encode


def _text(values: Sequence[object]) -> bytes:
    """Encode strings; `UnicodeEncodeError` for a lone surrogate."""
    pack = _LENGTH.pack
    items: list[bytes] = []
    for value in values:
        if value is None:
            items.append(_NULL)
        elif isinstance(value, str):
            data = value.encode()
            items.append(pack(len(data)) + data)
        else:
            raise TypeError(f"a string wanted, not {type(value).__name__}")
    return _array(TEXT, items)


def _structs(values: Sequence[object]) -> bytes:
    """Encode structs as JSON; `TypeError` for what JSON cannot hold."""
    return JSON_COLUMN.encode([msgspec.json.encode(value) for value in values])


INT8_COLUMN = ColumnType(1016, _int8)
BOOL_COLUMN = ColumnType(1000, _bool)
BYTEA_COLUMN = ColumnType(1001, _bytes(BYTEA))
JSON_COLUMN = ColumnType(199, _bytes(JSON))
TEXT_COLUMN = ColumnType(1009, _text)
STRUCT_COLUMN = ColumnType(199, _structs)

ENCODING_ERRORS = (struct.error, TypeError, UnicodeEncodeError, OverflowError)
"""Errors for a value that does not fit its column. The row is refused, as if by the database."""


def int8(value: int | None) -> bytes | None:
    """Return one integer as a binary parameter."""
    return None if value is None else value.to_bytes(8, "big", signed=True)


def float8(value: float) -> bytes:
    """Return one number as a binary parameter."""
    return _FLOAT8.pack(value)


def text(value: str | None) -> bytes | None:
    """Return one string as a binary parameter."""
    return None if value is None else value.encode()
