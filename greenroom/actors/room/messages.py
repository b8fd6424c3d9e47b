"""Commands and replies of rooms. Events and refusals stand in files of their own.

`player_id` in a command is the member who acts. Times are in Unix seconds, documents the bytes of
JSON objects.
"""

from __future__ import annotations

import msgspec

from greenroom.actors.kernel.message import Command
from greenroom.actors.room.rules.events import EndReason, LeaveReason, NewMember
from greenroom.actors.seating.invite_messages import InvitingRole
from greenroom.actors.seating.invites import Invite
from greenroom.contract.allowed_values import ActionStatus, GroupWord, RequestId


class RoomRole(InvitingRole):
    """Marks commands that rooms take."""


class Group(msgspec.Struct, frozen=True):
    """Some of a room's members, as one of them sees it; `others` is everybody but that member."""

    word: GroupWord
    player_ids: frozenset[int] = frozenset()
    """The members of a group that is `specific`."""


# Replies.


class RoomOpened(msgspec.Struct, frozen=True):
    """A room that was just created."""

    room_id: str
    room_name: str
    join_token: str


class RosterEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A member, as another member sees them, or as they see themselves (`is_local`)."""

    player_id: int
    player_name: str
    player_data: bytes
    is_host: bool
    is_online: bool
    is_local: bool
    joined_at: int
    last_heartbeat: int


class RoomListing(msgspec.Struct, frozen=True, kw_only=True):
    """A room as anybody may see it."""

    room_id: str
    room_name: str
    max_players: int
    current_players: int
    has_password: bool
    host_switch: bool
    can_leave: bool
    realtime: bool
    rules: bytes


class PendingAction(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a member is asked to do; `is_host` is about who asks, `player_id`."""

    action_id: str
    player_id: int
    player_name: str
    is_host: bool
    target_id: int
    action_type: str
    request_data: bytes
    created_at: int


class ActionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action, for the member who asked; `is_host` is about the target.

    With `is_server` the room's behaviour has answered, not the target.
    """

    action_id: str
    action_type: str
    status: ActionStatus
    response_data: bytes | None
    target_id: int
    is_host: bool
    processed_at: int
    is_server: bool = False


class UpdateView(msgspec.Struct, frozen=True, kw_only=True):
    """An update as its target reads it; with `is_server` it is from the room's behaviour."""

    update_id: str
    from_player_id: int
    update_type: str
    data: bytes
    created_at: int
    is_server: bool = False


class UpdatesPage(msgspec.Struct, frozen=True):
    """Updates after a cursor, the cursor behind them, and how many had fallen off in between."""

    updates: tuple[UpdateView, ...]
    last_update: str | None
    missed: int


class RoomStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A room as one of its members sees it, and what waits for that member."""

    room: RoomListing
    join_token: str
    is_host: bool
    is_online: bool
    player_name: str
    joined_at: int
    last_heartbeat: int
    created_at: int
    last_activity: int
    pending_actions: tuple[PendingAction, ...]
    pending_updates: tuple[UpdateView, ...]


class SeatView(msgspec.Struct, frozen=True, kw_only=True):
    """A member's seat, in few words."""

    is_host: bool
    is_online: bool
    joined_at: int
    last_heartbeat: int
    host_id: int
    current_players: int


class Sent(msgspec.Struct, frozen=True):
    """Actions or updates that were sent: one id for each target, in the same order.

    `results` are those of actions that the room has settled itself, at once.
    """

    ids: tuple[str, ...]
    target_ids: tuple[int, ...]
    results: tuple[ActionResult, ...] = ()


# Commands.


class CreateRoom(Command[RoomRole, RoomOpened], frozen=True, kw_only=True):
    """Create the room. Only ever the first command to a room without a state.

    With `room_name` None the room is named after its id. `members` holds the host, and is in
    joining order.
    """

    room_id: str
    game_id: int
    room_name: str | None
    max_players: int
    password_hash: bytes | None
    join_token: str
    host_switch: bool
    can_leave: bool
    realtime: bool
    rules: bytes
    host_id: int
    members: tuple[NewMember, ...]
    lobby_id: str | None = None
    invites: tuple[Invite, ...] = ()
    behaviour: str | None = None
    """The name of the studio's behaviour that runs the room."""


class JoinRoom(Command[RoomRole, bool], frozen=True, kw_only=True):
    """Take a seat; the reply is whether it made the player host (nobody online was host).

    Refused: AlreadyInRoom, RoomInactive, RoomFull, IncorrectPassword.
    """

    player_id: int
    player_name: str
    player_data: bytes
    password: str | None = None
    join_token: str | None = None
    address: str = ""
    """The address of the client, to count wrong guesses for."""


