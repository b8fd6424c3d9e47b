"""Rate limits of client addresses: pure arithmetic, time comes in.

GCRA: a key may do `burst` things at once and `per_second` in the long run; all that is kept of it
is the moment at which its allowance will be whole again.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from functools import lru_cache

import msgspec

KEYS_MAX = 100_000
"""About 15 MB. Beyond it the key that was charged longest ago is forgotten: it starts afresh."""


_ROUNDING = 1e-6
"""Of one charge: what floats may lose is not held against anybody."""


class Rate(msgspec.Struct, frozen=True):
    """How much is allowed."""

    per_second: float
    burst: float
    """At once, after a rest; at least 1."""

    def times(self, factor: float) -> Rate:
        """Return this rate multiplied, the burst never below 1."""
        return Rate(self.per_second * factor, max(1.0, self.burst * factor))


FAILED_TOKENS = Rate(50, 2_000)
"""Calls with a wrong key or token. Guessing 192 bits is hopeless at any rate; what is bounded is
the work that junk makes. Generous, because whole schools share one address."""

ADDRESS_RATES: dict[str, Rate | None] = {
    "default": None,
    "register": Rate(100, 2_000),
    "censor": Rate(100, 2_000),
}
"""By the endpoints' `rate_class`: what one address may call, checked before its tokens are."""

GAME_RATES: dict[str, Rate] = {"censor": Rate(20, 400)}
"""By `rate_class`: what one address may call of one game, checked once its tokens are. A text costs
a fraction of a millisecond, whoever sends it; twenty a second are a crowded chat."""


class Limiter:
    """One limit, for many keys."""

    __slots__ = ("_full_at", "_interval", "_keys_max", "_tolerance")

    def __init__(self, rate: Rate, keys_max: int = KEYS_MAX) -> None:
        """Start with everybody's allowance whole.

        Args:
            rate: what each key is allowed.
            keys_max: how many keys are remembered at most.
        """
        self._interval = 1.0 / rate.per_second
        self._tolerance = (rate.burst - 1 + _ROUNDING) * self._interval
        self._keys_max = keys_max
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._full_at)

    def wait_seconds(self, key: str, now: float) -> float:
        """Return how long until this key may be charged again; 0.0 means now.

        Args:
            key: whose allowance.
            now: monotonic seconds.
        """
        full_at = self._full_at.get(key)
        return 0.0 if full_at is None else max(0.0, full_at - self._tolerance - now)

    def charge(self, key: str, now: float) -> float:
        """Take one from this key's allowance, if there is one left.

        Args:
            key: whose allowance.
            now: monotonic seconds.

        Returns:
            0.0 if it was taken, else how many seconds until one may be.
        """
        wait = self.wait_seconds(key, now)
        if wait:
            return wait
        self._full_at[key] = max(self._full_at.get(key, now), now) + self._interval
        self._full_at.move_to_end(key)
        if len(self._full_at) > self._keys_max:
            self._full_at.popitem(last=False)
        return 0.0


@lru_cache(maxsize=4096)
def address_key(address: str) -> str:
    """Return whom an address stands for: itself, or of IPv6 the /64 network, which one home has."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


class AddressLimits:
    """What client addresses may do before anything is known about who calls."""

    def __init__(self, factor: float = 1.0, keys_max: int = KEYS_MAX) -> None:
        """Make all limits, each multiplied.

        Args:
            factor: the setting `rate_limit_factor`.
            keys_max: how many addresses each limit remembers at most.
        """
        self._failed_tokens = Limiter(FAILED_TOKENS.times(factor), keys_max)
        self._classes = {
            name: Limiter(rate.times(factor), keys_max)
            for name, rate in ADDRESS_RATES.items()
            if rate is not None
        }
        self._games = {
            name: Limiter(rate.times(factor), keys_max) for name, rate in GAME_RATES.items()
        }

    def admit(self, rate_class: str, address: str, now: float) -> int:
        """Charge one call; return 0, or after how many whole seconds the address may try again.

        Args:
            rate_class: the endpoint's.
            address: the client's.
            now: monotonic seconds.
        """
        wait = 0.0
        if len(self._failed_tokens):
            wait = self._failed_tokens.wait_seconds(address_key(address), now)
        limiter = self._classes.get(rate_class)
        if not wait and limiter is not None:
            wait = limiter.charge(address_key(address), now)
        return math.ceil(wait)

    def admit_to_game(self, rate_class: str, game_id: int, address: str, now: float) -> int:
        """Charge one call of a game; return 0, or after how many whole seconds to try again.

        Args:
            rate_class: the endpoint's.
            game_id: the game that the project key opened.
            address: the client's.
            now: monotonic seconds.
        """
        limiter = self._games.get(rate_class)
        if limiter is None:
            return 0
        return math.ceil(limiter.charge(f"{game_id} {address_key(address)}", now))

    def note_failed_token(self, address: str, now: float) -> None:
        """Charge an address for a wrong key or token; it has been answered already."""
        self._failed_tokens.charge(address_key(address), now)
