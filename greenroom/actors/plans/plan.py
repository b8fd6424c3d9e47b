"""Plans and their limits. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, cast, get_args

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

PLANS: Final[Mapping[Plan, PlanLimits]] = {
    "unlimited": UNLIMITED,
    "free": PlanLimits(
        storage_bytes_max=250_000_000,
        games_max=1,
        players_online_max=100,
        calls_per_day_max=1_000,
        rooms_max=200,
        rooms_bytes_max=32 << 20,
        players_bytes_max=64 << 20,
        written_bytes_per_day_max=10**9,
    ),
    "standard": PlanLimits(
        storage_bytes_max=1_000_000_000,
        games_max=1,
        players_online_max=1_000,
        calls_per_day_max=10_000,
        rooms_max=2_000,
        rooms_bytes_max=128 << 20,
        players_bytes_max=256 << 20,
        written_bytes_per_day_max=5 * 10**9,
    ),
    "pro": PlanLimits(
        storage_bytes_max=2_500_000_000,
        games_max=3,
        players_online_max=2_000,
        calls_per_day_max=1_000_000,
        rooms_max=4_000,
        rooms_bytes_max=256 << 20,
        players_bytes_max=512 << 20,
        written_bytes_per_day_max=25 * 10**9,
    ),
}
"""The first four as the API's specification has them; settings may say otherwise."""


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of all games of a server together, whatever their plans."""

    rooms_bytes_max: float = 512 << 20
    """Bytes that rooms and lobbies hold in memory."""
    players_bytes_max: float = 512 << 20
    """Bytes that the players in memory hold, their documents above all."""
    games_bytes_max: float = 256 << 20
    """Bytes that the documents of all games hold."""
    written_bytes_per_day_max: float = 200 * 10**9
    """Bytes that calls and messages write in a UTC day."""


def plans_of(values: Mapping[str, float]) -> dict[Plan, PlanLimits]:
    """Return all plans, with the limits named `<plan>_<limit>` taken from `values`."""
    plans: dict[Plan, PlanLimits] = {}
    for plan in cast("tuple[Plan, ...]", get_args(Plan)):
        given = {
            limit: values[f"{plan}_{limit}"]
            for limit in PlanLimits.__struct_fields__
            if f"{plan}_{limit}" in values
        }
        plans[plan] = msgspec.structs.replace(PLANS[plan], **given)
    return plans
