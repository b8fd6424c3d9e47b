"""Passwords and join tokens: hashing, checking, and limits on guesses.

The hash is salted and quick. A slow one would let anybody who joins stall everybody else, and the
secret is only a word that a host tells a few friends for an evening.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.seating.refusals import TooManyGuesses
from greenroom.network.limiter import Limiter, Rate

Seat = TypeVar("Seat")

GUESSERS_MAX: Final = 256
"""Addresses whose wrong guesses one room or lobby remembers; further ones share what is left."""
_ALL: Final = ""
"""Under what the guesses of all addresses are counted."""
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


class GuessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often the password and join token of a room or lobby may be guessed."""

    address: Rate
    """The wrong guesses at this place from one address."""
    place: Rate
    """The wrong guesses at this place from all addresses together."""


class Guesses:
    """The wrong passwords and join tokens that were tried on one room or lobby.

    Each address has a strict allowance, all together a loose one: so whoever knows the password is
    in the way of strangers' guesses only while many addresses guess. A restart forgets them, and so
    does a move.
    """

    __slots__ = ("_addresses", "_place")

    def __init__(self, limits: GuessLimits) -> None:
        """Begin without any."""
        self._addresses = Limiter(limits.address, GUESSERS_MAX)
        self._place = Limiter(limits.place, 1)

    def judge(
        self, address: str, now: float, wrong: type[Refused], decide: Callable[[], Seat]
    ) -> Seat:
        """Return what becomes of a guess.

        Args:
            address: where it comes from.
            now: monotonic seconds.
            wrong: the refusal of a wrong one, which counts.
            decide: seats the player, or refuses.

        Raises:
            TooManyGuesses: nothing was looked at.
            Refused: by `decide`.
        """
        wait = max(
            self._addresses.compute_wait_seconds(address, now),
            self._place.compute_wait_seconds(_ALL, now),
        )
        if wait > 0.0:
            raise TooManyGuesses(wait)
        try:
            return decide()
        except wrong:
            self._addresses.charge(address, now)
            self._place.charge(_ALL, now)
            raise
