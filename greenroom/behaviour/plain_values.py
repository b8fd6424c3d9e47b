"""Data of clients as plain values: any JSON that was taken in can be read.

JSON has numbers that nobody's float or integer bears: 1e999, or one of ten thousand digits. They
are kept and passed on as they came. To a behaviour they are floats, infinite if need be, which can
be kept and said again: so nobody's number stops a room.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final

import msgspec

INTEGER_MIN: Final = -(1 << 63)
INTEGER_MAX: Final = (1 << 64) - 1
"""The integers that a state can keep."""
_CHARACTERS_MAX: Final = 20
"""The length of such an integer as text, with its sign."""
_MANY_DIGITS: Final = b"0" * 19
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789E", b"000000000e")
"""To find many of them quickly: every message comes by here."""

EXTREMES_MAX: Final = 64
"""Numbers of a hundred places or more, before the point or behind it, in data for a typed handler.
The decoder takes 15 µs for each of many of them, such as 1e300."""
_EXTREME: Final = re.compile(rb"(?<=[\[,:\s])-?[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{3}")
_FLOATS_KEPT: Final = 1_024
_FLOAT_CHARACTERS_MAX: Final = 24
"""Longer numbers are not kept. A message has room for few of these."""

_kept_float: Final = lru_cache(_FLOATS_KEPT)(float)


def _float(text: str) -> float:
    """Return a number: quickly, if many short ones are alike, as those are that take longest."""
    return _kept_float(text) if len(text) <= _FLOAT_CHARACTERS_MAX else float(text)


_decode: Final = msgspec.json.Decoder().decode
_decode_exponents: Final = msgspec.json.Decoder(float_hook=_float).decode


def plain(data: bytes) -> Any:
    """Return JSON as dicts, lists, strings, numbers, truth values and None.

    Args:
        data: JSON that has been checked when it came.

    Raises:
        RecursionError: it nests deeper than the stack goes.
    """
    alike = bytes(data).translate(_DIGITS_ALIKE)
    if _MANY_DIGITS not in alike:
        try:
            if b"0e" in alike:
                return _decode_exponents(data)
            return _decode(data)
        except msgspec.ValidationError:
            pass  # a number is out of range
    return json.loads(data, parse_int=_number, parse_float=_float)


def has_large_integer(data: bytes) -> bool:
    """Return whether JSON holds an integer that a state cannot keep; arguments as above."""
    if not _has_many_digits(data):
        return False
    numbers: list[int | float] = []

    def note(text: str) -> None:
        numbers.append(_number(text))

    json.loads(data, parse_int=note)
    return any(type(number) is float for number in numbers)


def has_many_extremes(data: bytes) -> bool:
    """Return whether JSON has more than `EXTREMES_MAX` numbers that take long to decode as typed.

    Args:
        data: JSON that has been checked when it came.
    """
    if len(data) < 6 * EXTREMES_MAX:
        return False
    return len(_EXTREME.findall(data)) > EXTREMES_MAX


def _has_many_digits(data: bytes) -> bool:
    return _MANY_DIGITS in bytes(data).translate(_DIGITS_ALIKE)


def _number(text: str) -> int | float:
    if len(text) > _CHARACTERS_MAX:
        return float(text)
    number = int(text)
    return number if INTEGER_MIN <= number <= INTEGER_MAX else float(text)
