"""Realtime tokens: members connect with them, for five minutes. Pure.

    MemberLeft, RoomEnded   invalidate them; they are remembered until they expire, so that a
                            client that still uses one is told why
    five minutes            expire them; they are remembered for ten more
    a newer player token    invalidates them, too: each is bound to the one it was asked for
                            with, and the flow asks the player whether that is still good

A member has at most `TOKENS_A_MEMBER_MAX`.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

from greenroom.actors.room.rules.channel import Admitted, IssueToken
from greenroom.actors.room.rules.events import RealtimeTokenIssued
from greenroom.actors.room.rules.refusals import (
    NotRealtime,
    TokenExpired,
    TokenInvalidated,
    TokenUnknown,
)
from greenroom.actors.room.rules.state import RealtimeToken, Room
from greenroom.contract.refusals import NOT_REALTIME_HINT

TOKEN_SECONDS: Final = 300
EXPIRED_SECONDS: Final = 600
"""For so long an expired token is remembered, so that its bearer is told why."""
TOKENS_A_MEMBER_MAX: Final = 8
"""Beyond it a member's oldest token is dropped, whether it is good or has expired."""
REVOKED_MAX: Final = 64
"""Invalidated tokens that are remembered; beyond, the oldest becomes unknown."""


def decide_issue(room: Room, command: IssueToken, now: int) -> RealtimeTokenIssued:
    """Give a member a token.

    Raises:
        NotRealtime: the player is no member, or the room is not for realtime.
    """
    if not room.realtime and command.player_id in room.members:
        refusal = NotRealtime()
        refusal.hint = NOT_REALTIME_HINT
        raise refusal
    if command.player_id not in room.members:
        raise NotRealtime
    return RealtimeTokenIssued(
        command.player_id, command.token_hash, command.player_token_hash, now
    )


def admit(room: Room, token_hash: bytes, now: int) -> Admitted:
    """Return the member whose token this is.

    Raises:
        TokenUnknown: it is nobody's.
        TokenExpired: it has expired.
        TokenInvalidated: its holder is no longer a member, or the room has ended.
    """
    tokens = (token for token in room.tokens if compare_digest(token.token_hash, token_hash))
    token = next(tokens, None)
    if token is None:
        raise TokenUnknown
    if token.expires_at <= now:
        raise TokenExpired
    if token.is_revoked or not room.is_active:
        raise TokenInvalidated
    return Admitted(token.player_id, room.game_id, token.player_token_hash)


def issue(room: Room, event: RealtimeTokenIssued) -> None:
    """Keep a new token, and of the old ones those whose bearer can be told something."""
    kept = [token for token in room.tokens if event.at < _forgotten_at(token)]
    own = [token for token in kept if token.player_id == event.player_id and not token.is_revoked]
    if len(own) >= TOKENS_A_MEMBER_MAX:
        kept.remove(own[0])
    kept.append(
        RealtimeToken(
            token_hash=event.token_hash,
            player_token_hash=event.player_token_hash,
            player_id=event.player_id,
            expires_at=event.at + TOKEN_SECONDS,
        )
    )
    room.tokens = kept


def _forgotten_at(token: RealtimeToken) -> int:
    """Return the Unix second from which on a token may be dropped."""
    return token.expires_at + (0 if token.is_revoked else EXPIRED_SECONDS)


def revoke(room: Room, player_id: int) -> None:
    """Invalidate the tokens of a member who has left."""
    for token in room.tokens:
        if token.player_id == player_id:
            token.is_revoked = True
    revoked = [token for token in room.tokens if token.is_revoked]
    for token in revoked[:-REVOKED_MAX]:
        room.tokens.remove(token)
