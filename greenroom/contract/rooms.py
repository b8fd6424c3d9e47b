"""Rooms: opening, finding, joining and leaving them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from greenroom.contract.allowed_values import TITLE_CHARACTERS_MAX
from greenroom.contract.fields import (
    AnyValue,
    Body,
    Document,
    Limit,
    MessageReply,
    Omitted,
    RawDocument,
    Reply,
)
from greenroom.contract.operation import Operation

SIZE_DEFAULT: Final = 6


class CreateBody(Body, kw_only=True):
    """A room to open; every field may be left out."""

    room_name: Annotated[str | None, msgspec.Meta(max_length=TITLE_CHARACTERS_MAX)] = None
    password: str | None = None
    max_players: Annotated[int, msgspec.Meta(ge=2, le=16)] = SIZE_DEFAULT
    host_switch: bool = False
    realtime: bool = False
    rules: RawDocument | None = None
    player_data: RawDocument | None = None


class RoomCreateReply(Reply, kw_only=True):
    """A new room. With its `join_token` a player needs no password."""

    room_id: str
    room_name: str
    join_token: str
    is_host: bool = True


class ListBody(Body, kw_only=True):
    """A part of the name, and how many entries are wanted."""

    search: str | None = None
    limit: Limit = None


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


class RoomListReply(Reply, kw_only=True):
    """Rooms with a free seat, most players first."""

    rooms: list[RoomEntry]


class JoinBody(Body, kw_only=True):
    """A key to the room, and the data that the other members may see."""

    password: str | None = None
    join_token: str | None = None
    player_data: RawDocument | None = None


class RoomJoinReply(Reply, kw_only=True):
    """The player has a seat in the room."""

    room_id: str
    is_host: bool
    message: str = "Successfully joined the room"


class RosterMember(msgspec.Struct, kw_only=True):
    """A member; `is_local` is true for the caller."""

    player_id: int
    player_name: str
    player_data: Document
    is_host: bool
    is_online: bool
    is_local: bool
    last_heartbeat: datetime | None


class RoomPlayersReply(Reply, kw_only=True):
    """The members: the host, then in the order of joining."""

    players: list[RosterMember]
    last_updated: datetime | None


class RoomLeaveReply(MessageReply, kw_only=True):
    """The player has left the room."""

    message: str = "Successfully left the room"


class SeatKeptReply(Reply, kw_only=True):
    """The seat is kept."""

    status: Literal["ok"] = "ok"


class RoomHeartbeatReply(SeatKeptReply, kw_only=True):
    """The seat in the room is kept."""


class CurrentRoom(msgspec.Struct, kw_only=True):
    """A room as a member sees it."""

    room_id: str
    room_name: str
    is_host: bool
    is_online: bool
    max_players: int
    current_players: int
    has_password: bool
    is_active: bool = True
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


class ActionEntry(msgspec.Struct, kw_only=True):
    """An action that the caller is asked to do; `is_host` is about the sender."""

    action_id: str
    player_id: int
    target_id: int
    action_type: str
    request_data: Document
    created_at: datetime | None
    player_name: str
    is_host: bool


class ServerSender(msgspec.Struct, kw_only=True):
    """The mark of what the room's behaviour says. No client can send anything that carries it."""

    is_server: bool = True


class UpdateEntry(msgspec.Struct, kw_only=True):
    """An update to the caller. Over a channel its data may be any JSON value.

    `sender` is left out of what members send.
    """

    update_id: str
    from_player_id: int
    type: str
    data: Annotated[Any, AnyValue]
    created_at: datetime | None
    sender: Annotated[ServerSender | None, Omitted] = None

    @property
    def is_server(self) -> bool:
        """Return whether the room's behaviour says this, and no member."""
        return bool(self.sender)


class RoomCurrentReply(Reply, kw_only=True):
    """The caller's room, and at most 50 each of the actions and updates that wait there."""

    in_room: bool
    room: CurrentRoom | None
    pending_actions: list[ActionEntry]
    pending_updates: list[UpdateEntry]
    message: Annotated[Literal["Player is not in any game room"] | None, Omitted] = None


CREATE_ROOM: Final = Operation(
    "POST",
    "/api/game_room.php/create",
    reply=RoomCreateReply,
    body=CreateBody,
    summary="Open a room",
)
LIST_ROOMS: Final = Operation(
    "POST",
    "/api/game_room.php/list",
    reply=RoomListReply,
    body=ListBody,
    summary="Find rooms with a free seat",
    repeatable=True,
)
JOIN_ROOM: Final = Operation(
    "POST",
    "/api/game_room.php/{room_id}/join",
    reply=RoomJoinReply,
    body=JoinBody,
    summary="Join a room",
)
ROOM_PLAYERS: Final = Operation(
    "GET",
    "/api/game_room.php/players",
    reply=RoomPlayersReply,
    summary="List the members of the room",
    repeatable=True,
)
LEAVE_ROOM: Final = Operation(
    "POST", "/api/game_room.php/leave", reply=RoomLeaveReply, summary="Leave the room"
)
ROOM_BEAT: Final = Operation(
    "POST",
    "/api/game_room.php/heartbeat",
    reply=RoomHeartbeatReply,
    summary="Keep the seat",
    repeatable=True,
)
ROOM_CURRENT: Final = Operation(
    "GET",
    "/api/game_room.php/current",
    reply=RoomCurrentReply,
    summary="See the room and what waits in it",
    repeatable=True,
)
