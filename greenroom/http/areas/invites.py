"""The friends area's invites: to the room or lobby that one is in."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from greenroom.actors.flows.invites import answer_invite, invite_friend, invites_to
from greenroom.actors.lobby.refusals import PlayerIsSeated
from greenroom.actors.plans.refusals import RoomsRefused
from greenroom.actors.seating.invite_messages import (
    InviteAlreadySent,
    InviteNotFound,
    InviteView,
    NotInRoomOrLobby,
    TooManyInvites,
)
from greenroom.actors.social.messages import NotFriends
from greenroom.http.areas.friends import AREA, TEXTS, OtherBody, shown_tag
from greenroom.http.caller import PlayerCaller
from greenroom.http.fields import Body, Missing, Reply
from greenroom.http.table import Auth, Endpoint

PlaceKind = Literal["matchmaking", "room"]


class InviteReply(Reply, kw_only=True):
    """The friend can come in, unless he declines."""

    invite_id: str
    status: Literal["pending"] = "pending"


class InviterInfo(msgspec.Struct, kw_only=True):
    """Who invites."""

    player_id: int
    player_name: str
    player_tag: str


class InviteEntry(msgspec.Struct, kw_only=True):
    """An open invite; `name` is that of the room or lobby."""

    invite_id: str
    kind: PlaceKind
    name: str
    from_player: InviterInfo


class InvitesReply(Reply, kw_only=True):
    """What one is invited to."""

    invites: list[InviteEntry]


class InviteBody(Body, kw_only=True):
    """Which invite."""

    invite_id: Annotated[str, Missing("Missing required field: invite_id")]


class InviteAcceptReply(Reply, kw_only=True):
    """What to join now: one of the two ids, the other is null."""

    status: Literal["accepted"] = "accepted"
    invite_id: str
    matchmaking_id: str | None
    room_id: str | None


class InviteDeclineReply(Reply, kw_only=True):
    """The invite is gone."""

    message: str = "Invite declined"
    status: Literal["declined"] = "declined"
    invite_id: str


async def invite(caller: PlayerCaller, body: OtherBody) -> InviteReply:
    """Invite a friend to the room or lobby that one is in."""
    invite_id = await invite_friend(caller.world, caller.game_id, caller.player, body.player_id)
    return InviteReply(invite_id=invite_id)


async def list_(caller: PlayerCaller) -> InvitesReply:
    """See what one is invited to."""
    return InvitesReply(invites=[_entry(i) for i in invites_to(caller.world, caller.player_id)])


def _entry(invite: InviteView) -> InviteEntry:
    return InviteEntry(
        invite_id=invite.invite_id,
        kind="room" if invite.kind == "room" else "matchmaking",
        name=invite.name,
        from_player=InviterInfo(
            player_id=invite.inviter.player_id,
            player_name=invite.inviter.player_name,
            player_tag=shown_tag(invite.inviter.player_tag),
        ),
    )


async def accept(caller: PlayerCaller, body: InviteBody) -> InviteAcceptReply:
    """Accept an invite; to join is another call, which needs neither password nor approval."""
    found = await answer_invite(caller.world, caller.player_id, body.invite_id, "accepted")
    return InviteAcceptReply(
        invite_id=found.invite_id,
        matchmaking_id=found.key if found.kind == "lobby" else None,
        room_id=found.key if found.kind == "room" else None,
    )


async def decline(caller: PlayerCaller, body: InviteBody) -> InviteDeclineReply:
    """Decline an invite."""
    await answer_invite(caller.world, caller.player_id, body.invite_id, "declined")
    return InviteDeclineReply(invite_id=body.invite_id)


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=f"{AREA}/invite",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=OtherBody,
        reply=InviteReply,
        handler=invite,
        summary="Invite a friend to the room or lobby one is in",
        refusals=(
            *(NotFriends, NotInRoomOrLobby, PlayerIsSeated, InviteAlreadySent),
            *(TooManyInvites, RoomsRefused),
        ),
    ),
    Endpoint(
        method="GET",
        path=f"{AREA}/invites",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=InvitesReply,
        handler=list_,
        summary="List one's open invites",
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/invites/accept",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=InviteBody,
        reply=InviteAcceptReply,
        handler=accept,
        summary="Accept an invite",
        refusals=(InviteNotFound,),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/invites/decline",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=InviteBody,
        reply=InviteDeclineReply,
        handler=decline,
        summary="Decline an invite",
        refusals=(InviteNotFound,),
    ),
)
