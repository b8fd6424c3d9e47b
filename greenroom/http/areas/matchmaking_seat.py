"""The matchmaking area for those who have a seat in a lobby: what they see, and how they keep it.

After the start the seat is one in the room that the lobby has become.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

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
from greenroom.http.areas.matchmaking import AREA
from greenroom.http.areas.rooms import TEXTS, heartbeat_of
from greenroom.http.caller import PlayerCaller
from greenroom.http.fields import Document, Reply, timestamp
from greenroom.http.table import Auth, Endpoint

PlayerStatus = Literal["active", "inactive"]
"""Of a member who is online, and of one who is not."""


def _status(*, is_online: bool) -> PlayerStatus:
    return "active" if is_online else "inactive"


# current


class CurrentLobby(msgspec.Struct, kw_only=True):
    """The lobby as the caller sees it: as it is, or as it was at the start, with its room now."""

    matchmaking_id: str
    matchmaking_name: str
    is_host: bool
    max_players: int
    current_players: int
    has_password: bool
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    rules: Document
    joined_at: str | None
    player_status: PlayerStatus
    is_online: bool
    last_heartbeat: str | None
    lobby_heartbeat: str | None
    host_player_id: int
    is_started: bool
    started_at: str | None
    room_id: str | None


class PendingRequest(msgspec.Struct, kw_only=True):
    """Somebody who asks to be let in."""

    request_id: str
    matchmaking_id: str
    player_id: int
    player_name: str
    player_data: Document
    status: Literal["pending"] = "pending"
    requested_at: str | None


class LobbyCurrentReply(Reply, kw_only=True):
    """The lobby and, for its host, who asks to be let in; neither for who is in none."""

    in_matchmaking: bool
    matchmaking: CurrentLobby | None
    pending_requests: list[PendingRequest]
    message: Literal["Player is not in any matchmaking lobby"] | msgspec.UnsetType = msgspec.UNSET


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
    )


def _current_lobby(
    caller: PlayerCaller, status: LobbyStatus, seat: SeatView | None
) -> CurrentLobby:
    """Show an open lobby, or with a seat in its room a started one."""
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
        rules=Document(lobby.rules),
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
        player_data=Document(request.player_data),
        requested_at=timestamp(request.requested_at),
    )


# players, leave, heartbeat


class LobbyMember(msgspec.Struct, kw_only=True):
    """A member as another sees him."""

    player_id: int
    player_name: str
    player_data: Document
    is_host: bool
    is_online: bool
    is_local: bool
    joined_at: str | None
    last_heartbeat: str | None
    seconds_since_heartbeat: int
    status: PlayerStatus


class LobbyPlayersReply(Reply, kw_only=True):
    """The roster: the host, then in the order of joining."""

    players: list[LobbyMember]
    last_updated: str | None


class LobbyLeaveReply(Reply, kw_only=True):
    """He is out."""

    message: str = "Successfully left matchmaking lobby"


class LobbyHeartbeatReply(Reply, kw_only=True):
    """His seat is his."""

    status: Literal["ok"] = "ok"


async def players(caller: PlayerCaller) -> LobbyPlayersReply:
    """See who is in the lobby, or in the room that it has become."""
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
    heard_at = world.player_index.last_heard(member.player_id) or member.joined_at
    return LobbyMember(
        player_id=member.player_id,
        player_name=member.player_name,
        player_data=Document(member.player_data),
        is_host=seat.is_host,
        is_online=is_online,
        is_local=member.player_id == caller.player_id,
        joined_at=timestamp(member.joined_at),
        last_heartbeat=timestamp(heard_at),
        seconds_since_heartbeat=max(0, world.clock.now() - heard_at),
        status=_status(is_online=is_online),
    )


def _room_seat(caller: PlayerCaller, entry: RosterEntry) -> LobbyMember:
    heard_at = max(caller.world.player_index.last_heard(entry.player_id) or 0, entry.last_heartbeat)
    return LobbyMember(
        player_id=entry.player_id,
        player_name=entry.player_name,
        player_data=Document(entry.player_data),
        is_host=entry.is_host,
        is_online=entry.is_online,
        is_local=entry.is_local,
        joined_at=timestamp(entry.joined_at),
        last_heartbeat=timestamp(heard_at),
        seconds_since_heartbeat=max(0, caller.world.clock.now() - heard_at),
        status=_status(is_online=entry.is_online),
    )


async def leave(caller: PlayerCaller) -> LobbyLeaveReply:
    """Give up one's seat."""
    await leave_lobby(caller.world, caller.player_id)
    return LobbyLeaveReply()


async def heartbeat(caller: PlayerCaller) -> LobbyHeartbeatReply:
    """Say that one is there."""
    await keep_lobby_seat(caller.world, caller.player_id)
    return LobbyHeartbeatReply()


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path=f"{AREA}/current",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=LobbyCurrentReply,
        handler=current,
        summary="See the lobby, its start, and who asks to be let in",
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/leave",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=LobbyLeaveReply,
        handler=leave,
        summary="Leave the lobby, and the room that it has become",
        refusals=(NotInAnyLobby, MayNotLeaveLobby),
    ),
    Endpoint(
        method="GET",
        path=f"{AREA}/players",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=LobbyPlayersReply,
        handler=players,
        summary="List the members of the lobby",
        refusals=(NotInAnyLobby,),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/heartbeat",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=LobbyHeartbeatReply,
        handler=heartbeat,
        summary="Keep the seat",
        rate_class="read",
        refusals=(NotInAnyLobby,),
    ),
)
