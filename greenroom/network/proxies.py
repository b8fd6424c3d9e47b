"""Find a client's address behind proxies."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable
from typing import ClassVar

_logger = logging.getLogger(__name__)

FORWARDING_HEADERS = ("x-forwarded-for", "x-real-ip", "forwarded", "via")
"""Headers that proxies add. A request with one of them does not come from this machine itself."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_HOPS_MAX = 32
"""More proxies than any set-up has. It bounds the work that one header can cause."""


class TrustedProxies:
    """The proxies whose word about the client's address is believed."""

    _has_hinted: ClassVar[bool] = False

    def __init__(self, networks: Iterable[str]) -> None:
        """Trust these networks.

        Args:
            networks: CIDRs or addresses such as `10.0.0.0/8` and `::1`.

        Raises:
            ValueError: one of them is not a network; the text names it.
        """
        self._networks: tuple[Network, ...] = tuple(
            ipaddress.ip_network(network, strict=False) for network in networks
        )

    def __bool__(self) -> bool:
        """Return whether any proxy is trusted at all."""
        return bool(self._networks)

    def trusts(self, address: str) -> bool:
        """Return whether `address` (without a port) is one of the proxies."""
        if not self._networks:
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def heeds(self, address: str) -> bool:
        """Return whether `find_client_address` uses a header that comes from there."""
        return self.trusts(address) or not (self._networks or self._has_hinted)

    def find_client_address(self, peer: str, forwarded_for: str | None) -> str:
        """Return the client's address: the rightmost that belongs to no trusted proxy.

        Every proxy appends the address that it was called from. Reading from the right, the first
        address that is no trusted proxy's is the client's. The client may have written whatever
        stands left of it. An entry that is no address ends the search at the proxy that reported
        it.

        Args:
            peer: the address at the other end of the connection.
            forwarded_for: the X-Forwarded-For header, lines joined with `, `.
        """
        if forwarded_for is None:
            return peer
        if not self.trusts(peer):
            self._log_hint(peer)
            return peer
        client = peer
        for entry in reversed(forwarded_for.rsplit(",", _HOPS_MAX)[-_HOPS_MAX:]):
            address = plain_address(entry)
            if address is None:
                return client
            client = address
            if not self.trusts(address):
                return client
        return client

    def _log_hint(self, peer: str) -> None:
        """Log once that a header is ignored, if no proxy is trusted: an operator may forget it."""
        if self._has_hinted or self._networks:
            return
        TrustedProxies._has_hinted = True
        _logger.warning(
            "X-Forwarded-For came from %s and is ignored, because trusted_proxies is empty; if "
            "that is a proxy of yours, name it there: all its clients count as one address",
            peer,
        )


def plain_address(text: str) -> str | None:
    """Return an address without port, brackets or IPv4-in-IPv6, or None if it is no address.

    Args:
        text: `203.0.113.7`, `203.0.113.7:4711`, `2001:db8::1`, `[2001:db8::1]:4711`.
    """
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)
