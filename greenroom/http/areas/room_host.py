"""The rooms area: what only the host may do."""

from __future__ import annotations

from typing import Annotated, Final

from greenroom.actors.flows.rooms import password_hash, renew_join_token
from greenroom.actors.room.messages import KickMember, SetRoomPassword, StopRoom
from greenroom.actors.room.rules.refusals import (
    KickingOneself,
    MemberNotFound,
    NotInAnyGameRoom,
    NotInAnyRoom,
    OnlyHostKicks,
    OnlyHostRenewsToken,
    OnlyHostSetsPassword,
    OnlyHostStops,
)
from greenroom.http.areas.rooms import AREA, TEXTS
from greenroom.http.caller import PlayerCaller
from greenroom.http.fields import Body, KeepEmpty, Missing, OtherPlayerId, Reply
from greenroom.http.table import Auth, Endpoint


class RoomStopReply(Reply, kw_only=True):
    """The room is over."""

    message: str = "Game room stopped successfully"


class KickBody(Body, kw_only=True):
    """Whom."""

    player_id: OtherPlayerId


class RoomKickReply(Reply, kw_only=True):
    """They are out."""

    message: str = "Player kicked successfully"
    kicked_player_id: int


class PasswordBody(Body, kw_only=True):
    """The new password; an empty one removes it."""

    password: Annotated[str, Missing("Missing required field: password"), KeepEmpty()]


class RoomPasswordReply(Reply, kw_only=True):
    """It is set, or removed."""

    message: str = "Password updated successfully"


async def stop(caller: PlayerCaller) -> RoomStopReply:
    """End the room."""
    room = caller.world.rooms.of(caller.player_id, NotInAnyGameRoom)
    await room.ask(StopRoom(caller.player_id))
    return RoomStopReply()


async def kick(caller: PlayerCaller, body: KickBody) -> RoomKickReply:
    """Put a member out."""
    room = caller.world.rooms.of(caller.player_id, NotInAnyGameRoom)
    await room.ask(KickMember(caller.player_id, body.player_id))
    return RoomKickReply(kicked_player_id=body.player_id)


async def password(caller: PlayerCaller, body: PasswordBody) -> RoomPasswordReply:
    """Set or remove the password."""
    room = caller.world.rooms.of(caller.player_id, NotInAnyRoom)
    await room.ask(SetRoomPassword(caller.player_id, password_hash(body.password)))
    return RoomPasswordReply()


class JoinTokenReply(Reply, kw_only=True):
    """What lets others in without password or approval now."""

    join_token: str


async def join_token(caller: PlayerCaller) -> JoinTokenReply:
    """Replace the join token."""
    return JoinTokenReply(join_token=await renew_join_token(caller.world, caller.player_id))


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=f"{AREA}/stop",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=RoomStopReply,
        handler=stop,
        summary="End the room",
        refusals=(NotInAnyGameRoom, OnlyHostStops),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/kick",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=KickBody,
        reply=RoomKickReply,
        handler=kick,
        summary="Put a member out",
        refusals=(NotInAnyGameRoom, OnlyHostKicks, KickingOneself, MemberNotFound),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/password",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=PasswordBody,
        reply=RoomPasswordReply,
        handler=password,
        summary="Set or remove the password",
        refusals=(NotInAnyRoom, OnlyHostSetsPassword),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/join_token",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=JoinTokenReply,
        handler=join_token,
        summary="Replace the join token: the old one opens nothing any more",
        refusals=(NotInAnyRoom, OnlyHostRenewsToken),
    ),
)
