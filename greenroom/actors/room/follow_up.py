"""Tells a room's members of durable events over their connections, and closes those of leavers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from greenroom.actors.room.ports import Connections, Happened, Receive, Settled
from greenroom.actors.room.rules import actions, relay
from greenroom.actors.room.rules.events import MemberLeft, RoomEnded, RoomEvent, UpdatesSent
from greenroom.actors.room.rules.state import Room

_Steps = list[tuple[RoomEvent, Happened | Receive | None]]


def follow_up(
    connections: Connections, room: Room, events: tuple[RoomEvent, ...]
) -> Callable[[], None] | None:
    """Return what tells connected members of events, None for nothing. Call it before `apply`.

    Args:
        connections: of the members. Those of members who leave are closed.
        room: as it is before the events.
        events: in order. The function is to be called once they are durable.
    """
    steps = [(event, _told(room, event)) for event in events]
    settled = actions.list_settled(room, events)
    if not settled and all(message is None for _, message in steps):
        return None
    return partial(_follow, connections, room.room_id, settled, steps)


def _told(room: Room, event: RoomEvent) -> Happened | Receive | None:
    """Return what connected members are told of an event; an update is for its targets alone.

    An update of the server is stored for members who poll. Connections had that message when the
    behaviour said it. Members who are away are given it when they resume.
    """
    if isinstance(event, UpdatesSent):
        return None if event.is_server else relay.receive(room, event)
    return relay.message_about(room, event)


def _follow(connections: Connections, room_id: str, settled: list[Settled], steps: _Steps) -> None:
    """Tell connected members of events that are durable now."""
    for result in settled:
        connections.push(room_id, (result.sender_id,), result)
    for event, message in steps:
        if message is None:
            continue
        if isinstance(event, UpdatesSent):
            targets = (d.target_id for d in event.deliveries if d.target_id != event.player_id)
            connections.push(room_id, targets, message)
        elif isinstance(event, RoomEnded):
            connections.push_all(room_id, message)
            connections.end(room_id)
        else:
            if isinstance(event, MemberLeft):
                connections.part(room_id, event.player_id)
            connections.push_all(room_id, message)
