"""Replies about players, documents, leaderboards, friends and the rest, without rooms and lobbies.

Times are aware datetimes in UTC, and documents are decoded JSON. `Reply.raw` is the whole answer as
it came, for those who need a document byte for byte. Unknown fields are left out.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

Document = dict[str, Any]
"""A JSON object that the game defines."""
Relationship = Literal["friend", "incoming", "outgoing"]


class Reply(msgspec.Struct, kw_only=True, dict=True):
    """The base of every reply."""

    success: bool = True

    @property
    def raw(self) -> bytes:
        """Return the answer as it came; empty for a reply that was not received."""
        raw: bytes = self.__dict__.get("raw_bytes", b"")
        return raw

    def keep_raw(self, raw: bytes) -> None:
        """Store the answer as it came."""
        vars(self)["raw_bytes"] = raw


class SecretReply(Reply, kw_only=True):
    """The base of replies with a token, which no log may show."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class Done(Reply, kw_only=True):
    """The operation is done."""

    message: str = ""


class Beat(Reply, kw_only=True):
    """The seat is kept."""

    status: str


# Players.


class Registered(SecretReply, kw_only=True):
    """An account; `private_key` is the player's token, shown this once."""

    player_id: int
    private_key: str
    player_name: str
    player_tag: str
    game_id: int
    auth: Literal["guest", "platform"]
    account: Literal["created", "existing"]
    platform_id: str | None = None


class PlayerRecord(msgspec.Struct, kw_only=True):
    """A player's record, as the player sees it."""

    id: int
    game_id: int
    player_name: str
    player_tag: str
    player_data: Document
    is_online: bool
    last_login: datetime | None
    last_heartbeat: datetime | None
    last_logout: datetime | None
    created_at: datetime | None
    updated_at: datetime | None


class LoggedIn(Reply, kw_only=True):
    """The player's record, with the `last_login` of the login before."""

    player: PlayerRecord


class Heard(Reply, kw_only=True):
    """The player is online."""

    message: str
    last_heartbeat: datetime | None


class LoggedOut(Reply, kw_only=True):
    """The player is offline."""

    message: str
    last_logout: datetime | None


class Renamed(Reply, kw_only=True):
    """The player's name now, trimmed."""

    message: str
    new_name: str
    player_id: int


class Rotated(SecretReply, kw_only=True):
    """The new token; the old one no longer works."""

    private_key: str
    player_id: int


class ListedPlayer(msgspec.Struct, kw_only=True):
    """A player as the game's owner sees them."""

    id: int
    player_name: str
    is_online: bool
    last_login: datetime | None
    last_logout: datetime | None
    last_heartbeat: datetime | None
    created_at: datetime | None


class PlayerList(Reply, kw_only=True):
    """Players by id."""

    players: list[ListedPlayer]
    count: int


class Ban(Reply, kw_only=True):
    """A ban; `banned_until` is None for a permanent one."""

    message: str
    ban_id: str
    player_id: int
    ban_duration: str
    ban_reason: str | None
    banned_until: datetime | None


class Unbanned(Reply, kw_only=True):
    """The number of bans that were in force until now."""

    message: str
    player_id: int
    bans_removed: int


# Documents.


class GameDocument(Reply, kw_only=True):
    """The game's document."""

    type: str
    game_id: int
    data: Document


class PlayerDocument(Reply, kw_only=True):
    """A player's document."""

    type: str
    player_id: int
    player_name: str
    data: Document


class Stored(Reply, kw_only=True):
    """The document is stored."""

    message: str
    updated_at: datetime | None


# Leaderboard, moderation, time.


class Place(msgspec.Struct, kw_only=True):
    """One player's place in a leaderboard."""

    rank: int
    player_id: int
    player_name: str
    player_data: Document


class Leaderboard(Reply, kw_only=True):
    """The first places; `total` counts all players of the game."""

    leaderboard: list[Place]
    total: int
    sort_by: list[str]
    limit: int


class Censored(Reply, kw_only=True):
    """The result of a check: `clean`, and the text with a `*` for each offensive character."""

    clean: bool
    filtered: str


class TimeOffset(msgspec.Struct, kw_only=True):
    """The shift of a time, and the time without it."""

    offset_hours: int
    offset_string: str
    original_utc: datetime
    original_timestamp: int


class ServerTime(Reply, kw_only=True):
    """The time; with an offset, all three are shifted by it."""

    utc: datetime
    timestamp: int
    readable: str
    offset: TimeOffset | None = None


# Friends and invites.


class FriendInfo(msgspec.Struct, kw_only=True):
    """A player as another sees them; `relationship` is between the two."""

    player_id: int
    player_name: str
    player_tag: str
    is_online: bool
    platform_id: str | None
    relationship: Relationship | None


class FriendList(Reply, kw_only=True):
    """Friends, and open requests both ways; `player_tag` is the caller's own."""

    player_tag: str
    friends: list[FriendInfo]
    incoming: list[FriendInfo]
    outgoing: list[FriendInfo]


class Found(Reply, kw_only=True):
    """The player with a tag, and the relationship to the caller."""

    player: FriendInfo
    relationship: Relationship | None


class FriendRequested(Reply, kw_only=True):
    """The result of a request: `accepted` if the other player had asked before."""

    status: Literal["pending", "accepted"]
    player_id: int


class FriendAnswer(Reply, kw_only=True):
    """The operation is done, about this player."""

    message: str = ""
    player_id: int | None = None


class PlatformFriends(Reply, kw_only=True):
    """The users of a platform who play this game."""

    players: list[FriendInfo]


class Inviter(msgspec.Struct, kw_only=True):
    """The player who invites."""

    player_id: int
    player_name: str
    player_tag: str


class Invite(msgspec.Struct, kw_only=True):
    """An invite to a room or lobby, by its name."""

    invite_id: str
    kind: Literal["matchmaking", "room"]
    name: str
    from_player: Inviter


class Invited(Reply, kw_only=True):
    """A friend is invited."""

    invite_id: str
    status: str


class InviteList(Reply, kw_only=True):
    """Invites that wait for an answer."""

    invites: list[Invite]


class InviteAccepted(Reply, kw_only=True):
    """The room or lobby to which the invite leads."""

    status: str
    invite_id: str
    matchmaking_id: str | None
    room_id: str | None


class InviteDeclined(Reply, kw_only=True):
    """The invite is declined."""

    message: str = ""
    invite_id: str | None = None
    status: str | None = None


# Realtime.


class PlayerInfo(msgspec.Struct, kw_only=True):
    """The player who may connect."""

    player_id: int
    player_name: str
    room_id: str
    is_host: bool


class RealtimeServer(msgspec.Struct, kw_only=True):
    """The address to connect to."""

    host: str
    port: int
    protocol: Literal["ws", "wss"]
    udp_port: int


class RealtimeToken(SecretReply, kw_only=True):
    """A token for connecting within five minutes."""

    token: str
    player_info: PlayerInfo
    realtime_server: RealtimeServer
