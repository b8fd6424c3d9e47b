"""Rate limits by key: pure arithmetic; the time is an argument.

This is the generic cell rate algorithm (GCRA). A key may do `burst` things at once and `per_second`
in the long run. For each key, only the moment at which its allowance will be whole again is kept.

Overload: a limiter remembers `keys_max` keys. A key whose allowance is whole again needs no memory,
so only such keys are forgotten. Each new key makes the limiter look at two old ones. Where no
remembered key can be forgotten, new keys share a fixed number of allowances, and each new key
always has the same one. So nobody escapes a limit by filling the table, and its memory is bounded.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import Final

import msgspec

KEYS_MAX: Final = 100_000
"""About 25 MB for each limiter. With the default rates a server cannot answer enough calls for so
many keys to be in debt at once. That takes a tiny `rate_limit_factor`."""
_KEYS_KEPT: Final = 16_384
"""Below this number of keys, none is looked at to be forgotten."""
_SHARED_SLOTS: Final = 4_096

_ROUNDING = 1e-6
"""Tolerance for each charge, so that no key is refused because floats round."""


class Rate(msgspec.Struct, frozen=True):
    """How much a key may do."""

    per_second: float
    burst: float
    """How much a key may do at once after a rest; at least 1."""


def rate_of(per_second: float, burst_seconds: float) -> Rate:
    """Return a rate with a burst of `burst_seconds` worth of calls, and at least one call."""
    return Rate(per_second, max(1.0, per_second * burst_seconds))


class Limiter:
    """One limit, for many keys."""

    __slots__ = ("_full_at", "_interval", "_keys_max", "_shared", "_tolerance", "rate")

    def __init__(self, rate: Rate, keys_max: int = KEYS_MAX) -> None:
        """Start with the allowance of every key whole.

        Args:
            rate: what each key may do.
            keys_max: how many keys are remembered at most.
        """
        self.rate = rate
        self._interval = 1.0 / rate.per_second
        self._tolerance = (rate.burst - 1 + _ROUNDING) * self._interval
        self._keys_max = keys_max
        self._full_at: OrderedDict[str | int, float] = OrderedDict()
        self._shared: array[float] | None = None

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._full_at)

    @property
    def is_untouched(self) -> bool:
        """Return whether no key is remembered."""
        return not self._full_at

    def compute_wait_seconds(self, key: str | int, now: float) -> float:
        """Return the seconds until a key may be charged again; 0.0 means now.

        Args:
            key: the key to look up.
            now: monotonic seconds.
        """
        full_at = self._full_at.get(key)
        if full_at is None:
            full_at = self._find_shared_full_at(key)
        return max(0.0, full_at - self._tolerance - now)

    def charge(self, key: str | int, now: float, units: int = 1) -> float:
        """Charge a key, if any of its allowance is left.

        Args:
            key: the key to charge.
            now: monotonic seconds.
            units: how much to charge. What exceeds the rest of the allowance becomes a debt.

        Returns:
            0.0 if the key was charged, else the seconds until it may be.
        """
        full_at = self._full_at.get(key)
        if full_at is None:
            return self._charge_newcomer(key, now, units)
        if full_at <= now:
            self._full_at[key] = now + self._interval * units
            return 0.0
        wait = full_at - self._tolerance - now
        if wait > 0.0:
            return wait
        self._full_at[key] = full_at + self._interval * units
        return 0.0

    def owe(self, key: str | int, now: float, units: int) -> None:
        """Charge a key for what it has had already. The key may go into debt and is not refused.

        Args:
            key: the key to charge; it has been charged for the call before.
            now: monotonic seconds.
            units: how much to charge.
        """
        if key in self._full_at:
            self._full_at[key] = max(self._full_at[key], now) + self._interval * units
        elif self._shared is not None:
            full_at = max(self._find_shared_full_at(key), now) + self._interval * units
            self._shared[hash(key) % _SHARED_SLOTS] = full_at

    def _charge_newcomer(self, key: str | int, now: float, units: int) -> float:
        """Charge a key that is not remembered, or its shared allowance if there is no room."""
        full_at = max(self._find_shared_full_at(key), now)
        wait = full_at - self._tolerance - now
        if wait > 0.0:
            return wait
        if len(self._full_at) >= min(_KEYS_KEPT, self._keys_max):
            self._forget_two(now)
        if len(self._full_at) < self._keys_max:
            self._full_at[key] = full_at + self._interval * units
            return 0.0
        if self._shared is None:
            self._shared = array("d", bytes(8 * _SHARED_SLOTS))
        self._shared[hash(key) % _SHARED_SLOTS] = full_at + self._interval * units
        return 0.0

    def _find_shared_full_at(self, key: str | int) -> float:
        return 0.0 if self._shared is None else self._shared[hash(key) % _SHARED_SLOTS]

    def _forget_two(self, now: float) -> None:
        """Look at the two keys looked at longest ago, and forget each whose allowance is whole."""
        for _ in range(min(2, len(self._full_at))):
            key = next(iter(self._full_at))
            if self._full_at[key] <= now:
                del self._full_at[key]
            else:
                self._full_at.move_to_end(key)
