"""The state of a room, and its size in memory.

`rules.apply` alone changes it, except for what is soft: see `Member`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from greenroom.actors.plans.holdings import Weight
from greenroom.actors.room.rules.events import Delivery, UpdatesSent
from greenroom.actors.room.rules.transitions import RoomState
from greenroom.actors.seating.invites import Invites
from greenroom.actors.seating.passwords import GuessLimits
from greenroom.behaviour.effects import Deliver, FinishAction, RoomOrder, UpdatePlayer
from greenroom.contract.allowed_values import ActionStatus, RequestId

PLACE_BYTES: Final = 3 << 10
"""A room or lobby with nobody in it: its actor, its state, its entries in the indexes."""
MEMBER_BYTES: Final = 2 << 10
"""A seat, with what is counted for it."""
SMALL_BYTES: Final = 512
"""An action, a result, an invite, a join request, an order or a token, besides its data."""
UPDATE_BYTES: Final = 256
"""A kept update: what was sent, and as much for each delivery."""
STUDIO_FACTOR: Final = 4
"""A behaviour's objects take about so many times the bytes that they are written down in."""


class RoomLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The server's settings about rooms."""

    seat_grace_seconds: int
    """Seconds for which an offline member keeps the seat, where members may leave."""
    idle_seconds_max: int
    """How long a room lasts in which nobody is online."""
    updates_max: int
    """Updates that a room keeps; beyond, the oldest fall off, and are counted as missed."""
    updates_bytes_max: int
    """Bytes of all kept updates' data, likewise; the newest is kept whatever its size."""
    guesses: GuessLimits


class Sending(msgspec.Struct, frozen=True):
    """Kept updates that were sent together, and the journal entry that they stand in."""

    sequence: int
    event: UpdatesSent


class Update(msgspec.Struct, frozen=True):
    """A kept update in its target's inbox."""

    delivery: Delivery
    sending: Sending

    @property
    def number(self) -> int:
        """Return where it stands among all updates of the room."""
        return self.delivery.number

    @property
    def sender_id(self) -> int:
        """Return the sender's id."""
        return self.sending.event.player_id


class Fallen(msgspec.Struct):
    """How many updates from one sender to one target have fallen off, and the last one's number."""

    count: int = 0
    last_number: int = 0


GONE = 0
"""Stands for all who have left, where senders are counted: no player has this id."""
ROOM_ITSELF: Final = 0
"""Stands for the room and its behaviour, where bytes are counted by player, likewise."""


class Member(msgspec.Struct, kw_only=True):
    """One seat. `last_heartbeat` and `read` are soft: they change without events.

    What was read is in the next snapshot; after a crash it may be as old as the last one.
    """

    player_id: int
    player_name: str
    player_data: bytes
    joined_at: int
    joined_number: int
    """The number of the room's last update before this member joined."""
    last_heartbeat: int
    offline_since: int | None = None
    """Unix seconds at which the member went offline; None while online."""
    received: int = 0
    """Count of all updates to this member, dropped ones included."""
    received_from: dict[int, int] = {}
    """The same by sender, present members only, since the sender joined."""
    fallen: dict[int, Fallen] = {}
    """Updates to this member that were dropped, by sender; `GONE` for senders who left."""
    read: dict[int, int] = {}
    """The highest number that the member has polled, by sender."""
    inbox: list[Update] = []
    """The kept updates to this member, oldest first."""

    @property
    def is_online(self) -> bool:
        """Return whether the member was heard of lately."""
        return self.offline_since is None


class KnownStats(msgspec.Struct, frozen=True):
    """A member's stats, as the room knows them."""

    stats: bytes
    written: int
    """The number of the room's last order that is in them."""


class Action(msgspec.Struct, frozen=True):
    """An action that waits for its target."""

    action_id: str
    sender_id: int
    target_id: int
    action_type: str
    request_data: bytes
    created_at: int
    request_id: RequestId | None = None
    """See `ActionsSent`."""


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """A processed action, kept for its sender."""

    action_id: str
    sender_id: int
    target_id: int
    action_type: str
    status: ActionStatus
    response_data: bytes | None
    processed_at: int
    is_server: bool = False
    """True if the room's behaviour has settled it."""
    request_id: RequestId | None = None
    """See `ActionsSent`."""


class RealtimeToken(msgspec.Struct, kw_only=True):
    """A token to connect with, hashed, and the hash of the player token that it is bound to."""

    token_hash: bytes
    player_token_hash: bytes
    player_id: int
    expires_at: int
    is_revoked: bool = False
    """True once its holder has left."""


