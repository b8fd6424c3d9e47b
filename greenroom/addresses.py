"""What addresses say: of whose machine they are, and the name in a Host header."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

INVALID_HOST = "Invalid Host header"

_HOST = re.compile(r"([A-Za-z0-9._~%!$&'()*+;=-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{0,5})?")
_HOSTS_KNOWN_MAX = 256
_hosts: set[str] = set()
"""Host values that have passed the check."""


def is_loopback(address: str) -> bool:
    """Return whether an IP address, also in IPv6's dress, is this machine's own."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def is_host(host: str) -> bool:
    """Return whether a Host header is well-formed, and remember it; two that are joined are not."""
    if host in _hosts:
        return True
    if _HOST.fullmatch(host) is None:
        return False
    if len(_hosts) < _HOSTS_KNOWN_MAX:
        _hosts.add(host)
    return True


def names_loopback(host: str) -> bool:
    """Return whether a Host header calls this machine what only it calls itself.

    A browser on this machine reaches it by other names, too: those that a web page chooses, whose
    owner lets them lead here. Such a page may read what it is answered.
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
    """Return whom an address stands for: itself, or of IPv6 the /64 network, which one home has."""
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
