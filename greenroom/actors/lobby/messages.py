"""Commands and replies of lobbies. Events and refusals stand in files of their own.

`player_id` in a command is the member who acts. Times are in Unix seconds, documents the bytes of
JSON objects. If a started lobby refuses with LobbyHasStarted, its room is to be asked.
"""

from __future__ import annotations

import msgspec

from greenroom.actors.kernel.message import Command
from greenroom.actors.lobby.events import LobbyEndReason
from greenroom.actors.lobby.state import JoinRequest
from greenroom.actors.room.rules.events import LeaveReason, NewMember, RoomCreated, RoomEvent
from greenroom.actors.seating.invite_messages import InvitingRole


class LobbyRole(InvitingRole):
    """Marks commands that lobbies take."""


# Replies.


class LobbyListing(msgspec.Struct, frozen=True, kw_only=True):
    """A lobby as anybody may see it."""

    lobby_id: str
    lobby_name: str
    max_players: int
    current_players: int
    has_password: bool
    strict_full: bool
    join_by_requests: bool
    host_switch: bool
    can_leave_room: bool
    realtime_room: bool
    rules: bytes
    host_id: int
    host_name: str
    created_at: int
    created_us: int = 0
    """The same more exactly, so that lists of several nodes have one order; see `LobbyCreated`."""


class LobbyOpened(msgspec.Struct, frozen=True):
    """A lobby that was just created."""

    lobby_id: str
    lobby_name: str
    join_token: str


class LobbySeat(msgspec.Struct, frozen=True):
    """A member, as the others see them."""

    member: NewMember
    is_host: bool


class LobbyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A lobby as it is, or as it was when it started, and a member's own part in it."""

    lobby: LobbyListing
    member: NewMember | None
    is_host: bool
    pending: tuple[JoinRequest, ...]
    """Open join requests; for the host only."""
    room_id: str | None
    started_at: int | None


class LobbyStart(msgspec.Struct, frozen=True):
    """The room that a lobby has become, as it begins."""

    events: tuple[RoomEvent, ...]
    """The creation, and what a behaviour makes of it."""

    @property
    def room(self) -> RoomCreated:
        """Return the creation."""
        created = self.events[0]
        assert isinstance(created, RoomCreated)
        return created


# Commands.


class CreateLobby(Command[LobbyRole, LobbyOpened], frozen=True, kw_only=True):
    """Come into being. Only ever the first command to a lobby without a state.

    `lobby_name` None: named after its id.
    """

    lobby_id: str
    game_id: int
    lobby_name: str | None
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


class JoinLobby(Command[LobbyRole, None], frozen=True, kw_only=True):
    """Take a seat.

    Refused: AlreadyInLobby, LobbyNotFound, NeedsApproval, LobbyFull, IncorrectPassword.
    """

    player_id: int
    player_name: str
    player_data: bytes
    password: str | None = None
    join_token: str | None = None
    address: str = ""
    """The client's address, to count wrong guesses for."""


class RequestToJoin(Command[LobbyRole, None], frozen=True, kw_only=True):
    """Ask the host for a seat.

    Refused: AlreadyInLobby, LobbyNotFound, TakesNoRequests, AlreadyRequested, LobbyFull,
    TooManyJoinRequests.
    """

    request_id: str
    player_id: int
    player_name: str
    player_data: bytes


class ReadPendingRequest(Command[LobbyRole, JoinRequest], frozen=True):
    """See a request that one may answer. Refused: RequestNotFound, OnlyHostAnswers."""

    player_id: int
    request_id: str


class ApproveRequest(Command[LobbyRole, None], frozen=True):
    """Seat a requester, under their present name.

    Refused: RequestNotFound, OnlyHostAnswers, LobbyFull; the request stays as it is.
    """

    player_id: int
    request_id: str
    requester_name: str


class RejectRequest(Command[LobbyRole, None], frozen=True):
    """Turn a requester down. Refused: RequestNotFound, OnlyHostAnswers."""

    player_id: int
    request_id: str


class ReadRequest(Command[LobbyRole, tuple[JoinRequest, LobbyListing]], frozen=True):
    """See what became of one's request, and of which lobby. Refused: RequestNotYours."""

    player_id: int
    request_id: str


class ReadLobbyStatus(Command[LobbyRole, LobbyStatus], frozen=True):
    """See the lobby; somebody who is not in it sees no member's part."""

    player_id: int


class ReadLobbyRoster(Command[LobbyRole, tuple[LobbySeat, ...]], frozen=True):
    """See who is in the lobby, the host first. Refused: NotInAnyLobby, LobbyHasStarted."""

    player_id: int


class KeepLobbySeat(Command[LobbyRole, None], frozen=True):
    """Find one's seat in place. Refused: NotInAnyLobby, LobbyHasStarted."""

    player_id: int


class LeaveLobby(Command[LobbyRole, None], frozen=True):
    """Give up one's seat. Refused: NotInAnyLobby, LobbyHasStarted."""

    player_id: int


class PutOutOfLobby(Command[LobbyRole, bool], frozen=True):
    """Free a member's seat; the reply is whether they had one. In a started lobby nobody has."""

    player_id: int
    reason: LeaveReason


class KickFromLobby(Command[LobbyRole, None], frozen=True):
    """Put a member out.

    Refused: LobbyHasStarted, NotInLobby, OnlyHostKicks, KickingOneself, LobbyMemberNotFound.
    """

    player_id: int
    target_id: int


class StopLobby(Command[LobbyRole, None], frozen=True):
    """End the lobby. Refused: LobbyHasStarted, NotInLobby, OnlyHostStopsLobby."""

    player_id: int


class RemoveLobby(Command[LobbyRole, None], frozen=True):
    """End the lobby. Refused: LobbyHasStarted, NotInLobby, OnlyHostRemoves."""

    player_id: int


class RenewLobbyToken(Command[LobbyRole, None], frozen=True):
    """Replace the join token: the old one opens nothing any more.

    Refused: LobbyHasStarted, NotInLobby, OnlyHostRenewsToken.
    """

    player_id: int
    join_token: str


class SetLobbyPassword(Command[LobbyRole, None], frozen=True):
    """Set the password, None for none.

    Refused: LobbyHasStarted, NotInLobby, OnlyHostSetsLobbyPassword.
    """

    player_id: int
    password_hash: bytes | None


class StartLobby(Command[LobbyRole, LobbyStart], frozen=True):
    """Become a room of this id. Refused: LobbyHasStarted, NotInLobby, OnlyHostStarts, LobbyNotFull.

    The room's first entries go to the journal together with the lobby's own.
    """

    player_id: int
    room_id: str
    join_token: str


class RenameLobbyMember(Command[LobbyRole, None], frozen=True):
    """Take note of a member's new name; somebody else's changes nothing."""

    player_id: int
    player_name: str


class EndLobby(Command[LobbyRole, None], frozen=True):
    """End the lobby, whoever is in it; `room_ended` ends one only that has become a room."""

    reason: LobbyEndReason
