"""The outbox of a room: orders of its behaviour, carried out one a turn, oldest first. Pure.

An order whose object is gone by then does nothing. Results of players are carried out
by the studio's side of the server (`Studio.deliver`), and hold up no other order.
"""

from __future__ import annotations

from greenroom.actors.room.rules import presence, updates
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    HostChanged,
    OrderDone,
    RoomEnded,
    RoomEvent,
)
from greenroom.actors.room.rules.state import Room, RoomLimits
from greenroom.behaviour.effects import (
    Deliver,
    FinishAction,
    Kick,
    ResultOrder,
    RoomOrder,
    SetHost,
    Stop,
)
from greenroom.contract.allowed_values import ActionStatus


def next_here(room: Room) -> int | None:
    """Return the number of the oldest order that the room itself carries out."""
    return next((n for n, o in room.orders.items() if not isinstance(o, ResultOrder)), None)


def decide(room: Room, number: int, limits: RoomLimits, now: int) -> tuple[RoomEvent, ...]:
    """Return what comes of an order, and that it is done."""
    events = _decide(room, room.orders[number], limits, now) if room.is_active else ()
    return (OrderDone(number, now), *events)


def _decide(room: Room, order: RoomOrder, limits: RoomLimits, now: int) -> tuple[RoomEvent, ...]:
    match order:
        case Kick(player_id) if player_id in room.members:
            return presence.decide_departure(room, player_id, "kicked", now)
        case SetHost(player_id) if player_id in room.members and player_id != room.host_id:
            return (HostChanged(player_id, now),)
        case Stop():
            return (RoomEnded("stopped", now),)
        case FinishAction(action_id, is_completed, data) if action_id in room.actions:
            status: ActionStatus = "completed" if is_completed else "failed"
            return (ActionProcessed(action_id, status, data, now, is_server=True),)
        case Deliver():
            return _deliver(room, order, limits, now)
        case _:
            pass
    return ()


def _deliver(room: Room, order: Deliver, limits: RoomLimits, now: int) -> tuple[RoomEvent, ...]:
    """Store a message of the server for those who are online, in the place of the host."""
    members = room.members
    readers = tuple(i for i in order.player_ids if i in members and members[i].is_online)
    if not readers:
        return ()
    return (
        updates.sent_to(
            room,
            room.host_id,
            readers,
            order.command,
            order.data,
            limits=limits,
            now=now,
            is_server=True,
        ),
    )
