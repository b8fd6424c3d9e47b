"""Kubernetes' service links: variables that it sets for each service, and that are no settings.

A service named `greenroom` in the same namespace gives every pod `GREENROOM_SERVICE_HOST`,
`GREENROOM_PORT=tcp://10.0.0.1:8080`, `GREENROOM_PORT_8080_TCP_ADDR` and more. A service named
`greenroom-udp` gives `GREENROOM_UDP_PORT`. The name and the value must both have the shape, so that
a mistake in a setting is still refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

_PROTOCOLS = frozenset({"tcp", "udp", "sctp"})
_NAME = re.compile(
    r"GREENROOM(?:_[A-Z0-9_]+?)??_(?:SERVICE_(?:(?P<host>HOST)|(?P<number>PORT(?:_[A-Z0-9_]+)?))"
    r"|(?P<url>PORT)|PORT_[0-9]+_(?:TCP|UDP|SCTP)"
    r"(?P<part>|_(?:(?P<protocol>PROTO)|(?P<port>PORT)|(?P<address>ADDR))))"
)


def find_service_links(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that are service links, sorted."""
    return sorted(name for name, value in environ.items() if _is_service_link(name, value))


def _is_service_link(name: str, value: str) -> bool:
    """Return whether both the name and the value have the shape of a service link."""
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    if found["host"] or found["address"]:
        return _is_address(value)
    if found["number"] or found["port"]:
        return _is_port(value)
    return value in _PROTOCOLS if found["protocol"] else _is_url(value)


def _is_url(value: str) -> bool:
    """Return whether this is `tcp://10.0.0.1:8080`, or the like."""
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    is_bare = not (parts.path or parts.query or parts.fragment or parts.username)
    return parts.scheme in _PROTOCOLS and is_bare and bool(port) and _is_address(host or "")


def _is_port(value: str) -> bool:
    """Return whether this is the number of a port."""
    return value.isascii() and value.isdecimal() and 0 < int(value[:6]) < 1 << 16


def _is_address(value: str) -> bool:
    """Return whether this is an IP address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True
