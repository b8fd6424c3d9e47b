"""The matchmaking area: lobbies, found, opened and entered.

`matchmaking_seat.py` has what members do there, `matchmaking_host.py` what only hosts may do.
"""

from __future__ import annotations

from typing import Final

from greenroom.actors.flows.lobbies import (
    NewLobby,
    create_lobby,
    join_lobby,
    read_request,
    request_to_join,
)
from greenroom.actors.flows.rooms import Entrance
from greenroom.actors.flows.spread.lists import list_lobbies
from greenroom.actors.lobby.refusals import (
    AlreadyInLobby,
    AlreadyRequested,
    CreatingInRoom,
    JoiningInRoom,
    LobbyFull,
    LobbyNotFound,
    NeedsApproval,
    RequestNotYours,
    TakesNoRequests,
    TooManyJoinRequests,
)
from greenroom.actors.plans.refusals import RoomsRefused, TooManyRooms
from greenroom.actors.room.rules.refusals import (
    IncorrectPassword,
    MaxPlayersOutOfRange,
    RulesTooLarge,
    SeatDataTooLarge,
)
from greenroom.actors.seating.refusals import TooManyGuesses
from greenroom.actors.text.refusals import NameRefused
from greenroom.contract.fields import timestamp, verbatim
from greenroom.contract.matchmaking import (
    ASK_TO_JOIN,
    CREATE_LOBBY,
    JOIN_LOBBY,
    JOIN_REQUEST,
    LIST_LOBBIES,
    LobbyCreateBody,
    LobbyCreateReply,
    LobbyEntry,
    LobbyJoinBody,
    LobbyJoinReply,
    LobbyListReply,
    RequestBody,
    RequestReply,
    RequestStatusReply,
    RequestView,
)
from greenroom.contract.rooms import ListBody
from greenroom.http.areas.paging import LimitOutOfRange, read_limit
from greenroom.http.areas.rooms import TEXTS, document_of, later_of
from greenroom.http.caller import GameCaller, PlayerCaller
from greenroom.http.table import Area, Auth
from greenroom.network.addresses import address_key

ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)


@ENDPOINTS.add(
    LIST_LOBBIES, auth=Auth.KEY, refusals=(LimitOutOfRange,), rate_class="list", tool="lobbies"
)
async def list_(caller: GameCaller, body: ListBody) -> LobbyListReply:
    """Find open lobbies with a free seat."""
    limit = read_limit(body.limit)
    found = await list_lobbies(caller.world, caller.game_id, body.search or "", limit)
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
                rules=verbatim(lobby.rules),
                host_player_id=lobby.host_id,
                host_name=lobby.host_name,
                created_at=timestamp(lobby.created_at),
                last_heartbeat=later_of(lobby.created_at, one.host_heard_at),
            )
            for one in found
            for lobby in (one.lobby,)
        ]
    )


@ENDPOINTS.add(
    CREATE_LOBBY,
    refusals=(
        *(MaxPlayersOutOfRange, RulesTooLarge, SeatDataTooLarge, NameRefused),
        *(AlreadyInLobby, CreatingInRoom, TooManyRooms, RoomsRefused),
    ),
)
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


@ENDPOINTS.add(
    ASK_TO_JOIN,
    refusals=(
        SeatDataTooLarge,
        AlreadyInLobby,
        JoiningInRoom,
        LobbyNotFound,
        TakesNoRequests,
        AlreadyRequested,
        LobbyFull,
        TooManyJoinRequests,
        RoomsRefused,
    ),
)
async def request(caller: PlayerCaller, matchmaking_id: str, body: RequestBody) -> RequestReply:
    """Ask the host for a seat in the lobby."""
    data = document_of(body.player_data)
    request_id = await request_to_join(
        caller.world, caller.game_id, caller.player, matchmaking_id, data
    )
    return RequestReply(request_id=request_id)


@ENDPOINTS.add(JOIN_REQUEST, refusals=(RequestNotYours,))
async def status(caller: PlayerCaller, request_id: str) -> RequestStatusReply:
    """Read the outcome of the caller's request."""
    found, lobby = await read_request(caller.world, caller.game_id, caller.player_id, request_id)
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


@ENDPOINTS.add(
    JOIN_LOBBY,
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
)
async def join(caller: PlayerCaller, matchmaking_id: str, body: LobbyJoinBody) -> LobbyJoinReply:
    """Take a seat in the lobby."""
    entrance = Entrance(
        password=body.password,
        join_token=body.join_token,
        player_data=document_of(body.player_data),
        address=address_key(caller.address),
    )
    await join_lobby(caller.world, caller.game_id, caller.player, matchmaking_id, entrance)
    return LobbyJoinReply(matchmaking_id=matchmaking_id)
