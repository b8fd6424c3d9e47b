"""What the realtime port asks of rooms: tokens to connect with, and messages to pass on."""

from __future__ import annotations

import msgspec

from greenroom.actors.kernel.message import Command
from greenroom.actors.room.messages import Group, RoomRole


class TokenHolder(msgspec.Struct, frozen=True):
    """Who a new token is for."""

    player_name: str
    is_host: bool


class Admitted(msgspec.Struct, frozen=True):
    """Whom a good token lets in.

    `player_token_hash` is of the player token that it was asked for with: while that one is good,
    so is this.
    """

    player_id: int
    game_id: int
    player_token_hash: bytes


class IssueToken(Command[RoomRole, TokenHolder], frozen=True):
    """Let a member connect with a token, of which the hash is kept. Refused: NotRealtime."""

    player_id: int
    token_hash: bytes
    player_token_hash: bytes


class AdmitToken(Command[RoomRole, Admitted], frozen=True):
    """Find out whose token this is. Refused: TokenUnknown, TokenInvalidated."""

    token_hash: bytes


class SendMessage(Command[RoomRole, None], frozen=True, gc=False):
    """Pass a member's message on; `data` is JSON. Refused: PlayerNotInAnyRoom.

    `stream` is of a message that came over the fast lane (0: of none): it may be lost, is kept for
    nobody, and its sender is not told whom it has reached.
    """

    player_id: int
    name: str
    data: bytes
    targets: Group
    stream: int | None = None
