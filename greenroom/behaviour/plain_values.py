"""Data of clients as plain values: any JSON that was taken in can be read.

JSON has numbers that nobody's float or integer bears: 1e999, or one of ten thousand digits. They
are kept and passed on as they came. To a behaviour they are floats, infinite if need be, which can
be kept and said again: so nobody's number stops a room.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from greenroom.behaviour.errors import Refused

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
The decoder takes 40 µs for some of them, such as 1e308."""
EXPONENTS_MAX: Final = 1_500
"""Numbers with an exponent of ten or more, likewise. It takes 3 µs for some, such as 1e23."""
_EXPONENT: Final = re.compile(rb"(?<=[\[,:\s])-?[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{2}")
_EXTREME: Final = re.compile(_EXPONENT.pattern + rb"[0-9]")
COST_MAX: Final = 2_000
"""How many numbers with an exponent data for another handler or hook may have. Each takes 1 to 3
µs. One with an exponent of three digits counts as six."""
_EXTREME_COST, _EXTREME_DIGITS = 6, 3
TOO_MANY_EXTREMES: Final = "too many numbers like 1e100"
_FLOATS_KEPT: Final = 1_024
_FLOAT_CHARACTERS_MAX: Final = 24
"""Longer numbers are not kept. A message has room for few of these."""

_kept_float: Final = lru_cache(_FLOATS_KEPT)(float)


def _float(text: str) -> float:
    """Return a number: quickly, if many short ones are alike, as those are that take longest."""
    return _kept_float(text) if len(text) <= _FLOAT_CHARACTERS_MAX else float(text)


class _CountedFloat:
    """Reads numbers as `_float`, those with an exponent up to a sum of what they cost."""

    def __init__(self) -> None:
        self._left = COST_MAX

    def __call__(self, text: str) -> float:
        if "e" in text or "E" in text:
            digits = len(text) - len(text.rstrip("0123456789"))
            self._left -= _EXTREME_COST if digits >= _EXTREME_DIGITS else 1
            if self._left < 0:
                raise Refused(f"The data has {TOO_MANY_EXTREMES}")
        return _float(text)


_decode: Final = msgspec.json.Decoder().decode


def plain(data: bytes) -> Any:
    """Return JSON as dicts, lists, strings, numbers, truth values and None.

    Args:
        data: JSON that has been checked when it came.

    Raises:
        RecursionError: it nests deeper than the stack goes.
    """
    return _plain(data, _float)


def plain_sent(data: bytes) -> Any:
    """Return the same of what a client has sent, unless its numbers take too long to read.

    Raises:
        Refused: they do.
        RecursionError: see `plain`.
    """
    return _plain(data, _CountedFloat())


def _plain(data: bytes, read_float: Callable[[str], float]) -> Any:
    alike = bytes(data).translate(_DIGITS_ALIKE)
    if _MANY_DIGITS not in alike:
        try:
            if b"0e" in alike:
                return msgspec.json.Decoder(float_hook=read_float).decode(data)
            return _decode(data)
        except msgspec.ValidationError:
            pass  # a number is out of range
    return json.loads(data, parse_int=_number, parse_float=read_float)


def has_large_integer(data: bytes) -> bool:
    """Return whether JSON holds an integer that a state cannot keep; arguments as above."""
    if not _has_many_digits(data):
        return False
    numbers: list[int | float] = []

    def note(text: str) -> None:
        numbers.append(_number(text))

    json.loads(data, parse_int=note, parse_float=str)  # which takes no time
    return any(type(number) is float for number in numbers)


def has_many_extremes(data: bytes) -> bool:
    """Return whether JSON has more numbers than it may that take long to decode as typed.

    They are searched for only if there may be so many, because that takes long, too.

    Args:
        data: JSON that has been checked when it came.
    """
    if len(data) < 6 * EXTREMES_MAX:
        return False
    alike = bytes(data).translate(_DIGITS_ALIKE)
    return any(
        sum(alike.count(b"0e%b" % (sign + digits)) for sign in (b"", b"+", b"-")) > count_max
        and len(exact.findall(data)) > count_max
        for digits, exact, count_max in (
            (b"000", _EXTREME, EXTREMES_MAX),
            (b"00", _EXPONENT, EXPONENTS_MAX),
        )
    )


def _has_many_digits(data: bytes) -> bool:
    return _MANY_DIGITS in bytes(data).translate(_DIGITS_ALIKE)


def _number(text: str) -> int | float:
    if len(text) > _CHARACTERS_MAX:
        return float(text)
    number = int(text)
    return number if INTEGER_MIN <= number <= INTEGER_MAX else float(text)
