"""Players: accounts, sessions, tokens, and the owner's list and bans."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from greenroom.contract.allowed_values import (
    BAN_DURATIONS,
    IDENTITY_CHARACTERS_MAX,
    TICKET_BYTES_MAX,
    BanDuration,
)
from greenroom.contract.fields import (
    NAME_PATTERN,
    Body,
    Document,
    MessageReply,
    Missing,
    Omitted,
    RawDocument,
    Reply,
    SecretReply,
    SentAs,
    Stats,
    StatsField,
    one_of,
)
from greenroom.contract.operation import Operation

BAN_REASON_CHARACTERS_MAX: Final = 1000
"""A ban's reason is part of every refusal, and games show it in a line or two."""


_NameField = msgspec.Meta(
    description="2 to 50 characters, spaces around them aside; the game may have rules of its own",
    pattern=NAME_PATTERN,
)


_TicketField = msgspec.Meta(
    description="A platform's ticket in hexadecimal digits; good for one time",
    pattern="^([0-9A-Fa-f]{2})*$",
    max_length=2 * TICKET_BYTES_MAX,
)


_IdentityField = msgspec.Meta(
    description="What the client asked the platform for the ticket with; leave out if nothing",
    max_length=IDENTITY_CHARACTERS_MAX,
)


_RegisteredId = msgspec.Meta(
    description="A string of digits; an integer where the game's private setting"
    " `register_player_id` is `integer`",
)


class RegisterBody(Body, kw_only=True):
    """A guest's name and document, or a platform's ticket."""

    player_name: Annotated[str | None, _NameField] = None
    player_data: RawDocument | None = None
    platform_ticket: Annotated[str | None, _TicketField] = None
    platform_identity: Annotated[str | None, _IdentityField] = None


class RegisterReply(SecretReply, kw_only=True):
    """An account; `private_key` is the player's token, shown this once."""

    player_id: Annotated[int, SentAs(str | int), _RegisteredId]
    private_key: str
    player_name: str
    player_tag: str
    game_id: int
    auth: Literal["guest", "platform"] = "guest"
    account: Literal["created", "existing"] = "created"
    platform_id: Annotated[str | None, Omitted] = None


class PlayerRecord(msgspec.Struct, kw_only=True):
    """A player's record, as the player sees it."""

    id: int
    game_id: int
    player_name: str
    player_tag: str
    player_data: Document
    stats: Annotated[Stats | None, Omitted, StatsField] = None
    is_online: bool
    last_login: datetime | None
    last_heartbeat: datetime | None
    last_logout: datetime | None
    created_at: datetime | None
    updated_at: datetime | None


class LoginReply(Reply, kw_only=True):
    """The player's record, with the `last_login` of the login before."""

    player: PlayerRecord


class HeartbeatReply(MessageReply, kw_only=True):
    """The player is online."""

    message: str = "Heartbeat updated"
    last_heartbeat: datetime | None


class LogoutReply(MessageReply, kw_only=True):
    """The player is offline."""

    message: str = "Player logged out successfully"
    last_logout: datetime | None


class RenameBody(Body, kw_only=True):
    """The new name."""

    new_name: Annotated[str, Missing("New name is required"), _NameField]


class RenameReply(MessageReply, kw_only=True):
    """The player's name now, trimmed."""

    message: str = "Player name updated successfully"
    new_name: str
    player_id: int


class RotateReply(SecretReply, kw_only=True):
    """The new token; the old one no longer works."""

    private_key: str
    player_id: int


class ListQuery(Body, kw_only=True):
    """The part of the list that is wanted; all of it by default."""

    limit: Annotated[
        int | None, msgspec.Meta(ge=1, description="How many are wanted; all without it")
    ] = None
    after_id: Annotated[
        int | None, msgspec.Meta(description="The last id of the page before: the next ids follow")
    ] = None


class ListedPlayer(msgspec.Struct, kw_only=True):
    """A player as the game's owner sees them."""

    id: int
    player_name: str
    is_online: bool
    last_login: datetime | None
    last_logout: datetime | None
    last_heartbeat: datetime | None
    created_at: datetime | None
    stats: Annotated[Stats | None, Omitted, StatsField] = None


class ListReply(Reply, kw_only=True):
    """Players by id."""

    players: list[ListedPlayer]
    count: int


PlayerOfGame = Annotated[int, Missing("player_id is required")]
"""The type of a field `player_id` of the game's owner."""


class BanBody(Body, kw_only=True):
    """A player, the length of the ban, and its reason."""

    player_id: PlayerOfGame
    ban_duration: Annotated[
        str,
        Missing(f"ban_duration is required ({', '.join(BAN_DURATIONS)})"),
        one_of(BAN_DURATIONS),
    ]
    ban_reason: Annotated[str | None, msgspec.Meta(max_length=BAN_REASON_CHARACTERS_MAX)] = None


class BanReply(MessageReply, kw_only=True):
    """A ban; `banned_until` is null for a permanent one."""

    message: str = "Player banned successfully"
    ban_id: str
    player_id: int
    ban_duration: BanDuration
    ban_reason: str | None
    banned_until: datetime | None


class UnbanBody(Body, kw_only=True):
    """A player, by id."""

    player_id: PlayerOfGame


class UnbanReply(MessageReply, kw_only=True):
    """The number of bans that were in force until now."""

    message: str = "Player unbanned successfully"
    player_id: int
    bans_removed: int


REGISTER: Final = Operation(
    "POST",
    "/api/game_players.php/register",
    reply=RegisterReply,
    body=RegisterBody,
    summary="Open an account for a guest, or sign in with a platform's ticket",
)
LOG_IN: Final = Operation(
    "PUT",
    "/api/game_players.php/login",
    reply=LoginReply,
    summary="Log in and get the player's record",
    repeatable=True,
)
BEAT: Final = Operation(
    "POST",
    "/api/game_players.php/heartbeat",
    reply=HeartbeatReply,
    summary="Stay online",
    repeatable=True,
)
LOG_OUT: Final = Operation(
    "POST", "/api/game_players.php/logout", reply=LogoutReply, summary="Go offline", repeatable=True
)
RENAME: Final = Operation(
    "PUT",
    "/api/game_players.php/rename",
    reply=RenameReply,
    body=RenameBody,
    summary="Change the player's name",
    repeatable=True,
)
ROTATE: Final = Operation(
    "POST", "/api/game_players.php/rotate", reply=RotateReply, summary="Replace the player token"
)
LIST_PLAYERS: Final = Operation(
    "GET",
    "/api/game_players.php/list",
    reply=ListReply,
    query=ListQuery,
    summary="List the game's players",
    repeatable=True,
)
BAN: Final = Operation(
    "POST",
    "/api/game_players.php/ban",
    reply=BanReply,
    body=BanBody,
    summary="Ban a player",
    repeatable=True,
)
UNBAN: Final = Operation(
    "POST",
    "/api/game_players.php/unban",
    reply=UnbanReply,
    body=UnbanBody,
    summary="End a player's bans",
)
