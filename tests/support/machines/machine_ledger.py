"""The small model that a world is compared with: what the database was given, told event by event.

It knows nothing of rules, actors and indexes. It takes every change that became durable, in order,
checks that it may follow on what came before, and says how everything must stand then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from machine_stats import StatsBook

from greenroom.actors.friendship.messages import (
    FriendshipAccepted,
    FriendshipEnded,
    FriendshipRequested,
    Pair,
)
from greenroom.actors.kernel.journal import JournalEntry
from greenroom.actors.kernel.message import Event
from greenroom.actors.lobby import codec as lobby_codec
from greenroom.actors.lobby.events import (
    JoinAnswered,
    JoinRequested,
    LobbyCreated,
    LobbyEnded,
    LobbyStarted,
)
from greenroom.actors.player.messages import PlayerDeleted
from greenroom.actors.room.rules import codec as room_codec
from greenroom.actors.room.rules.cursors import update_id
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    ActionsSent,
    BehaviourChanged,
    HostChanged,
    MemberJoined,
    MemberLeft,
    OrderDone,
    RoomCreated,
    RoomEnded,
    UpdatesSent,
)
from greenroom.actors.seating.invites import InviteAnswered, Invited, InviteDropped

Key = tuple[str, str]
"""A place: `room` or `lobby`, and its id."""


class Stay(msgspec.Struct):
    """A member's stay: the ids of all updates that were ever sent to them, in order."""

    updates: list[str] = []
    numbers: list[int] = []
    """The numbers of the updates, in the room."""
    cursor: str | None = None
    """The last update that the member has read."""


class Asked(msgspec.Struct):
    """An action, and what came of it."""

    sender_id: int
    target_id: int
    status: str | None = None
    processed_at: int = 0


class Place(msgspec.Struct):
    """A room, or a lobby."""

    key: Key
    size: int
    host_id: int
    members: dict[int, Stay]
    version: int = 0
    is_over: bool = False
    by_requests: bool = False
    """True for a lobby that one has to ask to join."""
    room_id: str | None = None
    """The room of a lobby that has started."""
    last_number: int = 0
    kept_from: int = 1
    """The number of the oldest update that is still to be had."""
    invites: dict[int, tuple[str, bool]] = {}
    """By invited player: its id, and whether it was accepted."""
    requests: dict[str, int] = {}
    answers: dict[str, str] = {}
    actions: dict[str, Asked] = {}
    """Actions that wait for their targets."""
    results: dict[str, Asked] = {}

    @property
    def is_seated(self) -> bool:
        """Return whether its members sit here: a started lobby's sit in its room."""
        return not self.is_over and self.room_id is None

    def check(self) -> None:
        assert bool(self.members) != self.is_over, f"{self.key}: nobody is in it, or it is over"
        assert len(self.members) <= self.size, f"{self.key} holds more than it may"
        assert self.is_over or self.host_id in self.members, f"{self.key} has no host"


