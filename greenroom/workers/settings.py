"""The settings of one worker: what an address may do in all is divided, ports are its own."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from greenroom.config import FIELDS, Settings

DIVIDED: Final = tuple(
    name
    for name in FIELDS
    if name.endswith("_per_second_address")
    and name not in {"wrong_passwords_per_second_address", "leaderboard_bytes_per_second_address"}
)
"""Allowances of an address that are charged where its connection is. The kernel spreads connections
evenly. The two that are left out are charged where the room or the game is, which is one worker."""


def settings_of_worker(settings: Settings, number: int, count: int, conninfo: str) -> Settings:
    """Return what one worker runs with.

    Args:
        settings: those of the whole server.
        number: which worker it is; the first is 1.
        count: how many there are.
        conninfo: the database's address, in libpq's format.
    """
    changed: dict[str, Any] = {name: getattr(settings, name) / count for name in DIVIDED}
    of_address = settings.connections_per_address_max or settings.connections_max // 2
    changed["connections_per_address_max"] = max(1, math.ceil(of_address / count))
    changed["database_url"] = conninfo
    if settings.public_udp_port is not None:
        changed["public_udp_port"] = settings.public_udp_port + number - 1
    if number > 1:
        changed["backup_dir"] = None  # one of them makes the backups
    return msgspec.structs.replace(settings, **changed)
