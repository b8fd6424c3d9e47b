"""Frames, which nodes send each other: a head of fixed length, then the message. Does no I/O."""

from __future__ import annotations

import struct
from typing import Final

from greenroom.bus.bus import MESSAGE_BYTES_MAX

ASK: Final = 1
TELL: Final = 2
ANSWER: Final = 3
FAILED: Final = 4
"""The handler raised."""
BUSY: Final = 5
"""The ask was refused unread."""
DROPPED: Final = 6
"""There was an answer, and no room for it."""
NOBODY: Final = 7
"""Nobody takes asks there."""
ASKS: Final = 8
"""Several asks; see `together.decode_asks`. The number is one of its own: no ask has it."""
ANSWERS: Final = 9
"""Several answers to such asks; see `together.decode_answers`."""

_HEAD: Final = struct.Struct(">BQI")
HEAD_BYTES: Final = _HEAD.size
FRAME_BYTES_MAX: Final = HEAD_BYTES + MESSAGE_BYTES_MAX
MILLISECONDS_MAX: Final = (1 << 32) - 1


pack_head: Final = _HEAD.pack
"""Returns the head of a frame from its kind, its number and milliseconds.

The number identifies an ask among those of its sender. An answer has that of its ask, a tell has 0.
The milliseconds are how long the asker waits; 0 for all but asks. The message comes next.
"""
read_head: Final = _HEAD.unpack_from
"""Returns the same three of the beginning of a frame, which must have `HEAD_BYTES`."""


def encode(kind: int, number: int = 0, milliseconds: int = 0, message: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    return pack_head(kind, number, milliseconds) + message
