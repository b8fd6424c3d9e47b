"""Lobbies: calls that only the host may make."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

import msgspec

from greenroom.contract.allowed_values import JoinRequestAnswer
from greenroom.contract.fields import Body, MessageReply, Missing, Reply, one_of
from greenroom.contract.operation import Operation
from greenroom.contract.room_host import (
    JoinTokenReply,
    KickBody,
    PasswordBody,
    RoomKickReply,
    RoomPasswordReply,
)

Answering = Literal["approve", "reject"]


AnswerMessage = Literal["Join request approved successfully", "Join request rejected successfully"]


class AnswerBody(Body, kw_only=True):
    """The answer to a join request."""

    action: Annotated[
        str,
        Missing("Missing required fields: requestId and action"),
        msgspec.Meta(examples=["approve"]),
        one_of(get_args(Answering)),
    ]


class AnswerReply(Reply, kw_only=True):
    """A join request was approved or rejected."""

    status: JoinRequestAnswer
    message: AnswerMessage
    request_id: str
    action: Answering


class LobbyRemoveReply(MessageReply, kw_only=True):
    """The lobby has ended, and so has the room that it had become."""

    message: str = "Matchmaking lobby removed successfully"


class LobbyStartReply(Reply, kw_only=True):
    """The lobby has become a room."""

    room_id: str
    room_name: str
    players_transferred: int
    message: str = "Game started successfully"


class LobbyStopReply(MessageReply, kw_only=True):
    """The lobby has ended."""

    message: str = "Matchmaking lobby stopped successfully"


class LobbyKickReply(RoomKickReply, kw_only=True):
    """The member has been kicked from the lobby."""


class LobbyPasswordReply(RoomPasswordReply, kw_only=True):
    """The lobby's password is set, or removed."""


ANSWER_REQUEST: Final = Operation(
    "POST",
    "/api/matchmaking.php/{request_id}/response",
    reply=AnswerReply,
    body=AnswerBody,
    summary="Answer a join request",
)
REMOVE_LOBBY: Final = Operation(
    "POST",
    "/api/matchmaking.php/remove",
    reply=LobbyRemoveReply,
    summary="End the lobby, and the room that it has become",
)
START_LOBBY: Final = Operation(
    "POST",
    "/api/matchmaking.php/start",
    reply=LobbyStartReply,
    summary="Make the lobby a room with all who are online",
)
STOP_LOBBY: Final = Operation(
    "POST",
    "/api/matchmaking.php/stop",
    reply=LobbyStopReply,
    summary="End the lobby before it starts",
)
LOBBY_KICK: Final = Operation(
    "POST",
    "/api/matchmaking.php/kick",
    reply=LobbyKickReply,
    body=KickBody,
    summary="Put a member out before the start",
)
LOBBY_PASSWORD: Final = Operation(
    "POST",
    "/api/matchmaking.php/password",
    reply=LobbyPasswordReply,
    body=PasswordBody,
    summary="Set or remove the lobby's password",
    repeatable=True,
)
LOBBY_JOIN_TOKEN: Final = Operation(
    "POST",
    "/api/matchmaking.php/join_token",
    reply=JoinTokenReply,
    summary="Replace the join token: the old one opens nothing any more",
)
