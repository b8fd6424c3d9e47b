"""Every checker of stats is seen to fail: one story, told with one defect planted each time."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from machine_stat_calls import StatCalls
from machine_stats import Wanted
from machine_store import Store
from machine_story import MachineStory

from greenroom.actors.flows.stats import change_stats
from greenroom.actors.kernel.durability import Batch
from greenroom.actors.kernel.errors import Refused
from greenroom.actors.player import actor as player_actor
from greenroom.actors.player import results, rules
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.player.messages import (
    PlayerDeleted,
    PlayerDocumentReplaced,
    ReadPlayerDocument,
    ResultsMarked,
)
from greenroom.actors.services.behaviours import BehaviourService
from greenroom.actors.studio_room.results import ResultsActor
from greenroom.behaviour import player as behaviour_player
from greenroom.behaviour import stats
from greenroom.behaviour.effects import ResultOrder

Patch = pytest.MonkeyPatch
HOST, MATE, THIRD = range(3)
CHANGES = (
    Wanted("score", "increment", 5),
    Wanted("best", "max", 7),
    Wanted("least", "min", 3),
    Wanted("rare", "increment", 2),
    Wanted("last", "set", 4, "if_unset"),
    Wanted("score", "increment", 1, "if_more_than", 9),
)


class Story(MachineStory):
    """Changes of stats from rooms and services, with all that can befall them."""

    players = 3

    def tell(self) -> None:
        """From the first change to the last deletion."""
        self.stats = StatCalls(self.machine)
        room = self.calls.create_room(HOST, 3, host_switch=True, is_locked=False, counts=True)
        self.done(room)
        self.done(self.calls.join(MATE, self.machine.ledger.open("room")[0].key))
        self.changes()
        self.refusals()
        self.restarts()
        self.deletion()

    def changes(self) -> None:
        """Change, from all sides."""
        for number in (MATE, HOST, MATE):
            self.done(self.stats.change_in_room(number, CHANGES))
        self.done(self.stats.change_by_service(MATE, "a", CHANGES[:1]))
        assert self.done(self.stats.change_by_service(MATE, "a", ())).is_repeated
        self.done(self.stats.replace_document(MATE))
        self.done(self.stats.change_by_service(THIRD, "a", CHANGES[1:2]))
        self.checks.rest()

    def refusals(self) -> None:
        """Let the database refuse what the room has changed, and what it has ordered."""
        machine = self.machine
        machine.hold()
        self.stats.change_in_room(MATE, CHANGES)
        machine.moment()
        machine.refuse()
        machine.release()
        self.checks.rest()
        machine.hold()
        self.stats.change_in_room(MATE, CHANGES)
        machine.moment()
        machine.commit(1)
        machine.moment()
        machine.refuse()
        machine.release()
        self.checks.rest()

    def restarts(self) -> None:
        """End the server when nothing has reached the player, and when the room does not know."""
        for durable in (0, 1):
            self.machine.hold()
            self.stats.change_in_room(MATE, CHANGES)
            self.machine.moment()
            self.machine.commit(1)
            self.machine.moment()
            self.machine.restart(durable, is_clean=False)
            self.checks.rest()

    def deletion(self) -> None:
        """Delete who has changes under way; their service does not know of it."""
        mate_id = self.machine.ids[MATE]
        self.machine.hold()
        self.stats.change_in_room(MATE, CHANGES)
        self.machine.moment()
        self.machine.commit(1)
        self.stats.delete(MATE)
        self.machine.moment()
        self.machine.release()
        self.checks.rest()
        self.machine.ids[THIRD], third_id = mate_id, self.machine.ids[THIRD]
        late = self.stats.change_by_service(THIRD, "b", CHANGES[:1])
        self.machine.ids[THIRD] = third_id
        self.refused(late)
        self.checks.rest()


def test_the_story_goes_well_when_nothing_is_wrong():
    with Story.opened() as story:
        story.tell()


# The defects: each is planted before the story begins.


def marks_are_not_written(patch: Patch) -> None:
    decide_otherwise(patch, lambda events: [e for e in events if not isinstance(e, ResultsMarked)])


def marks_are_not_read(patch: Patch) -> None:
    patch.setattr(results, "is_written", lambda *_: False)


def marks_of_requests_are_not_kept(patch: Patch) -> None:
    patch.setattr(results, "REQUESTS_MAX", -20)


def a_change_is_dropped_at_a_crash(patch: Patch) -> None:
    patch.setattr(ResultsActor, "_hand_over_results", lambda *_: None)


def a_change_is_dropped_when_its_commit_is_refused(patch: Patch) -> None:
    async def persist(self: BehaviourService, ask: Callable[[], Any]) -> None:
        with contextlib.suppress(Exception):
            await ask()

    patch.setattr(BehaviourService, "_persist", persist)


def changes_are_made_in_another_order(patch: Patch) -> None:
    async def deliver_of(
        self: BehaviourService, room_id: str, results: dict[int, ResultOrder]
    ) -> None:
        del self._results[room_id]
        for number in reversed(results):
            await self._deliver(room_id, number, results[number])

    patch.setattr(BehaviourService, "_deliver_all", deliver_of)


def a_change_is_not_ordered(patch: Patch) -> None:
    def change(self: Any, name: str, *rest: Any) -> None:
        if name != "least":
            sound(self, name, *rest)

    sound = behaviour_player.RoomPlayer._change
    patch.setattr(behaviour_player.RoomPlayer, "_change", change)


def it_does_not_add_up(patch: Patch) -> None:
    def apply(values: dict[str, Any], change: stats.StatChange) -> bool:
        operation = "set" if change.operation == "increment" else change.operation
        return sound(values, msgspec.structs.replace(change, operation=operation))

    sound = stats.apply
    patch.setattr(stats, "apply", apply)


def conditions_are_not_looked_at(patch: Patch) -> None:
    patch.setattr(stats, "_holds", lambda *_: True)


def bounds_do_not_hold(patch: Patch) -> None:
    patch.setattr(stats.Stat, "bound", lambda _, value: value)


def a_document_changes_stats(patch: Patch) -> None:
    def apply(player: Any, event: Any) -> None:
        sound(player, event)
        if isinstance(event, PlayerDocumentReplaced):
            player.stats = re.sub(rb"[0-9]", b"1", player.stats)  # of the same size

    sound = rules.apply
    patch.setattr(rules, "apply", apply)


def a_document_is_stored_with_other_stats(patch: Patch) -> None:
    def replaced(*args: Any) -> Any:
        return msgspec.structs.replace(sound(*args), stats=b"{}")

    sound = player_actor._replaced
    patch.setattr(player_actor, "_replaced", replaced)


def a_request_is_lost(patch: Patch) -> None:
    def submit(self: Store, writer: Any, events: Any) -> Batch:
        if any(isinstance(e, ResultsMarked) and "~" in e.results for e in events):
            batch = Batch()
            batch.settle()
            return batch
        return sound(self, writer, events)

    sound = Store.submit
    patch.setattr(Store, "submit", submit)


def a_refused_request_counts_all_the_same(patch: Patch) -> None:
    async def change(*args: Any) -> Any:
        await sound(*args)
        raise Refused

    sound = change_stats
    patch.setattr("machine_stat_calls.change_stats", change)


def a_row_outlives_its_player(patch: Patch) -> None:
    def write(self: Store, event: Any) -> None:
        if not isinstance(event, PlayerDeleted):
            sound(self, event)

    sound = Store._write
    patch.setattr(Store, "_write", write)


def a_deleted_player_goes_on(patch: Patch) -> None:
    patch.setattr(PlayerActor, "_close", lambda _: None)


def memory_is_not_what_is_stored(patch: Patch) -> None:
    def read(self: PlayerActor, command: Any) -> Any:
        return msgspec.structs.replace(sound(self, command), stats=b'{"score":1}')

    sound = PlayerActor.handlers[ReadPlayerDocument]
    changed: Any = dict(PlayerActor.handlers)
    changed[ReadPlayerDocument] = read
    patch.setattr(PlayerActor, "handlers", changed)


def rooms_are_not_told(patch: Patch) -> None:
    patch.setattr(BehaviourService, "tell_stats", lambda *_: None)
    patch.setattr(PlayerIndex, "find_stats", lambda *_: (b"{}", ""))


def decide_otherwise(patch: Patch, change: Callable[[Any], Any]) -> None:
    def decide(*args: Any) -> Any:
        reply, events = sound(*args)
        return reply, tuple(change(events))

    sound = rules.decide_write_stats
    patch.setattr(rules, "decide_write_stats", decide)


DEFECTS: dict[Callable[[Patch], None], str] = {
    marks_are_not_written: "nobody is known to have changed",
    marks_are_not_read: "counts twice",
    marks_of_requests_are_not_kept: "counts twice",
    a_change_is_dropped_at_a_crash: "changes of stats were lost",
    a_change_is_dropped_when_its_commit_is_refused: "out of order|were lost",
    changes_are_made_in_another_order: "out of order",
    a_change_is_not_ordered: "was asked for, and",
    it_does_not_add_up: "and add up to",
    conditions_are_not_looked_at: "and add up to",
    bounds_do_not_hold: "and add up to",
    a_document_changes_stats: "and add up to|in memory|stored",
    a_document_is_stored_with_other_stats: "a document changed stats",
    a_request_is_lost: "acknowledged and is not durable",
    a_refused_request_counts_all_the_same: "counted after all",
    a_row_outlives_its_player: "are deleted, and in the database",
    a_deleted_player_goes_on: "is deleted",
    memory_is_not_what_is_stored: "in memory",
    rooms_are_not_told: "has them",
}


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant: Callable[[Patch], None], monkeypatch: Patch):
    plant(monkeypatch)
    Story.assert_fails(DEFECTS[plant])
