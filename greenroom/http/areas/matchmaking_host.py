"""The matchmaking area: calls that only a lobby's host may make."""

from __future__ import annotations

from typing import Final

import msgspec

from greenroom.actors.flows.lobbies import (
    answer_request,
    kick_from_lobby,
    remove_lobby,
    renew_lobby_token,
    set_lobby_password,
    start_lobby,
    stop_lobby,
)
from greenroom.actors.lobby.refusals import (
    InvalidAnswer,
    LobbyFull,
    LobbyHasStarted,
    LobbyMemberNotFound,
    LobbyNotFull,
    NotInLobby,
    OnlyHostAnswers,
    OnlyHostRemoves,
    OnlyHostSetsLobbyPassword,
    OnlyHostStarts,
    OnlyHostStopsLobby,
    PlayerIsSeated,
    RequestNotFound,
    TooLateForPassword,
    TooLateForToken,
    TooLateToKick,
    TooLateToStop,
)
from greenroom.actors.room.rules.refusals import KickingOneself, OnlyHostKicks, OnlyHostRenewsToken
from greenroom.contract.matchmaking_host import (
    ANSWER_REQUEST,
    LOBBY_JOIN_TOKEN,
    LOBBY_KICK,
    LOBBY_PASSWORD,
    REMOVE_LOBBY,
    START_LOBBY,
    STOP_LOBBY,
    AnswerBody,
    AnswerReply,
    LobbyKickReply,
    LobbyPasswordReply,
    LobbyRemoveReply,
    LobbyStartReply,
    LobbyStopReply,
)
from greenroom.contract.room_host import JoinTokenReply, KickBody, PasswordBody
from greenroom.http.areas.rooms import TEXTS
from greenroom.http.caller import PlayerCaller
from greenroom.http.table import Area, Auth

_ANSWERS: Final[dict[str, AnswerReply]] = {
    "approve": AnswerReply(
        status="approved",
        message="Join request approved successfully",
        request_id="",
        action="approve",
    ),
    "reject": AnswerReply(
        status="rejected",
        message="Join request rejected successfully",
        request_id="",
        action="reject",
    ),
}


ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)


@ENDPOINTS.add(
    ANSWER_REQUEST,
    refusals=(InvalidAnswer, RequestNotFound, OnlyHostAnswers, PlayerIsSeated, LobbyFull),
)
async def respond(caller: PlayerCaller, request_id: str, body: AnswerBody) -> AnswerReply:
    """Approve or reject a join request."""
    reply = _ANSWERS.get(body.action)
    if reply is None:
        raise InvalidAnswer
    is_approved = reply.status == "approved"
    world, game_id, player_id = caller.world, caller.game_id, caller.player_id
    await answer_request(world, game_id, player_id, request_id, is_approved=is_approved)
    return msgspec.structs.replace(reply, request_id=request_id)


@ENDPOINTS.add(REMOVE_LOBBY, refusals=(NotInLobby, OnlyHostRemoves))
async def remove(caller: PlayerCaller) -> LobbyRemoveReply:
    """End the lobby, started or not."""
    await remove_lobby(caller.world, caller.player_id)
    return LobbyRemoveReply()


@ENDPOINTS.add(START_LOBBY, refusals=(NotInLobby, OnlyHostStarts, LobbyHasStarted, LobbyNotFull))
async def start(caller: PlayerCaller) -> LobbyStartReply:
    """Start the lobby: it becomes a room."""
    room = await start_lobby(caller.world, caller.player_id)
    return LobbyStartReply(
        room_id=room.room_id, room_name=room.room_name, players_transferred=len(room.members)
    )


@ENDPOINTS.add(STOP_LOBBY, refusals=(NotInLobby, OnlyHostStopsLobby, TooLateToStop))
async def stop(caller: PlayerCaller) -> LobbyStopReply:
    """End the lobby before it starts."""
    await stop_lobby(caller.world, caller.player_id)
    return LobbyStopReply()


@ENDPOINTS.add(
    LOBBY_KICK,
    refusals=(NotInLobby, OnlyHostKicks, TooLateToKick, KickingOneself, LobbyMemberNotFound),
)
async def kick(caller: PlayerCaller, body: KickBody) -> LobbyKickReply:
    """Kick a member from the lobby."""
    await kick_from_lobby(caller.world, caller.player_id, body.player_id)
    return LobbyKickReply(kicked_player_id=body.player_id)


@ENDPOINTS.add(LOBBY_PASSWORD, refusals=(NotInLobby, OnlyHostSetsLobbyPassword, TooLateForPassword))
async def password(caller: PlayerCaller, body: PasswordBody) -> LobbyPasswordReply:
    """Set or remove the password."""
    await set_lobby_password(caller.world, caller.player_id, body.password)
    return LobbyPasswordReply()


@ENDPOINTS.add(LOBBY_JOIN_TOKEN, refusals=(NotInLobby, OnlyHostRenewsToken, TooLateForToken))
async def join_token(caller: PlayerCaller) -> JoinTokenReply:
    """Replace the join token."""
    return JoinTokenReply(join_token=await renew_lobby_token(caller.world, caller.player_id))
