"""What clients have sent, as plain values: any JSON that was taken in can be read.

JSON has numbers that nobody's float or integer bears: 1e999, or one of ten thousand digits. They
are kept and passed on as they came. To a behaviour they are floats, infinite if need be, which can
be kept and said again: so nobody's number stops a room.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

_INTEGER_MIN: Final = -(1 << 63)
_INTEGER_MAX: Final = (1 << 63) - 1
"""What a state can keep."""
_DIGITS_MAX: Final = 19
_MANY_DIGITS: Final = b"0" * _DIGITS_MAX
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
    if _MANY_DIGITS not in bytes(data).translate(_DIGITS_ALIKE):
        try:
            return _decode(data)
        except msgspec.ValidationError:
            pass  # a number is out of range
    return json.loads(data, parse_int=_integer)


def _integer(text: str) -> int | float:
    if len(text) > _DIGITS_MAX + 1:
        return float(text)
    number = int(text)
    return number if _INTEGER_MIN <= number <= _INTEGER_MAX else float(text)
