"""What operators can ask about lobbies, and what they get; secrets are in none of it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from greenroom.control.admin.messages import Operation

PAGE_LOBBIES_MAX = 1000


class ListedLobby(msgspec.Struct, frozen=True, kw_only=True):
    """A lobby that has not ended."""

    lobby_id: str
    game_id: int
    lobby_name: str
    current_players: int
    """Of a started one, those in its room."""
    max_players: int
    has_password: bool
    join_by_requests: bool
    room_id: str | None
    """The room that it has become; null while it is open."""
    created_at: str


class Lobbies(msgspec.Struct, frozen=True):
    """Lobbies that have not ended, oldest first; `total` counts those left out, too."""

    lobbies: list[ListedLobby]
    total: int


class ListLobbies(Operation[Lobbies], frozen=True):
    """List lobbies that have not ended; `game_id` null lists those of all games."""

    name: ClassVar[str] = "lobby.list"
    game_id: int | None
    limit: int
    """At most PAGE_LOBBIES_MAX."""
