"""The friends area: finding players, friend requests, friends."""

from __future__ import annotations

from typing import Final

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
from greenroom.actors.friendship.messages import Friend
from greenroom.actors.friendship.refusals import (
    AlreadyFriends,
    BefriendingOneself,
    FriendRequestAlreadySent,
    FriendRequestNotFound,
    FriendRequestsFull,
    FriendsFull,
    NoSuchPlayer,
    NotFriends,
    OtherFriendRequestsFull,
    OtherFriendsFull,
)
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.player.messages import DescribePlayer
from greenroom.contract.friends import (
    ACCEPT_FRIEND,
    DECLINE_FRIEND,
    LIST_FRIENDS,
    LOOK_UP,
    PLATFORM_FRIENDS,
    PLATFORM_IDS_MAX,
    PLATFORM_IDS_TEXT,
    REMOVE_FRIEND,
    REQUEST_FRIEND,
    AddresseeBody,
    FriendAcceptReply,
    FriendDeclineReply,
    FriendInfo,
    FriendListReply,
    FriendRemoveReply,
    FriendRequestReply,
    LookupReply,
    OtherBody,
    PlatformBody,
    PlatformReply,
)
from greenroom.http.caller import PlayerCaller
from greenroom.http.table import Area, Auth, TokenTexts

TEXTS: Final = TokenTexts(
    key_missing="API token is required",
    token_missing="Player token is required",
    token_invalid="Invalid player token",
)


ENDPOINTS: Final = Area(Auth.PLAYER, TEXTS)


class NobodyNamed(Refused):
    """The request names neither a tag nor an id."""

    text = "Missing required field: player_tag or player_id"


class InvalidPlatformIds(Refused):
    """The ids are not a list, or too many."""

    text = PLATFORM_IDS_TEXT


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
    """Return a tag with the `#` that answers show."""
    return f"#{player_tag}"


@ENDPOINTS.add(LIST_FRIENDS)
async def list_(caller: PlayerCaller) -> FriendListReply:
    """List the caller's friends and open requests."""
    own = await caller.player.ask(DescribePlayer())
    found = await list_friends(caller.world, caller.player_id)
    return FriendListReply(
        player_tag=shown_tag(own.player_tag),
        friends=[_info(friend) for friend in found.friends],
        incoming=[_info(friend) for friend in found.incoming],
        outgoing=[_info(friend) for friend in found.outgoing],
    )


@ENDPOINTS.add(LOOK_UP, refusals=(NobodyNamed, NoSuchPlayer), rate_class="read")
async def lookup(caller: PlayerCaller, body: AddresseeBody) -> LookupReply:
    """Find a player of the game."""
    found = await look_up(caller.world, caller.game, caller.player_id, _addressee(body))
    return LookupReply(player=_info(found), relationship=found.relationship)


def _addressee(body: AddresseeBody) -> Addressee:
    if body.player_tag is None and body.player_id is None:
        raise NobodyNamed
    return Addressee(body.player_tag, body.player_id)


@ENDPOINTS.add(
    REQUEST_FRIEND,
    refusals=(
        *(NobodyNamed, NoSuchPlayer, BefriendingOneself, AlreadyFriends),
        *(FriendRequestAlreadySent, FriendRequestsFull, OtherFriendRequestsFull),
        *(FriendsFull, OtherFriendsFull),
    ),
)
async def request(caller: PlayerCaller, body: AddresseeBody) -> FriendRequestReply:
    """Ask a player to be friends; if they have asked before, accept."""
    player_id, status = await request_friendship(
        caller.world, caller.game, caller.player_id, _addressee(body)
    )
    return FriendRequestReply(status=status, player_id=player_id)


@ENDPOINTS.add(ACCEPT_FRIEND, refusals=(FriendRequestNotFound, FriendsFull, OtherFriendsFull))
async def accept(caller: PlayerCaller, body: OtherBody) -> FriendAcceptReply:
    """Accept the request of another player."""
    await accept_friendship(caller.world, caller.game_id, caller.player_id, body.player_id)
    return FriendAcceptReply(player_id=body.player_id)


@ENDPOINTS.add(DECLINE_FRIEND, refusals=(FriendRequestNotFound,))
async def decline(caller: PlayerCaller, body: OtherBody) -> FriendDeclineReply:
    """Decline the request of another player."""
    await decline_friendship(caller.world, caller.game_id, caller.player_id, body.player_id)
    return FriendDeclineReply(player_id=body.player_id)


@ENDPOINTS.add(REMOVE_FRIEND, refusals=(NotFriends,))
async def remove(caller: PlayerCaller, body: OtherBody) -> FriendRemoveReply:
    """End a friendship."""
    await end_friendship(caller.world, caller.game_id, caller.player_id, body.player_id)
    return FriendRemoveReply(player_id=body.player_id)


@ENDPOINTS.add(PLATFORM_FRIENDS, refusals=(InvalidPlatformIds,), rate_class="read")
async def platform(caller: PlayerCaller, body: PlatformBody) -> PlatformReply:
    """Find players by their ids on the platform."""
    if len(body.platform_ids) > PLATFORM_IDS_MAX:
        raise InvalidPlatformIds
    found = await find_platform_friends(
        caller.world, caller.game_id, caller.player_id, body.platform_ids
    )
    return PlatformReply(players=[_info(friend) for friend in found])
