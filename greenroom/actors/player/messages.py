"""What players are asked, what they answer, what happens to them, and how they refuse."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from greenroom.actors.kernel.errors import NotFound, Refused
from greenroom.actors.kernel.message import Command, Event

BanDuration = Literal["hour", "day", "week", "month", "quarter", "year", "forever"]


class PlayerRole:
    """Marks commands that players take."""


class Ban(msgspec.Struct, frozen=True):
    """A ban as it stands in the record; times in Unix seconds, `banned_until` None for ever."""

    ban_id: str
    ban_duration: BanDuration
    ban_reason: str | None
    banned_at: int
    banned_until: int | None


class Player(msgspec.Struct, kw_only=True):
    """A player's whole record; times in Unix seconds, `player_data` a JSON object's bytes."""

    player_id: int
    game_id: int
    player_name: str
    player_tag: str
    token_hash: bytes
    player_data: bytes
    is_online: bool
    last_login: int | None
    last_heartbeat: int | None
    last_logout: int | None
    created_at: int
    updated_at: int
    ban: Ban | None = None


# Events. Fields are the new values of the columns they change.


class PlayerRegistered(Event, frozen=True):
    """A new account. He is online from the start; both his clocks begin at `created_at`."""

    player_id: int
    game_id: int
    player_name: str
    player_tag: str
    token_hash: bytes
    player_data: bytes
    created_at: int


class PlayerRenamed(Event, frozen=True):
    """He goes by another name."""

    player_id: int
    player_name: str
    updated_at: int


class PlayerTokenRotated(Event, frozen=True):
    """Only the new token opens his account."""

    player_id: int
    token_hash: bytes
    updated_at: int


class PlayerLoggedIn(Event, frozen=True):
    """He logged in (and so is online)."""

    player_id: int
    last_login: int


class PlayerLoggedOut(Event, frozen=True):
    """He logged out or went stale (and so is offline)."""

    player_id: int
    last_logout: int


class PlayerDocumentReplaced(Event, frozen=True):
    """His document is now this JSON object, verbatim."""

    player_id: int
    player_data: bytes
    updated_at: int


class PlayerBanned(Event, frozen=True):
    """He is banned; older bans of his end at `banned_at`."""

    player_id: int
    game_id: int
    ban_id: str
    ban_duration: BanDuration
    ban_reason: str | None
    banned_at: int
    banned_until: int | None


class PlayerUnbanned(Event, frozen=True):
    """Every ban of his ended."""

    player_id: int
    ended_at: int


class PlayerPresenceSaved(Event, frozen=True):
    """Presence as it was lately: written in the background, never waited for."""

    durable: ClassVar[bool] = False
    player_id: int
    is_online: bool
    last_heartbeat: int | None


# Commands and replies: the domain module fills these in.


class PlayerNotFound(NotFound):
    """No such player in this game."""

    text = "Player not found or does not belong to this game"


class PlayerBannedRefusal(Refused):
    """Placeholder of the 403; carries the ban."""
