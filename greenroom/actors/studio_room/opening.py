"""The beginning of a room with a behaviour: its host creates it, then others join, in one turn.

`game_room.php/create` makes a room of its host alone, and a lobby makes one of all its members. So
a lobby becomes no room that would have refused them one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from greenroom.actors.kernel.clock import Clock
from greenroom.actors.room.new_room import Opened
from greenroom.actors.room.rules.events import MemberJoined, RoomCreated
from greenroom.actors.room.rules.membership import new_room
from greenroom.actors.room.rules.state import Room
from greenroom.actors.studio_room import hooks
from greenroom.actors.studio_room.host import BehaviourHost
from greenroom.actors.studio_room.ports import Studio
from greenroom.actors.studio_room.turn import Report, Turn
from greenroom.behaviour.effects import Run


def open_room(room: Room, studio: Studio, clock: Clock, report: Report) -> Turn:
    """Let a behaviour begin in a room; return its turn, which is not committed yet.

    Its events are the stats of members, if the behaviour reads any.

    Args:
        room: with the members that it is to begin with.
        studio: makes behaviours.
        clock: what time it is.
        report: told of a hook that fails.

    Raises:
        RefusedByBehaviour, BehaviourFailed: there is to be no such room.
    """
    alone = {room.host_id: room.members[room.host_id]}
    host = BehaviourHost.create(msgspec.structs.replace(room, members=alone), studio, report)
    turn = Turn(host, clock.time(), (), report)
    now = clock.now()
    for player_id in room.members:
        turn.events += host.note_stats(player_id, now)
    hooks.open_room(turn)
    for player_id, seat in room.members.items():
        if player_id != room.host_id:
            name, data = seat.player_name, seat.player_data
            hooks.join(turn, MemberJoined(player_id, name, data, seat.joined_at))
    host.room = room
    return turn


def describe_refusal(room: Room) -> str:
    """Return what it means to a room that its behaviour refuses it, and what to do, for the log."""
    return (
        "the room has no state, and what members send there is refused; mend the behaviour and "
        f"reload it, or end the room: greenroom room stop {room.room_id}"
    )


class LobbyBehaviours:
    """Asks behaviours for lobbies, before there is a room; see `lobby.ports.Behaviours`."""

    def __init__(self, studio: Studio, clock: Clock) -> None:
        """Ask the behaviours of this studio."""
        self._studio = studio
        self._clock = clock

    def choose(self, game_id: int, rules: bytes) -> str | None:
        """Return the name of the behaviour of a room with these rules; None for a plain one."""
        return self._studio.choose(game_id, rules)

    def open(self, created: RoomCreated) -> Opened:
        """Let a room begin with all members of a lobby.

        The results that it orders for players are written once its actor is there.

        Raises:
            RefusedByBehaviour, BehaviourFailed: there is to be no such room.
        """
        turn = self._begin(created, self._studio.report)
        turn.events = (created, *turn.events)
        events = turn.commit(self._clock.now())
        jobs = turn.effects.jobs
        return Opened(events, partial(self._start, created.room_id, jobs) if jobs else None)

    def rehearse(self, created: RoomCreated) -> None:
        """Let a room begin, and forget it; raises as `open`."""
        self._begin(created, self._report).commit(self._clock.now())

    def _begin(self, created: RoomCreated, report: Report) -> Turn:
        return open_room(new_room(created), self._studio, self._clock, report)

    def _report(self, lobby_id: str, bug: Exception, payload: object) -> None:
        """Report a failure for a lobby, which has no room yet."""
        self._studio.report(f"{lobby_id} (still a lobby)", bug, payload)

    def _start(self, room_id: str, jobs: Iterable[Run]) -> None:
        for job in jobs:
            self._studio.run(room_id, job)
