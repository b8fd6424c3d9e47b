"""Tokens and keys: makes them, tells them from junk, and hashes them for storage.

    gr_plr_ + 33 random base62 digits (196 bits) + 6 base62 digits of a CRC32 of all before

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

TOKEN_RANDOM_BYTES: Final = 64
"""Twice as many as a token has digits, because one byte of 32 stands for none."""

_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_BASE62: Final = Numerals(_ALPHABET)
_SECRET_DIGITS: Final = 33
_DIGIT_OF_BYTE: Final = (_ALPHABET * 5)[:256].encode("ascii")
_NO_DIGITS: Final = bytes(range(4 * len(_ALPHABET), 256))
"""Bytes that would make some digits likelier than others."""
_CHECKSUM_DIGITS: Final = 6  # the first power of 62 above 2**32
_TOKEN_CHARACTERS: Final = len(PLAYER_TOKEN) + _SECRET_DIGITS + _CHECKSUM_DIGITS
_TOKENS_KNOWN_MAX: Final = 16_384
"""About 5 MB."""


def make_token(prefix: str, random_bytes: bytes) -> str:
    """Return a token of this kind.

    Args:
        prefix: PROJECT_KEY, ADMIN_KEY or PLAYER_TOKEN.
        random_bytes: TOKEN_RANDOM_BYTES from a cryptographic source.

    Raises:
        ValueError: too few or too many random bytes, or too few that stand for digits (random ones
            never).
    """
    secret = random_bytes.translate(_DIGIT_OF_BYTE, _NO_DIGITS)[:_SECRET_DIGITS]
    if len(random_bytes) != TOKEN_RANDOM_BYTES or len(secret) != _SECRET_DIGITS:
        raise ValueError(f"a token takes {TOKEN_RANDOM_BYTES} random bytes")
    body = prefix + secret.decode("ascii")
    return body + _checksum(body)


def checksum_ok(token: str) -> bool:
    """Return whether a token was made here (or by somebody who knows how), and not mistyped."""
    if len(token) <= _CHECKSUM_DIGITS or not token.isascii():
        return False
    return token[-_CHECKSUM_DIGITS:] == _checksum(token[:-_CHECKSUM_DIGITS])


def hash_token(token: str) -> bytes:
    """Return the SHA-256 hash that is stored in place of a token; any text has one.

    Those of the last tokens are kept: clients send the same ones again and again, and hashing takes
    a good part of a short call's time.
    """
    return _hash_known(token) if len(token) == _TOKEN_CHARACTERS else _hash(token)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


_hash_known = lru_cache(_TOKENS_KNOWN_MAX)(_hash)


def _checksum(body: str) -> str:
    return _BASE62.spell(zlib.crc32(body.encode("ascii")), _CHECKSUM_DIGITS)
