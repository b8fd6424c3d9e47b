"""The NATS servers and how to sign in there: read from the settings, or told by a server."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from greenroom.bus.bus import BusUnusable
from greenroom.bus.nats_keys import NatsKey, read_key
from greenroom.network.addresses import names_loopback

SERVERS_MAX: Final = 64
"""Servers that are remembered; the settings' are among them."""
PORT_DEFAULT: Final = 4222
SCHEMES: Final = {"nats": False, "tls": True}
_EXAMPLE: Final = "nats://USER:PASSWORD@HOST:4222"


class NatsServer(msgspec.Struct, frozen=True):
    """A server's address, and how to sign in there."""

    host: str
    port: int
    wants_tls: bool
    tls_name: str
    """The name that its certificate must have."""
    user: str | None = None
    password: str | None = None
    """Without a password, the user is a token."""

    def __str__(self) -> str:
        """Return the address alone, for logs."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    __repr__ = __str__

    @property
    def is_here(self) -> bool:
        """Return whether it is on this machine, so that nobody can listen on the way."""
        return names_loopback(f"[{self.host}]" if ":" in self.host else self.host)


class NatsOptions(msgspec.Struct, frozen=True):
    """All that the settings say about NATS."""

    servers: tuple[NatsServer, ...]
    tls: ssl.SSLContext
    has_ca: bool = False
    """True if an authority was given; then nothing is sent without TLS."""
    key: NatsKey | None = None
    plain_allowed: bool = False


def read_options(
    urls: str,
    *,
    ca_file: Path | None = None,
    nkey_file: Path | None = None,
    plain_allowed: bool = False,
) -> NatsOptions:
    """Read what the settings say.

    Args:
        urls: addresses of servers, separated by commas: `nats://USER:PASSWORD@HOST:4222`, or with
            `tls://` if TLS is wanted in any case. Special characters are written as in URLs.
        ca_file: PEM, the authority that the servers' certificates come from; `None` for those that
            the machine trusts.
        nkey_file: has the seed to sign in with.
        plain_allowed: whether messages may go to other machines without TLS.

    Raises:
        BusUnusable: something is wrong; the text shows no password.
    """
    servers = tuple(_read_url(url.strip()) for url in urls.split(",") if url.strip())
    if not 1 <= len(servers) <= SERVERS_MAX:
        raise BusUnusable(
            f"The setting bus has {len(servers)} addresses: write 1 to {SERVERS_MAX} such as "
            f"{_EXAMPLE}."
        )
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise BusUnusable(
            f"Cannot use {ca_file} ({error.strerror or error}): set bus_ca_file to the certificate "
            "of the authority, in PEM."
        ) from None
    key = None if nkey_file is None else read_key(nkey_file)
    return NatsOptions(servers, context, ca_file is not None, key, plain_allowed)


class NatsServers:
    """The servers of the settings, and those that they have told of. At most `SERVERS_MAX`."""

    def __init__(self, servers: Iterable[NatsServer]) -> None:
        """Begin with the settings' servers."""
        self._given = [*servers]
        self._told: list[NatsServer] = []

    def note(self, addresses: Iterable[str], by: NatsServer) -> None:
        """Take the addresses that a server tells in the place of those told before.

        Args:
            addresses: `HOST:PORT` each; what is none is left out.
            by: the server. The others of its cluster know the same users.
        """
        known = {(server.host, server.port) for server in self._given}
        told = (_told_server(address, by) for address in addresses)
        found = [each for each in told if each is not None and (each.host, each.port) not in known]
        self._told = [*dict.fromkeys(found)][: SERVERS_MAX - len(self._given)]

    def list_after(self, server: NatsServer | None) -> list[NatsServer]:
        """Return all servers in the order in which to try them: this one last."""
        servers = [*self._given, *self._told]
        if server is None or server not in servers:
            return servers
        place = servers.index(server) + 1
        return servers[place:] + servers[:place]


def _read_url(url: str) -> NatsServer:
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or parts.scheme not in SCHEMES or parts.path.strip("/") or parts.query:
        raise BusUnusable(f"The setting bus has an address that is none: write {_EXAMPLE}.")
    return NatsServer(
        host,
        port or PORT_DEFAULT,
        SCHEMES[parts.scheme],
        host,
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
    )


def _told_server(address: str, by: NatsServer) -> NatsServer | None:
    """Return a server of a cluster; one that has no name has the certificate of the other's."""
    try:
        parts = urlsplit(f"nats://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or parts.username is not None:
        return None
    is_named = not host.replace(".", "").isdigit() and ":" not in host
    return NatsServer(
        host,
        port or PORT_DEFAULT,
        by.wants_tls,
        host if is_named else by.tls_name,
        by.user,
        by.password,
    )
