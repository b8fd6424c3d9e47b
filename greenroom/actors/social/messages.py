"""What a pair of players is asked, what it answers, what happens to it, and how it refuses.

A pair is one actor, so the two never see different things. `player_id` in a command is the one of
them who acts; "own" is what is his, "other" what is the other's. Times are in Unix seconds.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from greenroom.actors.kernel.errors import NotFound, Refused
from greenroom.actors.kernel.message import Command, Event

Relationship = Literal["friend", "incoming", "outgoing"]
"""What another is to a player: `incoming` has asked him, `outgoing` was asked by him."""
RequestStatus = Literal["pending", "accepted"]


class FriendshipRole:
    """Marks commands that pairs of players take."""


class Pair(NamedTuple):
    """Two players of a game, the lower id first: the key of their actor."""

    game_id: int
    low_id: int
    high_id: int

    @classmethod
    def of(cls, game_id: int, one_id: int, other_id: int) -> Pair:
        """Return the pair of two players, whatever their order."""
        return cls(game_id, min(one_id, other_id), max(one_id, other_id))


class Friendship(msgspec.Struct, kw_only=True):
    """What is between the two of a pair; a pair with nothing between them has none."""

    status: RequestStatus
    requested_by: int


class FriendLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's settings say about friends."""

    friends_max: int = 500
    """Friends of a player."""
    friend_requests_max: int = 500
    """Unanswered requests from a player, and as many to him."""


class Tally(msgspec.Struct, frozen=True):
    """How many friends and unanswered requests a player has; rather too many than too few."""

    friends: int = 0
    incoming: int = 0
    outgoing: int = 0


# Events.


class FriendshipRequested(Event, frozen=True):
    """One of them asks the other."""

    game_id: int
    low_id: int
    high_id: int
    requested_by: int
    at: int


class FriendshipAccepted(Event, frozen=True):
    """They are friends."""

    game_id: int
    low_id: int
    high_id: int
    at: int


class FriendshipEnded(Event, frozen=True):
    """There is nothing between them any more: declined, or removed."""

    game_id: int
    low_id: int
    high_id: int


# Replies.


class Friend(msgspec.Struct, frozen=True, kw_only=True):
    """Another player as one player sees him; `player_tag` without its `#`."""

    player_id: int
    player_name: str
    player_tag: str
    relationship: Relationship | None
    platform_id: str | None = None
    is_online: bool = False


# Commands.


class ReadRelationship(Command[FriendshipRole, Relationship | None], frozen=True):
    """See what the other is to a player."""

    player_id: int


class RequestFriendship(Command[FriendshipRole, RequestStatus], frozen=True):
    """Ask the other; if he has asked before, accept.

    Refused: NoSuchPlayer, AlreadyFriends, FriendRequestAlreadySent, FriendsFull, OtherFriendsFull,
    FriendRequestsFull, OtherFriendRequestsFull.
    """

    player_id: int
    own: Tally
    other: Tally


class AcceptFriendship(Command[FriendshipRole, None], frozen=True):
    """Become friends. Refused: FriendRequestNotFound, FriendsFull, OtherFriendsFull."""

    player_id: int
    own: Tally
    other: Tally


class DeclineFriendship(Command[FriendshipRole, None], frozen=True):
    """Say no to the other's request. Refused: FriendRequestNotFound."""

    player_id: int


class EndFriendship(Command[FriendshipRole, None], frozen=True):
    """Be friends no more. Refused: NotFriends."""

    player_id: int


# Refusals. The texts are matched whole by clients.


class NoSuchPlayer(NotFound):
    """Nobody of this game has this id or tag."""

    text = "Player not found"


class BefriendingOneself(Refused):
    """One is one's own friend already."""

    text = "You cannot add yourself"


class AlreadyFriends(Refused):
    """There is nothing left to ask."""

    text = "You are already friends"


class FriendRequestAlreadySent(Refused):
    """The other has still to answer."""

    text = "Friend request already sent"


class FriendRequestNotFound(NotFound):
    """No request of this player waits for the caller."""

    text = "Friend request not found"


class NotFriends(Refused):
    """The other is no friend (yet)."""

    text = "You are not friends with this player"


class FriendsFull(Refused):
    """The caller has as many friends as one may have."""

    text = "Your friend list is full"


class OtherFriendsFull(Refused):
    """The other has as many friends as one may have."""

    text = "The friend list of this player is full"


class FriendRequestsFull(Refused):
    """The caller waits for as many answers as one may."""

    text = "You have too many unanswered friend requests"


class OtherFriendRequestsFull(Refused):
    """The other has as many requests to answer as one may have."""

    text = "This player has too many unanswered friend requests"
