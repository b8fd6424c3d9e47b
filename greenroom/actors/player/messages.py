"""Commands, replies and events of players."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from greenroom.actors.kernel.message import Command, Event
from greenroom.behaviour.stats import NO_STATS, StatChange
from greenroom.contract.allowed_values import BanDuration


class PlayerRole:
    """Marks commands that players take."""


class Ban(msgspec.Struct, frozen=True):
    """A ban as it stands in the record; times in Unix seconds, `banned_until` None for ever."""

    ban_id: str
    ban_duration: BanDuration
    ban_reason: str | None
    banned_at: int
    banned_until: int | None


class Player(msgspec.Struct, kw_only=True):
    """A player's whole record; times in Unix seconds, `player_data` a JSON object's bytes."""

    player_id: int
    game_id: int
    player_name: str
    player_tag: str
    """Eight characters, without the `#` that answers show."""
    token_hash: bytes
    player_data: bytes
    is_online: bool
    last_login: int | None
    last_heartbeat: int | None
    last_logout: int | None
    created_at: int
    updated_at: int
    ban: Ban | None = None
    platform: str | None = None
    """The platform that the player signs in with: `steam`, or None for a guest."""
    platform_id: str | None = None
    """The player's id on that platform; None for a guest."""
    results: str = ""
    """The results of rooms that are in `player_data` and `stats`; see `results.py`."""
    stats: bytes = NO_STATS
    """Numbers that the server alone writes, by name: a JSON object's bytes."""
    shard: int | None = None
    """The partition of the game that the player lives in; None for the game's home."""


# Events. Fields are the new values of the columns they change.


class PlayerRegistered(Event, frozen=True):
    """A new account. The player is online from the start; the last heartbeat is `created_at`."""

    player_id: int
    game_id: int
    player_name: str
    player_tag: str
    token_hash: bytes
    player_data: bytes
    created_at: int
    platform: str | None = None
    platform_id: str | None = None
    shard: int | None = None


class PlayerRenamed(Event, frozen=True):
    """The player has another name."""

    player_id: int
    player_name: str
    updated_at: int


class PlayerTokenRotated(Event, frozen=True):
    """Only the new token opens the account."""

    player_id: int
    token_hash: bytes
    updated_at: int


class PlayerLoggedIn(Event, frozen=True):
    """The player logged in, and so is online."""

    player_id: int
    last_login: int


class PlayerLoggedOut(Event, frozen=True):
    """The player logged out or went stale, and so is offline."""

    player_id: int
    last_logout: int


class PlayerDocumentReplaced(Event, frozen=True):
    """The document is now this JSON object, verbatim."""

    player_id: int
    game_id: int
    player_data: bytes
    updated_at: int
    stats: bytes = NO_STATS
    """The stats beside it, which have not changed."""


class PlayerStatsChanged(Event, frozen=True):
    """The stats are these now, all of them."""

    player_id: int
    game_id: int
    stats: bytes
    player_data: bytes
    """The document beside them, which has not changed."""


class ResultsMarked(Event, frozen=True):
    """The document or the stats have a room's result, too; see `results.py`."""

    player_id: int
    results: str


class PlayerBanned(Event, frozen=True):
    """The player is banned; their older bans end at `banned_at`."""

    player_id: int
    game_id: int
    ban_id: str
    ban_duration: BanDuration
    ban_reason: str | None
    banned_at: int
    banned_until: int | None


class PlayerUnbanned(Event, frozen=True):
    """Every ban of the player has ended."""

    player_id: int
    ended_at: int


class PlayerMoved(Event, frozen=True):
    """The player lives in another partition of their game; presence is as it was just then."""

    player_id: int
    game_id: int
    shard: int
    is_online: bool
    last_heartbeat: int | None


class PlayerDeleted(Event, frozen=True):
    """The account is deleted, with everything that belongs to it."""

    player_id: int
    game_id: int


class PlayerCameOnline(Event, frozen=True):
    """A player of a game in several partitions is online: other nodes see that in the database."""

    player_id: int
    last_heartbeat: int


class PlayerPresenceSaved(Event, frozen=True):
    """Presence as it was lately: written in the background, never waited for."""

    durable: ClassVar[bool] = False
    player_id: int
    is_online: bool
    last_heartbeat: int | None


# Replies.


class PlayerView(msgspec.Struct, frozen=True, kw_only=True):
    """A player's record as operators and the API see it.

    Times are in Unix seconds, `player_tag` is without its `#`.
    """

    player_id: int
    game_id: int
    player_name: str
    player_tag: str
    player_data: bytes
    is_online: bool
    last_login: int | None
    last_heartbeat: int | None
    last_logout: int | None
    created_at: int
    updated_at: int
    platform_id: str | None = None
    stats: bytes = NO_STATS
    shard: int | None = None
    """The partition of the game that the player lives in; None for the game's home."""


class PlayerDocument(msgspec.Struct, frozen=True):
    """A player's document, with the name and the stats that its reader shows beside it."""

    player_name: str
    player_data: bytes
    stats: bytes


class StatsWritten(msgspec.Struct, frozen=True):
    """A player's stats after a change, and which changes were made: the conditions of each held."""

    stats: bytes
    applied: tuple[bool, ...]
    is_repeated: bool = False
    """The changes were made before, or refused by their conditions; `applied` is empty."""


