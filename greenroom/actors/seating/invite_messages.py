"""Invites: what rooms and lobbies are asked about them.

An invite lives in the room or lobby that it opens: its journal is where it is kept, and it ends
with it. The same commands go to both.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from greenroom.actors.kernel.message import Command

InviteAnswer = Literal["accepted", "declined"]


class InvitingRole:
    """Marks commands about invites, which rooms and lobbies take alike."""


class Inviter(msgspec.Struct, frozen=True):
    """The player who invites, by their name at that time; `player_tag` without its `#`."""

    player_id: int
    player_name: str
    player_tag: str


class InviteView(msgspec.Struct, frozen=True):
    """An open invite as the invited player sees it; `key` is of the room or lobby it opens."""

    invite_id: str
    kind: Literal["room", "lobby"]
    key: str
    name: str
    inviter: Inviter


class InvitePlayer(Command[InvitingRole, None], frozen=True):
    """Let a player in without password or approval, unless they decline.

    Refused: NotInRoomOrLobby, InviteAlreadySent, TooManyInvites.
    """

    invite_id: str
    inviter: Inviter
    player_id: int


class AnswerInvite(Command[InvitingRole, None], frozen=True):
    """Accept or decline one's invite. Refused: InviteNotFound."""

    player_id: int
    invite_id: str
    answer: InviteAnswer
