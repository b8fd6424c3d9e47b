"""Refusals of friendships. The texts are matched whole by clients."""

from __future__ import annotations

from greenroom.actors.kernel.errors import NotFound, Refused


class NoSuchPlayer(NotFound):
    """Nobody of this game has this id or tag."""

    text = "Player not found"


class BefriendingOneself(Refused):
    """The player asked themselves."""

    text = "You cannot add yourself"


class AlreadyFriends(Refused):
    """The two are friends already."""

    text = "You are already friends"


class FriendRequestAlreadySent(Refused):
    """The player has asked already, and the other has not answered."""

    text = "Friend request already sent"


class FriendRequestNotFound(NotFound):
    """No request of this player waits for the caller."""

    text = "Friend request not found"


class NotFriends(Refused):
    """The other is not a friend, or not yet."""

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
