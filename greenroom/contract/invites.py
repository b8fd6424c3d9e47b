"""Invites of friends to a room or lobby."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from greenroom.contract.fields import Body, MessageReply, Missing, Reply
from greenroom.contract.friends import OtherBody
from greenroom.contract.operation import Operation

PlaceKind = Literal["matchmaking", "room"]


class InviteReply(Reply, kw_only=True):
    """The friend is invited."""

    invite_id: str
    status: Literal["pending"] = "pending"


class InviterInfo(msgspec.Struct, kw_only=True):
    """The player who invites."""

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
    """Invites that wait for an answer."""

    invites: list[InviteEntry]


class InviteBody(Body, kw_only=True):
    """An invite, by id."""

    invite_id: Annotated[str, Missing("Missing required field: invite_id")]


class InviteAcceptReply(Reply, kw_only=True):
    """The room or lobby to join now, by its id; the other id is null."""

    status: Literal["accepted"] = "accepted"
    invite_id: str
    matchmaking_id: str | None
    room_id: str | None


class InviteDeclineReply(MessageReply, kw_only=True):
    """The invite is declined."""

    message: str = "Invite declined"
    status: Literal["declined"] = "declined"
    invite_id: str


INVITE: Final = Operation(
    "POST",
    "/api/friends.php/invite",
    reply=InviteReply,
    body=OtherBody,
    summary="Invite a friend to the room or lobby one is in",
)
LIST_INVITES: Final = Operation(
    "GET",
    "/api/friends.php/invites",
    reply=InvitesReply,
    summary="List one's open invites",
    repeatable=True,
)
ACCEPT_INVITE: Final = Operation(
    "POST",
    "/api/friends.php/invites/accept",
    reply=InviteAcceptReply,
    body=InviteBody,
    summary="Accept an invite",
)
DECLINE_INVITE: Final = Operation(
    "POST",
    "/api/friends.php/invites/decline",
    reply=InviteDeclineReply,
    body=InviteBody,
    summary="Decline an invite",
)
