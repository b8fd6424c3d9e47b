"""Invites as rooms and lobbies hold them, one for each invited player. Pure.

    pending ── accepts, or joins ──► accepted: opens the place as before, but is no longer shown
    pending ── declines ───────────► gone
    either ── kicked or banned ────► gone: the player is not to come again
    either ── the place ends ──────► gone

An invite belongs to the place. It stands even if the inviter leaves or is no longer a friend. A
kick or ban of the invited player ends it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from greenroom.actors.kernel.message import Event
from greenroom.actors.seating.invite_messages import (
    AnswerInvite,
    InviteAnswer,
    InvitePlayer,
    Inviter,
    InviteView,
)
from greenroom.actors.seating.refusals import InviteAlreadySent, InviteNotFound, TooManyInvites
from greenroom.actors.seating.transitions import INVITE, InviteState, InviteStep

INVITES_MAX: Final = 64
"""Invites that a room or lobby holds; beyond, the oldest accepted falls off, or it is refused."""


class Invite(msgspec.Struct, frozen=True):
    """An invite that was not declined."""

    invite_id: str
    player_id: int
    inviter: Inviter
    is_accepted: bool = False

    @property
    def state(self) -> InviteState:
        """Return where the invite stands in the table of its transitions."""
        return InviteState.ACCEPTED if self.is_accepted else InviteState.PENDING

    def can(self, step: InviteStep) -> bool:
        """Return whether a step is possible now."""
        return step in INVITE[self.state]


Invites = dict[int, Invite]
"""By invited player, oldest first."""


class Invited(Event, frozen=True):
    """A member has invited a player; an older invite of that player is void."""

    invite_id: str
    player_id: int
    inviter: Inviter
    at: int


class InviteAnswered(Event, frozen=True):
    """The invited player has answered."""

    player_id: int
    answer: InviteAnswer
    at: int


class InviteDropped(Event, frozen=True):
    """An accepted invite had to make room for another."""

    player_id: int
    at: int


InviteEvent = Invited | InviteAnswered | InviteDropped


def decide_invite(invites: Invites, command: InvitePlayer, now: int) -> tuple[InviteEvent, ...]:
    """Invite a player; that the inviter is a member has been checked.

    Raises:
        InviteAlreadySent: the player has still to answer one.
        TooManyInvites: so many others have.
    """
    before = invites.get(command.player_id)
    if before is not None and not before.can(InviteStep.REPLACED):
        raise InviteAlreadySent
    invited = Invited(command.invite_id, command.player_id, command.inviter, now)
    if before is not None or len(invites) < INVITES_MAX:
        return (invited,)
    oldest = next((i for i, invite in invites.items() if invite.can(InviteStep.REPLACED)), None)
    if oldest is None:
        raise TooManyInvites
    return (InviteDropped(oldest, now), invited)


def decide_answer(invites: Invites, command: AnswerInvite, now: int) -> InviteAnswered:
    """Accept or decline.

    Raises:
        InviteNotFound: it is another player's, or no longer open.
    """
    invite = invites.get(command.player_id)
    step = InviteStep(command.answer)
    if invite is None or invite.invite_id != command.invite_id or not invite.can(step):
        raise InviteNotFound
    return InviteAnswered(command.player_id, command.answer, now)


def apply(invites: Invites, event: InviteEvent) -> None:
    """Change the invites by one event that has happened; cannot fail."""
    if isinstance(event, InviteAnswered):
        _follow(invites, event.player_id, InviteStep(event.answer))
        return
    _follow(invites, event.player_id, InviteStep.REPLACED)
    if isinstance(event, Invited):
        invites[event.player_id] = Invite(event.invite_id, event.player_id, event.inviter)


def leave(invites: Invites, player_id: int, reason: str) -> None:
    """End the invite of a member who was put out on purpose, so that it does not let them in."""
    if reason in {"kicked", "banned"}:
        _follow(invites, player_id, InviteStep.PUT_OUT)


def view_invites(
    invites: Invites, kind: Literal["room", "lobby"], key: str, name: str
) -> dict[int, InviteView]:
    """Return the open ones by player, as they see them."""
    return {
        player_id: InviteView(invite.invite_id, kind, key, name, invite.inviter)
        for player_id, invite in invites.items()
        if not invite.is_accepted
    }


def accept(invites: Invites, player_id: int) -> None:
    """Mark a player's invite as accepted, if there is one: the player joined, or said so."""
    _follow(invites, player_id, InviteStep.JOINED)


def _follow(invites: Invites, player_id: int, step: InviteStep) -> None:
    """Let a step lead a player's invite where the table says, if it leads anywhere."""
    invite = invites.get(player_id)
    after = None if invite is None else INVITE[invite.state].get(step)
    if invite is not None and after is InviteState.ACCEPTED:
        invites[player_id] = msgspec.structs.replace(invite, is_accepted=True)
    elif after is InviteState.GONE:
        del invites[player_id]
