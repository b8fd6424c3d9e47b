"""The matchmaking area for those who have a seat in a lobby: what they see, and how they keep it.

After the start the seat is one in the room that the lobby has become.
"""

from __future__ import annotations

from typing import Final

from greenroom.actors.flows.lobbies import (
    keep_lobby_seat,
    leave_lobby,
    read_lobby,
    read_lobby_roster,
)
from greenroom.actors.lobby.messages import LobbySeat, LobbyStatus
from greenroom.actors.lobby.refusals import MayNotLeaveLobby, NotInAnyLobby
from greenroom.actors.lobby.state import JoinRequest
from greenroom.actors.room.messages import RosterEntry, SeatView
from greenroom.contract.fields import OMITTED, timestamp, verbatim
from greenroom.contract.matchmaking_seat import (
    LEAVE_LOBBY,
    LOBBY_BEAT,
    LOBBY_CURRENT,
    LOBBY_PLAYERS,
    CurrentLobby,
    LobbyCurrentReply,
    LobbyHeartbeatReply,
    LobbyLeaveReply,
    LobbyMember,
    LobbyPlayersReply,
    PendingRequest,
    PlayerStatus,
)
from greenroom.http.areas.rooms import TEXTS, heartbeat_of
from greenroom.http.caller import PlayerCaller
from greenroom.http.table import Area, Auth

ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)


def _status(*, is_online: bool) -> PlayerStatus:
    return "active" if is_online else "inactive"


@ENDPOINTS.add(LOBBY_CURRENT)
async def current(caller: PlayerCaller) -> LobbyCurrentReply:
    """See the lobby, and after the start the room that it has become."""
    found = await read_lobby(caller.world, caller.player_id)
    if found is None:
        return LobbyCurrentReply(
            in_matchmaking=False,
            matchmaking=None,
            pending_requests=[],
            message="Player is not in any matchmaking lobby",
        )
    lobby, seat = found
    return LobbyCurrentReply(
        in_matchmaking=True,
        matchmaking=_current_lobby(caller, lobby, seat),
        pending_requests=[
            _pending_request(lobby.lobby.lobby_id, request) for request in lobby.pending
        ],
        message=OMITTED,
    )


def _current_lobby(
    caller: PlayerCaller, status: LobbyStatus, seat: SeatView | None
) -> CurrentLobby:
    """Return an open lobby, or a started one with the seat in its room."""
    lobby, world = status.lobby, caller.world
    host_id = lobby.host_id if seat is None else seat.host_id
    joined_at = lobby.created_at if status.member is None else status.member.joined_at
    joined_at = joined_at if seat is None else seat.joined_at
    is_online = world.player_index.is_online(caller.player_id) if seat is None else seat.is_online
    return CurrentLobby(
        matchmaking_id=lobby.lobby_id,
        matchmaking_name=lobby.lobby_name,
        is_host=caller.player_id == host_id,
        max_players=lobby.max_players,
        current_players=lobby.current_players if seat is None else seat.current_players,
        has_password=lobby.has_password,
        strict_full=lobby.strict_full,
        join_by_requests=lobby.join_by_requests,
        host_switch=lobby.host_switch,
        can_leave_room=lobby.can_leave_room,
        realtime_room=lobby.realtime_room,
        rules=verbatim(lobby.rules),
        joined_at=timestamp(joined_at),
        player_status=_status(is_online=is_online),
        is_online=is_online,
        last_heartbeat=heartbeat_of(world, caller.player_id, joined_at),
        lobby_heartbeat=heartbeat_of(world, host_id, lobby.created_at),
        host_player_id=host_id,
        is_started=status.room_id is not None,
        started_at=timestamp(status.started_at),
        room_id=status.room_id,
    )


def _pending_request(lobby_id: str, request: JoinRequest) -> PendingRequest:
    return PendingRequest(
        request_id=request.request_id,
        matchmaking_id=lobby_id,
        player_id=request.player_id,
        player_name=request.player_name,
        player_data=verbatim(request.player_data),
        requested_at=timestamp(request.requested_at),
    )


@ENDPOINTS.add(LEAVE_LOBBY, refusals=(NotInAnyLobby, MayNotLeaveLobby))
async def leave(caller: PlayerCaller) -> LobbyLeaveReply:
    """Leave the lobby, or the room that it has become."""
    await leave_lobby(caller.world, caller.player_id)
    return LobbyLeaveReply()


@ENDPOINTS.add(LOBBY_PLAYERS, refusals=(NotInAnyLobby,))
async def players(caller: PlayerCaller) -> LobbyPlayersReply:
    """List the members of the lobby, or of the room that it has become."""
    roster = await read_lobby_roster(caller.world, caller.player_id)
    return LobbyPlayersReply(
        players=[
            _seat(caller, entry) if isinstance(entry, LobbySeat) else _room_seat(caller, entry)
            for entry in roster
        ],
        last_updated=timestamp(caller.world.clock.now()),
    )


def _seat(caller: PlayerCaller, seat: LobbySeat) -> LobbyMember:
    member, world = seat.member, caller.world
    is_online = world.player_index.is_online(member.player_id)
    heard_at = world.player_index.find_last_heard(member.player_id) or member.joined_at
    return LobbyMember(
        player_id=member.player_id,
        player_name=member.player_name,
        player_data=verbatim(member.player_data),
        is_host=seat.is_host,
        is_online=is_online,
        is_local=member.player_id == caller.player_id,
        joined_at=timestamp(member.joined_at),
        last_heartbeat=timestamp(heard_at),
        seconds_since_heartbeat=max(0, world.clock.now() - heard_at),
        status=_status(is_online=is_online),
    )


def _room_seat(caller: PlayerCaller, entry: RosterEntry) -> LobbyMember:
    heard_at = max(
        caller.world.player_index.find_last_heard(entry.player_id) or 0, entry.last_heartbeat
    )
    return LobbyMember(
        player_id=entry.player_id,
        player_name=entry.player_name,
        player_data=verbatim(entry.player_data),
        is_host=entry.is_host,
        is_online=entry.is_online,
        is_local=entry.is_local,
        joined_at=timestamp(entry.joined_at),
        last_heartbeat=timestamp(heard_at),
        seconds_since_heartbeat=max(0, caller.world.clock.now() - heard_at),
        status=_status(is_online=entry.is_online),
    )


@ENDPOINTS.add(LOBBY_BEAT, refusals=(NotInAnyLobby,), rate_class="read")
async def heartbeat(caller: PlayerCaller) -> LobbyHeartbeatReply:
    """Keep the seat."""
    await keep_lobby_seat(caller.world, caller.player_id)
    return LobbyHeartbeatReply()
