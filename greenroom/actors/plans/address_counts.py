"""The usage of a plan by each address, so that no stranger spends it for everybody. Pure.

Overload: beyond `ADDRESSES_MAX` addresses, further ones share a fixed number of counts, each
address always the same one. So memory is bounded, and coming from many addresses does not help.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Final

from greenroom.network.addresses import address_key

ADDRESSES_MAX: Final = 4_096
"""Counted each by itself, for one owner: about half a megabyte."""
_SHARED_COUNTS: Final = 4_096

_OWN_MACHINE: Final = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})


@lru_cache(maxsize=4_096)  # several times for each call
def share_key(address: str) -> str:
    """Return the key that an address is counted under; empty for an address without a share.

    No address has no share, nor has this machine as it usually calls itself (127.0.0.1 and ::1). A
    developer may use a plan alone. And behind a proxy here that is not in `trusted_proxies`, all
    players have that address.
    """
    return "" if not address or address in _OWN_MACHINE else address_key(address)


class AddressCounts:
    """How much each address uses of one thing."""

    __slots__ = ("_addresses_max", "_counts", "_shared")

    def __init__(self, addresses_max: int = ADDRESSES_MAX) -> None:
        """Start with nothing used; count so many addresses each by itself."""
        self._addresses_max = addresses_max
        self._counts: dict[str, int] = {}
        self._shared: array[int] | None = None

    def __len__(self) -> int:
        """Return how many addresses are counted each by itself."""
        return len(self._counts)

    def get_count(self, key: str) -> int:
        """Return how much is counted under a key, or under the one it shares."""
        count = self._counts.get(key)
        return count if count is not None else self._count_shared(key)

    def add(self, key: str, count: int = 1) -> None:
        """Count so much more."""
        if key in self._counts or len(self._counts) < self._addresses_max:
            self._counts[key] = self._counts.get(key, 0) + count
            return
        if self._shared is None:
            self._shared = array("L", bytes(array("L").itemsize * _SHARED_COUNTS))
        self._shared[_place(key)] += count

    def subtract(self, key: str, count: int = 1) -> None:
        """Count so much less; what was counted under a shared key is taken from that.

        An address may have both, where it was counted by itself only later.
        """
        own = self._counts.get(key, 0)
        if own > count:
            self._counts[key] = own - count
            return
        if own:
            del self._counts[key]
        if self._shared is not None:
            self._shared[_place(key)] = max(0, self._count_shared(key) - (count - own))

    def clear(self) -> None:
        """Forget all counts."""
        self._counts.clear()
        self._shared = None

    def _count_shared(self, key: str) -> int:
        return 0 if self._shared is None else self._shared[_place(key)]


def add_count(counts: AddressCounts, key: str, more: int) -> None:
    """Count so much more; less is negative."""
    if more > 0:
        counts.add(key, more)
    elif more < 0:
        counts.subtract(key, -more)


def _place(key: str) -> int:
    return hash(key) % _SHARED_COUNTS
