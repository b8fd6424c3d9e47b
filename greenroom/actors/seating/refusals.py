"""Refusals of invites and passwords. The texts are matched whole by clients."""

from __future__ import annotations

from greenroom.actors.kernel.errors import NotFound, Refused


class NotInRoomOrLobby(Refused):
    """The player who invites is not in the room or lobby."""

    text = "You are not in a room or lobby"


class InviteAlreadySent(Refused):
    """The player has an open invite to this room or lobby, from whomever."""

    text = "Invite already sent"


class InviteNotFound(NotFound):
    """No invite of this id waits for the caller's answer."""

    text = "Invite not found"


class TooManyInvites(Refused):
    """The room or lobby, or the invited player, has as many open invites as it may."""

    text = "Too many unanswered invites"


class TooManyGuesses(Refused):
    """Too many wrong passwords have been tried (429); a right join token or an invite still opens.

    Attributes:
        retry_seconds: until the next may be tried.
    """

    text = "Too many wrong passwords"

    def __init__(self, retry_seconds: float) -> None:
        """Say when to try again."""
        super().__init__()
        self.retry_seconds = retry_seconds
