"""Bounds of JSON over HTTP and realtime: its depth, and its number of arrays and objects.

Both are found by functions in C, because Python would take too long for a megabyte. Fractions are a
third danger: the decoder takes 40 µs for each of many like 1e308.
"""

from __future__ import annotations

from typing import Final

import msgspec

DEPTH_MAX: Final = 500
"""Levels of nesting. No known document is deeper, and recursive parsers stop only well beyond
(Python 3.11 near 1,000 calls, Postgres at some thousands)."""

CONTAINERS_MAX: Final = 200_000
"""Arrays and objects in one body, brackets in its strings included.

A MiB of `[1,2],` has fewer, and one of brackets alone takes twice as long to read as anything else.
"""

_SLICE_BYTES: Final = 16 << 10
_LEVELS_GUESSED: Final = 950
"""Levels that the parser can nest in Python 3.11, called from as deep as the server calls it."""

_read_over: Final = msgspec.json.Decoder(msgspec.Raw).decode

read_without_fractions: Final = msgspec.json.Decoder(float_hook=str).decode
"""Decodes JSON in which fractions are of no use. Numbers with a point or an exponent stay text."""


def nests_too_deep(data: bytes) -> bool:
    """Return whether JSON nests deeper than allowed. A MiB takes up to four milliseconds.

    JSON that opens too few arrays and objects for that is not parsed. Other JSON is parsed inside
    as many arrays as leave the parser exactly the allowed depth. Malformed JSON may get either
    answer.

    Args:
        data: the JSON.
    """
    if len(data) <= DEPTH_MAX:
        return False
    return _may_be_too_deep(data) and not _parser.is_within(data, DEPTH_MAX)


def holds_too_many(data: bytes) -> bool:
    """Return whether JSON opens more arrays and objects than allowed, in strings or outside.

    Args:
        data: the JSON.
    """
    if len(data) < 2 * CONTAINERS_MAX:  # each is closed, too
        return False
    return len(data) - len(data.translate(None, b"[{")) > CONTAINERS_MAX


def _may_be_too_deep(data: bytes) -> bool:
    """Return whether there are enough opening brackets, in strings or outside, to be too deep."""
    opened = 0
    for start in range(0, len(data), _SLICE_BYTES):
        part = data[start : start + _SLICE_BYTES]
        # quicker than counting where there are few
        opened += len(part) - len(part.replace(b"[", b"").replace(b"{", b""))
        if opened > DEPTH_MAX:
            return True
    return False


def _is_borne(data: bytes) -> bool:
    """Return whether the parser can read the data without exceeding its own depth."""
    try:
        _read_over(data)
    except RecursionError:
        return False
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return True
    return True


class _Parser:
    """Finds how deep the JSON parser can nest, which depends on the depth of the caller's stack."""

    def __init__(self) -> None:
        self._levels = _LEVELS_GUESSED
        """The levels that the parser could nest last time; usually it can nest as many again."""

    def is_within(self, data: bytes, levels_max: int) -> bool:
        """Return whether JSON nests no deeper than so many levels."""
        warm = self._search(self._levels)  # Python spends another level on calls made often
        self._levels = self._search(warm)
        return self._can_parse(data, max(0, self._levels - levels_max))

    def _search(self, guess: int) -> int:
        """Return how many levels the parser can nest if `_can_parse` calls it."""
        low, high = 0, guess
        while _is_borne(_nested(b"", high)):
            low, high = high, high + max(1, 2 * (high - guess))
        while high - low > 1:
            middle = (low + high) // 2
            if _is_borne(_nested(b"", middle)):
                low = middle
            else:
                high = middle
        return low

    def _can_parse(self, data: bytes, around: int) -> bool:
        return _is_borne(_nested(data, around))


def _nested(data: bytes, levels: int) -> bytes:
    """Return the data inside so many arrays."""
    return b"".join((b"[" * levels, data, b"]" * levels))


_parser: Final = _Parser()
