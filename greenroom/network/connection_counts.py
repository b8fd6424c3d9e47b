"""Count the connections of a port, in all and by address."""

from __future__ import annotations

from collections import Counter

from greenroom.network.addresses import address_key
from greenroom.network.proxies import TrustedProxies


class Occupancy:
    """The connections of one port, bounded in all and by address.

    A trusted proxy carries the connections of many clients, so only the sum bounds it.

    Attributes:
        connections: how many there are.
    """

    def __init__(
        self, connections_max: int, per_address_max: int | None, proxies: TrustedProxies
    ) -> None:
        """Start without connections.

        Args:
            connections_max: how many there may be in all.
            per_address_max: how many one address, or IPv6 network (/64), may have; None for half of
                all.
            proxies: the trusted proxies, which have no bound of their own.
        """
        self.connections = 0
        self._connections_max = connections_max
        self._per_address_max = per_address_max or -(-connections_max // 2)
        self._proxies = proxies
        self._by_address: Counter[str] = Counter()

    @property
    def addresses(self) -> int:
        """Return how many addresses have connections."""
        return len(self._by_address)

    def has_room(self, peer: str) -> bool:
        """Return whether one more connection may be made.

        Args:
            peer: the address at the other end.
        """
        if self.connections >= self._connections_max:
            return False
        taken = self._by_address.get(address_key(peer), 0)
        return taken < self._per_address_max or self._proxies.trusts(peer)

    def enter(self, peer: str) -> None:
        """Count a connection; `leave` must follow once it is over."""
        self.connections += 1
        self._by_address[address_key(peer)] += 1

    def grow(self, peer: str, places: int) -> bool:
        """Count a connection for so many places more of its address; `shrink` must follow.

        Returns:
            Whether there was room, as there is for an address's only connection.
        """
        key = address_key(peer)
        taken = self._by_address[key]
        is_full = taken > 1 and taken + places > self._per_address_max
        if is_full and not self._proxies.trusts(peer):
            return False
        self._by_address[key] = taken + places
        return True

    def shrink(self, peer: str, places: int) -> None:
        """Count a connection that `grow` has let in as one again."""
        self._by_address[address_key(peer)] -= places

    def leave(self, peer: str) -> None:
        """Stop counting a connection that is over."""
        self.connections -= 1
        key = address_key(peer)
        self._by_address[key] -= 1
        if not self._by_address[key]:
            del self._by_address[key]

    def move(self, peer: str, client: str) -> bool:
        """Count a connection for its client's address, in place of who relays it.

        Returns:
            Whether that address may have one more; if not, nothing has changed.
        """
        if self._by_address.get(address_key(client), 0) >= self._per_address_max:
            return False
        self.leave(peer)
        self.enter(client)
        return True
