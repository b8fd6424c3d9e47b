"""Rules of players: commands to events. Pure: no clock, no randomness, no ids, no database.

Every `decide_*` function looks at the record, and refuses or returns the events of the command. It
changes nothing. `apply` changes the record by one event and cannot fail.

    state            command               events                    refused
    (no record)      RegisterPlayer        PlayerRegistered
    any              LogIn                 PlayerLoggedIn
    any              LogOut                PlayerPresenceSaved, PlayerLoggedOut
    online, stale    LeaveIfStale          the same
    any              Rename                PlayerRenamed
    any              RotateToken           PlayerTokenRotated        token replaced
    any              SignIn                PlayerTokenRotated, PlayerLoggedIn    banned
    any              ReplacePlayerDocument PlayerDocumentReplaced
    any              WriteResult           PlayerDocumentReplaced, ResultsMarked; or none
    any              WriteStats            PlayerStatsChanged, ResultsMarked; or none    too many
    offline          BanPlayer             PlayerBanned              of another game
    online           BanPlayer             PlayerBanned, PlayerPresenceSaved, PlayerLoggedOut
    banned           UnbanPlayer           PlayerUnbanned            of another game

A banned player gets no further than `check_token`. Presence (online, last heartbeat) also follows
from the signs of life that `check_token` lets pass. Those are no events (`apply_sign_of_life`).
"""

from __future__ import annotations

import hmac
from typing import Final

from greenroom.actors.kernel.message import Event
from greenroom.actors.player import results
from greenroom.actors.player.bans import ban_in_force, ban_text, banned_until
from greenroom.actors.player.merging import merge
from greenroom.actors.player.messages import (
    Ban,
    BanPlayer,
    Player,
    PlayerBanned,
    PlayerCameOnline,
    PlayerDocumentReplaced,
    PlayerLoggedIn,
    PlayerLoggedOut,
    PlayerMoved,
    PlayerPresenceSaved,
    PlayerRegistered,
    PlayerRenamed,
    PlayerStatsChanged,
    PlayerTokenRotated,
    PlayerUnbanned,
    PlayerView,
    RegisterPlayer,
    ResultsMarked,
    StatsWritten,
    WriteStats,
)
from greenroom.actors.player.refusals import (
    DocumentTooLarge,
    InvalidPlayerToken,
    PlayerIsBanned,
    PlayerNotFound,
    PlayerOfAnotherGame,
    TooManyStats,
)
from greenroom.behaviour import stats

MERGED_BYTES_MAX: Final = 1 << 20
"""Bytes that results of rooms may let a document grow to. Beyond, it keeps what it had."""


def check_token(player: Player, game_id: int, token_hash: bytes, now: int) -> None:
    """Check that a token is the player's, and that the player is not banned.

    Raises:
        InvalidPlayerToken: it is not the player's token, or no longer.
        PlayerOfAnotherGame: it is, but the player plays another game.
        PlayerIsBanned: the player is banned at `now`.
    """
    if not hmac.compare_digest(player.token_hash, token_hash):
        raise InvalidPlayerToken
    if player.game_id != game_id:
        raise PlayerOfAnotherGame
    if player.ban is not None:
        check_not_banned(player, now)


def check_not_banned(player: Player, now: int) -> None:
    """Check that the player is not banned.

    Raises:
        PlayerIsBanned: the player is banned at `now`.
    """
    if player.ban is not None:
        ban = ban_in_force(player.ban, now)
        if ban is not None:
            raise PlayerIsBanned(ban, ban_text(ban, now))


def apply_sign_of_life(player: Player, now: int) -> None:
    """Mark the player online, and last heard of at `now`. No event says so."""
    player.is_online = True
    player.last_heartbeat = now


def view_player(player: Player) -> PlayerView:
    """Return what the record shows."""
    return PlayerView(
        player_id=player.player_id,
        game_id=player.game_id,
        player_name=player.player_name,
        player_tag=player.player_tag,
        player_data=player.player_data,
        is_online=player.is_online,
        last_login=player.last_login,
        last_heartbeat=player.last_heartbeat,
        last_logout=player.last_logout,
        created_at=player.created_at,
        updated_at=player.updated_at,
        platform_id=player.platform_id,
        stats=player.stats,
        shard=player.shard,
    )


def decide_register(command: RegisterPlayer, now: int) -> PlayerRegistered:
    """Open the account."""
    return PlayerRegistered(
        player_id=command.player_id,
        game_id=command.game_id,
        player_name=command.player_name,
        player_tag=command.player_tag,
        token_hash=command.token_hash,
        player_data=command.player_data,
        created_at=now,
        platform=command.platform,
        platform_id=command.platform_id,
        shard=command.shard,
    )


def decide_rotate(player: Player, old_hash: bytes, new_hash: bytes, now: int) -> PlayerTokenRotated:
    """Replace the token.

    Raises:
        InvalidPlayerToken: `old_hash` is no longer the hash of the player's token.
    """
    if not hmac.compare_digest(player.token_hash, old_hash):
        raise InvalidPlayerToken
    return PlayerTokenRotated(player.player_id, new_hash, now)


def decide_sign_in(player: Player, new_hash: bytes, now: int) -> tuple[Event, ...]:
    """Replace the token, whatever it was, and log in.

    Raises:
        PlayerIsBanned: the player is banned at `now`.
    """
    check_not_banned(player, now)
    return (
        PlayerTokenRotated(player.player_id, new_hash, now),
        PlayerLoggedIn(player.player_id, now),
    )


