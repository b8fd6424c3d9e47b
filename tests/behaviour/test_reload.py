"""A room goes on with changed code and the same state, or with the code that it has."""

from typing import Any

import msgspec
import pytest

from greenroom.behaviour import Drop, JobFailed, Member, Room, RoomBehaviour, action, message
from greenroom.behaviour.errors import BadBehaviour
from greenroom.testing import RoomHarness


class Score(msgspec.Struct):
    points: int = 0


class Counting(RoomBehaviour[Score]):
    """Version 1 of the studio's code."""

    by = 1

    @action("add")
    def add(self, room: Room[Score], by: Member) -> int:
        room.state.points += self.by
        return room.state.points

    @action("wait")
    def wait(self, room: Room[Score], by: Member) -> None:
        room.after(5, "bonus")

    @action("fetch")
    def fetch(self, room: Room[Score], by: Member) -> None:
        room.run(self.job, self.fetched)

    async def job(self) -> int:
        return 0

    def fetched(self, room: Room[Score], result: int | JobFailed) -> None:
        room.state.points = self.by

    def on_timer(self, room: Room[Score], name: str) -> None:
        room.state.points += 100 * self.by


class Faster(Counting):
    """The same, changed."""

    by = 10


class Showing(Counting):
    """The same, and members see it."""

    def shared(self, room: Room[Score]) -> object:
        return {"points": room.state.points}


class Ticking(Showing):
    """The same, and what messages change is shown by the next tick."""

    tick_hz = 1

    @message("bump")
    def bump(self, room: Room[Score], by: Member) -> Drop:
        room.state.points += self.by
        return Drop()


class Total(msgspec.Struct):
    total: float


class Migrating(RoomBehaviour[Total]):
    """Keeps another state."""

    state_version = 2
    tick_hz = 10

    def migrate(self, old: Any, version: int) -> Total:
        return Total(old["points"] / 2)

    def on_tick(self, room: Room[Total], dt: float) -> None:
        room.state.total += 1


class Unreadable(RoomBehaviour[Total]):
    """Keeps another state and forgot to say so."""


def opened() -> tuple[RoomHarness[Any], int]:
    room: RoomHarness[Any] = RoomHarness(Counting)
    ann = room.join()
    room.act(ann, "add")
    return room, ann


def test_changed_code_goes_on_with_the_state_chance_and_timers():
    room, ann = opened()
    room.act(ann, "wait")
    position = room.room.random.position
    room.reload(Faster)
    assert room.room.random.position == position
    assert room.act(ann, "add").response_data == 11
    room.advance(6)
    assert room.state.points == 1_011
    assert [member.player_name for member in room.room.members.values()] == ["Player 1"]


def test_a_state_of_an_older_version_is_migrated_and_written_down():
    room, _ = opened()
    room.reload(Migrating)
    assert room.state == Total(0.5)
    room.restart()
    assert room.state == Total(0.5)
    room.advance(1.01)
    assert room.state.total == 10.5


def test_members_see_the_state_as_the_new_code_shows_it():
    room, ann = opened()
    room.reload(Showing)
    assert room.view(ann).shared == {"points": 1}
    room.act(ann, "add")
    assert room.view(ann).shared == {"points": 2}
    room.reload(Counting)
    room.reload(Showing)
    assert room.view(ann).shared == {"points": 2}


def test_code_that_cannot_read_the_state_is_not_taken_in():
    room, ann = opened()
    with pytest.raises(BadBehaviour, match="state of Unreadable"):
        room.reload(Unreadable)
    assert room.act(ann, "add").response_data == 2
    room.reload(Faster)
    assert room.act(ann, "add").response_data == 12


def test_code_that_is_not_taken_in_hides_nothing_that_was_not_shown_yet():
    room: RoomHarness[Any] = RoomHarness(Ticking)
    ann = room.join()
    room.say(ann, "bump")
    with pytest.raises(BadBehaviour):
        room.reload(Unreadable)
    assert not room.pending(ann)
    assert room.view(ann).shared == {"points": 1}


def test_a_room_that_nothing_has_happened_in_yet_is_handed_over():
    room: RoomHarness[Any] = RoomHarness(Counting)
    ann = room.join()
    room.reload(Faster)
    assert room.act(ann, "add").response_data == 10


def test_what_only_ticks_have_changed_is_handed_over():
    room, _ = opened()
    room.reload(Migrating)
    room.advance(0.51)
    room.reload(Migrating)
    assert room.state.total == 5.5
    room.advance(0.5)
    assert room.state.total == 10.5


def test_the_result_of_a_job_comes_to_the_present_code():
    room, ann = opened()
    room.act(ann, "fetch")
    room.reload(Faster)
    room.finish_job(0)
    assert room.state.points == 10


def test_a_room_that_could_not_come_back_does_so_with_mended_code():
    room, ann = opened()
    with pytest.raises(BadBehaviour):
        room.reload(Unreadable)
    with pytest.raises(BadBehaviour):
        room.restart()
    assert not room.is_open
    room.reload(Faster)
    assert room.act(ann, "add").response_data == 11
