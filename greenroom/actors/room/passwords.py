"""Passwords and join tokens of rooms and lobbies: how they are kept, and what opens one.

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
    digest = hashlib.blake2b(_bytes(password), digest_size=32, salt=salt, person=b"room").digest()
    return salt + digest


def password_matches(password: str | None, password_hash: bytes) -> bool:
    """Return whether this is the password that was hashed."""
    if password is None:
        return False
    again = hash_password(password, password_hash[:SALT_BYTES])
    return hmac.compare_digest(again, password_hash)


def token_matches(given: str | None, join_token: str) -> bool:
    """Return whether this is the join token."""
    return given is not None and hmac.compare_digest(_bytes(given), _bytes(join_token))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