# Commands.


class RegisterPlayer(Command[PlayerRole, None], frozen=True):
    """Register an account. Only ever the first command to an actor without a record.

    Refused: PlayersRefused, StorageLimitReached, StorageShareUsed.
    """

    player_id: int
    game_id: int
    player_name: str
    player_tag: str
    token_hash: bytes
    player_data: bytes
    platform: str | None = None
    platform_id: str | None = None
    address: str = ""
    """The address of the client, for the shares of the plan; empty if unknown."""
    shard: int | None = None
    """The partition that the player is to live in; None for the game's home."""


class Authenticate(Command[PlayerRole, None], frozen=True):
    """Check a token; a good one is a sign of life.

    Refused: InvalidPlayerToken, PlayerOfAnotherGame, PlayerIsBanned, PlayersRefused.
    """

    game_id: int
    token_hash: bytes
    address: str = ""
    """The address of the client, as in `RegisterPlayer`."""


class LogIn(Command[PlayerRole, PlayerView], frozen=True):
    """Log in; the reply's `last_login` is the one before this.

    Refused: PlayerIsBanned, PlayersRefused.
    """


class SignIn(Command[PlayerRole, PlayerView], frozen=True):
    """Log in with a platform's ticket; then only the token that hashes to `new_hash` is good.

    Refused: PlayerIsBanned, PlayersRefused.
    """

    new_hash: bytes
    address: str = ""
    """The address of the client, as in `RegisterPlayer`."""


class Heartbeat(Command[PlayerRole, int], frozen=True):
    """Take a sign of life; the reply is its time in Unix seconds: now.

    Refused: PlayerIsBanned, PlayersRefused.
    """

    is_kept: bool = True
    """False if the database need not know soon. That a player has come online is always saved."""


class LogOut(Command[PlayerRole, int], frozen=True):
    """Log out; the reply is `last_logout` in Unix seconds."""


class Rename(Command[PlayerRole, None], frozen=True):
    """Change the name to one that the game has checked.

    Refused: StorageLimitReached, PlayersHoldTooMuch.
    """

    player_name: str


class RotateToken(Command[PlayerRole, None], frozen=True):
    """Replace the token that hashes to `old_hash`.

    Refused: InvalidPlayerToken if it is no longer the player's token. So of two rotations with one
    token only the first succeeds.
    """

    old_hash: bytes
    new_hash: bytes


class ReadPlayerDocument(Command[PlayerRole, PlayerDocument], frozen=True):
    """Read the document."""


class ReplacePlayerDocument(Command[PlayerRole, int], frozen=True):
    """Store a JSON object, verbatim; answers `updated_at` (Unix seconds).

    Refused: StorageLimitReached, StorageShareUsed, PlayersHoldTooMuch.

    What is stored counts for the address of the client; empty for none.
    """

    player_data: bytes
    address: str = ""


class WriteResult(Command[PlayerRole, None], frozen=True):
    """Set some top-level fields of the document, each a JSON value, once for each room and number.

    Refused: DocumentTooLarge.
    """

    room_id: str
    number: int
    """The number of the room's order; a later order has a higher number."""
    fields: dict[str, bytes]


class WriteStats(Command[PlayerRole, StatsWritten], frozen=True):
    """Change stats, in this order and all together, once for each source and number.

    Without changes the stats are read.

    Refused: TooManyStats; PlayerNotFound if the player is not of this game.
    """

    changes: tuple[StatChange, ...]
    source: str = ""
    """A room, by id, or a request, as `results.request_source` has it; empty to change anyway."""
    number: int = 1
    """The number of the room's order; a later order has a higher number."""
    game_id: int | None = None
    """None for a room, whose members are of its game."""


class DescribePlayer(Command[PlayerRole, PlayerView], frozen=True):
    """Read the record."""


class ReadBan(Command[PlayerRole, Ban | None], frozen=True):
    """Read the ban that is in force now, None for none."""


class BanPlayer(Command[PlayerRole, Ban], frozen=True):
    """Ban the player; an older ban ends.

    Refused: PlayerNotFound if the player is not of this game.
    """

    game_id: int
    ban_id: str
    ban_duration: BanDuration
    ban_reason: str | None


class UnbanPlayer(Command[PlayerRole, int], frozen=True):
    """End the player's ban; the reply is how many bans ended.

    Refused: PlayerNotFound if the player is not of this game.
    """

    game_id: int


class MovePlayer(Command[PlayerRole, None], frozen=True):
    """Let the player live in another partition of their game; see `Directory.move`.

    They must not have a seat.
    """

    shard: int


class ClosePlayer(Command[PlayerRole, int], frozen=True):
    """Refuse every further command but `DeletePlayer`; the player's token opens nothing.

    The reply is the player's game.
    """


class DeletePlayer(Command[PlayerRole, None], frozen=True):
    """Delete the account.

    Everything that happened to it before must be durable; `ClosePlayer` sees to that.
    """


class LeaveIfStale(Command[PlayerRole, bool], frozen=True):
    """Mark the player offline unless heard of within `stale_seconds`; reply whether it did."""

    stale_seconds: float


class SavePresence(Command[PlayerRole, None], frozen=True):
    """Queue the time of the last sign of life to be written."""
