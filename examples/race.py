"""A race: the server counts the laps, and nobody takes a short cut."""

from typing import Annotated

import msgspec

from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, Stat, action


class Race(msgspec.Struct):
    laps: dict[int, int] = {}


class Lap(msgspec.Struct, frozen=True):
    number: Annotated[int, msgspec.Meta(ge=1, le=10)]


STATS = {"races_won": Stat()}  # numbers that only the server writes


class Racing(RoomBehaviour[Race]):
    stats = STATS
    strict = True  # members may send only what a handler takes

    @action("lap")
    def lap(self, room: Room[Race], by: Member, lap: Lap) -> None:
        if lap.number != room.state.laps.get(by.player_id, 0) + 1:
            raise Refused("No short cuts")
        room.state.laps[by.player_id] = lap.number
        room.broadcast("lap", {"by": by.player_id, "number": lap.number})
        if lap.number == 10:
            room.player(by.player_id).increment("races_won")
