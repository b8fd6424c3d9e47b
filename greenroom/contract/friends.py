"""Friends: finding players, friend requests, friends."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from greenroom.contract.allowed_values import FriendRequestStatus, Relationship
from greenroom.contract.fields import Body, MessageReply, Missing, OtherPlayerId, Reply
from greenroom.contract.operation import Operation

PLATFORM_IDS_MAX: Final = 100
PLATFORM_IDS_TEXT: Final = f"platform_ids must be an array of at most {PLATFORM_IDS_MAX} strings"


class FriendInfo(msgspec.Struct, kw_only=True):
    """A player as another sees them; `relationship` is between the two."""

    player_id: int
    player_name: str
    player_tag: str
    is_online: bool
    platform_id: str | None
    relationship: Relationship | None


class FriendListReply(Reply, kw_only=True):
    """Friends, and open requests both ways, the oldest first; `player_tag` is the caller's own."""

    player_tag: str
    friends: list[FriendInfo]
    incoming: list[FriendInfo]
    outgoing: list[FriendInfo]


class AddresseeBody(Body, kw_only=True):
    """Another player, by tag or by id; the tag counts if both are given."""

    player_tag: str | None = None
    player_id: int | None = None


class LookupReply(Reply, kw_only=True):
    """The player who was found, and the relationship to the caller."""

    player: FriendInfo
    relationship: Relationship | None


class PlatformBody(Body, kw_only=True):
    """Users of the platform that the game signs in with."""

    platform_ids: Annotated[
        list[str],
        Missing(PLATFORM_IDS_TEXT, covers_wrong_types=True),
        msgspec.Meta(max_length=PLATFORM_IDS_MAX, examples=[["76561197960287930"]]),
    ]


class PlatformReply(Reply, kw_only=True):
    """The users who play this game, in the order of the ids."""

    players: list[FriendInfo]


class FriendRequestReply(Reply, kw_only=True):
    """The result of a request: `accepted` if the other player had asked before."""

    status: FriendRequestStatus
    player_id: int


class OtherBody(Body, kw_only=True):
    """Another player, by id."""

    player_id: OtherPlayerId


class FriendReply(MessageReply, kw_only=True):
    """Something is settled with another player."""

    player_id: int


class FriendAcceptReply(FriendReply, kw_only=True):
    """The two players are friends."""

    message: str = "Friend request accepted"


class FriendDeclineReply(FriendReply, kw_only=True):
    """The request is declined."""

    message: str = "Friend request declined"


class FriendRemoveReply(FriendReply, kw_only=True):
    """The two players are friends no longer."""

    message: str = "Friend removed"


LIST_FRIENDS: Final = Operation(
    "GET",
    "/api/friends.php/list",
    reply=FriendListReply,
    summary="List friends and open requests",
    repeatable=True,
)
LOOK_UP: Final = Operation(
    "POST",
    "/api/friends.php/lookup",
    reply=LookupReply,
    body=AddresseeBody,
    summary="Find a player by tag",
    repeatable=True,
)
REQUEST_FRIEND: Final = Operation(
    "POST",
    "/api/friends.php/request",
    reply=FriendRequestReply,
    body=AddresseeBody,
    summary="Ask a player to be friends",
)
ACCEPT_FRIEND: Final = Operation(
    "POST",
    "/api/friends.php/accept",
    reply=FriendAcceptReply,
    body=OtherBody,
    summary="Accept a friend request",
)
DECLINE_FRIEND: Final = Operation(
    "POST",
    "/api/friends.php/decline",
    reply=FriendDeclineReply,
    body=OtherBody,
    summary="Decline a friend request",
)
REMOVE_FRIEND: Final = Operation(
    "POST",
    "/api/friends.php/remove",
    reply=FriendRemoveReply,
    body=OtherBody,
    summary="End a friendship",
)
PLATFORM_FRIENDS: Final = Operation(
    "POST",
    "/api/friends.php/platform",
    reply=PlatformReply,
    body=PlatformBody,
    summary="Find players by who they are on the platform",
    repeatable=True,
)
