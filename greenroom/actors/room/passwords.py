"""Passwords and join tokens: how they are kept, what opens a room or lobby, how often to guess.

A salted, quick hash: a slow one would let anybody who joins stall everybody else, and what it would
guard is a word that its host tells a few friends for an evening. Hash, compare, no more.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from greenroom.actors.kernel.errors import Refused

Seat = TypeVar("Seat")

GUESSERS_MAX: Final = 256
"""Addresses whose wrong guesses one room or lobby remembers; beyond, the soonest forgiven go."""
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


class TooManyGuesses(Refused):
    """Too many wrong passwords have been tried (429); a right join token or an invite still opens.

    Attributes:
        retry_seconds: until the next may be tried.
    """

    text = "Too many wrong passwords"

    def __init__(self, retry_seconds: float) -> None:
        """Say when to try again."""
        super().__init__()
        self.retry_seconds = retry_seconds


class GuessLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How often passwords and join tokens may be guessed, in the long run."""

    per_second_address: float = 0.25
    per_second_place: float = 1.0
    """From all addresses together, for one room or lobby."""
    burst_seconds: float = 20.0
    """Whoever has not guessed for so long may do as much at once."""


class Guesses:
    """The wrong passwords and join tokens that were tried on one room or lobby.

    Strictly counted for each address, loosely for all together: so whoever knows the password is in
    the way of a stranger's guesses only while many addresses guess. Soft: a restart forgets it.
    """

    __slots__ = ("_all", "_by_address", "_limits")

    def __init__(self, limits: GuessLimits) -> None:
        """Begin without any."""
        self._limits = limits
        self._all = 0.0
        self._by_address: dict[str, float] = {}

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
        limits, by_address = self._limits, self._by_address
        wait = max(
            self._wait(by_address.get(address, 0.0), limits.per_second_address, now),
            self._wait(self._all, limits.per_second_place, now),
        )
        if wait > 0.0:
            raise TooManyGuesses(wait)
        try:
            return decide()
        except wrong:
            self._note(address, now)
            raise

    def _wait(self, full_at: float, per_second: float, now: float) -> float:
        burst = max(1.0, self._limits.burst_seconds * per_second)
        return full_at - (burst - 1.0) / per_second - now

    def _note(self, address: str, now: float) -> None:
        by_address, limits = self._by_address, self._limits
        self._all = max(self._all, now) + 1.0 / limits.per_second_place
        full_at = by_address.pop(address, now)
        if len(by_address) >= GUESSERS_MAX:
            del by_address[min(by_address, key=by_address.__getitem__)]
        by_address[address] = max(full_at, now) + 1.0 / limits.per_second_address
