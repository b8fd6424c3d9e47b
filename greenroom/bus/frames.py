"""Frames, which nodes send each other: a head of fixed length, then the message. Does no I/O."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

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

_HEAD: Final = struct.Struct(">BQI")
HEAD_BYTES: Final = _HEAD.size
FRAME_BYTES_MAX: Final = HEAD_BYTES + MESSAGE_BYTES_MAX
MILLISECONDS_MAX: Final = (1 << 32) - 1


class BusFrame(msgspec.Struct, frozen=True, gc=False):
    """A message with what the bus must know of it."""

    kind: int
    number: int
    """Numbers the asks of a sender; an answer has its ask's number, a tell has 0."""
    milliseconds: int
    """How long the asker waits; 0 for all but asks."""
    message: bytes


def encode(kind: int, number: int = 0, milliseconds: int = 0, message: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    return _HEAD.pack(kind, number, milliseconds) + message


def decode(frame: bytes) -> BusFrame | None:
    """Return the frame in these bytes, or `None` if they are too short or no known kind."""
    if len(frame) < HEAD_BYTES:
        return None
    kind, number, milliseconds = _HEAD.unpack_from(frame)
    if not ASK <= kind <= NOBODY:
        return None
    return BusFrame(kind, number, milliseconds, frame[HEAD_BYTES:])
