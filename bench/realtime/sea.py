"""The behaviour of the rooms in `arenas`: members steer, the server says where everybody is."""

from __future__ import annotations

import msgspec

from greenroom.behaviour import Member, Room, RoomBehaviour, message


class Ship(msgspec.Struct):
    """A player's ship with the last message sent, as all see it."""

    x: float = 0.0
    y: float = 0.0
    health: int = 100
    score: int = 0
    note: str = ""


class Fleet(msgspec.Struct):
    """The state."""

    ships: dict[int, Ship] = {}
    steered: list[int] = []
    """The players who have steered since the last tick."""


class Steer(msgspec.Struct, frozen=True):
    """The message of members."""

    note: str


class Sea(RoomBehaviour[Fleet]):
    """A sea: players who have steered move on with the next tick, and all see it."""

    tick_hz = 20

    def on_join(self, room: Room[Fleet], member: Member) -> None:
        """Launch a ship."""
        room.state.ships[member.player_id] = Ship()

    def on_leave(self, room: Room[Fleet], member: Member, reason: str) -> None:  # noqa: ARG002
        """Sink it."""
        del room.state.ships[member.player_id]

    @message("steer")
    def steer(self, room: Room[Fleet], by: Member, steer: Steer) -> None:
        """Take note of it."""
        room.state.ships[by.player_id].note = steer.note
        room.state.steered.append(by.player_id)

    def on_tick(self, room: Room[Fleet], dt: float) -> None:
        """Move."""
        state = room.state
        for player_id in set(state.steered).intersection(state.ships):
            ship = state.ships[player_id]
            ship.x = round((ship.x + 10 * dt) % 100, 2)
            ship.y = round((ship.y + 5 * dt) % 100, 2)
        state.steered.clear()

    def shared(self, room: Room[Fleet]) -> object:
        """Show where everybody is."""
        return room.state.ships
