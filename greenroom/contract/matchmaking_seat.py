"""The matchmaking area for those who have a seat in a lobby: what they see, and how they keep it.

After the start the seat is one in the room that the lobby has become.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec

from greenroom.contract.fields import Document, MessageReply, Omitted, Reply
from greenroom.contract.operation import Operation
from greenroom.contract.rooms import SeatKeptReply

PlayerStatus = Literal["active", "inactive"]
"""`active` is a member who is online, `inactive` one who is not."""


class CurrentLobby(msgspec.Struct, kw_only=True):
    """A lobby as a member sees it. After the start it is as it was then, with its room now."""

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
    player_status: PlayerStatus
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
    status: Literal["pending"] = "pending"
    requested_at: datetime | None


class LobbyCurrentReply(Reply, kw_only=True):
    """The caller's lobby and, for its host, the join requests; null without a lobby."""

    in_matchmaking: bool
    matchmaking: CurrentLobby | None
    pending_requests: list[PendingRequest]
    message: Annotated[Literal["Player is not in any matchmaking lobby"] | None, Omitted] = None


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
    status: PlayerStatus


class LobbyPlayersReply(Reply, kw_only=True):
    """The members: the host, then in the order of joining."""

    players: list[LobbyMember]
    last_updated: datetime | None


class LobbyLeaveReply(MessageReply, kw_only=True):
    """The player has left the lobby."""

    message: str = "Successfully left matchmaking lobby"


class LobbyHeartbeatReply(SeatKeptReply, kw_only=True):
    """The seat in the lobby is kept."""


LOBBY_CURRENT: Final = Operation(
    "GET",
    "/api/matchmaking.php/current",
    reply=LobbyCurrentReply,
    summary="See the lobby, its start, and who asks to be let in",
    repeatable=True,
)
LEAVE_LOBBY: Final = Operation(
    "POST",
    "/api/matchmaking.php/leave",
    reply=LobbyLeaveReply,
    summary="Leave the lobby, and the room that it has become",
)
LOBBY_PLAYERS: Final = Operation(
    "GET",
    "/api/matchmaking.php/players",
    reply=LobbyPlayersReply,
    summary="List the members of the lobby",
    repeatable=True,
)
LOBBY_BEAT: Final = Operation(
    "POST",
    "/api/matchmaking.php/heartbeat",
    reply=LobbyHeartbeatReply,
    summary="Keep the seat",
    repeatable=True,
)
