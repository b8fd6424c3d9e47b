"""Rooms: calls that only the host may make."""

from __future__ import annotations

from typing import Annotated, Final

from greenroom.contract.fields import Body, KeepEmpty, MessageReply, Missing, OtherPlayerId, Reply
from greenroom.contract.operation import Operation


class RoomStopReply(MessageReply, kw_only=True):
    """The room has ended."""

    message: str = "Game room stopped successfully"


class KickBody(Body, kw_only=True):
    """A member, by id."""

    player_id: OtherPlayerId


class RoomKickReply(MessageReply, kw_only=True):
    """The member has been kicked."""

    message: str = "Player kicked successfully"
    kicked_player_id: int


class PasswordBody(Body, kw_only=True):
    """The new password; an empty one removes it."""

    password: Annotated[str, Missing("Missing required field: password"), KeepEmpty()]


class RoomPasswordReply(MessageReply, kw_only=True):
    """The password is set, or removed."""

    message: str = "Password updated successfully"


class JoinTokenReply(Reply, kw_only=True):
    """The new join token; the one before no longer works."""

    join_token: str


STOP_ROOM: Final = Operation(
    "POST", "/api/game_room.php/stop", reply=RoomStopReply, summary="End the room"
)
ROOM_KICK: Final = Operation(
    "POST",
    "/api/game_room.php/kick",
    reply=RoomKickReply,
    body=KickBody,
    summary="Put a member out",
)
ROOM_PASSWORD: Final = Operation(
    "POST",
    "/api/game_room.php/password",
    reply=RoomPasswordReply,
    body=PasswordBody,
    summary="Set or remove the password",
    repeatable=True,
)
ROOM_JOIN_TOKEN: Final = Operation(
    "POST",
    "/api/game_room.php/join_token",
    reply=JoinTokenReply,
    summary="Replace the join token: the old one opens nothing any more",
)
