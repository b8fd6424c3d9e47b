"""Share something bounded among all addresses. Pure.

No address may hold more than a factor times what is still free (the dynamic thresholds of Choudhury
and Hahne). At a factor of 1, an address that is alone gets half of everything, and two get a third
each. So something is always left for the next address, however many take their share. Nothing has
to be set aside for addresses that never come.
"""

from __future__ import annotations


class Shares:
    """Counts what each address holds. It keeps an entry for each address that holds something."""

    __slots__ = ("_address_share_max", "_amount_max", "_by_key", "held")

    def __init__(self, amount_max: int, address_share_max: float) -> None:
        """Start with everything free.

        Args:
            amount_max: how much there is for all together, in any unit.
            address_share_max: how many times the free amount one address may hold.
        """
        self._amount_max = amount_max
        self._address_share_max = address_share_max
        self._by_key: dict[str, int] = {}
        self.held = 0
        """The amount that all addresses hold together."""

    @property
    def addresses(self) -> int:
        """Return how many addresses hold something."""
        return len(self._by_key)

    def count_held(self, key: str) -> int:
        """Return how much an address holds."""
        return self._by_key.get(key, 0)

    def may_take(self, key: str, amount: int = 1) -> bool:
        """Return whether an address may take this much more.

        Args:
            key: the address; see `address_key`.
            amount: how much.
        """
        free = self._amount_max - self.held - amount
        held = self._by_key.get(key, 0)
        return free >= 0 and held + amount <= self._address_share_max * free

    def take(self, key: str, amount: int = 1) -> bool:
        """Take more for an address if it may; arguments and result as for `may_take`."""
        held = self.held + amount
        free = self._amount_max - held
        own = self._by_key.get(key, 0) + amount
        if free < 0 or own > self._address_share_max * free:
            return False
        self.held = held
        self._by_key[key] = own
        return True

    def hold(self, key: str, amount: int = 1) -> None:
        """Hold more, even beyond the share; arguments as for `may_take`."""
        self.held += amount
        self._by_key[key] = self._by_key.get(key, 0) + amount

    def give_back(self, key: str, amount: int = 1) -> None:
        """Give back some of what an address holds."""
        self.held -= amount
        left = self._by_key[key] - amount
        if left:
            self._by_key[key] = left
        else:
            del self._by_key[key]
