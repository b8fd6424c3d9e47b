"""The studio's side of the server, as rooms see it: it makes behaviours, and does slow work."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from greenroom.actors.room.rules.state import KnownStats
from greenroom.behaviour import RoomBehaviour
from greenroom.behaviour.effects import ResultOrder, Run
from greenroom.behaviour.runner import Watch
from greenroom.behaviour.stats import Stats


class Studio(Protocol):
    """Makes behaviours by name, and does what they ask for outside of turns. Nothing here waits."""

    watch: Watch
    """Watches over every hook."""

    def draw_seed(self) -> int:
        """Return 64 random bits, for the chance of a new room."""
        ...

    def choose(self, game_id: int, rules: bytes) -> str | None:
        """Return the name of the behaviour of a new room; None for a plain one.

        Raises:
            RefusedByBehaviour: there is to be no room of this type.
        """
        ...

    def make(self, name: str) -> RoomBehaviour[Any]:
        """Return a new instance.

        Raises:
            BehaviourBug: there is none of this name (any more), or it cannot be made.
        """
        ...

    def report(self, room_id: str, error: Exception, payload: object, outcome: str = "") -> None:
        """Log an error of the studio's code.

        Args:
            room_id: where it happened.
            error: what a hook failed with.
            payload: what the hook was given.
            outcome: what it means to the room, in words; empty if nothing.
        """
        ...

    def run(self, room_id: str, work: Run) -> None:
        """Do a job of a room outside of its turns, and tell it the result."""
        ...

    def deliver(self, room_id: str, number: int, result: ResultOrder) -> None:
        """Write a result to a player's record, once, and tell the room when it is durable."""
        ...

    # Stats.

    def get_declared(self, game_id: int) -> Stats:
        """Return the stats that a game's behaviours declare."""
        ...

    def find_known_stats(self, room_id: str, player_id: int) -> KnownStats | None:
        """Return a player's stats as they are now; None for a player who is not in memory."""
        ...

    def refresh_stats(self, room_id: str, player_ids: Collection[int]) -> None:
        """Tell a room the stats of these members, from the database if need be."""
        ...
