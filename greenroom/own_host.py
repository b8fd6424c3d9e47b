"""The host by which other machines of the cluster reach this one, found by the way to NATS."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Final

import trio

from greenroom.bus.nats_servers import NatsOptions, NatsServer, read_options
from greenroom.config import ConfigError, Settings
from greenroom.control.ready import local_host
from greenroom.network.addresses import is_loopback, names_loopback

EVERYWHERE: Final = {"0.0.0.0": socket.AF_INET, "::": socket.AF_UNSPEC}
"""The values of `host` that mean every address of the machine."""
NAME_SECONDS_MAX: Final = 10.0
"""How long a start waits for the name of a NATS server to be known."""
_RETRY_SECONDS: Final = 0.2


def nats_options(settings: Settings) -> NatsOptions | None:
    """Return what the settings say about NATS; None where all nodes are on this machine.

    Raises:
        BusUnusable: something is wrong with it; the text shows no password.
    """
    if settings.bus is None:
        return None
    return read_options(
        settings.bus,
        ca_file=settings.bus_ca_file,
        nkey_file=settings.bus_nkey_file,
        plain_allowed=settings.bus_plain_allowed,
    )


async def own_host(settings: Settings) -> str:
    """Return the host by which other machines reach this one; by default, of the way to NATS.

    Raises:
        BusUnusable: see `nats_options`.
        ConfigError: there is no such host, or no database for several machines.

    Cancellation: nothing is left open.
    """
    options = nats_options(settings)
    assert options is not None
    if settings.database_url is None:
        raise ConfigError(
            "bus is for machines that share a database: set database_url, too, to the same for all"
        )
    if settings.advertise is not None:
        return settings.advertise
    if settings.host not in EVERYWHERE:
        _check_reachable(settings.host, options.servers)
        return settings.host
    found = await _wait_for_source(options.servers, EVERYWHERE[settings.host])
    return found or local_host(settings.host).strip("[]")


def _check_reachable(host: str, servers: Iterable[NatsServer]) -> None:
    """Refuse to listen on this machine alone where NATS is on another."""
    if names_loopback(f"[{host}]" if ":" in host else host) and not all(s.is_here for s in servers):
        raise ConfigError(
            f"host is {host}, where the other machines of the cluster do not reach this one: set "
            "host to 0.0.0.0 or to an address of this machine, or advertise to a host that leads "
            "here"
        )


async def _wait_for_source(servers: Iterable[NatsServer], family: int) -> str | None:
    """Return the first address from which a NATS server on another machine is reached.

    None if there is no such server, or its name is not known in time.
    """
    far = [server for server in servers if not server.is_here]
    with trio.move_on_after(NAME_SECONDS_MAX):
        while far:
            for server in far:
                found = await _source(server, family)
                if found is not None and not is_loopback(found):
                    return found
            await trio.sleep(_RETRY_SECONDS)
    return None


async def _source(server: NatsServer, family: int) -> str | None:
    """Return the address from which the kernel would send to a server; nothing is sent."""
    try:
        found = await trio.socket.getaddrinfo(
            server.host, server.port, family, socket.SOCK_DGRAM, 0, 0
        )
        with trio.socket.socket(found[0][0], socket.SOCK_DGRAM) as probe:
            await probe.connect(found[0][4])
            return str(probe.getsockname()[0])
    except OSError:
        return None