def decide_log_out(player: Player, now: int) -> tuple[Event, ...]:
    """Mark the player offline; the time of the last sign of life is written with it."""
    return (
        PlayerPresenceSaved(
            player.player_id, is_online=False, last_heartbeat=player.last_heartbeat
        ),
        PlayerLoggedOut(player.player_id, now),
    )


def decide_leave_if_stale(
    player: Player, silent_seconds: float, stale_seconds: float, now: int
) -> tuple[Event, ...]:
    """Mark a player offline who was silent for `stale_seconds` or longer; else return no events."""
    if not player.is_online or silent_seconds < stale_seconds:
        return ()
    return decide_log_out(player, now)


def decide_ban(
    player: Player, command: BanPlayer, now: int
) -> tuple[PlayerBanned, *tuple[Event, ...]]:
    """Ban the player from `now` on; a player who is online goes offline with it.

    Raises:
        PlayerNotFound: the player plays another game than the one that bans.
    """
    if player.game_id != command.game_id:
        raise PlayerNotFound
    ban = PlayerBanned(
        player_id=player.player_id,
        game_id=player.game_id,
        ban_id=command.ban_id,
        ban_duration=command.ban_duration,
        ban_reason=command.ban_reason,
        banned_at=now,
        banned_until=banned_until(command.ban_duration, now),
    )
    return (ban, *decide_log_out(player, now)) if player.is_online else (ban,)


def decide_unban(player: Player, game_id: int, now: int) -> tuple[Event, ...]:
    """End the ban that holds at `now`, if there is one.

    Raises:
        PlayerNotFound: the player plays another game than the one that pardons.
    """
    if player.game_id != game_id:
        raise PlayerNotFound
    if ban_in_force(player.ban, now) is None:
        return ()
    return (PlayerUnbanned(player.player_id, now),)


def ban_of(event: PlayerBanned) -> Ban:
    """Return the ban that an event established."""
    return Ban(
        ban_id=event.ban_id,
        ban_duration=event.ban_duration,
        ban_reason=event.ban_reason,
        banned_at=event.banned_at,
        banned_until=event.banned_until,
    )


def merge_documents(document: bytes, fields: dict[str, bytes]) -> bytes:
    """Return a document with some top-level fields set, the others as they were sent.

    Raises:
        DocumentTooLarge: it would exceed `MERGED_BYTES_MAX`.
    """
    whole = merge(document, fields)
    if len(whole) > MERGED_BYTES_MAX:
        raise DocumentTooLarge
    return whole


def decide_write_stats(
    player: Player, command: WriteStats
) -> tuple[StatsWritten, tuple[Event, ...]]:
    """Change stats, if that has not been done; return the reply with the events.

    Raises:
        PlayerNotFound: the player plays another game.
        TooManyStats: they would have too many.
    """
    if command.game_id not in {None, player.game_id}:
        raise PlayerNotFound
    source, number = command.source, command.number
    if source and results.is_written(player.results, source, number):
        return StatsWritten(player.stats, (), is_repeated=True), ()
    values = stats.read(player.stats)
    applied = tuple([stats.apply(values, change) for change in command.changes])
    if len(values) > stats.STORED_MAX:
        raise TooManyStats
    events: list[Event] = []
    written = stats.write(values) if any(applied) else player.stats
    if written != player.stats:
        events.append(
            PlayerStatsChanged(player.player_id, player.game_id, written, player.player_data)
        )
    if source:
        marks = results.mark(player.results, source, number)
        events.append(ResultsMarked(player.player_id, marks))
    return StatsWritten(written, applied), tuple(events)


def new_player(event: PlayerRegistered) -> Player:
    """Return the record that a new account starts with."""
    return Player(
        player_id=event.player_id,
        game_id=event.game_id,
        player_name=event.player_name,
        player_tag=event.player_tag,
        token_hash=event.token_hash,
        player_data=event.player_data,
        is_online=True,
        last_login=None,
        last_heartbeat=event.created_at,
        last_logout=None,
        created_at=event.created_at,
        updated_at=event.created_at,
        platform=event.platform,
        platform_id=event.platform_id,
        shard=event.shard,
    )


def apply(player: Player, event: Event) -> None:
    """Change the record by one event that has happened; cannot fail."""
    match event:
        case PlayerDocumentReplaced():
            player.player_data = event.player_data
            player.updated_at = event.updated_at
        case PlayerStatsChanged():
            player.stats = event.stats
        case PlayerMoved():
            player.shard = event.shard
            player.is_online = event.is_online
            player.last_heartbeat = event.last_heartbeat
        case ResultsMarked():
            player.results = event.results
        case PlayerPresenceSaved():
            player.is_online = event.is_online
            player.last_heartbeat = event.last_heartbeat
        case PlayerCameOnline():
            player.is_online = True
            player.last_heartbeat = event.last_heartbeat
        case PlayerLoggedIn():
            player.is_online = True
            player.last_login = event.last_login
        case PlayerLoggedOut():
            player.is_online = False
            player.last_logout = event.last_logout
        case PlayerRenamed():
            player.player_name = event.player_name
            player.updated_at = event.updated_at
        case PlayerTokenRotated():
            player.token_hash = event.token_hash
            player.updated_at = event.updated_at
        case PlayerBanned():
            player.ban = ban_of(event)
        case PlayerUnbanned():
            player.ban = None
        case _:
            raise TypeError(f"a player cannot apply {type(event).__name__}")
