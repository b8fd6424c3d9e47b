"""Writes moving GIFs of 256 colours: README shows one, because GitHub plays it there."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

COLOURS: Final = bytes(
    part
    for colour in range(256)
    for part in ((colour >> 5) * 255 // 7, (colour >> 2 & 7) * 255 // 7, (colour & 3) * 255 // 3)
)
"""Three bits of red, three of green, two of blue."""
CODES_MAX: Final = 4096
BLOCK_BYTES: Final = 255


def write_gif(frames: Sequence[bytes], width: int, height: int, frame_seconds: float) -> bytes:
    """Return a GIF that is played for ever; each byte of a frame is a colour of `COLOURS`."""
    parts = [
        b"GIF89a",
        struct.pack("<HHBBB", width, height, 0xF7, 0, 0),
        COLOURS,
        b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0",
    ]
    for frame in frames:
        parts.append(b"!\xf9\x04\0" + struct.pack("<HBB", round(frame_seconds * 100), 0, 0))
        parts.append(b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x08")
        packed = _pack(_compress(frame))
        for at in range(0, len(packed), BLOCK_BYTES):
            block = packed[at : at + BLOCK_BYTES]
            parts.append(bytes([len(block)]) + block)
        parts.append(b"\0")
    return b"".join(parts) + b";"


def _compress(frame: bytes) -> Iterator[tuple[int, int]]:
    """Yield the codes of LZW, and how many bits each has."""
    clear, end = 256, 257
    known = {bytes([colour]): colour for colour in range(256)}
    following, bits, word = end + 1, 9, b""
    yield clear, bits
    for colour in frame:
        longer = word + bytes([colour])
        if longer in known:
            word = longer
            continue
        yield known[word], bits
        if following < CODES_MAX:
            known[longer] = following
            bits += following == 1 << bits
            following += 1
        else:
            yield clear, bits
            known = {bytes([each]): each for each in range(256)}
            following, bits = end + 1, 9
        word = bytes([colour])
    yield known[word], bits
    yield end, bits


def _pack(codes: Iterator[tuple[int, int]]) -> bytes:
    """Return codes as bytes, the lowest bit first."""
    packed, waiting, count = bytearray(), 0, 0
    for code, bits in codes:
        waiting |= code << count
        count += bits
        while count >= 8:
            packed.append(waiting & 255)
            waiting >>= 8
            count -= 8
    if count:
        packed.append(waiting)
    return bytes(packed)
