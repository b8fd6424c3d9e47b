"""How often a key may do a thing: pure arithmetic, time comes in.

GCRA: a key may do `burst` things at once and `per_second` in the long run. All that is kept of it
is the moment at which its allowance will be whole again.

Overload: a limiter remembers `keys_max` keys. One whose allowance is whole again is no different
from one never seen, so those alone are forgotten, two looked at for each newcomer. Where all that
is remembered is still being paid off, newcomers share a fixed number of allowances, each newcomer
always the same one: nobody gets away by drowning the table, and memory stays as it is.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from typing import Final

import msgspec

KEYS_MAX: Final = 100_000
"""About 25 MB a limiter. With the default rates a server cannot answer so many calls that so many
keys are in debt at once; it takes a tiny `rate_limit_factor`."""
_KEYS_KEPT: Final = 16_384
"""So few are not worth looking through."""
_SHARED_SLOTS: Final = 4_096

_ROUNDING = 1e-6
"""Of one charge: what floats may lose is not held against anybody."""


class Rate(msgspec.Struct, frozen=True):
    """How much is allowed."""

    per_second: float
    burst: float
    """At once, after a rest; at least 1."""


def rate_of(per_second: float, burst_seconds: float) -> Rate:
    """Return a rate of which a rested key may use so many seconds' worth at once."""
    return Rate(per_second, max(1.0, per_second * burst_seconds))


class Limiter:
    """One limit, for many keys."""

    __slots__ = ("_full_at", "_interval", "_keys_max", "_shared", "_tolerance", "rate")

    def __init__(self, rate: Rate, keys_max: int = KEYS_MAX) -> None:
        """Start with everybody's allowance whole.

        Args:
            rate: what each key is allowed.
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
        """Return whether nobody was ever charged, or all of them are forgotten."""
        return not self._full_at

    def wait_seconds(self, key: str | int, now: float) -> float:
        """Return how long until this key may be charged again; 0.0 means now.

        Args:
            key: whose allowance.
            now: monotonic seconds.
        """
        full_at = self._full_at.get(key)
        if full_at is None:
            full_at = self._shared_full_at(key)
        return max(0.0, full_at - self._tolerance - now)

    def charge(self, key: str | int, now: float, units: int = 1) -> float:
        """Take some from this key's allowance, if there is anything left.

        Args:
            key: whose allowance.
            now: monotonic seconds.
            units: how much; what is more than was left is a debt.

        Returns:
            0.0 if it was taken, else how many seconds until one may be.
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
        """Charge a key for what it has had already: it may go into debt, and is not refused.

        Args:
            key: whose allowance; it has been charged for the call before.
            now: monotonic seconds.
            units: how much.
        """
        if key in self._full_at:
            self._full_at[key] = max(self._full_at[key], now) + self._interval * units
        elif self._shared is not None:
            full_at = max(self._shared_full_at(key), now) + self._interval * units
            self._shared[hash(key) % _SHARED_SLOTS] = full_at

    def _charge_newcomer(self, key: str | int, now: float, units: int) -> float:
        """Charge a key that is not remembered; where there is no room for it, the one it shares."""
        full_at = max(self._shared_full_at(key), now)
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

    def _shared_full_at(self, key: str | int) -> float:
        return 0.0 if self._shared is None else self._shared[hash(key) % _SHARED_SLOTS]

    def _forget_two(self, now: float) -> None:
        """Look at the two keys looked at longest ago, and forget those that are whole again."""
        for _ in range(min(2, len(self._full_at))):
            key = next(iter(self._full_at))
            if self._full_at[key] <= now:
                del self._full_at[key]
            else:
                self._full_at.move_to_end(key)
