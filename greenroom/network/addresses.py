"""Addresses of clients: which are local, and which name a Host header has."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

INVALID_HOST = "Invalid Host header"

_HOST = re.compile(r"([A-Za-z0-9._~%!$&'()*+;=-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{0,5})?")
_HOSTS_KNOWN_MAX = 256
_hosts: set[str] = set()
"""Host values that have passed the check."""


_ADDRESS_CHARACTERS_MAX = 128
"""An address with the name of its interface is shorter. Longer texts are not remembered."""


def is_loopback(address: str) -> bool:
    """Return whether an IP address is a loopback address, also as IPv4 mapped into IPv6."""
    return len(address) <= _ADDRESS_CHARACTERS_MAX and _is_loopback(address)


@lru_cache(maxsize=1024)
def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def is_host(host: str) -> bool:
    """Return whether a Host header is well-formed, and remember it; joined headers are not."""
    if host in _hosts:
        return True
    if _HOST.fullmatch(host) is None:
        return False
    if len(_hosts) < _HOSTS_KNOWN_MAX:
        _hosts.add(host)
    return True


def names_loopback(host: str) -> bool:
    """Return whether a Host header has one of the names that only this machine uses for itself.

    A web page can choose any other name and let it resolve to this machine. A browser here would
    then let that page read the answers.
    """
    name = host_name(host).lower()
    return name == "localhost" or is_loopback(name.removeprefix("[").removesuffix("]"))


def host_name(host: str) -> str:
    """Return a Host header without its port; an IPv6 address keeps its brackets."""
    if host.endswith("]"):
        return host
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def address_key(address: str) -> str:
    """Return the key to count an address by: itself, or the /64 network of an IPv6 address."""
    return _network_key(address) if ":" in address else address


@lru_cache(maxsize=4096)
def _network_key(address: str) -> str:
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
