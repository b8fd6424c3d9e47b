"""The settings of one worker: what an address may do in all is divided, ports are its own."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from greenroom.config import Settings

DIVIDED: Final = (
    "connections_per_second_address",
    "failed_tokens_per_second_address",
    "http2_frames_per_second_address",
    "pages_per_second_address",
    "probes_per_second_address",
    "realtime_connections_per_second_address",
)
"""Allowances of an address that are charged at the worker that accepts a connection alone. The
kernel spreads connections evenly. Calls are charged where their player is, too. A game in one
partition has one worker, and an address has its whole allowance there; so it has at each worker of
a game in several partitions."""


def settings_of_worker(
    settings: Settings, number: int, count: int, conninfo: str, advertise: str | None = None
) -> Settings:
    """Return what one worker runs with.

    Args:
        settings: those of the whole server.
        number: which worker it is; the first is 1.
        count: how many there are.
        conninfo: the database's address, in libpq's format.
        advertise: the host by which other machines reach this one, if there are any.
    """
    changed: dict[str, Any] = {name: getattr(settings, name) / count for name in DIVIDED}
    changed["database_url"], changed["advertise"] = conninfo, advertise
    if settings.public_udp_port is not None:
        changed["public_udp_port"] = settings.public_udp_port + number - 1
    if number > 1:
        changed["backup_dir"] = None  # one of them makes the backups
    return msgspec.structs.replace(settings, **changed)
