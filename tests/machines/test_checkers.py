"""Every checker of the machines is seen to fail: one story, told with one defect planted each time.

A checker that never fails may be blind. So each of what the machines check is broken here once, in
the product or in the database, and the story, which passes otherwise, must come to the right grief.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import trio
from machine_ledger import Key
from machine_store import Store
from machine_story import MachineStory

from greenroom.actors.flows import rooms as room_flows
from greenroom.actors.flows.invites import invites_to
from greenroom.actors.friendship.actor import FriendshipActor
from greenroom.actors.friendship.messages import FriendshipAccepted
from greenroom.actors.kernel.durability import Batch
from greenroom.actors.kernel.errors import ActorCrashed, Refused
from greenroom.actors.kernel.message import Event
from greenroom.actors.lobby.index import LobbyIndex
from greenroom.actors.plans.memory import Piece
from greenroom.actors.plans.owner_usage import Held
from greenroom.actors.room.actor import RoomActor
from greenroom.actors.room.messages import PollUpdates
from greenroom.actors.room.rules import actions, codec, updates
from greenroom.actors.room.rules import membership as rules
from greenroom.actors.room.rules.events import (
    ActionProcessed,
    HostChanged,
    MemberJoined,
    MemberLeft,
    MemberWentOffline,
    UpdatesSent,
)
from greenroom.actors.seating.invite_index import InviteIndex
from greenroom.actors.seating.seats import SeatChanges, SeatIndex, SeatTable
from greenroom.actors.world.friendships import Friendships
from greenroom.actors.world.loaders import RoomLoader
from greenroom.actors.world.seats import Seats

Patch = pytest.MonkeyPatch
SILENT_SECONDS = 130
HOST, MATE, THIRD, FRIEND, STRANGER = range(5)


class Story(MachineStory):
    """Some calls of everything."""

    players = 5

    def tell(self) -> None:
        """From the first friendship to the last restart."""
        self.friendships()
        self.room()
        self.checks.rest()
        self.lobby()
        self.checks.rest()
        for is_clean in (False, True):
            self.machine.restart(0, is_clean=is_clean)
            self.checks.moment()
            self.checks.rest()

    def friendships(self) -> None:
        for other in (MATE, FRIEND):
            self.done(self.calls.befriend(HOST, other))
            self.done(self.calls.accept(other, HOST))
        self.done(self.calls.befriend(HOST, STRANGER))

    def room(self) -> None:
        calls, ledger = self.calls, self.machine.ledger
        self.done(calls.create_room(HOST, 3, host_switch=True, is_locked=False))
        key = ledger.open("room")[0].key
        for number in (MATE, THIRD):
            self.done(calls.join(number, key))
        self.refused(calls.join(FRIEND, key))
        self.refused(calls.create_room(MATE, 3, host_switch=True, is_locked=False))
        for _ in range(2):
            self.done(calls.send_updates(HOST, "all"))
        for _ in range(2):
            self.done(calls.poll(MATE))
        self.done(calls.send_actions(HOST, "others"))
        self.done(calls.complete(MATE, next(iter(ledger.open("room")[0].actions))))
        self.machine.mine("room", 0, 1, is_half_way=True)
        self.refused(calls.send_updates(MATE, "host"), ActorCrashed)
        self.checks.rest()
        self.done(calls.leave_room(THIRD))
        self.done(calls.send_updates(MATE, "host"))
        self.races(key)
        self.machine.moment(SILENT_SECONDS)
        self.done(calls.poll(MATE))
        self.done(calls.leave_room(HOST))

    def races(self, key: Key) -> None:
        """Take two seats at once; take another while the leaving of the first is refused."""
        calls, machine = self.calls, self.machine
        machine.mine("room", 0, 1, is_half_way=False)
        calls.leave_room(HOST)  # which crashes
        first = calls.join(FRIEND, key)
        second = calls.create_room(FRIEND, 3, host_switch=True, is_locked=False)
        self.refused(second)
        self.done(first)
        machine.hold()
        calls.leave_room(FRIEND)
        machine.moment()
        calls.create_room(FRIEND, 3, host_switch=True, is_locked=False)
        machine.moment()
        machine.refuse()
        machine.release()
        self.checks.rest()
        self.done(calls.leave_room(FRIEND))
        self.checks.rest()

    def lobby(self) -> None:
        calls, ledger = self.calls, self.machine.ledger
        lobby = calls.create_lobby(HOST, 3, host_switch=True, by_requests=True, can_leave=True)
        self.done(lobby)
        key = ledger.open("lobby")[0].key
        self.done(calls.invite(HOST, FRIEND))
        self.done(calls.request(STRANGER, key))
        self.checks.rest()
        self.done(calls.answer_invite(FRIEND, 0, "accepted"))
        self.done(calls.join(FRIEND, key))
        (request_id,) = ledger.open("lobby")[0].requests
        self.done(calls.answer_request(HOST, request_id, is_approved=True))
        self.done(calls.start_lobby(HOST))
        self.done(calls.end(FRIEND, HOST))


def test_the_story_goes_well_when_nothing_is_wrong():
    with Story.opened() as story:
        story.tell()


# The defects: each is planted before the story begins.


def a_claim_is_kept(patch: Patch) -> None:
    @contextmanager
    def claim(self: Seats, player_id: int, kind: Any, *_: object) -> Iterator[None]:
        self._claims[player_id] = (kind, trio.Event())
        yield

    patch.setattr(Seats, "claim", claim)


def a_tally_is_kept(patch: Patch) -> None:
    def subtract(self: Friendships, *args: Any) -> None:
        init(self, *args)
        self._under_way[1] += 1

    init = Friendships.__init__
    patch.setattr(Friendships, "__init__", subtract)


def nobody_minds_a_second_seat(patch: Patch) -> None:
    def take(self: SeatTable, player_id: int, seat: Any) -> bool:
        self._seats[player_id] = seat
        return True

    patch.setattr(Seats, "require_none", lambda *_: None)
    patch.setattr(SeatTable, "take", take)


def a_seat_is_not_claimed(patch: Patch) -> None:
    @contextmanager
    def claim(self: Seats, *args: Any) -> Iterator[None]:
        self.require_none(*args)
        yield

    patch.setattr(Seats, "claim", claim)


def a_seat_is_free_before_that_is_durable(patch: Patch) -> None:
    def note(self: SeatIndex[Any], key: str, *args: Any, **fields: Any) -> SeatChanges:
        noted = sound(self, key, *args, **fields)
        self.free(key, noted.left)
        return noted

    sound = SeatIndex.note
    patch.setattr(SeatIndex, "note", note)


def a_room_is_never_full(patch: Patch) -> None:
    def decide(room: Any, command: Any, now: int) -> Any:
        return decide_join(msgspec.structs.replace(room, max_players=16), command, now)

    decide_join = rules.decide_join
    patch.setattr(rules, "decide_join", decide)


def a_room_has_more_seats_than_it_was_opened_with(patch: Patch) -> None:
    def new(event: Any) -> Any:
        return msgspec.structs.replace(new_room(event), max_players=16)

    new_room = rules.new_room
    patch.setattr(rules, "new_room", new)


def a_room_has_fewer_seats_after_a_restart(patch: Patch) -> None:
    def restore(*args: Any) -> Any:
        room = sound(*args)
        return room and msgspec.structs.replace(room, max_players=1)

    sound = codec.restore
    patch.setattr(codec, "restore", restore)


def the_host_leaves_and_nobody_follows(patch: Patch) -> None:
    ignore(patch, HostChanged)


def the_roster_keeps_who_has_left(patch: Patch) -> None:
    ignore(patch, MemberLeft)


def a_seat_is_not_freed(patch: Patch) -> None:
    patch.setattr(SeatTable, "free", lambda *_: None)


def a_seat_is_not_taken(patch: Patch) -> None:
    patch.setattr(SeatTable, "take", lambda *_: True)


def a_commit_is_lost(patch: Patch) -> None:
    lose(patch, MemberJoined)


def a_commit_is_lost_that_nobody_waits_for(patch: Patch) -> None:
    lose(patch, MemberWentOffline)


def a_friendship_is_lost(patch: Patch) -> None:
    lose(patch, FriendshipAccepted)


def what_is_refused_is_done_all_the_same(patch: Patch) -> None:
    async def join(*args: Any) -> bool:
        await join_room(*args)
        raise Refused

    join_room = room_flows.join_room
    patch.setattr(room_flows, "join_room", join)


def a_call_is_never_answered(patch: Patch) -> None:
    async def join(*_: Any) -> bool:
        await trio.sleep_forever()
        raise AssertionError

    patch.setattr(room_flows, "join_room", join)


def an_event_is_applied_twice(patch: Patch) -> None:
    def apply(room: Any, event: Any) -> None:
        sound(room, event)
        if isinstance(event, UpdatesSent):
            sound(room, event)

    sound = rules.apply
    patch.setattr(rules, "apply", apply)


def an_update_is_lost(patch: Patch) -> None:
    read(patch, lambda page: page[1:])


def an_update_is_repeated(patch: Patch) -> None:
    read(patch, lambda page: (*page, *page[-1:]))


def the_last_update_is_never_shown(patch: Patch) -> None:
    read(patch, lambda page: page[:-1])


def updates_are_reordered(patch: Patch) -> None:
    read(patch, lambda page: page[::-1])


def an_update_is_said_to_be_missed(patch: Patch) -> None:
    def poll(*args: Any) -> Any:
        page = sound(*args)
        return msgspec.structs.replace(page, updates=page.updates[1:], missed=page.missed + 1)

    sound = updates.poll
    patch.setattr(updates, "poll", poll)


def an_action_is_not_shown(patch: Patch) -> None:
    patch.setattr(actions, "list_pending", lambda *_: ())


def what_came_of_an_action_is_not_shown(patch: Patch) -> None:
    patch.setattr(actions, "list_results", lambda *_: ())


def an_action_stays_when_it_is_done(patch: Patch) -> None:
    ignore(patch, ActionProcessed)


def a_snapshot_leaves_something_out(patch: Patch) -> None:
    def snapshot(room: Any, shard: int) -> Any:
        return whole(msgspec.structs.replace(room, actions={}, results=[]), shard)

    whole = codec.snapshot
    patch.setattr(codec, "snapshot", snapshot)


def an_entry_is_lost_when_the_server_ends(patch: Patch) -> None:
    def lose(self: Store) -> None:
        lose_pending(self)
        for entries in self.journals.entries.values():
            if len(entries) > 1:
                entries.pop()
        self.journals.snapshots.clear()

    lose_pending = Store.lose_pending
    patch.setattr(Store, "lose_pending", lose)


def a_crash_leaves_what_it_has_applied(patch: Patch) -> None:
    async def load(self: Any, key: str) -> Any:
        return self.make_actor(seen[key]) if key in seen else await sound(self, key)

    def apply(self: RoomActor, event: Event) -> None:
        sound_apply(self, event)
        assert self.state is not None
        seen[self.state.room_id] = self.state

    seen: dict[str, Any] = {}
    sound, sound_apply = RoomLoader.load, RoomActor.apply
    patch.setattr(RoomLoader, "load", load)
    patch.setattr(RoomActor, "apply", apply)


def an_invite_is_not_shown(patch: Patch) -> None:
    patch.setattr(InviteIndex, "list_to", lambda *_: [])
    patch.setattr("machine_checks.invites_to", invites_to)


def a_request_is_not_known(patch: Patch) -> None:
    patch.setattr(LobbyIndex, "_note_pending", lambda *_: None)


def one_of_two_does_not_know_of_the_friendship(patch: Patch) -> None:
    def of(self: Any, player_id: int) -> Any:
        return [] if player_id == 1 else friends(self, player_id)

    from world_kit import MemoryFriendships

    friends = MemoryFriendships._of
    patch.setattr(MemoryFriendships, "_of", of)


def a_pair_forgets_what_it_is(patch: Patch) -> None:
    def apply(self: FriendshipActor, event: Event) -> None:
        if not isinstance(event, FriendshipAccepted):
            sound(self, event)

    sound = FriendshipActor.apply
    patch.setattr(FriendshipActor, "apply", apply)


def ignore(patch: Patch, kind: type[Any]) -> None:
    """Let rooms in memory take no notice of an event of this kind but in their version."""

    def apply(room: Any, event: Any) -> None:
        if isinstance(event, kind):
            room.version += 1
        else:
            sound(room, event)

    sound = rules.apply
    patch.setattr(rules, "apply", apply)


def what_rooms_hold_is_not_counted(patch: Patch) -> None:
    count_nothing(patch, "rooms")


def what_players_hold_is_not_counted(patch: Patch) -> None:
    count_nothing(patch, "players")


def count_nothing(patch: Patch, kind: Held) -> None:
    """Count nothing of what things of a kind hold when they grow or shrink."""

    def resize(self: Piece, size: int) -> None:
        if self._memory.kind != kind:
            sound(self, size)

    sound = Piece.resize
    patch.setattr(Piece, "resize", resize)


def lose(patch: Patch, kind: type[Event]) -> None:
    """Let the first change with an event of this kind get lost on its way to the database."""

    def submit(self: Store, writer: Any, events: Any) -> Batch:
        for event in events:
            happened = codec.event_of(event) if getattr(event, "kind", "") == "room" else event
            if isinstance(happened, kind) and not lost:
                lost.append(happened)
                batch = Batch()
                batch.settle()
                return batch
        return sound(self, writer, events)

    lost: list[object] = []
    sound = Store.submit
    patch.setattr(Store, "submit", submit)


def read(patch: Patch, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
    """Change the pages of updates that members are given."""

    def poll(room: Any, command: PollUpdates) -> Any:
        page = sound(room, command)
        found = change(page.updates)
        last = found[-1].update_id if found else command.last_update
        return msgspec.structs.replace(page, updates=found, last_update=last)

    sound = updates.poll
    patch.setattr(updates, "poll", poll)


DEFECTS: dict[Callable[[Patch], None], str] = {
    a_claim_is_kept: "claims were left behind",
    a_tally_is_kept: "tallies were left behind",
    nobody_minds_a_second_seat: "two seats in what is durable",
    a_seat_is_not_claimed: "two seats in what is durable",
    a_seat_is_free_before_that_is_durable: "two seats in what is durable",
    a_room_has_more_seats_than_it_was_opened_with: "holds more than it may",
    a_room_has_fewer_seats_after_a_restart: "holds more than it may",
    the_host_leaves_and_nobody_follows: "and should be",
    the_roster_keeps_who_has_left: "and should be",
    a_seat_is_not_freed: "is not in",
    a_seat_is_not_taken: "the index says",
    a_commit_is_lost: "acknowledged and is not durable",
    a_commit_is_lost_that_nobody_waits_for: "written out of order",
    a_friendship_is_lost: "acknowledged and is not durable",
    what_is_refused_is_done_all_the_same: "was done after all",
    a_call_is_never_answered: "not answered",
    an_update_is_lost: "lost, repeated or reordered",
    an_update_is_repeated: "lost, repeated or reordered",
    the_last_update_is_never_shown: "not given his last updates",
    updates_are_reordered: "lost, repeated or reordered",
    an_update_is_said_to_be_missed: "are said to be missed",
    an_action_is_not_shown: "what waits for him",
    what_came_of_an_action_is_not_shown: "what came of it",
    an_action_stays_when_it_is_done: "and should be",
    a_snapshot_leaves_something_out: "replayed is",
    an_entry_is_lost_when_the_server_ends: "has no host|and should be",
    a_crash_leaves_what_it_has_applied: "replayed is",
    an_invite_is_not_shown: "invites are not shown",
    a_request_is_not_known: "requests are not counted",
    one_of_two_does_not_know_of_the_friendship: "two lists do not say the same",
    a_pair_forgets_what_it_is: "friendship/",
    what_rooms_hold_is_not_counted: "rooms hold",
    what_players_hold_is_not_counted: "players hold",
}


ASSERTED: dict[Callable[[Patch], None], str] = {
    a_room_is_never_full: "a seat too many",
    an_event_is_applied_twice: "an entry is missing, or comes twice",
}
"""Defects that the actors' own asserts find, before any checker sees them; maybe in a group."""


@pytest.mark.parametrize("plant", ASSERTED, ids=lambda plant: plant.__name__)
def test_a_planted_defect_crashes_its_actor(plant: Callable[[Patch], None], monkeypatch: Patch):
    plant(monkeypatch)
    with pytest.raises(BaseException) as raised, Story.opened() as story:  # noqa: PT011
        story.tell()
    assert ASSERTED[plant] in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant: Callable[[Patch], None], monkeypatch: Patch):
    plant(monkeypatch)
    Story.assert_fails(DEFECTS[plant])