class Ledger:
    """Everything durable."""

    def __init__(self) -> None:
        self.places: dict[Key, Place] = {}
        self.friendships: dict[Pair, tuple[str, int]] = {}
        self.stats = StatsBook()
        self.log: list[tuple[Key | None, Event]] = []
        self.updates: set[str] = set()
        self.actions_sent: set[str] = set()
        self.void: set[bytes] = set()
        """Marks of calls that were told that they came to nothing."""
        self.problems: list[AssertionError] = []

    # What the world is asked for.

    def open(self, kind: str) -> list[Place]:
        return [p for p in self.places.values() if p.key[0] == kind and p.is_seated]

    def seats(self) -> Iterator[tuple[int, Key]]:
        for place in self.places.values():
            if place.is_seated:
                for player_id in place.members:
                    yield player_id, place.key

    def place_of(self, player_id: int, kind: str) -> Place | None:
        places = (self.places[key] for seated, key in self.seats() if seated == player_id)
        return next((place for place in places if place.key[0] == kind), None)

    def happened(self, since: int, *kinds: type[Event], **fields: Any) -> bool:
        """Return whether an event of these kinds, with these fields, is durable since then."""
        return any(
            isinstance(event, kinds) and all(getattr(event, n) == v for n, v in fields.items())
            for _, event in self.log[since:]
        )

    def annul(self, mark: bytes) -> None:
        """Note that a call came to nothing: nothing with its mark may be, or become, durable."""
        self.void.add(mark)
        assert not any(mark in _marks(event) for _, event in self.log), (
            f"{mark!r} was done after all"
        )

    # What the database tells.

    def take(self, events: Iterable[Event]) -> None:
        """Take one change that is durable. What is wrong with it is kept for the next check."""
        try:
            events = list(events)
            self.stats.take(events)
            touched = [self._take(event) for event in events]
            for place in touched:
                if place is not None:
                    place.check()
            self._take_turn(events)
            self.check_seats()
        except AssertionError as problem:
            self.problems.append(problem)

    def _take_turn(self, events: Iterable[Event]) -> None:
        entries = [e for e in events if isinstance(e, JournalEntry) and e.kind == "room"]
        if entries:
            self.stats.take_turn(entries[0].key, [room_codec.event_of(e) for e in entries])

    def check_seats(self) -> None:
        counts = Counter(player_id for player_id, _ in self.seats())
        twice = [player_id for player_id, count in counts.items() if count > 1]
        assert not twice, f"players {twice} have two seats in what is durable"

    def _take(self, event: Event) -> Place | None:
        if isinstance(event, FriendshipRequested | FriendshipAccepted | FriendshipEnded):
            self.log.append((None, event))
            self._befriend(event)
        if isinstance(event, PlayerDeleted):
            self.friendships = {
                p: s for p, s in self.friendships.items() if event.player_id not in p[1:]
            }
        if not isinstance(event, JournalEntry):
            return None
        codec = room_codec if event.kind == "room" else lobby_codec
        happened: Event = codec.event_of(event)
        key = (event.kind, event.key)
        self.log.append((key, happened))
        assert not self.void & set(_marks(happened)), f"{happened} was said to have come to nothing"
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = self._created(key, happened)
        else:
            is_late = isinstance(happened, OrderDone | BehaviourChanged)
            assert is_late or not place.is_over, f"{happened} in {key}, which is over"
            assert place.room_id is None or isinstance(happened, LobbyEnded)
            self._change(place, happened)
        place.version += 1
        assert event.sequence == place.version, f"{key} was written out of order"
        return place

    def _befriend(self, event: FriendshipRequested | FriendshipAccepted | FriendshipEnded) -> None:
        pair = Pair(event.game_id, event.low_id, event.high_id)
        before = self.friendships.pop(pair, None)
        if isinstance(event, FriendshipRequested):
            assert before is None, f"{pair} asked twice"
            self.friendships[pair] = ("pending", event.requested_by)
        else:
            assert before is not None, f"nothing was between {pair}"
            if isinstance(event, FriendshipAccepted):
                assert before[0] == "pending", f"{pair} became friends twice"
                self.friendships[pair] = ("accepted", before[1])

    def _created(self, key: Key, event: Event) -> Place:
        if isinstance(event, LobbyCreated):
            host_id = event.host.player_id
            asks = event.join_by_requests
            return Place(key, event.max_players, host_id, {host_id: Stay()}, by_requests=asks)
        assert isinstance(event, RoomCreated), f"{key} begins with {event}"
        invites = {i.player_id: (i.invite_id, i.is_accepted) for i in event.invites}
        members = {member.player_id: Stay() for member in event.members}
        if event.lobby_id is not None:
            lobby = self.places["lobby", event.lobby_id]
            assert lobby.room_id == event.room_id
            assert lobby.members.keys() == members.keys(), "not all have come along"
        return Place(key, event.max_players, event.host_id, members, invites=invites)

    def _change(self, place: Place, event: Event) -> None:
        match event:
            case MemberJoined():
                assert event.player_id not in place.members, f"{event.player_id} joined twice"
                place.members[event.player_id] = Stay()
                if event.player_id in place.invites:
                    place.invites[event.player_id] = (place.invites[event.player_id][0], True)
            case MemberLeft():
                self._leave(place, event)
            case HostChanged():
                assert event.player_id in place.members, "the host is no member"
                assert event.player_id != place.host_id, "the host was host already"
                place.host_id = event.player_id
            case Invited() | InviteAnswered() | InviteDropped():
                self._invite(place, event)
            case JoinRequested():
                assert event.player_id not in place.requests.values(), "asked twice"
                place.requests[event.request_id] = event.player_id
            case JoinAnswered():
                place.requests.pop(event.request_id)
                place.answers[event.request_id] = event.answer
            case LobbyStarted():
                place.room_id, place.invites = event.room_id, {}
            case UpdatesSent():
                self._send(place, event)
            case ActionsSent():
                for action_id, target_id in event.actions:
                    assert target_id in place.members, "asked somebody who is not there"
                    assert action_id not in place.actions.keys() | place.results.keys()
                    place.actions[action_id] = Asked(event.player_id, target_id)
                    self.actions_sent.add(action_id)
            case ActionProcessed():
                assert event.action_id in place.actions, "no such action waited"
                self._process(place, event.action_id, event.status, event.at)
            case RoomEnded() | LobbyEnded():
                place.is_over = True
                place.members, place.invites, place.requests, place.answers = {}, {}, {}, {}
                place.actions, place.results = {}, {}
            case _:
                return

    def _leave(self, place: Place, event: MemberLeft) -> None:
        player_id = event.player_id
        assert player_id in place.members, f"{player_id} left twice"
        del place.members[player_id]
        if event.reason in {"kicked", "banned"}:
            place.invites.pop(player_id, None)
        for action_id, asked in list(place.actions.items()):
            if asked.sender_id == player_id:
                del place.actions[action_id]
            elif asked.target_id == player_id:
                self._process(place, action_id, "failed", event.at)
        place.results = {i: a for i, a in place.results.items() if a.sender_id != player_id}

    def _invite(self, place: Place, event: Invited | InviteAnswered | InviteDropped) -> None:
        before = place.invites.get(event.player_id)
        if isinstance(event, InviteAnswered) and event.answer == "accepted":
            assert before is not None
            assert not before[1], "accepted twice"
            place.invites[event.player_id] = (before[0], True)
            return
        place.invites.pop(event.player_id, None)
        if isinstance(event, Invited):
            assert before is None or before[1], "invited twice"
            place.invites[event.player_id] = (event.invite_id, False)

    def _send(self, place: Place, event: UpdatesSent) -> None:
        place.kept_from = event.kept_from
        for delivery in event.deliveries:
            place.last_number += 1
            assert delivery.number == place.last_number, "updates are numbered without a gap"
            stay = place.members[delivery.target_id]
            own_id = update_id(place.key[1], event.player_id, delivery)
            stay.updates.append(own_id)
            stay.numbers.append(delivery.number)
            self.updates.add(own_id)
            assert delivery.ordinal == len(stay.updates)

    def _process(self, place: Place, action_id: str, status: str, at: int) -> None:
        asked = place.actions.pop(action_id)
        place.results[action_id] = Asked(asked.sender_id, asked.target_id, status, at)


def _marks(event: Event) -> Iterator[bytes]:
    """Return the marks that tell whose call an event came of."""
    match event:
        case MemberJoined() | JoinRequested():
            yield event.player_data
        case UpdatesSent():
            yield event.data
        case ActionsSent():
            yield event.request_data
        case RoomCreated() if event.lobby_id is None:
            yield event.rules
        case LobbyCreated():
            yield event.rules
        case _:
            return
