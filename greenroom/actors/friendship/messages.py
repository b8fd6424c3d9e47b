"""Commands, replies and events of a pair of players.

A pair is one actor, so the two never see different things. `player_id` in a command is the player
who acts; "own" means theirs, "other" the other's. Times are in Unix seconds.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from greenroom.actors.kernel.message import Command, Event
from greenroom.contract.allowed_values import FriendRequestStatus, Relationship


class FriendshipRole:
    """Marks commands that pairs of players take."""


class Pair(NamedTuple):
    """Two players of a game, the lower id first: the key of their actor."""

    game_id: int
    low_id: int
    high_id: int

    @classmethod
    def make(cls, game_id: int, one_id: int, other_id: int) -> Pair:
        """Return the pair of two players, whatever their order."""
        return cls(game_id, min(one_id, other_id), max(one_id, other_id))


class Friendship(msgspec.Struct, kw_only=True):
    """A friendship or a request; a pair without either has none."""

    status: FriendRequestStatus
    requested_by: int


class FriendLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The server's settings about friends."""

    friends_max: int
    """Friends of a player."""
    friend_requests_max: int
    """Unanswered requests from a player, and as many to them."""


class Tally(msgspec.Struct, frozen=True):
    """How many friends and unanswered requests a player has; rather too many than too few."""

    friends: int = 0
    incoming: int = 0
    outgoing: int = 0


# Events.


class FriendshipRequested(Event, frozen=True):
    """One of the two asks the other."""

    game_id: int
    low_id: int
    high_id: int
    requested_by: int
    at: int


class FriendshipAccepted(Event, frozen=True):
    """The two are friends."""

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
    """A player as another player sees them; `player_tag` without its `#`."""

    player_id: int
    player_name: str
    player_tag: str
    relationship: Relationship | None
    platform_id: str | None = None
    is_online: bool = False
    shard: int | None = None
    """The partition that they live in; None if their game has one."""


# Commands.


class ReadRelationship(Command[FriendshipRole, Relationship | None], frozen=True):
    """Read what the other is to a player."""

    player_id: int


class RequestFriendship(Command[FriendshipRole, FriendRequestStatus], frozen=True):
    """Ask the other to be friends; if they have asked before, accept.

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
    """End the friendship. Refused: NotFriends."""

    player_id: int