class ReadRoster(Command[RoomRole, tuple[RosterEntry, ...]], frozen=True):
    """Read the members, the host first. Refused: NotInAnyRoom."""

    player_id: int


class LeaveRoom(Command[RoomRole, None], frozen=True):
    """Give up one's seat. Refused: NotInAnyRoom, MayNotLeave."""

    player_id: int


class PutOut(Command[RoomRole, bool], frozen=True):
    """Free a member's seat, even if they may not leave; the reply is whether they had one."""

    player_id: int
    reason: LeaveReason


class KeepSeat(Command[RoomRole, None], frozen=True):
    """Give a sign of life. Refused: PlayerNotInAnyRoom."""

    player_id: int


class ReadCurrent(Command[RoomRole, RoomStatus | None], frozen=True):
    """Read the room and what waits for the member; None for a player who is not in it."""

    player_id: int


class ReadSeat(Command[RoomRole, SeatView | None], frozen=True):
    """Read the member's seat alone; None for a player who has none here."""

    player_id: int


class StopRoom(Command[RoomRole, None], frozen=True):
    """End the room. Refused: NotInAnyGameRoom, OnlyHostStops."""

    player_id: int


class EndRoom(Command[RoomRole, bool], frozen=True):
    """End the room, whoever is in it; the reply is whether it had not ended yet."""

    reason: EndReason


class KickMember(Command[RoomRole, None], frozen=True):
    """Free another member's seat.

    Refused: NotInAnyGameRoom, OnlyHostKicks, KickingOneself, MemberNotFound.
    """

    player_id: int
    target_id: int


class RenewJoinToken(Command[RoomRole, None], frozen=True):
    """Replace the join token: the old one is no longer good.

    Refused: NotInAnyRoom, OnlyHostRenewsToken.
    """

    player_id: int
    join_token: str


class SetRoomPassword(Command[RoomRole, None], frozen=True):
    """Set the password, None for none. Refused: NotInAnyRoom, OnlyHostSetsPassword."""

    player_id: int
    password_hash: bytes | None


class SendActions(Command[RoomRole, Sent], frozen=True, kw_only=True):
    """Ask members to do something. `seed` is 16 random bytes, which action ids are made of.

    Refused: PlayerNotInAnyRoom, OnlyHostTargetsOthers, NoValidTargets, TooManyActions.
    """

    player_id: int
    targets: Group
    action_type: str
    request_data: bytes
    seed: bytes
    request_id: RequestId | None = None
    """The sender's own id for an action that is answered over the realtime channel."""


class RequestAction(Command[RoomRole, Sent], frozen=True, kw_only=True):
    """Ask one member to do something, and answer on the channel; by default the host is asked.

    The sender is told the result as soon as it is durable, or why there is none. The command itself
    raises no refusal.
    """

    player_id: int
    request_id: RequestId
    target_id: int | None
    action_type: str
    request_data: bytes
    seed: bytes
    is_again: bool = False
    """True if it may be a repetition. It is not carried out twice, and its result is told again."""


class ReadResults(Command[RoomRole, tuple[ActionResult, ...]], frozen=True):
    """Read the results of one's actions, newest first. Refused: PlayerNotInAnyRoom."""

    player_id: int


class ReadPending(Command[RoomRole, tuple[PendingAction, ...]], frozen=True):
    """Read the actions that wait for the member, oldest first. Refused: NotInAnyRoom."""

    player_id: int


class CompleteAction(Command[RoomRole, None], frozen=True):
    """Answer an action. Refused: PlayerNotInAnyRoom, ActionNotFound."""

    player_id: int
    action_id: str
    status: ActionStatus
    response_data: bytes | None


class SendUpdates(Command[RoomRole, Sent], frozen=True):
    """Send an update to members.

    Refused: PlayerNotInAnyRoom, OnlyHostTargetsOthers, NoValidTargets.
    """

    player_id: int
    targets: Group
    update_type: str
    data: bytes


class PollUpdates(Command[RoomRole, UpdatesPage], frozen=True):
    """Read updates after a cursor. Refused: PlayerNotInAnyRoom, NoValidSources."""

    player_id: int
    sources: Group
    last_update: str | None


class DescribeRoom(Command[RoomRole, RoomListing], frozen=True):
    """Read what anybody may see."""


class RenameMember(Command[RoomRole, None], frozen=True):
    """Store a member's new name. Nothing is done for a player who is no member."""

    player_id: int
    player_name: str


class NoteSilence(Command[RoomRole, None], frozen=True):
    """Note that a member has gone stale."""

    player_id: int


class NoteSignOfLife(Command[RoomRole, None], frozen=True):
    """Note a sign of life of a member: any call or message."""

    player_id: int


class LookAtClock(Command[RoomRole, None], frozen=True):
    """Free the seats whose grace is over, and end the room if it is idle. A timer sends it."""
