"""Commands of the realtime port to rooms: tokens to connect with, and messages to pass on."""

from __future__ import annotations

import msgspec

from greenroom.actors.kernel.message import Command
from greenroom.actors.room.messages import Group, RoomRole
from greenroom.contract.allowed_values import RequestId


class TokenHolder(msgspec.Struct, frozen=True):
    """The member that a new token is for."""

    player_name: str
    is_host: bool


class Admitted(msgspec.Struct, frozen=True):
    """The member that a good token lets in.

    `player_token_hash` is the hash of the player token that the realtime token was asked for with.
    The realtime token is good as long as that one is.
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

    `stream` belongs to a message that came over the fast lane (0: no stream). Such a message may be
    lost, is stored for nobody, and its sender is not told how many it has reached.
    """

    player_id: int
    name: str
    data: bytes
    targets: Group
    stream: int | None = None
    request_id: RequestId | None = None
    """The sender's own id for it, which the answer carries."""
