"""The matchmaking area: lobbies, found, opened and entered.

`matchmaking_seat.py` has what members do there, `matchmaking_host.py` what only hosts may do.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from greenroom.actors.flows.lobbies import (
    NewLobby,
    create_lobby,
    join_lobby,
    read_request,
    request_to_join,
)
from greenroom.actors.flows.rooms import Entrance
from greenroom.actors.lobby.refusals import (
    AlreadyInLobby,
    AlreadyRequested,
    CreatingInRoom,
    JoiningInRoom,
    LobbyFull,
    LobbyNotFound,
    NeedsApproval,
    RequestNotHis,
    TakesNoRequests,
    TooManyRequests,
)
from greenroom.actors.plans.refusals import RoomsRefused, TooManyRooms
from greenroom.actors.room.rules.refusals import (
    IncorrectPassword,
    MaxPlayersOutOfRange,
    RulesTooLarge,
    SeatDataTooLarge,
)
from greenroom.actors.seating.passwords import TooManyGuesses
from greenroom.actors.text.names import TITLE_CHARACTERS_MAX, NameRefused
from greenroom.actors.world.journalled import find_open
from greenroom.addresses import address_key
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


# create, list, join, request


class LobbyCreateBody(Body, kw_only=True):
    """The lobby that is wanted."""

    max_players: Annotated[
        int, Missing("Missing required field: max_players"), msgspec.Meta(ge=2, le=16)
    ]
    matchmaking_name: Annotated[str | None, msgspec.Meta(max_length=TITLE_CHARACTERS_MAX)] = None
    strict_full: bool = False
    join_by_requests: bool = False
    host_switch: bool = False
    can_leave_room: bool = False
    realtime_room: bool = False
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
        strict_full=body.strict_full,
        join_by_requests=body.join_by_requests,
        host_switch=body.host_switch,
        can_leave_room=body.can_leave_room,
        realtime_room=body.realtime_room,
        rules=document_of(body.rules),
        player_data=document_of(body.player_data),
    )
    opened = await create_lobby(caller.world, caller.game, caller.player, wanted, caller.address)
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
        address=address_key(caller.address),
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
        refusals=(
            *(MaxPlayersOutOfRange, RulesTooLarge, SeatDataTooLarge, NameRefused),
            *(AlreadyInLobby, CreatingInRoom, TooManyRooms, RoomsRefused),
        ),
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
            SeatDataTooLarge,
            AlreadyInLobby,
            JoiningInRoom,
            LobbyNotFound,
            TakesNoRequests,
            AlreadyRequested,
            LobbyFull,
            TooManyRequests,
            RoomsRefused,
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
        method="POST",
        path=f"{AREA}/{{matchmaking_id}}/join",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=LobbyJoinBody,
        reply=LobbyJoinReply,
        handler=join,
        summary="Join a lobby",
        refusals=(
            SeatDataTooLarge,
            AlreadyInLobby,
            JoiningInRoom,
            LobbyNotFound,
            NeedsApproval,
            LobbyFull,
            IncorrectPassword,
            TooManyGuesses,
            RoomsRefused,
        ),
    ),
)
