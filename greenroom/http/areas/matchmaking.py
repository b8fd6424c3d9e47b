"""The matchmaking area: into a lobby, out of it, and what is seen there; the host's is elsewhere.

`matchmaking_host.py` has what only hosts may do.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from greenroom.actors.flows.journalled import find_open
from greenroom.actors.flows.lobbies import (
    NewLobby,
    create_lobby,
    join_lobby,
    keep_lobby_seat,
    leave_lobby,
    read_lobby,
    read_lobby_roster,
    read_request,
    request_to_join,
)
from greenroom.actors.flows.rooms import Entrance
from greenroom.actors.lobby.messages import LobbySeat, LobbyStatus
from greenroom.actors.lobby.refusals import (
    AlreadyInLobby,
    AlreadyRequested,
    CreatingInRoom,
    JoiningInRoom,
    LobbyFull,
    LobbyNotFound,
    MayNotLeaveLobby,
    NeedsApproval,
    NotInAnyLobby,
    RequestNotHis,
    TakesNoRequests,
    TooManyRequests,
)
from greenroom.actors.lobby.state import JoinRequest
from greenroom.actors.room.messages import RosterEntry, SeatView
from greenroom.actors.room.refusals import IncorrectPassword, MaxPlayersOutOfRange
from greenroom.actors.text.names import TITLE_CHARACTERS_MAX, NameRefused
from greenroom.http.areas.rooms import (
    LIST_DEFAULT,
    TEXTS,
    ListBody,
    document_of,
    heartbeat_of,
)
from greenroom.http.caller import GameCaller, PlayerCaller
from greenroom.http.fields import Body, Document, Missing, Reply, WholeBody, timestamp
from greenroom.http.pages import LimitOutOfRange, read_limit
from greenroom.http.table import Auth, Endpoint

AREA: Final = "/api/matchmaking.php"

PlayerStatus = Literal["active", "inactive"]
"""Of a member who is online, and of one who is not."""


def _status(*, is_online: bool) -> PlayerStatus:
    return "active" if is_online else "inactive"


# create, list, join, request


class LobbyCreateBody(Body, kw_only=True):
    """The lobby that is wanted."""

    max_players: Annotated[
        int, Missing("Missing required field: max_players"), msgspec.Meta(ge=2, le=16)
    ]
    matchmaking_name: Annotated[str | None, msgspec.Meta(max_length=TITLE_CHARACTERS_MAX)] = None
    strict_full: bool | None = None
    join_by_requests: bool | None = None
    host_switch: bool | None = None
    can_leave_room: bool | None = None
    realtime_room: bool | None = None
    password: str | None = None
    rules: Document | None = None
    player_data: Document | None = None


class LobbyCreateReply(Reply, kw_only=True):
    """The new lobby."""

    matchmaking_id: str
    matchmaking_name: str
    max_players: int
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    join_token: str
    is_host: bool = True


class LobbyEntry(msgspec.Struct, kw_only=True):
    """A lobby as anybody sees it."""

    matchmaking_id: str
    matchmaking_name: str
    max_players: int
    current_players: int
    has_password: bool
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    rules: Document
    host_player_id: int
    host_name: str
    created_at: str | None
    last_heartbeat: str | None


class LobbyListReply(Reply, kw_only=True):
    """Open lobbies with a free seat, oldest first."""

    lobbies: list[LobbyEntry]


class LobbyJoinBody(Body, kw_only=True):
    """What opens the lobby, and what the other members may see of him."""

    password: str | None = None
    join_token: str | None = None
    player_data: Annotated[Document | None, WholeBody] = None


class LobbyJoinReply(Reply, kw_only=True):
    """He is in."""

    matchmaking_id: str
    message: str = "Successfully joined matchmaking lobby"


class RequestBody(Body, kw_only=True):
    """What the host, and later the other members, may see of him."""

    player_data: Annotated[Document | None, WholeBody] = None


class RequestReply(Reply, kw_only=True):
    """The host is asked."""

    request_id: str
    status: Literal["pending"] = "pending"
    message: str = "Join request sent to host"


async def create(caller: PlayerCaller, body: LobbyCreateBody) -> LobbyCreateReply:
    """Open a lobby."""
    wanted = NewLobby(
        lobby_name=body.matchmaking_name,
        password=body.password,
        max_players=body.max_players,
        strict_full=bool(body.strict_full),
        join_by_requests=bool(body.join_by_requests),
        host_switch=bool(body.host_switch),
        can_leave_room=bool(body.can_leave_room),
        realtime_room=bool(body.realtime_room),
        rules=document_of(body.rules),
        player_data=document_of(body.player_data),
    )
    opened = await create_lobby(caller.world, caller.game, caller.player, wanted)
    return LobbyCreateReply(
        matchmaking_id=opened.lobby_id,
        matchmaking_name=opened.lobby_name,
        max_players=wanted.max_players,
        strict_full=wanted.strict_full,
        join_by_requests=wanted.join_by_requests,
        host_switch=wanted.host_switch,
        can_leave_room=wanted.can_leave_room,
        realtime_room=wanted.realtime_room,
        join_token=opened.join_token,
    )


async def list_(caller: GameCaller, body: ListBody) -> LobbyListReply:
    """Find open lobbies with a free seat."""
    limit = read_limit(body.limit, LIST_DEFAULT)
    world = caller.world
    found = await find_open(world.lobbies.index, caller.game_id, body.search or "", limit)
    return LobbyListReply(
        lobbies=[
            LobbyEntry(
                matchmaking_id=lobby.lobby_id,
                matchmaking_name=lobby.lobby_name,
                max_players=lobby.max_players,
                current_players=lobby.current_players,
                has_password=lobby.has_password,
                strict_full=lobby.strict_full,
                join_by_requests=lobby.join_by_requests,
                host_switch=lobby.host_switch,
                can_leave_room=lobby.can_leave_room,
                realtime_room=lobby.realtime_room,
                rules=Document(lobby.rules),
                host_player_id=lobby.host_id,
                host_name=lobby.host_name,
                created_at=timestamp(lobby.created_at),
                last_heartbeat=heartbeat_of(world, lobby.host_id, lobby.created_at),
            )
            for lobby in found
        ]
    )


async def join(caller: PlayerCaller, matchmaking_id: str, body: LobbyJoinBody) -> LobbyJoinReply:
    """Take a seat."""
    entrance = Entrance(
        password=body.password,
        join_token=body.join_token,
        player_data=document_of(body.player_data),
    )
    await join_lobby(caller.world, caller.game_id, caller.player, matchmaking_id, entrance)
    return LobbyJoinReply(matchmaking_id=matchmaking_id)


async def request(caller: PlayerCaller, matchmaking_id: str, body: RequestBody) -> RequestReply:
    """Ask the host for a seat."""
    data = document_of(body.player_data)
    request_id = await request_to_join(
        caller.world, caller.game_id, caller.player, matchmaking_id, data
    )
    return RequestReply(request_id=request_id)


# status


class RequestView(msgspec.Struct, kw_only=True):
    """What became of a request."""

    request_id: str
    matchmaking_id: str
    status: Literal["pending", "approved", "rejected"]
    requested_at: str | None
    responded_at: str | None
    responded_by: int | None
    responder_name: str | None
    join_by_requests: bool


class RequestStatusReply(Reply, kw_only=True):
    """The caller's own request, for as long as the lobby, or its room, lasts."""

    request: RequestView


