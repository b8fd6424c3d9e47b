"""The matchmaking area: lobbies, found, opened and entered.

`matchmaking_seat.py` has what members do there, `matchmaking_host.py` what only hosts may do.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from greenroom.contract.allowed_values import TITLE_CHARACTERS_MAX, JoinRequestStatus
from greenroom.contract.fields import Body, Document, Missing, RawDocument, Reply, WholeBody
from greenroom.contract.operation import Operation
from greenroom.contract.rooms import ListBody


class LobbyCreateBody(Body, kw_only=True):
    """A lobby to open."""

    max_players: Annotated[
        int, Missing("Missing required field: max_players"), msgspec.Meta(ge=2, le=16)
    ]
    matchmaking_name: Annotated[str | None, msgspec.Meta(max_length=TITLE_CHARACTERS_MAX)] = None
    strict_full: bool = False
    join_by_requests: bool = False
    host_switch: bool = False
    can_leave_room: bool = False
    realtime_room: bool = False
    password: str | None = None
    rules: RawDocument | None = None
    player_data: RawDocument | None = None


class LobbyCreateReply(Reply, kw_only=True):
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
    is_host: bool = True


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


class LobbyListReply(Reply, kw_only=True):
    """Open lobbies with a free seat, oldest first."""

    lobbies: list[LobbyEntry]


class LobbyJoinBody(Body, kw_only=True):
    """A key to the lobby, and the data that the other members may see."""

    password: str | None = None
    join_token: str | None = None
    player_data: Annotated[RawDocument | None, WholeBody] = None


class LobbyJoinReply(Reply, kw_only=True):
    """The player has a seat in the lobby."""

    matchmaking_id: str
    message: str = "Successfully joined matchmaking lobby"


class RequestBody(Body, kw_only=True):
    """The data that the host, and later the other members, may see."""

    player_data: Annotated[RawDocument | None, WholeBody] = None


class RequestReply(Reply, kw_only=True):
    """The join request waits for the host."""

    request_id: str
    status: Literal["pending"] = "pending"
    message: str = "Join request sent to host"


class RequestView(msgspec.Struct, kw_only=True):
    """The outcome of a join request."""

    request_id: str
    matchmaking_id: str
    status: JoinRequestStatus
    requested_at: datetime | None
    responded_at: datetime | None
    responded_by: int | None
    responder_name: str | None
    join_by_requests: bool


class RequestStatusReply(Reply, kw_only=True):
    """The caller's own request; it is there for as long as the lobby, or its room, lasts."""

    request: RequestView


LIST_LOBBIES: Final = Operation(
    "POST",
    "/api/matchmaking.php/list",
    reply=LobbyListReply,
    body=ListBody,
    summary="Find open lobbies with a free seat",
    repeatable=True,
)
CREATE_LOBBY: Final = Operation(
    "POST",
    "/api/matchmaking.php/create",
    reply=LobbyCreateReply,
    body=LobbyCreateBody,
    summary="Open a lobby",
)
ASK_TO_JOIN: Final = Operation(
    "POST",
    "/api/matchmaking.php/{matchmaking_id}/request",
    reply=RequestReply,
    body=RequestBody,
    summary="Ask a lobby's host for a seat",
)
JOIN_REQUEST: Final = Operation(
    "GET",
    "/api/matchmaking.php/{request_id}/status",
    reply=RequestStatusReply,
    summary="See what became of a join request",
    repeatable=True,
)
JOIN_LOBBY: Final = Operation(
    "POST",
    "/api/matchmaking.php/{matchmaking_id}/join",
    reply=LobbyJoinReply,
    body=LobbyJoinBody,
    summary="Join a lobby",
)
