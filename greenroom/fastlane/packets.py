"""Packets: a header in the clear, and sealed frames.

    offset  bytes
    0       1      0x47: "G", version 1 of the protocol
    1       8      session: whose keys protect it
    9       8      number: from 1, never twice in one direction; big-endian
    17      …      the frames, sealed; the tag (16 bytes) at the end

A packet has `PACKET_BYTES_MAX` bytes at most, so that no network on the way has to cut it up.
"""

from __future__ import annotations

import struct
from typing import Final

from greenroom.fastlane.suites import TAG_BYTES, Suite

VERSION: Final = 0x47
PACKET_BYTES_MAX: Final = 1_200
HEADER_BYTES: Final = 17
BODY_BYTES_MAX: Final = PACKET_BYTES_MAX - HEADER_BYTES - TAG_BYTES
SESSION_BYTES: Final = 8

_VERSION: Final = bytes((VERSION,))
_NUMBER: Final = struct.Struct(">Q")


def session_of(packet: bytes) -> bytes | None:
    """Return the session that a packet claims to belong to, None if it cannot be a packet."""
    if not HEADER_BYTES + TAG_BYTES < len(packet) <= PACKET_BYTES_MAX or packet[0] != VERSION:
        return None
    return packet[1:9]


def number_of(packet: bytes) -> int:
    """Return the number that a packet claims to have; `session_of` must have found it good."""
    number: int = _NUMBER.unpack_from(packet, 9)[0]
    return number


def seal(session: bytes, number: int, body: bytes, suite: Suite) -> bytes:
    """Return a packet.

    Args:
        session: `SESSION_BYTES` bytes.
        number: from 1; the caller makes sure that no number is used twice.
        body: frames, `BODY_BYTES_MAX` bytes at most.
        suite: the cipher suite of this direction.
    """
    packed = _NUMBER.pack(number)
    header = _VERSION + session + packed
    return header + suite.seal(packed, header, body)


def open_(packet: bytes, suite: Suite) -> bytes:
    """Return the frames of a packet that `session_of` has found good.

    Raises:
        Forged: the packet is not as it was sent.
    """
    return suite.open(packet[9:17], packet[:HEADER_BYTES], packet[HEADER_BYTES:])
