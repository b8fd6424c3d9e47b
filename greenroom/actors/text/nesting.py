"""How deep JSON may nest, over HTTP and realtime alike: found without parsing it."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

DEPTH_MAX: Final = 500
"""Levels of nesting: deeper than any document in use, well below where recursive parsers stop
(Python 3.11 near 1,000 calls; Postgres some thousand)."""

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def nests_too_deep(data: bytes) -> bool:
    """Return whether JSON nests deeper than allowed, in a few passes of C over the data.

    What is malformed may get either answer: before its first fault it is read as a parser reads it.
    """
    if len(data) <= DEPTH_MAX:
        return False
    closed = data.replace(b"[", b"").replace(b"{", b"")  # quicker than to count where few are
    if len(data) - len(closed) <= DEPTH_MAX:
        return False
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_strings = b"".join(unescaped.split(b'"')[::2])
    steps = outside_strings.translate(_STEPS, _NOT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > DEPTH_MAX
