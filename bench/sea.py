"""The behaviour of the rooms in `arenas`: members steer, the server says where everybody is."""

from __future__ import annotations

import msgspec

from greenroom.behaviour import Member, Room, RoomBehaviour, message


class Ship(msgspec.Struct):
    """A player, and the last that he has sent."""

    x: float = 0.0
    y: float = 0.0
    heading: float = 0.0
    health: int = 100
    score: int = 0
    note: str = ""
    has_steered: bool = False


class Fleet(msgspec.Struct):
    """The state."""

    ships: dict[int, Ship] = {}


class Steer(msgspec.Struct, frozen=True):
    """What members send."""

    note: str


class Sea(RoomBehaviour[Fleet]):
    """Whoever has steered moves on with the next tick, and all see it."""

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
        ship = room.state.ships[by.player_id]
        ship.note, ship.has_steered = steer.note, True

    def on_tick(self, room: Room[Fleet], dt: float) -> None:
        """Move."""
        for ship in room.state.ships.values():
            if ship.has_steered:
                ship.has_steered = False
                ship.x = round((ship.x + 10 * dt) % 100, 2)
                ship.y = round((ship.y + 5 * dt) % 100, 2)

    def shared(self, room: Room[Fleet]) -> object:
        """Show where everybody is."""
        return {
            player_id: {"x": s.x, "y": s.y, "health": s.health, "score": s.score, "note": s.note}
            for player_id, s in room.state.ships.items()
        }
