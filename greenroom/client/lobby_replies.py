"""Replies about lobbies."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from greenroom.client.replies import Document, Reply


class LobbyEntry(msgspec.Struct, kw_only=True):
    """A lobby as players without a seat see it."""

    matchmaking_id: str
    matchmaking_name: str
    max_players: int
    current_players: int
    has_password: bool
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    rules: Document
    host_player_id: int
    host_name: str
    created_at: datetime | None
    last_heartbeat: datetime | None


class LobbyList(Reply, kw_only=True):
    """Open lobbies with a free seat, oldest first."""

    lobbies: list[LobbyEntry]


class LobbyCreated(Reply, kw_only=True):
    """A new lobby. With its `join_token` a player needs neither password nor approval."""

    matchmaking_id: str
    matchmaking_name: str
    max_players: int
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    join_token: str
    is_host: bool


class LobbyJoined(Reply, kw_only=True):
    """The player has a seat in the lobby."""

    matchmaking_id: str
    message: str


class JoinRequested(Reply, kw_only=True):
    """The join request waits for the host."""

    request_id: str
    status: str
    message: str


class JoinAnswered(Reply, kw_only=True):
    """A join request was approved or rejected."""

    status: Literal["approved", "rejected"]
    message: str
    request_id: str
    action: Literal["approve", "reject"]


class JoinRequest(msgspec.Struct, kw_only=True):
    """The outcome of a join request."""

    request_id: str
    matchmaking_id: str
    status: Literal["pending", "approved", "rejected"]
    requested_at: datetime | None
    responded_at: datetime | None
    responded_by: int | None
    responder_name: str | None
    join_by_requests: bool


class JoinRequestStatus(Reply, kw_only=True):
    """The caller's own request."""

    request: JoinRequest


class LobbyStatus(msgspec.Struct, kw_only=True):
    """A lobby as a member sees it; after the start, with its room."""

    matchmaking_id: str
    matchmaking_name: str
    is_host: bool
    max_players: int
    current_players: int
    has_password: bool
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    rules: Document
    joined_at: datetime | None
    player_status: str
    is_online: bool
    last_heartbeat: datetime | None
    lobby_heartbeat: datetime | None
    host_player_id: int
    is_started: bool
    started_at: datetime | None
    room_id: str | None


class PendingRequest(msgspec.Struct, kw_only=True):
    """A player who asks to be let in."""

    request_id: str
    matchmaking_id: str
    player_id: int
    player_name: str
    player_data: Document
    status: str
    requested_at: datetime | None


class LobbyCurrent(Reply, kw_only=True):
    """The caller's lobby and, for its host, the join requests."""

    in_matchmaking: bool
    matchmaking: LobbyStatus | None
    pending_requests: list[PendingRequest]
    message: str | None = None


class LobbyMember(msgspec.Struct, kw_only=True):
    """A member; `is_local` is true for the caller."""

    player_id: int
    player_name: str
    player_data: Document
    is_host: bool
    is_online: bool
    is_local: bool
    joined_at: datetime | None
    last_heartbeat: datetime | None
    seconds_since_heartbeat: int
    status: str


class LobbyRoster(Reply, kw_only=True):
    """The members: the host, then in the order of joining."""

    players: list[LobbyMember]
    last_updated: datetime | None


class LobbyStarted(Reply, kw_only=True):
    """The lobby has become a room."""

    room_id: str
    room_name: str
    players_transferred: int
    message: str
