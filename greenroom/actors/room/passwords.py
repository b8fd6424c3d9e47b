"""Room passwords, as they are kept.

A salted, quick hash: a slow one would let anybody who joins stall everybody else, and what it would
guard is a word that its host tells a few friends for an evening. Hash, compare, no more.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

SALT_BYTES: Final = 16


def hash_password(password: str, salt: bytes) -> bytes:
    """Return what is kept of a password: the salt, then a hash of both.

    Args:
        password: any text.
        salt: `SALT_BYTES` random bytes.
    """
    digest = hashlib.blake2b(
        password.encode("utf-8", "surrogatepass"), digest_size=32, salt=salt, person=b"room"
    ).digest()
    return salt + digest


def password_matches(password: str, password_hash: bytes) -> bool:
    """Return whether this is the password that was hashed."""
    again = hash_password(password, password_hash[:SALT_BYTES])
    return hmac.compare_digest(again, password_hash)
