"""The friends area: invites to the room or lobby that the caller is in."""

from __future__ import annotations

from typing import Final

from greenroom.actors.flows.invites import answer_invite, invite_friend, list_invites
from greenroom.actors.friendship.refusals import NotFriends
from greenroom.actors.lobby.refusals import PlayerIsSeated
from greenroom.actors.plans.refusals import RoomsRefused
from greenroom.actors.seating.invite_messages import InviteView
from greenroom.actors.seating.refusals import (
    InviteAlreadySent,
    InviteNotFound,
    NotInRoomOrLobby,
    TooManyInvites,
)
from greenroom.contract.friends import OtherBody
from greenroom.contract.invites import (
    ACCEPT_INVITE,
    DECLINE_INVITE,
    INVITE,
    LIST_INVITES,
    InviteAcceptReply,
    InviteBody,
    InviteDeclineReply,
    InviteEntry,
    InviteReply,
    InviterInfo,
    InvitesReply,
)
from greenroom.http.areas.friends import TEXTS, shown_tag
from greenroom.http.caller import PlayerCaller
from greenroom.http.table import Area, Auth

ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)


@ENDPOINTS.add(
    INVITE,
    refusals=(
        *(NotFriends, NotInRoomOrLobby, PlayerIsSeated, InviteAlreadySent),
        *(TooManyInvites, RoomsRefused),
    ),
)
async def invite(caller: PlayerCaller, body: OtherBody) -> InviteReply:
    """Invite a friend to the room or lobby that the caller is in."""
    invite_id = await invite_friend(caller.world, caller.game_id, caller.player, body.player_id)
    return InviteReply(invite_id=invite_id)


@ENDPOINTS.add(LIST_INVITES)
async def list_(caller: PlayerCaller) -> InvitesReply:
    """List the caller's open invites."""
    found = await list_invites(caller.world, caller.game_id, caller.player_id)
    return InvitesReply(invites=[_entry(invite) for invite in found])


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


@ENDPOINTS.add(ACCEPT_INVITE, refusals=(InviteNotFound,))
async def accept(caller: PlayerCaller, body: InviteBody) -> InviteAcceptReply:
    """Accept an invite. Joining is another call, which then needs neither password nor approval."""
    found = await answer_invite(
        caller.world, caller.game_id, caller.player_id, body.invite_id, "accepted"
    )
    return InviteAcceptReply(
        invite_id=found.invite_id,
        matchmaking_id=found.key if found.kind == "lobby" else None,
        room_id=found.key if found.kind == "room" else None,
    )


@ENDPOINTS.add(DECLINE_INVITE, refusals=(InviteNotFound,))
async def decline(caller: PlayerCaller, body: InviteBody) -> InviteDeclineReply:
    """Decline an invite."""
    await answer_invite(caller.world, caller.game_id, caller.player_id, body.invite_id, "declined")
    return InviteDeclineReply(invite_id=body.invite_id)