class Room(msgspec.Struct, kw_only=True):
    """A room's whole state."""

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
    created_at: int
    last_activity: int
    lobby_id: str | None = None
    """The id of the lobby that became this room, if one did."""
    version: int = 0
    """How many events made this state: the sequence of the last in the journal."""
    members: dict[int, Member] = {}
    """By id, in the order of their joining."""
    invites: Invites = {}
    """The invites by invited player, oldest first."""
    silent_since: int | None = None
    """Since when nobody is online; None while somebody is."""
    ended_at: int | None = None
    actions: dict[str, Action] = {}
    """Actions that wait for their targets, oldest first."""
    results: list[Result] = []
    """Processed actions, oldest first."""
    last_number: int = 0
    """The number of the last update."""
    kept_from: int = 1
    """The number of the oldest kept update; `last_number + 1` when none is kept."""
    sendings: list[Sending] = []
    """The kept updates as they were sent, oldest first."""
    kept_bytes: int = 0
    """Bytes of all kept updates' data."""
    kept_by_sender: dict[int, int] = {}
    """Bytes that kept updates count for, by sender (`ROOM_ITSELF` for the behaviour's); some may
    have left."""
    tokens: list[RealtimeToken] = []
    """For realtime connections, oldest first."""

    behaviour: str | None = None
    """The name of what a studio has written for it."""
    kept: bytes | None = None
    """The studio's part; between ticks it may be behind what hooks see."""
    orders: dict[int, RoomOrder] = {}
    """Durable effects that are not carried out yet, by number, oldest first."""
    last_order: int = 0
    stats: dict[int, KnownStats] = {}
    """By member, in a room whose behaviour declares stats."""

    @property
    def state(self) -> RoomState:
        """Return where the room stands in the table of its transitions."""
        if self.ended_at is not None:
            return RoomState.ENDED
        return RoomState.ACTIVE if self.silent_since is None else RoomState.IDLE

    @property
    def is_active(self) -> bool:
        """Return whether the room has not ended."""
        return self.ended_at is None

    @property
    def journal_kept_from(self) -> int:
        """Return the oldest journal entry needed beside a snapshot; `version + 1` for none."""
        return self.sendings[0].sequence if self.sendings else self.version + 1


def weigh(room: Room) -> Weight:
    """Return what a room counts for."""
    brought = _weigh_brought(room)
    size = (
        PLACE_BYTES
        + len(room.rules)
        + sum(brought.values())
        + STUDIO_FACTOR * len(room.kept or b"")
        + sum(map(_order_bytes, room.orders.values()))
        + sum(len(known.stats) for known in room.stats.values())
    )
    return Weight(int(room.is_active), size, brought)


def weigh_updates(event: UpdatesSent) -> tuple[int, int]:
    """Return for whom updates count that were sent together, and how many bytes."""
    size = event.size + UPDATE_BYTES * (1 + len(event.deliveries))
    return (ROOM_ITSELF if event.is_server else event.player_id), size


def weigh_invites(invites: Invites, brought: Counter[int]) -> None:
    """Add the bytes of the invites of a room or lobby, for those who invite."""
    for invite in invites.values():
        brought[invite.inviter.player_id] += SMALL_BYTES


def _weigh_brought(room: Room) -> Counter[int]:
    """Return the bytes that players have brought into a room, by player."""
    brought = Counter(room.kept_by_sender)
    for player_id, member in room.members.items():
        brought[player_id] += MEMBER_BYTES + len(member.player_data)
    for action in room.actions.values():
        size = SMALL_BYTES + len(action.action_type) + len(action.request_data)
        brought[action.sender_id] += size
    for result in room.results:
        brought[result.sender_id] += SMALL_BYTES + len(result.action_type)
        answerer = ROOM_ITSELF if result.is_server else result.target_id
        brought[answerer] += len(result.response_data or b"")
    for token in room.tokens:
        brought[token.player_id] += SMALL_BYTES
    weigh_invites(room.invites, brought)
    return brought


def _order_bytes(order: RoomOrder) -> int:
    size = SMALL_BYTES
    if isinstance(order, FinishAction):
        size += len(order.response_data or b"")
    elif isinstance(order, Deliver):
        size += len(order.data)
    elif isinstance(order, UpdatePlayer):
        size += sum(map(len, order.fields.values()))
    return size
