"""Chance that can be written down: a random generator whose whole state is one integer.

SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
Python's own generator has 2.5 kB of state, too much to write with every change of a room. It is no
source of secrets.
"""

from __future__ import annotations

import random
from typing import Any

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15


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

    def _next(self) -> int:
        self.position = (self.position + _GAMMA) & _MASK
        mixed = self.position
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def random(self) -> float:
        """Return a number from 0.0 to below 1.0."""
        return (self._next() >> 11) / 2**53

    def getrandbits(self, k: int, /) -> int:
        """Return `k` random bits."""
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        bits = 0
        for _ in range(0, k, 64):
            bits = (bits << 64) | self._next()
        return bits >> (-k % 64)

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """Return a normally distributed number; the usual one keeps half a pair in hiding."""
        return self.normalvariate(mu, sigma)

    def seed(self, *_arguments: Any, **_named: Any) -> None:
        """Do nothing: the position is the seed, and the room sets it."""

    def getstate(self) -> tuple[Any, ...]:
        """Return the state, as `setstate` takes it."""
        return (self.position,)

    def setstate(self, state: tuple[Any, ...]) -> None:
        """Go back to a state that `getstate` gave."""
        (self.position,) = state
