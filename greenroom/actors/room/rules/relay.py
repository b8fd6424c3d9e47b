"""Messages between connected members, and those of the room about itself. Pure.

Every member may reach every other here; nobody receives their own message. Connected members get it
at once. For members who are online without a connection it is stored as an update.
"""

from __future__ import annotations

from typing import Final

from greenroom.actors.room.ports import Happened, Receive
from greenroom.actors.room.rules.channel import SendMessage
from greenroom.actors.room.rules.events import (
    HostChanged,
    MemberCameBack,
    MemberJoined,
    MemberLeft,
    MemberRenamed,
    MemberWentOffline,
    RoomEnded,
    RoomEvent,
    UpdatesSent,
)
from greenroom.actors.room.rules.state import Room

EVERYBODY: Final = frozenset({"all", "others"})
"""Words for all members. Nobody receives their own message."""


def find_receivers(room: Room, command: SendMessage) -> list[int]:
    """Return the members meant, connected or not, in the order of their joining."""
    sender_id, targets = command.player_id, command.targets
    if targets.word == "host":
        return [] if room.host_id == sender_id else [room.host_id]
    if targets.word == "specific":
        return [i for i in room.members if i in targets.player_ids and i != sender_id]
    return [i for i in room.members if i != sender_id]


def find_readers(room: Room, absent: list[int]) -> tuple[int, ...]:
    """Return those of the receivers without a connection for whom a message is to be stored."""
    return tuple([i for i in absent if room.members[i].is_online])


def receive(room: Room, sent: UpdatesSent) -> Receive:
    """Return what the receivers of an update are told."""
    sender_id = sent.player_id
    name, is_host = room.members[sender_id].player_name, sender_id == room.host_id
    return Receive(sent.update_type, sent.data, sender_id, name, is_host, sent.is_server)


def message_about(room: Room, event: RoomEvent) -> Happened | None:
    """Return what members are told of an event, None for nothing. Call it before `apply`."""
    more: dict[str, str] = {}
    match event:
        case MemberJoined():
            name, more = "member_joined", {"player_name": event.player_name}
        case MemberLeft():
            left = room.members[event.player_id]
            name, more = "member_left", {"player_name": left.player_name, "reason": event.reason}
        case HostChanged():
            name = "host_changed"
        case MemberRenamed():
            name, more = "member_renamed", {"player_name": event.player_name}
        case MemberWentOffline():
            name = "member_offline"
        case MemberCameBack():
            name = "member_online"
        case RoomEnded():
            return Happened("room_ended", {"reason": event.reason})
        case _:
            return None
    return Happened(name, {"player_id": event.player_id, **more})
