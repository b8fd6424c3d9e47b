"""Data of clients as plain values: any JSON that was taken in can be read.

JSON has numbers that nobody's float or integer bears: 1e999, or one of ten thousand digits. They
are kept and passed on as they came. To a behaviour they are floats, infinite if need be, which can
be kept and said again: so nobody's number stops a room.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 64) - 1
"""The integers that a state can keep."""
_CHARACTERS_MAX: Final = 20
"""The length of such an integer as text, with its sign."""
_MANY_DIGITS: Final = b"0" * 19
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789", b"000000000")
"""To find many of them quickly: every message comes by here."""

_decode: Final = msgspec.json.Decoder().decode


def plain(data: bytes) -> Any:
    """Return JSON as dicts, lists, strings, numbers, truth values and None.

    Args:
        data: JSON that has been checked when it came.

    Raises:
        RecursionError: it nests deeper than the stack goes.
    """
    if not _has_many_digits(data):
        try:
            return _decode(data)
        except msgspec.ValidationError:
            pass  # a number is out of range
    return json.loads(data, parse_int=_number)


def has_large_integer(data: bytes) -> bool:
    """Return whether JSON holds an integer that a state cannot keep; arguments as above."""
    if not _has_many_digits(data):
        return False
    numbers: list[int | float] = []

    def note(text: str) -> None:
        numbers.append(_number(text))

    json.loads(data, parse_int=note)
    return any(type(number) is float for number in numbers)


def _has_many_digits(data: bytes) -> bool:
    return _MANY_DIGITS in bytes(data).translate(_DIGITS_ALIKE)


def _number(text: str) -> int | float:
    if len(text) > _CHARACTERS_MAX:
        return float(text)
    number = int(text)
    return number if INTEGER_MIN <= number <= INTEGER_MAX else float(text)
