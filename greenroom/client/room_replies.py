"""Replies about rooms."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from greenroom.client.replies import Document, Reply


class RoomEntry(msgspec.Struct, kw_only=True):
    """A room as players without a seat see it."""

    room_id: str
    room_name: str
    max_players: int
    current_players: int
    has_password: bool
    host_switch: bool
    can_leave: bool
    realtime: bool
    rules: Document


class RoomList(Reply, kw_only=True):
    """Rooms with a free seat, most players first."""

    rooms: list[RoomEntry]


class RoomCreated(Reply, kw_only=True):
    """A new room. With its `join_token` a player needs no password."""

    room_id: str
    room_name: str
    join_token: str
    is_host: bool


class JoinTokenRenewed(Reply, kw_only=True):
    """The new join token; the one before no longer works."""

    join_token: str


class RoomJoined(Reply, kw_only=True):
    """The player has a seat in the room."""

    room_id: str
    is_host: bool
    message: str


class RoomMember(msgspec.Struct, kw_only=True):
    """A member; `is_local` is true for the caller."""

    player_id: int
    player_name: str
    player_data: Document
    is_host: bool
    is_online: bool
    is_local: bool
    last_heartbeat: datetime | None


class RoomRoster(Reply, kw_only=True):
    """The members: the host, then in the order of joining."""

    players: list[RoomMember]
    last_updated: datetime | None


class Kicked(Reply, kw_only=True):
    """The member has been kicked."""

    message: str
    kicked_player_id: int


class RoomStatus(msgspec.Struct, kw_only=True):
    """A room as a member sees it."""

    room_id: str
    room_name: str
    is_host: bool
    is_online: bool
    max_players: int
    current_players: int
    has_password: bool
    is_active: bool
    player_name: str
    joined_at: datetime | None
    last_heartbeat: datetime | None
    room_created_at: datetime | None
    room_last_activity: datetime | None
    join_token: str
    host_switch: bool
    can_leave: bool
    realtime: bool
    rules: Document


class Action(msgspec.Struct, kw_only=True):
    """An action that the caller is asked to do; `is_host` is about the sender."""

    action_id: str
    player_id: int
    target_id: int
    action_type: str
    request_data: Document
    created_at: datetime | None
    player_name: str
    is_host: bool


class Update(msgspec.Struct, kw_only=True):
    """An update to the caller. Over a channel its data may be any JSON value."""

    update_id: str
    from_player_id: int
    type: str
    data: Any
    created_at: datetime | None


class RoomCurrent(Reply, kw_only=True):
    """The caller's room, and at most 50 each of the actions and updates that wait there."""

    in_room: bool
    room: RoomStatus | None
    pending_actions: list[Action]
    pending_updates: list[Update]
    message: str | None = None


class ActionsSent(Reply, kw_only=True):
    """One action for each target."""

    actions_sent: int
    action_ids: list[str]
    target_players_ids: list[int]


class ActionResult(msgspec.Struct, kw_only=True):
    """The result of an action; `is_host` is about its target."""

    action_id: str
    action_type: str
    response_data: Document | None
    status: Literal["pending", "completed", "failed", "processing", "read"]
    target_id: int
    is_host: bool
    processed_at: datetime | None


class ActionResults(Reply, kw_only=True):
    """The results of the caller's actions within the last hour, newest first, at most 50."""

    actions: list[ActionResult]


class PendingActions(Reply, kw_only=True):
    """The actions that the caller is asked to do, oldest first."""

    actions: list[Action]


class UpdatesSent(Reply, kw_only=True):
    """One update for each target."""

    updates_sent: int
    update_ids: list[str]
    target_players_ids: list[int]


class UpdatePage(Reply, kw_only=True):
    """At most 50 updates in the order sent; `last_update` goes on behind them."""

    updates: list[Update]
    last_update: str | None
    missed: int = 0
    """How many updates the server had dropped before they were read."""
