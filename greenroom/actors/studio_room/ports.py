"""What rooms need of the studio's side of the server: behaviours by name, and what they set off."""

from __future__ import annotations

from typing import Any, Protocol

from greenroom.behaviour import RoomBehaviour
from greenroom.behaviour.effects import Run, UpdatePlayer
from greenroom.behaviour.runner import Watch


class Studio(Protocol):
    """The behaviours that are registered. Nothing here waits."""

    watch: Watch
    """Watches over every hook."""

    def seed(self) -> int:
        """Return 64 random bits, for the chance of a new room."""
        ...

    def choose(self, game_id: int, rules: bytes) -> str | None:
        """Return the name of the behaviour of a new room; None for a plain one."""
        ...

    def make(self, name: str) -> RoomBehaviour[Any]:
        """Return a new instance.

        Raises:
            BehaviourBug: there is none of this name (any more), or it cannot be made.
        """
        ...

    def report(self, room_id: str, error: Exception, payload: object, outcome: str = "") -> None:
        """Show the studio what went wrong in a hook, with what, and what comes of it, if much."""
        ...

    def run(self, room_id: str, work: Run) -> None:
        """Do what a room wants done outside its turn, and tell it what came of it."""
        ...

    def deliver(self, room_id: str, number: int, result: UpdatePlayer) -> None:
        """Write a result to a player's document, once, and tell the room when it is durable."""
        ...
