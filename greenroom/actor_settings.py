"""The limits that actors take, made from the settings. It is the bridge between the two.

Actors do not know `config`, so their structs have no defaults where a setting has one. A call
without arguments has the defaults that `config` states.
"""

from __future__ import annotations

from typing import get_args

from greenroom.actors.friendship.messages import FriendLimits
from greenroom.actors.lobby.state import LobbyLimits
from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.plans.plan import UNLIMITED, Plan, PlanLimits, ServerLimits
from greenroom.actors.room.rules.state import RoomLimits
from greenroom.actors.seating.passwords import GuessLimits
from greenroom.actors.world.world import WorldSettings
from greenroom.config import DEFAULTS, Settings
from greenroom.network.limiter import rate_of


def room_limits(settings: Settings = DEFAULTS) -> RoomLimits:
    """Return the limits of every room."""
    return RoomLimits(
        seat_grace_seconds=settings.seat_grace_seconds,
        idle_seconds_max=settings.room_idle_seconds,
        updates_max=settings.room_updates_max,
        updates_bytes_max=settings.room_updates_bytes_max,
        guesses=guess_limits(settings),
    )


def lobby_limits(settings: Settings = DEFAULTS) -> LobbyLimits:
    """Return the limits of every lobby."""
    return LobbyLimits(
        requests_max=settings.lobby_requests_max,
        requests_bytes_max=settings.lobby_requests_bytes_max,
        requests_of_player_max=settings.lobby_requests_of_player_max,
        guesses=guess_limits(settings),
    )


def guess_limits(settings: Settings = DEFAULTS) -> GuessLimits:
    """Return the limits of wrong passwords at each room and lobby."""
    factor, burst_seconds = settings.rate_limit_factor, settings.rate_burst_seconds
    return GuessLimits(
        address=rate_of(settings.wrong_passwords_per_second_address * factor, burst_seconds),
        place=rate_of(settings.wrong_passwords_per_second_place * factor, burst_seconds),
    )


def friend_limits(settings: Settings = DEFAULTS) -> FriendLimits:
    """Return the limits of every player's friends and requests."""
    return FriendLimits(
        friends_max=settings.friends_max, friend_requests_max=settings.friend_requests_max
    )


def world_settings(settings: Settings = DEFAULTS) -> WorldSettings:
    """Return the settings that flows and services use."""
    return WorldSettings(
        stale_seconds=settings.stale_seconds,
        sweep_seconds=settings.sweep_seconds,
        snapshot_seconds=settings.snapshot_seconds,
        journal_retention_seconds=settings.journal_retention_hours * 3_600,
        room_document_bytes_max=settings.room_document_bytes_max,
        partitions_per_game=settings.partitions_per_game,
    )


def plans(settings: Settings = DEFAULTS) -> dict[Plan, PlanLimits]:
    """Return every plan's limits, each from the setting `<plan>_<limit>`."""
    return {
        plan: UNLIMITED if plan == "unlimited" else _plan_limits(plan, settings)
        for plan in get_args(Plan)
    }


def _plan_limits(plan: Plan, settings: Settings) -> PlanLimits:
    limits = {name: getattr(settings, f"{plan}_{name}") for name in PlanLimits.__struct_fields__}
    return PlanLimits(**limits)


def server_limits(settings: Settings = DEFAULTS) -> ServerLimits:
    """Return the limits of all games together."""
    return ServerLimits(
        rooms_bytes_max=settings.rooms_bytes_max,
        players_bytes_max=settings.players_bytes_max,
        games_bytes_max=settings.games_bytes_max,
        written_bytes_per_day_max=settings.written_bytes_per_day_max,
    )


def ledger(settings: Settings = DEFAULTS) -> Ledger:
    """Return a ledger without owners, with the settings' plans, share and limits."""
    return Ledger(plans(settings), settings.plan_share_per_address, server_limits(settings))
