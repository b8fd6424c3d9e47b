"""A behaviour that adds up what its members bring, for the stories of the SDKs."""

from __future__ import annotations

TALLY = '''\
"""Adds up what members bring, and shows it; members may say to each other what they like."""

from typing import Annotated

import msgspec

from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, Stat, action


class Count(msgspec.Struct):
    total: int = 0
    by: dict[str, int] = {}
    last: list[int] = []


class Add(msgspec.Struct, frozen=True):
    count: Annotated[int, msgspec.Meta(ge=1, le=9)]


class Tally(RoomBehaviour[Count]):
    stats = {"added": Stat()}

    def shared(self, room: Room[Count]) -> object:
        return {"total": room.state.total, "by": room.state.by, "last": room.state.last}

    def private(self, room: Room[Count], member: Member) -> object:
        return {"mine": room.state.by.get(str(member.player_id), 0)}

    @action("add")
    def add(self, room: Room[Count], by: Member, what: Add) -> dict[str, int]:
        state, name = room.state, str(by.player_id)
        state.total += what.count
        state.by[name] = state.by.get(name, 0) + what.count
        state.last = [*state.last[-3:], by.player_id]
        room.player(by.player_id).increment("added", what.count)
        if state.total % 10 == 0:
            room.broadcast("round", {"total": state.total})
        return {"total": state.total}

    @action("refuse")
    def refuse(self, room: Room[Count], by: Member, what: dict) -> None:
        raise Refused("Not today")
'''
MODULES = {"tally": TALLY}
BEHAVIOURS = ("--behaviours", "*/tally=tally:Tally")
RATES = {"GREENROOM_RATE_LIMIT_FACTOR": "1000"}
"""The stories are told faster than people play."""
