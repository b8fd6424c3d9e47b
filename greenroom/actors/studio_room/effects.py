"""What a turn's hooks have asked for that is done at once, or by others, and not by the room."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from greenroom.actors.room.ports import Connections, Receive
from greenroom.actors.room.rules.state import Room
from greenroom.actors.studio_room.ports import Studio
from greenroom.behaviour.effects import Push, Run, UpdatePlayer


class Aftermath(msgspec.Struct):
    """It is carried out once its turn is durable, or at once if that is not written down."""

    pushes: list[Push] = []
    work: list[Run] = []
    results: list[tuple[int, UpdatePlayer]] = []
    """With the numbers of their orders, which the room keeps until they are written."""
    timers_changed: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to carry out; timers are set within the turn."""
        return not (self.pushes or self.work or self.results)

    def carry_out(self, room: Room, connections: Connections, studio: Studio) -> None:
        """Do it all.

        Args:
            room: as it is by now.
            connections: of its members.
            studio: does the jobs and writes the results.
        """
        for push in self.pushes:
            _push(room, connections, push)
        for work in self.work:
            studio.run(room.room_id, work)
        for number, result in self.results:
            studio.deliver(room.room_id, number, result)


def _push(room: Room, connections: Connections, push: Push) -> None:
    """Tell connected members something, as from the host, in whose place the room decides."""
    host = room.members.get(room.host_id)
    name = "" if host is None else host.player_name
    message = Receive(push.command, push.data, room.host_id, name, is_host=True)
    if not push.is_reliable:
        connections.push_unreliable(room.room_id, push.player_ids, message, push.stream)
    elif push.player_ids is None:
        connections.push_all(room.room_id, message)
    else:
        connections.push(room.room_id, push.player_ids, message)


def in_order(steps: Iterable[Callable[[], None] | None]) -> Callable[[], None] | None:
    """Return what does all of this; None for nothing."""
    wanted = [step for step in steps if step is not None]
    if len(wanted) < 2:
        return wanted[0] if wanted else None

    def act() -> None:
        for step in wanted:
            step()

    return act
