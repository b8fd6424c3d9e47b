"""Commands of rooms with a behaviour. Nearly all of them come from the room's own timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from greenroom.actors.kernel.message import Command
from greenroom.actors.room.messages import RoomRole

Reloaded = Literal["new code", "old code", "no behaviour"]
"""The behaviour that a room goes on with; None for a room without one, or one that has ended."""


class Tick(Command[RoomRole, None], frozen=True):
    """Advance the game by one step."""

    takes_input: bool = False
    """The behaviour takes members' input at its ticks."""


class FireTimers(Command[RoomRole, None], frozen=True):
    """Call `on_timer` for the behaviour's timers that are due."""


class KeepStudio(Command[RoomRole, None], frozen=True):
    """Write down the effects ordered by ticks and messages; load the behaviour if need be."""


class WakeBehaviour(Command[RoomRole, None], frozen=True):
    """Call the behaviour again after its circuit breaker was open."""


class CarryOut(Command[RoomRole, None], frozen=True):
    """Carry out the next durable effect."""


class NoteStats(Command[RoomRole, None], frozen=True):
    """Note a member's stats, in a room whose behaviour reads them."""

    player_id: int
    stats: bytes
    written: int
    """The number of the room's last order that is in them."""


class NoteDelivered(Command[RoomRole, None], frozen=True):
    """Mark an effect as done that was carried out elsewhere."""

    number: int
    noted: NoteStats | None = None
    """The stats that it has made."""


class ReloadBehaviour(Command[RoomRole, Reloaded], frozen=True):
    """Go on with the present code of the behaviour; the reply says what the room goes on with."""


def connection_timer(player_id: int) -> str:
    """Return the name of the timer that repeats a `NoteConnection`."""
    return f"connection {player_id}"


class NoteConnection(Command[RoomRole, None], frozen=True):
    """Note that a member is connected, or is no longer."""

    player_id: int
    is_connected: bool

    @property
    def name(self) -> str:
        """Return the name of the timer that repeats it."""
        return connection_timer(self.player_id)


class ShowState(Command[RoomRole, None], frozen=True):
    """Send a connected member everything that they may see of the state; None: every member."""

    player_id: int | None


class TakeResult(Command[RoomRole, None], frozen=True):
    """Call `on_done` with the result of a job."""

    on_done: Callable[[Any, Any], None]
    result: object
