"""The target of a request, in whichever form it comes: its path, its query, and its host."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from greenroom.network.addresses import INVALID_HOST, is_host

OTHER_HOST: Final = "The request's target names another host than its Host header"

_ABSOLUTE = re.compile(r"([A-Za-z]+)://([^/?#]*)(.*)", re.DOTALL)
"""Scheme, authority and the rest of the absolute form, in which proxies ask."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class WrongHost(Exception):
    """It is not clear for which host a request is: answer 400 with the text."""


def split_target(raw: bytes) -> tuple[str, str]:
    """Return the path, percent-decoded, and the query of a target."""
    target = raw.decode("latin-1")
    absolute = None if target.startswith("/") else _ABSOLUTE.fullmatch(target)
    if absolute is not None:
        rest = absolute[3]
        target = rest if rest.startswith("/") else "/" + rest
    target = target.partition("#")[0] if "#" in target else target
    path, _, query_string = target.partition("?")
    return (unquote(path) if "%" in path else path), query_string


def find_host(raw: bytes, host: str | None, *, is_optional: bool) -> str | None:
    """Return the host that a request is for, with its port if one is named.

    A target that names a host counts more than the header (RFC 9112). They have to agree: else a
    proxy could take one for the host, and what is behind it the other.

    Args:
        raw: the target.
        host: the Host header, None if there is none.
        is_optional: set for HTTP/1.0, which does not need that header.

    Raises:
        WrongHost: there is none, one is malformed, or there are two.
    """
    if host is None:
        if not is_optional:
            raise WrongHost(INVALID_HOST)
    elif not is_host(host):
        raise WrongHost(INVALID_HOST)
    absolute = None if raw.startswith(b"/") else _ABSOLUTE.fullmatch(raw.decode("latin-1"))
    if absolute is None:
        return host
    scheme, authority, _ = absolute.groups()
    if not authority and scheme.lower() not in _DEFAULT_PORTS:
        return host  # such as file:///x, which names none and leads nowhere
    if not authority or not is_host(authority):
        raise WrongHost(INVALID_HOST)
    default_port = _DEFAULT_PORTS.get(scheme.lower(), 0)
    if host is not None and _normalise(host, default_port) != _normalise(authority, default_port):
        raise WrongHost(OTHER_HOST)
    return authority


def _normalise(host: str, default_port: int) -> tuple[str, int]:
    """Return name and port of a well-formed host, so that equal ones are equal."""
    end = host.rfind("]") + 1  # of an IPv6 address
    name, _, port = host[end:].partition(":")
    return (host[:end] + name).lower(), int(port or default_port)
