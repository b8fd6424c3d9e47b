"""What all clients hold together of something bounded, and what each address may. Pure.

No address may hold more than a factor times what is still free (the dynamic thresholds of Choudhury
and Hahne). At a factor of 1 an address that is alone gets half of everything, two get a third each.
So whatever one takes, and however many take it, something is left for whoever comes next, and
nothing has to be set aside for addresses that never come.
"""

from __future__ import annotations


class Shares:
    """Counts what is held. Its memory is an entry for each address that holds something."""

    __slots__ = ("_address_share_max", "_amount_max", "_by_key", "held")

    def __init__(self, amount_max: int, address_share_max: float) -> None:
        """Begin with everything free.

        Args:
            amount_max: for all together, in whatever unit.
            address_share_max: an address may hold so many times what is free.
        """
        self._amount_max = amount_max
        self._address_share_max = address_share_max
        self._by_key: dict[str, int] = {}
        self.held = 0
        """By all together."""

    @property
    def addresses(self) -> int:
        """How many addresses hold something."""
        return len(self._by_key)

    def held_by(self, key: str) -> int:
        """Return how much an address holds."""
        return self._by_key.get(key, 0)

    def may_take(self, key: str, amount: int = 1) -> bool:
        """Return whether this much more is to be had for an address.

        Args:
            key: whose; see `address_key`.
            amount: how much.
        """
        free = self._amount_max - self.held - amount
        held = self._by_key.get(key, 0)
        return free >= 0 and held + amount <= self._address_share_max * free

    def take(self, key: str, amount: int = 1) -> bool:
        """Hold more, if it is to be had; arguments and answer as of `may_take`."""
        held = self.held + amount
        free = self._amount_max - held
        own = self._by_key.get(key, 0) + amount
        if free < 0 or own > self._address_share_max * free:
            return False
        self.held = held
        self._by_key[key] = own
        return True

    def give_back(self, key: str, amount: int = 1) -> None:
        """Hold less."""
        self.held -= amount
        left = self._by_key[key] - amount
        if left:
            self._by_key[key] = left
        else:
            del self._by_key[key]
