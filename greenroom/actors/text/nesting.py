"""How deep JSON may nest, over HTTP and realtime alike, and how much: found by C alone."""

from __future__ import annotations

from typing import Final

import msgspec

DEPTH_MAX: Final = 500
"""Levels of nesting: deeper than any document in use, well below where recursive parsers stop
(Python 3.11 near 1,000 calls; Postgres some thousand)."""

CONTAINERS_MAX: Final = 200_000
"""Arrays and objects in one body, brackets in its strings among them.

A MiB of `[1,2],` has fewer, and one of brackets alone takes twice as long to read as anything else.
"""

_SLICE_BYTES: Final = 16 << 10
_LEVELS_GUESSED: Final = 950
"""That a parser bears in Python 3.11, where its caller is as deep in calls as a server's is."""

_read_over: Final = msgspec.json.Decoder(msgspec.Raw).decode


def nests_too_deep(data: bytes) -> bool:
    """Return whether JSON nests deeper than allowed; in a millisecond for a MiB, whatever it is.

    Where it opens too few arrays and objects for that, it is not looked at any closer. Otherwise
    it is read over inside so many arrays that the parser bears just what is allowed beside them.
    What is malformed may get either answer.

    Args:
        data: the JSON.
    """
    return _may_be_too_deep(data) and not _parser.bears_within(data, DEPTH_MAX)


def holds_too_many(data: bytes) -> bool:
    """Return whether JSON opens more arrays and objects than allowed, in strings or outside.

    Args:
        data: the JSON.
    """
    if len(data) < 2 * CONTAINERS_MAX:  # each is closed, too
        return False
    return len(data) - len(data.translate(None, b"[{")) > CONTAINERS_MAX


def _may_be_too_deep(data: bytes) -> bool:
    """Return whether enough is opened for that, in strings or outside of them."""
    if len(data) <= DEPTH_MAX:
        return False
    opened = 0
    for start in range(0, len(data), _SLICE_BYTES):
        part = data[start : start + _SLICE_BYTES]
        # quicker than to count where few are
        opened += len(part) - len(part.replace(b"[", b"").replace(b"{", b""))
        if opened > DEPTH_MAX:
            return True
    return False


def _is_borne(data: bytes) -> bool:
    """Return whether the parser comes through without having to nest deeper than it can."""
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
        """That it bore last time: mostly it is as many again."""

    def bears_within(self, data: bytes, levels_max: int) -> bool:
        """Return whether JSON nests no deeper than so many levels."""
        self._levels = self._search(self._levels)
        return self._bears(data, max(0, self._levels - levels_max))

    def _search(self, guess: int) -> int:
        """Return how many levels it bears, at as many calls' depth as `_bears` is called at."""
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

    def _bears(self, data: bytes, around: int) -> bool:
        return _is_borne(_nested(data, around))


def _nested(data: bytes, levels: int) -> bytes:
    """Return the data inside so many arrays."""
    return b"".join((b"[" * levels, data, b"]" * levels))


_parser: Final = _Parser()
