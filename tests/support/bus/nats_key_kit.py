"""Seeds of NATS users, made of their bytes."""

from __future__ import annotations

import base64
import binascii

SEED, USER = 18 << 3, 20 << 3


def make_seed(secret: bytes, kind: int = USER) -> str:
    """Return the text of a seed; `kind` other than a user's makes one that we cannot use."""
    raw = bytes([SEED | kind >> 5, (kind & 31) << 3]) + secret
    checksum = binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw + checksum).rstrip(b"=").decode()
