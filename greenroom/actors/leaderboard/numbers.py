"""JSON numbers as bytes that sort as the numbers do, highest first. Pure.

Numbers are compared by the decimal value of their digits, however they are written. So `1`, `1.0`
and `10e-1` are equal, `0.1` and `0.1000000000000000055511151231257827` are not, and `10**30 + 1` is
above `10**30`. No number is a float on the way, so none is rounded, infinite or not a number. Two
bounds keep a key small. Digits behind the first `DIGITS_MAX` significant ones are not looked at. A
written exponent of more than `EXPONENT_DIGITS_MAX` digits counts as endless.

    above zero   01, complement of the magnitude
    zero         02
    below zero   03, magnitude
    none         04

A magnitude is where the decimal point stands, then the digits from the first that is not zero to
the last, then 00. No key is the beginning of another, so keys of several fields may be put one
behind the other and still sort field by field.
"""

from __future__ import annotations

from typing import Final

DIGITS_MAX: Final = 64
EXPONENT_DIGITS_MAX: Final = 9

LACKING: Final = b"\x04"
"""The key of no number: behind all numbers."""

_ABOVE, _ZERO, _BELOW = b"\x01", b"\x02", b"\x03"
_COMPLEMENT: Final = bytes(range(255, -1, -1))
_NUMBER_BEGINS: Final = frozenset(b"-0123456789")
_MINUS: Final = ord("-")
_NEAR: Final = 100
"""Numbers whose point is at most so many places off have it in one byte."""
_POINTS: Final = tuple(bytes((0x80 + point,)) for point in range(_NEAR + 1))
_FAR_RIGHT, _FAR_LEFT = b"\xf0", b"\x08"
_BIAS: Final = 1 << 32
_ENDLESS: Final = _FAR_RIGHT + b"\xff\xff\xff\xff\0"


def sort_key(value: bytes) -> bytes:
    """Return what sorts a JSON value among others: highest number first, other values last.

    Args:
        value: valid JSON without white space around it.
    """
    if value[0] not in _NUMBER_BEGINS:
        return LACKING
    if value[0] == _MINUS:
        magnitude = _magnitude(value[1:])
        return _BELOW + magnitude if magnitude else _ZERO
    magnitude = _magnitude(value)
    return _ABOVE + magnitude.translate(_COMPLEMENT) if magnitude else _ZERO


def _magnitude(number: bytes) -> bytes:
    """Return what sorts a number without a sign, lowest first; empty for zero."""
    if len(number) <= DIGITS_MAX and number.isdigit():  # as most are
        digits = number.rstrip(b"0")
        return _POINTS[len(number)] + digits + b"\0" if digits else b""
    mantissa, _, exponent = number.replace(b"E", b"e").partition(b"e")
    whole, _, fraction = mantissa.partition(b".")
    written = whole + fraction
    digits = written.lstrip(b"0")
    if not digits:
        return b""
    shift = exponent.lstrip(b"+-").lstrip(b"0")
    is_small = exponent.startswith(b"-")
    if len(shift) > EXPONENT_DIGITS_MAX:
        return b"" if is_small else _ENDLESS
    point = len(whole) - (len(written) - len(digits))
    point += (-1 if is_small else 1) * int(shift or b"0")
    return _point(point) + digits[:DIGITS_MAX].rstrip(b"0") + b"\0"


def _point(point: int) -> bytes:
    """Return what sorts the place of a decimal point, counted from before the first digit."""
    if point > _NEAR:
        return _FAR_RIGHT + point.to_bytes(4, "big")
    if point < -_NEAR:
        return _FAR_LEFT + (_BIAS + point).to_bytes(4, "big")
    return bytes((0x80 + point,))
