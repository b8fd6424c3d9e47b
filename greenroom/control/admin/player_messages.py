"""Operations on players and their results. No result has a secret in it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from greenroom.contract.allowed_values import BanDuration
from greenroom.control.admin.messages import Operation, Player, PlayerBan


class PastBan(msgspec.Struct, frozen=True):
    """A ban, in force or not."""

    ban_id: str
    ban_duration: str
    ban_reason: str | None
    banned_at: str
    banned_until: str | None
    ended_at: str | None
    """The time at which the ban was lifted, or replaced by another one."""


class Seat(msgspec.Struct, frozen=True):
    """A seat in a room, with the player's data there."""

    room_id: str
    room_name: str
    joined_at: str
    is_host: bool
    player_data: msgspec.Raw


class Friend(msgspec.Struct, frozen=True):
    """A friend, or a player with an unanswered request: `incoming` or `outgoing`."""

    player_id: int
    player_name: str
    relationship: str | None


class PlayerExport(msgspec.Struct, frozen=True):
    """Everything that is stored about one player, except for the token's hash."""

    player: Player
    platform: str | None
    platform_id: str | None
    player_data: msgspec.Raw
    stats: msgspec.Raw
    bans: list[PastBan]
    friends: list[Friend]
    seat: Seat | None
    lobby_id: str | None
    """The lobby in which the player has a seat."""


class PlayerBanned(msgspec.Struct, frozen=True):
    """The player is banned."""

    player_id: int
    ban: PlayerBan


class PlayerUnbanned(msgspec.Struct, frozen=True):
    """The player is not banned; a ban has ended if there was one."""

    player_id: int
    bans_removed: int


class PlayerDeleted(msgspec.Struct, frozen=True):
    """The player is deleted, and the id is never given again."""

    player_id: int


class ExportPlayer(Operation[PlayerExport], frozen=True):
    """Return everything that is stored about one player."""

    name: ClassVar[str] = "player.export"
    player_id: int


class BanPlayer(Operation[PlayerBanned], frozen=True):
    """Ban a player from now on; an older ban ends."""

    name: ClassVar[str] = "player.ban"
    player_id: int
    duration: BanDuration
    reason: str | None


class UnbanPlayer(Operation[PlayerUnbanned], frozen=True):
    """End a player's ban."""

    name: ClassVar[str] = "player.unban"
    player_id: int


class DeletePlayer(Operation[PlayerDeleted], frozen=True):
    """Delete a player with everything that is stored about them."""

    name: ClassVar[str] = "player.delete"
    player_id: int
