"""Views of a room: as anybody, or a member, may see it. Pure."""

from __future__ import annotations

from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.room.messages import RoomListing, RoomStatus, RosterEntry, SeatView
from greenroom.actors.room.rules import actions, updates
from greenroom.actors.room.rules.state import Room


def view_roster(room: Room, player_id: int) -> tuple[RosterEntry, ...]:
    """Return the members as one of them sees them: the host, then in the order of joining."""
    members = sorted(room.members.values(), key=lambda member: member.player_id != room.host_id)
    return tuple(
        RosterEntry(
            player_id=member.player_id,
            player_name=member.player_name,
            player_data=member.player_data,
            is_host=member.player_id == room.host_id,
            is_online=member.is_online,
            is_local=member.player_id == player_id,
            joined_at=member.joined_at,
            last_heartbeat=member.last_heartbeat,
        )
        for member in members
    )


def view_listing(room: Room) -> RoomListing:
    """Return what anybody may see."""
    return RoomListing(
        room_id=room.room_id,
        room_name=room.room_name,
        max_players=room.max_players,
        current_players=len(room.members),
        has_password=room.password_hash is not None,
        host_switch=room.host_switch,
        can_leave=room.can_leave,
        realtime=room.realtime,
        rules=room.rules,
    )


def view_seat(room: Room, player_id: int) -> SeatView | None:
    """Return a member's seat, None for somebody who is none."""
    member = room.members.get(player_id)
    if member is None:
        return None
    return SeatView(
        is_host=player_id == room.host_id,
        is_online=member.is_online,
        joined_at=member.joined_at,
        last_heartbeat=member.last_heartbeat,
        host_id=room.host_id,
        current_players=len(room.members),
    )


def view_status(room: Room, player_id: int) -> RoomStatus | None:
    """Return what a member sees, None for somebody who is none."""
    member = room.members.get(player_id)
    if member is None:
        return None
    pending = actions.list_pending(room, player_id)
    left = DOCUMENTS_BYTES_MAX - sum(len(a.action_type) + len(a.request_data) for a in pending)
    return RoomStatus(
        room=view_listing(room),
        join_token=room.join_token,
        is_host=player_id == room.host_id,
        is_online=member.is_online,
        player_name=member.player_name,
        joined_at=member.joined_at,
        last_heartbeat=member.last_heartbeat,
        created_at=room.created_at,
        last_activity=room.last_activity,
        pending_actions=pending,
        pending_updates=updates.list_unread(room, player_id, left),
    )
