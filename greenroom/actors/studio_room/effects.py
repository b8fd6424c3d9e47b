"""The effects of a turn's hooks, sorted by when and by whom they are carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from greenroom.actors.room.ports import Connections, Receive
from greenroom.actors.room.rules.state import Room
from greenroom.actors.studio_room.ports import Studio
from greenroom.actors.studio_room.roster import Roster
from greenroom.behaviour.effects import Deliver, Effect, Order, Push, ResultOrder, RoomOrder, Run


class Effects(msgspec.Struct):
    """Effects that are carried out once their turn is durable.

    Those of a turn that is not written down are carried out at its end. Orders are not among them:
    they are written down with the room, and then done from its outbox.
    """

    pushes: list[Push] = []
    jobs: list[Run] = []
    results: list[tuple[int, ResultOrder]] = []
    """Each with the number of its order, which the room keeps until the result is written."""
    timers_changed: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to carry out; timers are set within the turn."""
        return not (self.pushes or self.jobs or self.results)

    def sort(self, effects: Iterable[Effect], roster: Roster) -> tuple[RoomOrder, ...]:
        """Take effects; return the orders among them, which are to be written down.

        A reliable message to members who poll becomes an order, too: it is stored for them.
        """
        orders: list[RoomOrder] = []
        for effect in effects:
            match effect:
                case Push():
                    self.pushes.append(effect)
                    readers = roster.list_readers(effect.player_ids) if effect.is_reliable else ()
                    if readers:
                        orders.append(Deliver(effect.command, effect.data, readers))
                case Run():
                    self.jobs.append(effect)
                case Order():
                    orders.append(effect)  # type: ignore[arg-type]  # all orders are room orders
                case _:
                    self.timers_changed = True
        return tuple(orders)

    def number_results(self, orders: Iterable[RoomOrder], first: int) -> None:
        """Take the results among orders.

        Args:
            orders: as they are written down.
            first: the number of the first of them.
        """
        self.results = [
            (number, order)
            for number, order in enumerate(orders, first)
            if isinstance(order, ResultOrder)
        ]

    def carry_out(self, room: Room, connections: Connections, studio: Studio) -> None:
        """Send the messages and start the jobs. The room hands on the results.

        Args:
            room: as it is by now.
            connections: of its members.
            studio: does the jobs.
        """
        for push in self.pushes:
            _push(room, connections, push)
        for job in self.jobs:
            studio.run(room.room_id, job)


def _push(room: Room, connections: Connections, push: Push) -> None:
    """Tell connected members something as the server, in the place of the host."""
    host = room.members.get(room.host_id)
    name = "" if host is None else host.player_name
    message = Receive(push.command, push.data, room.host_id, name, is_host=True, is_server=True)
    if not push.is_reliable:
        connections.push_unreliable(room.room_id, push.player_ids, message, push.stream)
    elif push.player_ids is None:
        connections.push_all(room.room_id, message)
    else:
        connections.push(room.room_id, push.player_ids, message)


def in_order(steps: Iterable[Callable[[], None] | None]) -> Callable[[], None] | None:
    """Return a function that does all steps; None if there are none."""
    wanted = [step for step in steps if step is not None]
    if len(wanted) < 2:
        return wanted[0] if wanted else None

    def act() -> None:
        for step in wanted:
            step()

    return act