async def status(caller: PlayerCaller, request_id: str) -> RequestStatusReply:
    """See what became of one's request."""
    found, lobby = await read_request(caller.world, caller.player_id, request_id)
    return RequestStatusReply(
        request=RequestView(
            request_id=found.request_id,
            matchmaking_id=lobby.lobby_id,
            status=found.status,
            requested_at=timestamp(found.requested_at),
            responded_at=timestamp(found.responded_at),
            responded_by=found.responder_id,
            responder_name=found.responder_name,
            join_by_requests=lobby.join_by_requests,
        )
    )


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

    status: str = "ok"


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
        method="POST",
        path=f"{AREA}/list",
        auth=Auth.KEY,
        texts=TEXTS,
        body=ListBody,
        reply=LobbyListReply,
        handler=list_,
        summary="Find open lobbies with a free seat",
        rate_class="list",
        refusals=(LimitOutOfRange,),
        tool="lobbies",
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/create",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=LobbyCreateBody,
        reply=LobbyCreateReply,
        handler=create,
        summary="Open a lobby",
        refusals=(MaxPlayersOutOfRange, NameRefused, AlreadyInLobby, CreatingInRoom),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/{{matchmaking_id}}/request",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=RequestBody,
        reply=RequestReply,
        handler=request,
        summary="Ask a lobby's host for a seat",
        refusals=(
            AlreadyInLobby,
            JoiningInRoom,
            LobbyNotFound,
            TakesNoRequests,
            AlreadyRequested,
            TooManyRequests,
        ),
    ),
    Endpoint(
        method="GET",
        path=f"{AREA}/{{request_id}}/status",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=RequestStatusReply,
        handler=status,
        summary="See what became of a join request",
        refusals=(RequestNotHis,),
    ),
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
        path=f"{AREA}/{{matchmaking_id}}/join",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=LobbyJoinBody,
        reply=LobbyJoinReply,
        handler=join,
        summary="Join a lobby",
        refusals=(
            AlreadyInLobby,
            JoiningInRoom,
            LobbyNotFound,
            NeedsApproval,
            LobbyFull,
            IncorrectPassword,
        ),
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
