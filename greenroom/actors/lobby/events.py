"""Events of lobbies. Each is one entry of the lobby's journal, and an outcome, not an input.

Times (`at`) are in Unix seconds, documents are the bytes of JSON objects, ids of lobbies, requests
and rooms are 32 lower-case hex digits. Events that rooms have, too, are the same types here.
"""

from __future__ import annotations

from typing import Literal

from greenroom.actors.kernel.message import Event
from greenroom.actors.room.rules.events import (
    HostChanged,
    MemberJoined,
    MemberLeft,
    MemberRenamed,
    NewMember,
)
from greenroom.actors.seating.invites import InviteAnswered, Invited, InviteDropped
from greenroom.contract.allowed_values import JoinRequestAnswer

LobbyEndReason = Literal["stopped", "removed", "host_left", "room_ended", "game_deleted"]


class LobbyCreated(Event, frozen=True, kw_only=True):
    """A lobby opened, its host the only member."""

    lobby_id: str
    game_id: int
    lobby_name: str
    max_players: int
    password_hash: bytes | None
    join_token: str
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    rules: bytes
    host: NewMember
    at: int
    created_us: int = 0
    """Microseconds since the Unix epoch, more than of lobbies that its node made before; 0 if that
    was not noted yet."""


class LobbyTokenRenewed(Event, frozen=True):
    """Only this token opens the lobby without password or approval now."""

    join_token: str
    at: int


class LobbyPasswordSet(Event, frozen=True):
    """Only this password opens the lobby now; None: it needs none."""

    password_hash: bytes | None
    at: int


class JoinRequested(Event, frozen=True):
    """A player asks the host to be let in."""

    request_id: str
    player_id: int
    player_name: str
    player_data: bytes
    at: int


class JoinAnswered(Event, frozen=True):
    """The host, or whoever is named, has answered; an approved one joins by the next event."""

    request_id: str
    answer: JoinRequestAnswer
    responder_id: int
    responder_name: str
    at: int


class LobbyStarted(Event, frozen=True):
    """The lobby has become this room, which all its members sit in; it does not change any more."""

    room_id: str
    at: int


class LobbyEnded(Event, frozen=True):
    """The lobby is over, with its requests: for everybody, or because its room has ended."""

    reason: LobbyEndReason
    at: int


LobbyEvent = (
    LobbyCreated
    | MemberJoined
    | MemberLeft
    | HostChanged
    | MemberRenamed
    | LobbyPasswordSet
    | LobbyTokenRenewed
    | JoinRequested
    | JoinAnswered
    | LobbyStarted
    | LobbyEnded
    | Invited
    | InviteAnswered
    | InviteDropped
)
