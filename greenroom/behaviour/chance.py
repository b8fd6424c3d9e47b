"""Chance that can be written down: a random generator whose whole state is one integer.

The state is a counter, and each number is the BLAKE2b hash (RFC 7693) of it. So the numbers that
players see do not tell those that come: nobody can compute a deck from its open cards. Python's own
generator can be computed from its numbers, and has 2.5 kB of state, too much to write with every
change of a room. 64 bits are too few for keys and tokens: `secrets` is for those.
"""

from __future__ import annotations

import random
from hashlib import blake2b
from typing import Any

_MASK = 2**64 - 1
_STEP = 0x9E3779B97F4A7C15
"""From one position to the next: large and odd, so that close seeds share no numbers."""
_PERSON = b"greenroom random"
"""Sets these hashes apart from all others."""


class RoomRandom(random.Random):
    """`random.Random` with all its methods, over 64 bits of state.

    The same seed gives the same numbers, after a restart too: `position` is part of the room's
    snapshot.
    """

    position: int

    def __init__(self, position: int) -> None:
        """Begin at a position: a seed, or what `position` was.

        Args:
            position: 64 bits; higher ones are ignored.
        """
        super().__init__()
        self.position = position & _MASK

    def _draw_next(self) -> int:
        self.position = (self.position + _STEP) & _MASK
        hashed = blake2b(self.position.to_bytes(8, "big"), digest_size=8, person=_PERSON)
        return int.from_bytes(hashed.digest(), "big")

    def random(self) -> float:
        """Return a number from 0.0 to below 1.0."""
        return (self._draw_next() >> 11) / 2**53

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits."""
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        bits = 0
        for _ in range(0, k, 64):
            bits = (bits << 64) | self._draw_next()
        return bits >> (-k % 64)

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """Return a normally distributed number. Unlike `Random`, keep none for the next call."""
        return self.normalvariate(mu, sigma)

    def seed(self, *_arguments: Any, **_named: Any) -> None:
        """Do nothing: the position is the seed, and the room sets it."""

    def getstate(self) -> tuple[Any, ...]:
        """Return the state, as `setstate` takes it."""
        return (self.position,)

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Go back to a state that `getstate` gave."""
        (self.position,) = state
