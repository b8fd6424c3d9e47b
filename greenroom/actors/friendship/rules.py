"""Rules of friendships: commands to events. Pure: no clock, no randomness, no ids, no database.

    between them, as the caller sees it   command             comes to                  refused
    nothing                               RequestFriendship   FriendshipRequested       limits
    outgoing                              RequestFriendship                             already sent
    incoming                              RequestFriendship   FriendshipAccepted        limits
    friend                                RequestFriendship                             are friends
    incoming                              AcceptFriendship    FriendshipAccepted        limits
    incoming                              DeclineFriendship   FriendshipEnded
    anything else                         either of the two                             no request
    friend                                EndFriendship       FriendshipEnded
    anything else                         EndFriendship                                 no friends

Each `decide_*` refuses or returns the event, and changes nothing; `apply_event` cannot fail.
"""

from __future__ import annotations

from greenroom.actors.friendship.messages import (
    AcceptFriendship,
    FriendLimits,
    Friendship,
    FriendshipAccepted,
    FriendshipEnded,
    FriendshipRequested,
    Pair,
    RequestFriendship,
    Tally,
)
from greenroom.actors.friendship.refusals import (
    AlreadyFriends,
    FriendRequestAlreadySent,
    FriendRequestNotFound,
    FriendRequestsFull,
    FriendsFull,
    NotFriends,
    OtherFriendRequestsFull,
    OtherFriendsFull,
)
from greenroom.actors.kernel.message import Event
from greenroom.contract.allowed_values import Relationship


def relationship_to(friendship: Friendship | None, player_id: int) -> Relationship | None:
    """Return what the other of a pair is to a player."""
    if friendship is None:
        return None
    if friendship.status == "accepted":
        return "friend"
    return "outgoing" if friendship.requested_by == player_id else "incoming"


def decide_request(
    pair: Pair,
    friendship: Friendship | None,
    command: RequestFriendship,
    limits: FriendLimits,
    now: int,
) -> FriendshipRequested | FriendshipAccepted:
    """Ask the other, or accept their request.

    Raises:
        AlreadyFriends, FriendRequestAlreadySent: there is nothing to ask.
        FriendsFull, OtherFriendsFull: the other has asked, and one of the two has too many friends.
        FriendRequestsFull, OtherFriendRequestsFull: one of the two has too many open requests.
    """
    match relationship_to(friendship, command.player_id):
        case "friend":
            raise AlreadyFriends
        case "outgoing":
            raise FriendRequestAlreadySent
        case "incoming":
            return _befriend(pair, command.own, command.other, limits, now)
        case _:
            pass
    if command.own.outgoing >= limits.friend_requests_max:
        raise FriendRequestsFull
    if command.other.incoming >= limits.friend_requests_max:
        raise OtherFriendRequestsFull
    return FriendshipRequested(*pair, command.player_id, now)


def decide_accept(
    pair: Pair,
    friendship: Friendship | None,
    command: AcceptFriendship,
    limits: FriendLimits,
    now: int,
) -> FriendshipAccepted:
    """Become friends.

    Raises:
        FriendRequestNotFound: the other has not asked.
        FriendsFull, OtherFriendsFull: one of the two has too many friends.
    """
    if relationship_to(friendship, command.player_id) != "incoming":
        raise FriendRequestNotFound
    return _befriend(pair, command.own, command.other, limits, now)


def decide_decline(pair: Pair, friendship: Friendship | None, player_id: int) -> FriendshipEnded:
    """Say no.

    Raises:
        FriendRequestNotFound: the other has not asked.
    """
    if relationship_to(friendship, player_id) != "incoming":
        raise FriendRequestNotFound
    return FriendshipEnded(*pair)


def decide_end(pair: Pair, friendship: Friendship | None, player_id: int) -> FriendshipEnded:
    """End a friendship.

    Raises:
        NotFriends: they are none.
    """
    if relationship_to(friendship, player_id) != "friend":
        raise NotFriends
    return FriendshipEnded(*pair)


def apply_event(friendship: Friendship | None, event: Event) -> Friendship | None:
    """Return what is between the two after an event that has happened; cannot fail."""
    match event:
        case FriendshipRequested():
            return Friendship(status="pending", requested_by=event.requested_by)
        case FriendshipAccepted():
            assert friendship is not None
            return Friendship(status="accepted", requested_by=friendship.requested_by)
        case FriendshipEnded():
            return None
        case _:
            raise TypeError(f"a friendship cannot apply {type(event).__name__}")


def _befriend(
    pair: Pair, own: Tally, other: Tally, limits: FriendLimits, now: int
) -> FriendshipAccepted:
    if own.friends >= limits.friends_max:
        raise FriendsFull
    if other.friends >= limits.friends_max:
        raise OtherFriendsFull
    return FriendshipAccepted(*pair, now)
