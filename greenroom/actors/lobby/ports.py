"""The behaviours of studios as lobbies see them: asked about the room that a lobby will become."""

from __future__ import annotations

from typing import Protocol

from greenroom.actors.room.new_room import Opened
from greenroom.actors.room.rules.events import RoomCreated


class Behaviours(Protocol):
    """Asked before there is a room. Nothing here waits, and nothing is written down."""

    def choose(self, game_id: int, rules: bytes) -> str | None:
        """Return the name of the behaviour of a room with these rules; None for a plain one."""
        ...

    def open(self, created: RoomCreated) -> Opened:
        """Let a room begin: its host creates it, then the others join in their order.

        Raises:
            Refused: the behaviour does not take these rules or members, or has failed.
        """
        ...

    def rehearse(self, created: RoomCreated) -> None:
        """Let a room begin as `open` does, and forget it; raises as `open`.

        Args:
            created: the room that a lobby would become now. Its id is the lobby's.
        """
        ...
