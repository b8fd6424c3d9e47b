"""Events of rooms. Each is one entry of the room's journal, and an outcome, not an input.

Times (`at`) are in Unix seconds, documents are the bytes of JSON objects, ids of rooms and actions
are 32 lower-case hex digits. `codec.py` says how they are written.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from greenroom.actors.kernel.message import Event
from greenroom.actors.seating.invites import Invite, InviteAnswered, Invited, InviteDropped
from greenroom.behaviour.effects import RoomOrder
from greenroom.contract.allowed_values import ActionStatus, RequestId

LeaveReason = Literal["left", "kicked", "stale", "banned"]
EndReason = Literal["stopped", "host_left", "idle", "game_deleted"]
"""`stopped`: by the host, or by an operator."""


class NewMember(msgspec.Struct, frozen=True):
    """Somebody who is in a room from its beginning."""

    player_id: int
    player_name: str
    player_data: bytes
    joined_at: int


class RoomCreated(Event, frozen=True, kw_only=True):
    """A room opened with these members, all online, in the order of their joining.

    `lobby_id` is the lobby that became it, None for a room made directly; `invites` were the
    lobby's, oldest first.
    """

    room_id: str
    game_id: int
    room_name: str
    max_players: int
    password_hash: bytes | None
    join_token: str
    host_switch: bool
    can_leave: bool
    realtime: bool
    rules: bytes
    host_id: int
    members: tuple[NewMember, ...]
    at: int
    lobby_id: str | None = None
    invites: tuple[Invite, ...] = ()
    behaviour: str | None = None
    """The name of what a studio has written for it."""


class MemberJoined(Event, frozen=True):
    """The member took a free seat, and is online."""

    player_id: int
    player_name: str
    player_data: bytes
    at: int


class StatsNoted(Event, frozen=True):
    """A member has these stats; somebody who joins has them noted right before."""

    player_id: int
    stats: bytes
    written: int
    """The number of the room's last order that is in them."""
    at: int


class MemberLeft(Event, frozen=True):
    """The member's seat is free.

    Actions that waited for them have failed, and their own are void.
    """

    player_id: int
    reason: LeaveReason
    at: int


class HostChanged(Event, frozen=True):
    """This member is the host now."""

    player_id: int
    at: int


class MemberRenamed(Event, frozen=True):
    """The member has another name."""

    player_id: int
    player_name: str
    at: int


class MemberWentOffline(Event, frozen=True):
    """The member was not heard of for too long; they keep the seat."""

    player_id: int
    at: int


class MemberCameBack(Event, frozen=True):
    """The member was heard of again."""

    player_id: int
    at: int


class RoomPasswordSet(Event, frozen=True):
    """Only this password opens the room now; None: it needs none."""

    password_hash: bytes | None
    at: int


class JoinTokenRenewed(Event, frozen=True):
    """Only this token opens the room without its password now; in lobbies the same."""

    join_token: str
    at: int


class ActionsSent(Event, frozen=True):
    """A member asks others to do something: one action for each, `(action_id, target_id)`."""

    player_id: int
    action_type: str
    request_data: bytes
    actions: tuple[tuple[str, int], ...]
    at: int
    request_id: RequestId | None = None
    """The sender's own id, where the result is to be told over the realtime channel."""


class ActionProcessed(Event, frozen=True, omit_defaults=True):
    """A target has done it, or has failed to; with `is_server` the behaviour has settled it."""

    action_id: str
    status: ActionStatus
    response_data: bytes | None
    at: int
    is_server: bool = False


class Delivery(msgspec.Struct, frozen=True, array_like=True):
    """One update for one member.

    `number` counts all updates of the room, `ordinal` those to this target since they joined,
    `pair_ordinal` those from this sender to this target. All count from 1 and without a gap.
    """

    target_id: int
    number: int
    ordinal: int
    pair_ordinal: int


class UpdatesSent(Event, frozen=True, omit_defaults=True):
    """A member tells others something: one update for each.

    `kept_from` is the number of the oldest update that the room still keeps after this.
    With `is_server` the room's behaviour tells it, in the place of the host.
    """

    player_id: int
    update_type: str
    data: bytes
    deliveries: tuple[Delivery, ...]
    kept_from: int
    at: int
    is_server: bool = False

    @property
    def size(self) -> int:
        """Return what counts of it against the bytes that a room keeps: all that a client chose."""
        return len(self.update_type) + len(self.data)


class RealtimeTokenIssued(Event, frozen=True):
    """A member may connect; both tokens are kept as SHA-256 hashes."""

    player_id: int
    token_hash: bytes
    player_token_hash: bytes
    at: int


class BehaviourChanged(Event, frozen=True):
    """A hook has changed the studio's part, or ordered something.

    `kept` is what `behaviour/snapshot.py` writes; None where only orders came.
    """

    kept: bytes | None
    orders: tuple[RoomOrder, ...]
    at: int


class OrderDone(Event, frozen=True):
    """An order was carried out, or came to nothing."""

    number: int
    at: int


class RoomEnded(Event, frozen=True):
    """The room has ended for everybody."""

    reason: EndReason
    at: int


RoomEvent = (
    RoomCreated
    | MemberJoined
    | StatsNoted
    | MemberLeft
    | HostChanged
    | MemberRenamed
    | MemberWentOffline
    | MemberCameBack
    | RoomPasswordSet
    | JoinTokenRenewed
    | ActionsSent
    | ActionProcessed
    | UpdatesSent
    | RealtimeTokenIssued
    | BehaviourChanged
    | OrderDone
    | RoomEnded
    | Invited
    | InviteAnswered
    | InviteDropped
)
