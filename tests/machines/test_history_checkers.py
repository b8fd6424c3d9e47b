"""Histories show what callers alone can see: a story with a defect planted is not linearizable.

The ledger of the machine is not asked here. What is found is found in what was asked and answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from machine_calls import Calls
from machine_reads import Reads
from machine_store import Store
from machine_world import MachineWorld

from greenroom.actors.friendship.messages import FriendshipAccepted
from greenroom.actors.kernel.cell import Cell
from greenroom.actors.kernel.durability import Batch
from greenroom.actors.kernel.message import Event
from greenroom.actors.player import results
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import (
    PlayerDocumentReplaced,
    PlayerStatsChanged,
    ReadPlayerDocument,
)
from greenroom.actors.room.rules import membership, updates
from greenroom.actors.room.rules.events import MemberLeft

Patch = pytest.MonkeyPatch
HOST, MATE, THIRD = range(3)


class Story:
    """A few calls of everything that has a model, and a crash of the server."""

    def __init__(self, machine: MachineWorld) -> None:
        self.machine = machine
        self.calls = Calls(machine)
        self.reads = Reads(machine)

    def tell(self) -> None:
        self.friends()
        self.room()
        self.documents()
        self.visits()
        self.crash()
        self.machine.chronicle.check()

    def done(self, *calls: object) -> None:
        self.machine.moment(1.0)

    def friends(self) -> None:
        self.done(self.calls.befriend(HOST, MATE))
        self.done(self.reads.relationship(MATE, HOST))
        self.done(self.calls.accept(MATE, HOST))
        self.done(self.reads.relationship(HOST, MATE))

    def room(self) -> None:
        calls = self.calls
        self.done(calls.create_room(HOST, 2, host_switch=True, is_locked=False))
        key = self.machine.ledger.open("room")[0].key
        self.done(calls.join(MATE, key), calls.join(THIRD, key))
        self.done(calls.send_updates(HOST, "all"))
        self.done(calls.send_updates(HOST, "others"))
        for number in (HOST, MATE, THIRD):
            self.done(calls.poll(number), self.reads.roster(number))
        self.done(calls.leave_room(MATE), calls.leave_room(THIRD))
        self.done(self.reads.roster(HOST))
        self.done(calls.join(THIRD, key))

    def documents(self) -> None:
        for _ in range(3):
            self.done(self.reads.replace_document(MATE))
            self.done(self.reads.document(MATE))

    def visits(self) -> None:
        for request_id in ("v1", "v2", "v1", "v3", "v2"):
            self.done(self.reads.visit(HOST, request_id))

    def crash(self) -> None:
        """Change and read while nothing becomes durable; the server ends, and all is lost."""
        machine = self.machine
        machine.hold()
        self.reads.replace_document(THIRD)
        machine.moment()
        self.reads.document(THIRD)
        machine.moment(2.0)
        machine.restart(0, is_clean=False)
        self.done(self.reads.document(THIRD), self.reads.document(MATE))
        self.done(self.reads.visit(HOST, "v4"), self.reads.relationship(HOST, MATE))
        self.done(self.calls.end(HOST, MATE), self.calls.befriend(MATE, HOST))


@contextmanager
def opened() -> Iterator[Story]:
    machine = MachineWorld(3)
    try:
        yield Story(machine)
    finally:
        machine.close()


def test_the_story_is_linearizable_and_every_model_has_its_part():
    with opened() as story:
        story.tell()
        found = story.machine.chronicle.check()
    assert found.keys() == {"document", "stats", "friendship", "room", "inbox"}
    assert min(found.values()) >= 5


# The defects: each is planted before the story begins.


def a_document_is_read_as_it_was(patch: Patch) -> None:
    def read(self: Any, command: Any) -> Any:
        found = sound(self, command)
        before, held[self] = held.get(self, found), found
        return before

    held: dict[object, Any] = {}
    handlers: dict[Any, Any] = dict(PlayerActor.handlers)
    sound = handlers[ReadPlayerDocument]
    patch.setattr(PlayerActor, "handlers", {**handlers, ReadPlayerDocument: read})


def answers_leave_before_they_are_durable(patch: Patch) -> None:
    async def settle(*_: object, **__: object) -> None: ...

    patch.setattr(Cell, "_settle", settle)


def reads_do_not_wait_for_what_they_saw(patch: Patch) -> None:
    async def settle(self: Any, batch: Any, *, changed: bool) -> None:
        if changed:
            await sound(self, batch, changed=changed)

    sound = Cell._settle
    patch.setattr(Cell, "_settle", settle)


def a_document_is_lost_on_its_way_to_the_database(patch: Patch) -> None:
    lose(patch, PlayerDocumentReplaced)


def a_friendship_is_lost_on_its_way_to_the_database(patch: Patch) -> None:
    lose(patch, FriendshipAccepted)


def a_visit_is_lost_on_its_way_to_the_database(patch: Patch) -> None:
    lose(patch, PlayerStatsChanged)


def a_request_counts_as_often_as_it_comes(patch: Patch) -> None:
    patch.setattr(results, "is_written", lambda *_: False)


def a_room_has_a_seat_too_many(patch: Patch) -> None:
    def new(event: Any) -> Any:
        return msgspec.structs.replace(sound(event), max_players=3)

    sound = membership.new_room
    patch.setattr(membership, "new_room", new)


def the_roster_keeps_who_has_left(patch: Patch) -> None:
    def apply(room: Any, event: Any) -> None:
        members = dict(room.members)
        sound(room, event)
        if isinstance(event, MemberLeft):
            room.members = members

    sound = membership.apply
    patch.setattr(membership, "apply", apply)


def an_update_is_not_shown(patch: Patch) -> None:
    change_pages(patch, lambda page: page[1:])


def an_update_is_shown_twice(patch: Patch) -> None:
    change_pages(patch, lambda page: (*page, *page[-1:]))


def updates_change_places(patch: Patch) -> None:
    change_pages(patch, lambda page: page[::-1])


def change_pages(patch: Patch, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
    """Change the pages of updates that members are given."""

    def poll(*args: Any) -> Any:
        page = sound(*args)
        return msgspec.structs.replace(page, updates=change(page.updates))

    sound = updates.poll
    patch.setattr(updates, "poll", poll)


def lose(patch: Patch, kind: type[Event]) -> None:
    """Let changes with an event of this kind never be written."""

    def submit(self: Store, writer: Any, events: Any) -> Batch:
        if not any(isinstance(event, kind) for event in events):
            return sound(self, writer, events)
        batch = Batch()
        batch.settle()
        return batch

    sound = Store.submit
    patch.setattr(Store, "submit", submit)


DEFECTS: dict[Callable[[Patch], None], str] = {
    a_document_is_read_as_it_was: "document",
    answers_leave_before_they_are_durable: "document",
    reads_do_not_wait_for_what_they_saw: "document",
    a_document_is_lost_on_its_way_to_the_database: "document",
    a_friendship_is_lost_on_its_way_to_the_database: "friendship",
    a_request_counts_as_often_as_it_comes: "stats",
    a_visit_is_lost_on_its_way_to_the_database: "stats",
    a_room_has_a_seat_too_many: "room",
    the_roster_keeps_who_has_left: "room",
    an_update_is_not_shown: "inbox",
    an_update_is_shown_twice: "inbox",
    updates_change_places: "inbox",
}


def moment(machine: MachineWorld, seconds: float = 0.02) -> None:
    """Let time pass, and hear nothing of what the ledger has found."""
    machine.run(partial(trio.sleep, seconds))


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_histories_show_a_planted_defect(plant: Callable[[Patch], None], monkeypatch: Patch):
    plant(monkeypatch)
    monkeypatch.setattr(MachineWorld, "moment", moment)
    with (
        pytest.raises(AssertionError, match=f"{DEFECTS[plant]} .* not linearizable"),
        opened() as s,
    ):
        s.tell()
