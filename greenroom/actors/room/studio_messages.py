"""What a room with a behaviour is asked besides; nearly all of it by itself, in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from greenroom.actors.kernel.message import Command
from greenroom.actors.room.messages import RoomRole

Reloaded = Literal["new code", "old code", "no behaviour"]
"""What a room goes on with; a plain one, or one that has ended, with no behaviour."""


class Tick(Command[RoomRole, None], frozen=True):
    """Advance the game by one step."""


class FireTimers(Command[RoomRole, None], frozen=True):
    """Call `on_timer` for the behaviour's timers that are due."""


class KeepStudio(Command[RoomRole, None], frozen=True):
    """Write down what ticks and messages have ordered; open the behaviour if it is not yet."""


class WakeBehaviour(Command[RoomRole, None], frozen=True):
    """Let the behaviour go on after a rest."""


class CarryOut(Command[RoomRole, None], frozen=True):
    """Do what is ordered next."""


class NoteDelivered(Command[RoomRole, None], frozen=True):
    """Take note that an order which others carry out is done."""

    number: int


class ReloadBehaviour(Command[RoomRole, Reloaded], frozen=True):
    """Go on with the behaviour's code as it is now; the reply says what the room goes on with."""


def connection_timer(player_id: int) -> str:
    """Return the name of the timer with which a `NoteConnection` comes again."""
    return f"connection {player_id}"


class NoteConnection(Command[RoomRole, None], frozen=True):
    """Take note that a member is connected, or is not any more."""

    player_id: int
    is_connected: bool

    @property
    def name(self) -> str:
        """Return the name of the timer with which it comes again."""
        return connection_timer(self.player_id)


class ShowState(Command[RoomRole, None], frozen=True):
    """Tell a connected member everything that he may see of the state; None: everybody."""

    player_id: int | None


class TakeResult(Command[RoomRole, None], frozen=True):
    """Call `on_done` with what came of a job."""

    on_done: Callable[[Any, Any], None]
    result: object
