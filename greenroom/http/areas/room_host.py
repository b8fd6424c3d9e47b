"""The rooms area: calls that only the host may make."""

from __future__ import annotations

from typing import Final

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
from greenroom.contract.room_host import (
    ROOM_JOIN_TOKEN,
    ROOM_KICK,
    ROOM_PASSWORD,
    STOP_ROOM,
    JoinTokenReply,
    KickBody,
    PasswordBody,
    RoomKickReply,
    RoomPasswordReply,
    RoomStopReply,
)
from greenroom.http.areas.rooms import TEXTS
from greenroom.http.caller import PlayerCaller
from greenroom.http.table import Area, Auth

ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)


@ENDPOINTS.add(STOP_ROOM, refusals=(NotInAnyGameRoom, OnlyHostStops))
async def stop(caller: PlayerCaller) -> RoomStopReply:
    """End the room."""
    room = caller.world.rooms.get_by_player(caller.player_id, NotInAnyGameRoom)
    await room.ask(StopRoom(caller.player_id))
    return RoomStopReply()


@ENDPOINTS.add(
    ROOM_KICK, refusals=(NotInAnyGameRoom, OnlyHostKicks, KickingOneself, MemberNotFound)
)
async def kick(caller: PlayerCaller, body: KickBody) -> RoomKickReply:
    """Kick a member from the room."""
    room = caller.world.rooms.get_by_player(caller.player_id, NotInAnyGameRoom)
    await room.ask(KickMember(caller.player_id, body.player_id))
    return RoomKickReply(kicked_player_id=body.player_id)


@ENDPOINTS.add(ROOM_PASSWORD, refusals=(NotInAnyRoom, OnlyHostSetsPassword))
async def password(caller: PlayerCaller, body: PasswordBody) -> RoomPasswordReply:
    """Set or remove the password."""
    room = caller.world.rooms.get_by_player(caller.player_id, NotInAnyRoom)
    await room.ask(SetRoomPassword(caller.player_id, password_hash(body.password)))
    return RoomPasswordReply()


@ENDPOINTS.add(ROOM_JOIN_TOKEN, refusals=(NotInAnyRoom, OnlyHostRenewsToken))
async def join_token(caller: PlayerCaller) -> JoinTokenReply:
    """Replace the join token."""
    return JoinTokenReply(join_token=await renew_join_token(caller.world, caller.player_id))
