"""Operations on lobbies and their results. No result has a secret in it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from greenroom.control.admin.messages import Operation
from greenroom.control.admin.room_messages import Discarded

PAGE_LOBBIES_MAX = 1000


class ListedLobby(msgspec.Struct, frozen=True, kw_only=True):
    """A lobby that has not ended."""

    lobby_id: str
    game_id: int
    lobby_name: str
    current_players: int
    """Players in the lobby, or of a started one those in its room."""
    max_players: int
    has_password: bool
    join_by_requests: bool
    room_id: str | None
    """The room that the lobby has become; null while it is open."""
    created_at: str


class Lobbies(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lobbies that have not ended, oldest first. `total` also counts those left out."""

    lobbies: list[ListedLobby]
    total: int
    told: list[int] | None = None
    """See `Rooms`."""


class DiscardLobby(Operation[Discarded], frozen=True):
    """Put aside the rows of a lobby that cannot be restored."""

    name: ClassVar[str] = "lobby.discard"
    lobby_id: str


class ListLobbies(Operation[Lobbies], frozen=True):
    """List lobbies that have not ended. With `game_id` null, list those of all games."""

    name: ClassVar[str] = "lobby.list"
    game_id: int | None
    limit: int
    """At most PAGE_LOBBIES_MAX."""
    shards: list[int] | None = None
    """See `ListRooms`."""
