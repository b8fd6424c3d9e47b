"""Views of a lobby: as anybody, or a member, may see it. Pure."""

from __future__ import annotations

from greenroom.actors.kernel.portion import portion
from greenroom.actors.lobby.messages import LobbyListing, LobbySeat, LobbyStatus
from greenroom.actors.lobby.state import JoinRequest, Lobby


def view_listing(lobby: Lobby) -> LobbyListing:
    """Return what anybody may see."""
    host = lobby.members.get(lobby.host_id)
    return LobbyListing(
        lobby_id=lobby.lobby_id,
        lobby_name=lobby.lobby_name,
        max_players=lobby.max_players,
        current_players=len(lobby.members),
        has_password=lobby.password_hash is not None,
        strict_full=lobby.strict_full,
        join_by_requests=lobby.join_by_requests,
        host_switch=lobby.host_switch,
        can_leave_room=lobby.can_leave_room,
        realtime_room=lobby.realtime_room,
        rules=lobby.rules,
        host_id=lobby.host_id,
        host_name="" if host is None else host.player_name,
        created_at=lobby.created_at,
        created_us=lobby.created_us,
    )


def view_roster(lobby: Lobby) -> tuple[LobbySeat, ...]:
    """Return the members: the host, then in the order of joining."""
    members = sorted(lobby.members.values(), key=lambda member: member.player_id != lobby.host_id)
    return tuple(LobbySeat(member, member.player_id == lobby.host_id) for member in members)


def view_status(lobby: Lobby, player_id: int) -> LobbyStatus:
    """Return the lobby as this player sees it; members see more."""
    is_host = player_id == lobby.host_id
    return LobbyStatus(
        lobby=view_listing(lobby),
        member=lobby.members.get(player_id),
        is_host=is_host,
        pending=tuple(portion(lobby.pending.values(), _size)) if is_host else (),
        room_id=lobby.room_id,
        started_at=lobby.started_at,
    )


def _size(request: JoinRequest) -> int:
    return len(request.player_data)
