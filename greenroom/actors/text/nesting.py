"""How deep JSON may nest, over HTTP and realtime alike: found without parsing it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

DEPTH_MAX: Final = 500
"""Levels of nesting: deeper than any document in use, well below where recursive parsers stop
(Python 3.11 near 1,000 calls; Postgres some thousand)."""

_SLICE_BYTES: Final = 16 << 10
_BLOCK: Final = 64
"""So many brackets are counted at once where the depth is far from its bound."""
_CLOSE_BLOCKS_MAX: Final = 500
"""Blocks near the bound that are looked at bracket by bracket, in a millisecond; no document in use
has one."""

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_SQUARE = bytes.maketrans(b"{}", b"[]")
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")


def nests_too_deep(data: bytes, strings: Iterable[bytes] = ()) -> bool:
    """Return whether JSON nests deeper than allowed, in a few passes of C over the data.

    What is malformed may get either answer: before its first fault it is read as a parser reads it.
    What comes close to the bound in very many places counts as too deep.

    Args:
        data: the JSON.
        strings: some of the strings in it, if any are known: what is in them nests nothing, and
            where not enough is left without them there is nothing to look for.
    """
    if len(data) <= DEPTH_MAX:
        return False
    in_strings = sum(map(_count_opened, strings))
    if _count_opened(data, in_strings + DEPTH_MAX + 1) - in_strings <= DEPTH_MAX:
        return False
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side: whatever stands before and behind them is in a string or not as
    # before, when both are taken away. Most strings are gone with that.
    brackets = unescaped.translate(_SQUARE, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in brackets:
        brackets = b"".join(brackets.split(b'"')[::2])
    return _is_too_deep(brackets)


def _count_opened(data: bytes, enough: int = sys.maxsize) -> int:
    """Return how often anything is opened, in strings and outside of them; or `enough`, or more."""
    opened = 0
    for start in range(0, len(data), _SLICE_BYTES):
        part = data[start : start + _SLICE_BYTES]
        # quicker than to count where few are
        opened += len(part) - len(part.replace(b"[", b"").replace(b"{", b""))
        if opened >= enough:
            break
    return opened


def _is_too_deep(brackets: bytes) -> bool:
    """Return whether square brackets nest deeper than allowed."""
    depth = close_blocks = 0
    for start in range(0, len(brackets), _BLOCK):
        opened = brackets.count(b"[", start, start + _BLOCK)
        if depth + opened > DEPTH_MAX:
            close_blocks += 1
            if close_blocks > _CLOSE_BLOCKS_MAX:
                return True
            steps = memoryview(brackets[start : start + _BLOCK].translate(_STEPS)).cast("b")
            if max(accumulate(steps, initial=depth)) > DEPTH_MAX:
                return True
        depth += 2 * opened - _BLOCK  # the last block may be shorter: nobody looks behind it
    return False
