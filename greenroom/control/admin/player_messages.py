"""What operators can do with players, and what they get; secrets are in none of it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from greenroom.actors.player.messages import BanDuration
from greenroom.control.admin.messages import Operation, Player, PlayerBan


class PastBan(msgspec.Struct, frozen=True):
    """A ban, in force or not."""

    ban_id: str
    ban_duration: str
    ban_reason: str | None
    banned_at: str
    banned_until: str | None
    ended_at: str | None
    """When it was lifted, or another one took its place."""


class Seat(msgspec.Struct, frozen=True):
    """A seat in a room, with what he brought there."""

    room_id: str
    room_name: str
    joined_at: str
    is_host: bool
    player_data: msgspec.Raw


class Friend(msgspec.Struct, frozen=True):
    """Somebody whom he is friends with, or one of them has asked: `incoming`, `outgoing`."""

    player_id: int
    player_name: str
    relationship: str | None


class PlayerExport(msgspec.Struct, frozen=True):
    """Everything that is held about one player, but his token's hash."""

    player: Player
    platform: str | None
    platform_id: str | None
    player_data: msgspec.Raw
    bans: list[PastBan]
    friends: list[Friend]
    seat: Seat | None
    lobby_id: str | None
    """The lobby that he is in."""


class PlayerBanned(msgspec.Struct, frozen=True):
    """He is banned."""

    player_id: int
    ban: PlayerBan


class PlayerUnbanned(msgspec.Struct, frozen=True):
    """His ban has ended, if there was one."""

    player_id: int
    bans_removed: int


class PlayerDeleted(msgspec.Struct, frozen=True):
    """He is gone, and nobody will have his id again."""

    player_id: int


class ExportPlayer(Operation[PlayerExport], frozen=True):
    """Gather everything that is held about one player."""

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
    """Delete a player with everything that is held about him."""

    name: ClassVar[str] = "player.delete"
    player_id: int
