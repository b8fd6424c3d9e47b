"""Operations on rooms and their results. No result has a secret in it."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from greenroom.control.admin.messages import Operation

PAGE_ROOMS_MAX = 1000
PAGE_EVENTS_MAX = 1000


class ListedRoom(msgspec.Struct, frozen=True, kw_only=True):
    """A room that has not ended."""

    room_id: str
    game_id: int
    room_name: str
    current_players: int
    max_players: int
    has_password: bool
    realtime: bool


class Rooms(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rooms that have not ended, most players first. `total` also counts those left out."""

    rooms: list[ListedRoom]
    total: int
    told: list[int] | None = None
    """The shards that were asked about and have been looked at, where nodes ask each other."""


class RoomMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a room."""

    player_id: int
    player_name: str
    is_host: bool
    is_online: bool
    joined_at: str
    player_data: msgspec.Raw


class RoomDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A room as it is now, or as it was after the entry `sequence` of its journal."""

    room_id: str
    game_id: int
    room_name: str
    sequence: int
    is_active: bool
    created_at: str
    last_activity: str
    ended_at: str | None
    max_players: int
    has_password: bool
    host_switch: bool
    can_leave: bool
    realtime: bool
    pending_actions: int
    kept_updates: int
    rules: msgspec.Raw
    members: list[RoomMember]


class RoomHappening(msgspec.Struct, frozen=True):
    """One entry of a room's journal."""

    sequence: int
    at: str
    event: str
    details: dict[str, Any]


class RoomHistory(msgspec.Struct, frozen=True):
    """A page of a room's journal, and the state that was asked for."""

    room_id: str
    events: list[RoomHappening]
    next_after: int | None
    """Give this as `after` for the next page; null on the last one."""
    state: RoomDetails | None
    broken: str | None = None
    """The entry at which the page ends because it cannot be read, or the snapshot."""


class ListRooms(Operation[Rooms], frozen=True):
    """List rooms that have not ended. With `game_id` null, list those of all games."""

    name: ClassVar[str] = "room.list"
    game_id: int | None
    limit: int
    """At most PAGE_ROOMS_MAX."""
    shards: list[int] | None = None
    """Those to look at; null for all that are here."""


class ShowRoom(Operation[RoomDetails], frozen=True):
    """Show a room, active or ended."""

    name: ClassVar[str] = "room.show"
    room_id: str


class StopRoom(Operation[RoomDetails], frozen=True):
    """End a room for everybody."""

    name: ClassVar[str] = "room.stop"
    room_id: str


class Discarded(msgspec.Struct, frozen=True):
    """Rows of a room or lobby that are in the table `quarantine` now."""

    kind: str
    key: str
    rows: int
    reason: str
    """The entry or snapshot that could not be read, and why."""


class DiscardRoom(Operation[Discarded], frozen=True):
    """Put aside the rows of a room that cannot be restored."""

    name: ClassVar[str] = "room.discard"
    room_id: str


class ShowRoomHistory(Operation[RoomHistory], frozen=True):
    """Show a room's events after `after`, and its state after the event `at`."""

    name: ClassVar[str] = "room.history"
    room_id: str
    after: int
    limit: int
    """At most PAGE_EVENTS_MAX."""
    at: int | None
