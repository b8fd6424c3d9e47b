"""The matchmaking area, what only a lobby's host may do."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

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
from greenroom.actors.lobby.events import RequestAnswer
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
from greenroom.http.areas.matchmaking import AREA
from greenroom.http.areas.room_host import (
    JoinTokenReply,
    KickBody,
    PasswordBody,
    RoomKickReply,
    RoomPasswordReply,
)
from greenroom.http.areas.rooms import TEXTS
from greenroom.http.caller import PlayerCaller
from greenroom.http.fields import Body, Missing, Reply, one_of
from greenroom.http.table import Auth, Endpoint

Answering = Literal["approve", "reject"]
AnswerMessage = Literal["Join request approved successfully", "Join request rejected successfully"]


class AnswerBody(Body, kw_only=True):
    """Whether he is let in."""

    action: Annotated[
        str,
        Missing("Missing required fields: requestId and action"),
        msgspec.Meta(examples=["approve"]),
        one_of(get_args(Answering)),
    ]


class AnswerReply(Reply, kw_only=True):
    """He is in, or turned down."""

    status: RequestAnswer
    message: AnswerMessage
    request_id: str
    action: Answering


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


class LobbyRemoveReply(Reply, kw_only=True):
    """The lobby is over, and so is the room that it had become."""

    message: str = "Matchmaking lobby removed successfully"


class LobbyStartReply(Reply, kw_only=True):
    """The lobby is a room now."""

    room_id: str
    room_name: str
    players_transferred: int
    message: str = "Game started successfully"


class LobbyStopReply(Reply, kw_only=True):
    """The lobby is over."""

    message: str = "Matchmaking lobby stopped successfully"


class LobbyKickReply(RoomKickReply, kw_only=True):
    """He is out of the lobby."""


class LobbyPasswordReply(RoomPasswordReply, kw_only=True):
    """The lobby's password is set, or removed."""


async def respond(caller: PlayerCaller, request_id: str, body: AnswerBody) -> AnswerReply:
    """Let a requester in, or turn him down."""
    reply = _ANSWERS.get(body.action)
    if reply is None:
        raise InvalidAnswer
    is_approved = reply.status == "approved"
    await answer_request(caller.world, caller.player_id, request_id, is_approved=is_approved)
    return msgspec.structs.replace(reply, request_id=request_id)


async def remove(caller: PlayerCaller) -> LobbyRemoveReply:
    """End the lobby, started or not."""
    await remove_lobby(caller.world, caller.player_id)
    return LobbyRemoveReply()


async def start(caller: PlayerCaller) -> LobbyStartReply:
    """Make the lobby a room."""
    room = await start_lobby(caller.world, caller.player_id)
    return LobbyStartReply(
        room_id=room.room_id, room_name=room.room_name, players_transferred=len(room.members)
    )


async def stop(caller: PlayerCaller) -> LobbyStopReply:
    """End the lobby before it starts."""
    await stop_lobby(caller.world, caller.player_id)
    return LobbyStopReply()


async def kick(caller: PlayerCaller, body: KickBody) -> LobbyKickReply:
    """Put a member out."""
    await kick_from_lobby(caller.world, caller.player_id, body.player_id)
    return LobbyKickReply(kicked_player_id=body.player_id)


async def password(caller: PlayerCaller, body: PasswordBody) -> LobbyPasswordReply:
    """Set or remove the password."""
    await set_lobby_password(caller.world, caller.player_id, body.password)
    return LobbyPasswordReply()


async def join_token(caller: PlayerCaller) -> JoinTokenReply:
    """Replace the join token."""
    return JoinTokenReply(join_token=await renew_lobby_token(caller.world, caller.player_id))


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=f"{AREA}/{{request_id}}/response",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=AnswerBody,
        reply=AnswerReply,
        handler=respond,
        summary="Answer a join request",
        refusals=(InvalidAnswer, RequestNotFound, OnlyHostAnswers, PlayerIsSeated, LobbyFull),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/remove",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=LobbyRemoveReply,
        handler=remove,
        summary="End the lobby, and the room that it has become",
        refusals=(NotInLobby, OnlyHostRemoves),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/start",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=LobbyStartReply,
        handler=start,
        summary="Make the lobby a room with all who are online",
        refusals=(NotInLobby, OnlyHostStarts, LobbyHasStarted, LobbyNotFull),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/stop",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=LobbyStopReply,
        handler=stop,
        summary="End the lobby before it starts",
        refusals=(NotInLobby, OnlyHostStopsLobby, TooLateToStop),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/kick",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=KickBody,
        reply=LobbyKickReply,
        handler=kick,
        summary="Put a member out before the start",
        refusals=(NotInLobby, OnlyHostKicks, TooLateToKick, KickingOneself, LobbyMemberNotFound),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/password",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=PasswordBody,
        reply=LobbyPasswordReply,
        handler=password,
        summary="Set or remove the lobby's password",
        refusals=(NotInLobby, OnlyHostSetsLobbyPassword, TooLateForPassword),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/join_token",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=JoinTokenReply,
        handler=join_token,
        summary="Replace the join token: the old one opens nothing any more",
        refusals=(NotInLobby, OnlyHostRenewsToken, TooLateForToken),
    ),
)
