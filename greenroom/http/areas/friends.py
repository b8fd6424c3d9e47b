"""The friends area: finding players, friend requests, friends."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from greenroom.actors.flows.friends import (
    Addressee,
    accept_friendship,
    decline_friendship,
    end_friendship,
    find_platform_friends,
    list_friends,
    look_up,
    request_friendship,
)
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.player.messages import DescribePlayer
from greenroom.actors.social.messages import (
    AlreadyFriends,
    BefriendingOneself,
    Friend,
    FriendRequestAlreadySent,
    FriendRequestNotFound,
    FriendRequestsFull,
    FriendsFull,
    NoSuchPlayer,
    NotFriends,
    OtherFriendRequestsFull,
    OtherFriendsFull,
    Relationship,
    RequestStatus,
)
from greenroom.http.caller import PlayerCaller
from greenroom.http.fields import Body, Missing, OtherPlayerId, Reply
from greenroom.http.table import Auth, Endpoint, TokenTexts

AREA: Final = "/api/friends.php"
TEXTS: Final = TokenTexts(
    key_missing="API token is required",
    token_missing="Player token is required",
    token_invalid="Invalid player token",
)
PLATFORM_IDS_MAX: Final = 100


class NobodyNamed(Refused):
    """Neither a tag nor an id."""

    text = "Missing required field: player_tag or player_id"


class InvalidPlatformIds(Refused):
    """No list of ids, or too long a one."""

    text = f"platform_ids must be an array of at most {PLATFORM_IDS_MAX} strings"


class FriendInfo(msgspec.Struct, kw_only=True):
    """A player as another sees him; `relationship` is what he is to that other."""

    player_id: int
    player_name: str
    player_tag: str
    is_online: bool
    platform_id: str | None
    relationship: Relationship | None


def _info(friend: Friend) -> FriendInfo:
    return FriendInfo(
        player_id=friend.player_id,
        player_name=friend.player_name,
        player_tag=shown_tag(friend.player_tag),
        is_online=friend.is_online,
        platform_id=friend.platform_id,
        relationship=friend.relationship,
    )


def shown_tag(player_tag: str) -> str:
    """Return a tag as answers give it."""
    return f"#{player_tag}"


# list, lookup, platform


class FriendListReply(Reply, kw_only=True):
    """Friends, and open requests both ways; the longest so first. `player_tag` is one's own."""

    player_tag: str
    friends: list[FriendInfo]
    incoming: list[FriendInfo]
    outgoing: list[FriendInfo]


class AddresseeBody(Body, kw_only=True):
    """Another player, by his tag (which counts if both are given) or his id."""

    player_tag: str | None = None
    player_id: int | None = None


class LookupReply(Reply, kw_only=True):
    """The player who was found, and what he is to the caller."""

    player: FriendInfo
    relationship: Relationship | None


class PlatformBody(Body, kw_only=True):
    """Users of the platform that the game signs in with: the friends that it knows of."""

    platform_ids: Annotated[
        list[str],
        Missing(InvalidPlatformIds.text, covers_wrong_types=True),
        msgspec.Meta(max_length=PLATFORM_IDS_MAX, examples=[["76561197960287930"]]),
    ]


class PlatformReply(Reply, kw_only=True):
    """Those of them who play this game, in the order of the ids."""

    players: list[FriendInfo]


async def list_(caller: PlayerCaller) -> FriendListReply:
    """See one's friends and open requests."""
    own = await caller.player.ask(DescribePlayer())
    found = await list_friends(caller.world, caller.player_id)
    return FriendListReply(
        player_tag=shown_tag(own.player_tag),
        friends=[_info(friend) for friend in found.friends],
        incoming=[_info(friend) for friend in found.incoming],
        outgoing=[_info(friend) for friend in found.outgoing],
    )


async def lookup(caller: PlayerCaller, body: AddresseeBody) -> LookupReply:
    """Find a player of the game."""
    found = await look_up(caller.world, caller.game, caller.player_id, _addressee(body))
    return LookupReply(player=_info(found), relationship=found.relationship)


