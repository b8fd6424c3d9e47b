"""A behaviour for rooms in tests: it counts, and shows each member whether they have counted."""

from __future__ import annotations

import msgspec

from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, action, message

COUNTING = "behaviour_kit:Counting"
TICKING = "behaviour_kit:Ticking"
ANNOUNCING = "behaviour_kit:Announcing"


class Count(msgspec.Struct):
    total: int = 0
    by: dict[int, int] = {}


class Counting(RoomBehaviour[Count]):
    @action("count")
    def count(self, room: Room[Count], by: Member) -> int:
        self.count_softly(room, by)
        return room.state.total

    @message("count")
    def count_softly(self, room: Room[Count], by: Member) -> None:
        room.state.total += 1
        room.state.by[by.player_id] = room.state.by.get(by.player_id, 0) + 1

    def shared(self, room: Room[Count]) -> object:
        return {"total": room.state.total}

    def private(self, room: Room[Count], member: Member) -> object:
        return room.state.by.get(member.player_id)


class Announcing(Counting):
    @message("announce")
    def announce(self, room: Room[Count], by: Member) -> None:
        room.broadcast("announced", by.player_id)


class Ticking(Counting):
    tick_hz = 20

    @message("refuse")
    def refuse(self, room: Room[Count], by: Member) -> None:
        raise Refused("No")

    @message("fail")
    def fail(self, room: Room[Count], by: Member) -> None:
        raise ZeroDivisionError
