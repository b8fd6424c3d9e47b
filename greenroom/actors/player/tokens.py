"""Tokens and keys: makes them, tells them from junk, and hashes them for storage.

    gr_plr_ + 33 base62 digits of 192 random bits + 6 base62 digits of a CRC32 of all before

The checksum refuses typing errors and junk before the database is asked; it is no secret. Only
SHA-256 hashes are stored: a token has far too many bits to be guessed from its hash.
"""

from __future__ import annotations

import hashlib
import string
import zlib
from functools import lru_cache
from typing import Final

from greenroom.actors.text.numerals import Numerals

PROJECT_KEY: Final = "gr_api_"
ADMIN_KEY: Final = "gr_adm_"
PLAYER_TOKEN: Final = "gr_plr_"  # noqa: S105 - what every player token begins with

TOKEN_RANDOM_BYTES: Final = 24

_BASE62: Final = Numerals(string.digits + string.ascii_uppercase + string.ascii_lowercase)
_SECRET_DIGITS: Final = 33  # the first power of 62 above 2**192
_CHECKSUM_DIGITS: Final = 6  # likewise above 2**32
_KEY_CHARACTERS: Final = len(PROJECT_KEY) + _SECRET_DIGITS + _CHECKSUM_DIGITS
_KEYS_KNOWN_MAX: Final = 1_024


def make_token(prefix: str, random_bytes: bytes) -> str:
    """Return a token of this kind.

    Args:
        prefix: PROJECT_KEY, ADMIN_KEY or PLAYER_TOKEN.
        random_bytes: TOKEN_RANDOM_BYTES from a cryptographic source.

    Raises:
        ValueError: too few or too many random bytes.
    """
    if len(random_bytes) != TOKEN_RANDOM_BYTES:
        raise ValueError(f"a token takes {TOKEN_RANDOM_BYTES} random bytes")
    body = prefix + _BASE62.spell(int.from_bytes(random_bytes, "big"), _SECRET_DIGITS)
    return body + _checksum(body)


def checksum_ok(token: str) -> bool:
    """Return whether a token was made here (or by somebody who knows how), and not mistyped."""
    if len(token) <= _CHECKSUM_DIGITS or not token.isascii():
        return False
    return token[-_CHECKSUM_DIGITS:] == _checksum(token[:-_CHECKSUM_DIGITS])


def hash_token(token: str) -> bytes:
    """Return the SHA-256 hash that is stored in place of a token; any text has one."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def hash_project_key(key: str) -> bytes:
    """Return the same as `hash_token`, quicker for keys that have come before.

    All calls of a game bring the same key, and hashing takes a good part of a short call's time.
    """
    return _hash_known(key) if len(key) == _KEY_CHARACTERS else hash_token(key)


_hash_known = lru_cache(_KEYS_KNOWN_MAX)(hash_token)


def _checksum(body: str) -> str:
    return _BASE62.spell(zlib.crc32(body.encode("ascii")), _CHECKSUM_DIGITS)
