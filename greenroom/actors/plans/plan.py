"""Plans and their limits. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

Plan = Literal["unlimited", "free", "standard", "pro"]


class PlanLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one owner, all their games together; `math.inf` is no limit."""

    storage_bytes_max: float = math.inf
    games_max: float = math.inf
    players_online_max: float = math.inf
    calls_per_day_max: float = math.inf
    """Calls in a UTC day."""
    rooms_max: float = math.inf
    """Active rooms and open lobbies."""
    rooms_bytes_max: float = math.inf
    """Bytes that rooms and lobbies hold in memory; see `holdings.py`."""
    players_bytes_max: float = math.inf
    """Bytes that the players in memory hold, their documents above all."""
    written_bytes_per_day_max: float = math.inf
    """Bytes that calls and messages write in a UTC day."""


UNLIMITED: Final = PlanLimits()

UNLIMITED_PLANS: Final[Mapping[Plan, PlanLimits]] = dict.fromkeys(get_args(Plan), UNLIMITED)
"""Every plan without limits; `actor_settings` makes those that the settings describe."""


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of all games of a server together; `math.inf` is no limit."""

    rooms_bytes_max: float = math.inf
    """Bytes that rooms and lobbies hold in memory."""
    players_bytes_max: float = math.inf
    """Bytes that the players in memory hold, their documents above all."""
    games_bytes_max: float = math.inf
    """Bytes that the documents of all games hold."""
    written_bytes_per_day_max: float = math.inf
    """Bytes that calls and messages write in a UTC day."""


UNLIMITED_SERVER: Final = ServerLimits()