async def platform(caller: PlayerCaller, body: PlatformBody) -> PlatformReply:
    """Find players by who they are on the platform."""
    if len(body.platform_ids) > PLATFORM_IDS_MAX:
        raise InvalidPlatformIds
    found = await find_platform_friends(
        caller.world, caller.game_id, caller.player_id, body.platform_ids
    )
    return PlatformReply(players=[_info(friend) for friend in found])


def _addressee(body: AddresseeBody) -> Addressee:
    if body.player_tag is None and body.player_id is None:
        raise NobodyNamed
    return Addressee(body.player_tag, body.player_id)


# request, accept, decline, remove


class FriendRequestReply(Reply, kw_only=True):
    """Whether the other has still to answer, or (he had asked, too) they are friends now."""

    status: RequestStatus
    player_id: int


class OtherBody(Body, kw_only=True):
    """Which other player."""

    player_id: OtherPlayerId


class FriendAcceptReply(Reply, kw_only=True):
    """They are friends."""

    message: str = "Friend request accepted"
    player_id: int


class FriendDeclineReply(Reply, kw_only=True):
    """The request is gone."""

    message: str = "Friend request declined"
    player_id: int


class FriendRemoveReply(Reply, kw_only=True):
    """They are friends no more."""

    message: str = "Friend removed"
    player_id: int


async def request(caller: PlayerCaller, body: AddresseeBody) -> FriendRequestReply:
    """Ask a player to be friends; if he has asked before, accept."""
    player_id, status = await request_friendship(
        caller.world, caller.game, caller.player_id, _addressee(body)
    )
    return FriendRequestReply(status=status, player_id=player_id)


async def accept(caller: PlayerCaller, body: OtherBody) -> FriendAcceptReply:
    """Become friends with whoever has asked."""
    await accept_friendship(caller.world, caller.game_id, caller.player_id, body.player_id)
    return FriendAcceptReply(player_id=body.player_id)


async def decline(caller: PlayerCaller, body: OtherBody) -> FriendDeclineReply:
    """Say no to whoever has asked."""
    await decline_friendship(caller.world, caller.game_id, caller.player_id, body.player_id)
    return FriendDeclineReply(player_id=body.player_id)


async def remove(caller: PlayerCaller, body: OtherBody) -> FriendRemoveReply:
    """Be friends no more."""
    await end_friendship(caller.world, caller.game_id, caller.player_id, body.player_id)
    return FriendRemoveReply(player_id=body.player_id)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path=f"{AREA}/list",
        auth=Auth.PLAYER,
        texts=TEXTS,
        reply=FriendListReply,
        handler=list_,
        summary="List friends and open requests",
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/lookup",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=AddresseeBody,
        reply=LookupReply,
        handler=lookup,
        summary="Find a player by his tag",
        rate_class="read",
        refusals=(NobodyNamed, NoSuchPlayer),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/request",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=AddresseeBody,
        reply=FriendRequestReply,
        handler=request,
        summary="Ask a player to be friends",
        refusals=(
            *(NobodyNamed, NoSuchPlayer, BefriendingOneself, AlreadyFriends),
            *(FriendRequestAlreadySent, FriendRequestsFull, OtherFriendRequestsFull),
            *(FriendsFull, OtherFriendsFull),
        ),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/accept",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=OtherBody,
        reply=FriendAcceptReply,
        handler=accept,
        summary="Accept a friend request",
        refusals=(FriendRequestNotFound, FriendsFull, OtherFriendsFull),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/decline",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=OtherBody,
        reply=FriendDeclineReply,
        handler=decline,
        summary="Decline a friend request",
        refusals=(FriendRequestNotFound,),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/remove",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=OtherBody,
        reply=FriendRemoveReply,
        handler=remove,
        summary="End a friendship",
        refusals=(NotFriends,),
    ),
    Endpoint(
        method="POST",
        path=f"{AREA}/platform",
        auth=Auth.PLAYER,
        texts=TEXTS,
        body=PlatformBody,
        reply=PlatformReply,
        handler=platform,
        summary="Find players by who they are on the platform",
        rate_class="read",
        refusals=(InvalidPlatformIds,),
    ),
)
