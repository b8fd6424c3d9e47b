"""A behaviour that had to be interrupted rests, comes back by itself, and misses nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import msgspec
import pytest

from greenroom.actors.room.rules.events import HostChanged
from greenroom.actors.room.studio_messages import WakeBehaviour
from greenroom.actors.studio_room.circuit_breaker import (
    INTERRUPTIONS_MAX,
    WINDOW_SECONDS,
    CircuitBreaker,
)
from greenroom.actors.studio_room.missed_events import MissedEvents
from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, action
from greenroom.behaviour.errors import HookCrashed, HookTooSlow
from greenroom.testing import RoomHarness


class Diary(msgspec.Struct):
    ticks: int = 0
    told: list[str] = []


TheRoom = Room[Diary]


class Slow(RoomBehaviour[Diary]):
    """Writes down what it is told; the hooks named in `slow` are as if interrupted."""

    tick_hz = 10
    slow: ClassVar[set[str]] = set()

    def tell(self, room: TheRoom, hook: str, *more: object) -> None:
        room.state.told.append(" ".join(map(str, (hook, *more))))
        if hook in self.slow:
            raise HookTooSlow(f"{hook} was interrupted")
        if f"{hook} {more[0]} crashes" in self.slow:
            raise KeyError

    def on_tick(self, room: TheRoom, dt: float) -> None:
        room.state.ticks += 1
        if "on_tick" in self.slow:
            raise HookTooSlow("on_tick was interrupted")

    def on_leave(self, room: TheRoom, member: Member, reason: str) -> None:
        self.tell(room, "on_leave", member.player_id, sorted(room.members))

    def on_host_change(self, room: TheRoom, old: Member | None, new: Member) -> None:
        self.tell(room, "on_host_change", old and old.player_id, new.player_id)

    def on_drop(self, room: TheRoom, member: Member) -> None:
        self.tell(room, "on_drop", member.player_id)

    def on_reconnect(self, room: TheRoom, member: Member) -> None:
        self.tell(room, "on_reconnect", member.player_id)

    def on_timer(self, room: TheRoom, name: str) -> None:
        self.tell(room, "on_timer", name)

    def on_done(self, room: TheRoom, result: object) -> None:
        self.tell(room, "on_done", result)

    def shared(self, room: TheRoom) -> object:
        if "shared crashes" in self.slow:
            raise KeyError
        if "shared" in self.slow:
            raise HookTooSlow("shared was interrupted")
        return room.state.told

    async def job(self) -> None: ...

    @action("plan")
    def plan(self, room: TheRoom, by: Member) -> None:
        room.run(self.job, self.on_done)
        room.after(2, "bell")

    @action("good")
    def good(self, room: TheRoom, by: Member) -> int:
        return room.state.ticks


@pytest.fixture
def room() -> RoomHarness[Diary]:
    Slow.slow = set()
    room = RoomHarness(Slow)
    for _ in range(4):
        room.join()
    return room


def interrupt(
    room: RoomHarness[Diary],
    hook: str = "on_tick",
    act: Callable[[RoomHarness[Diary]], object] = lambda room: room.advance(0.1),
) -> None:
    """Have a hook of the room interrupted, once."""
    Slow.slow = {hook}
    with pytest.raises(HookTooSlow):
        act(room)
    Slow.slow = set()


def test_each_rest_is_twice_as_long_and_the_last_one_has_no_end(room: RoomHarness[Diary]):
    for seconds in (1, 2, 4, 8):
        before = room.state.ticks
        interrupt(room)
        room.advance(seconds - 0.001)
        with pytest.raises(Refused):
            room.act(1, "good")
        with pytest.raises(Refused):
            room.join()
        room.advance(0.002)
        assert room.state.ticks == before == room.act(1, "good").response_data
        room.advance(1)
        assert room.state.ticks == before + 10
    interrupt(room)
    room.drop(2)
    room.advance(100_000)
    with pytest.raises(Refused):
        room.act(1, "good")
    assert room.state.told == []
    room.reload(Slow)
    assert room.act(1, "good").status == "completed"
    assert room.state.told == ["on_drop 2"]
    interrupt(room)
    room.advance(1)
    assert room.act(1, "good").status == "completed", "the count began anew"


def test_nothing_wakes_who_rests_for_good(room: RoomHarness[Diary]):
    for _ in range(INTERRUPTIONS_MAX):
        room._actor._pause()  # the last two in one turn, before the first of them is over
    room.advance(1000)
    assert room._actor.is_paused


def test_a_view_that_loops_makes_its_behaviour_rest_even_if_it_has_failed_before(
    room: RoomHarness[Diary],
):
    Slow.slow = {"shared crashes"}
    with pytest.raises(HookCrashed):
        room.advance(0.1)
    interrupt(room, "shared")
    assert room._actor.is_paused


def test_a_restart_ends_a_rest(room: RoomHarness[Diary]):
    interrupt(room)
    room.restart()
    assert room.act(1, "good").status == "completed"


def test_a_reload_ends_a_rest_and_nothing_is_missed(room: RoomHarness[Diary]):
    interrupt(room)
    room.leave(2)
    room.reload(Slow)
    assert room.state.told == ["on_leave 2 [1, 3, 4]"]
    assert room.act(1, "good").status == "completed"


def test_what_happens_during_a_rest_is_told_after_it(room: RoomHarness[Diary]):
    room.act(1, "plan")
    room.drop(4)
    room.state.told.clear()
    room.advance(0.5)
    interrupt(room)
    room.finish_job("found")
    room.leave(2)
    room.leave(1)
    room.drop(3)
    room.reconnect(4)
    room.advance(0.9)
    assert room.state.told == []
    room.advance(0.2)
    host = room.host_id
    assert room.state.told == [
        "on_leave 2 [1, 3, 4]",
        f"on_host_change 1 {host}",
        "on_leave 1 [3, 4]",
        "on_done found",
        "on_drop 3",
        "on_reconnect 4",
    ]
    assert room.view(4).shared == room.state.told
    room.advance(0.5)
    assert room.state.told[-1] == "on_timer bell"
    room.reconnect(3)
    assert room.state.told[-1] == "on_reconnect 3"


@pytest.mark.parametrize(
    ("hook", "why"), [("on_leave", "it is told once more"), ("shared", "it was told already")]
)
def test_a_departure_is_told_once_whatever_is_interrupted(
    room: RoomHarness[Diary], hook: str, why: str
):
    interrupt(room, hook, lambda room: room.leave(2))
    for _ in range(2):
        room.advance(1)
        assert room.state.told == ["on_leave 2 [1, 3, 4]"], why


def test_a_change_of_host_is_told_once_when_what_members_see_is_interrupted(
    room: RoomHarness[Diary],
):
    interrupt(room, "shared", lambda room: room.leave(1))
    told = [f"on_host_change 1 {room.host_id}", "on_leave 1 [2, 3, 4]"]
    assert room.state.told == told
    room.advance(2)
    assert room.state.told == told


def test_a_departure_whose_hook_crashes_costs_the_others_nothing(room: RoomHarness[Diary]):
    interrupt(room)
    for player_id in (2, 3, 4):
        room.leave(player_id)
    Slow.slow = {"on_leave 3 crashes"}
    with pytest.raises(HookCrashed):
        room.advance(1)
    room.advance(1)
    assert room.state.told == ["on_leave 2 [1, 3, 4]", "on_leave 4 [1]"]


def test_a_departure_that_cannot_be_written_down_is_told_again(room: RoomHarness[Diary]):
    interrupt(room)
    room.leave(2)
    room.leave(3)
    actor, host = room._actor, room._host
    for _ in range(2):
        actor.wake_behaviour(WakeBehaviour())
        assert room.state.told == ["on_leave 2 [1, 3, 4]"]
        actor.on_refused()  # the database is away
        assert room.state.told == []
        assert host
        assert sorted(host.runner.room.members) == [1, 2, 3, 4]
    room.advance(2)
    assert room.state.told == ["on_leave 2 [1, 3, 4]", "on_leave 3 [1, 4]"]
    assert room.act(1, "good").status == "completed"


def test_of_hosts_that_follow_each_other_in_a_rest_the_last_is_told():
    members = {i: Member(player_id=i, player_name="", player_data={}) for i in (1, 2, 3)}
    missed = MissedEvents(members, 1)
    for player_id in (2, 1, 2, 3):
        missed = missed.add(HostChanged(player_id, 0))
    event, missed = missed.take()
    assert event == HostChanged(3, 0)
    assert missed.host_id == 3
    assert not missed.events


def test_who_loops_when_told_what_it_missed_rests_again_and_is_not_told_again(
    room: RoomHarness[Diary],
):
    interrupt(room, "on_leave", lambda room: room.leave(2))
    interrupt(room, "on_leave", lambda room: room.advance(1.001))
    room.advance(2)
    assert room.state.told == []
    assert room.act(1, "good").status == "completed"


def test_a_room_ends_in_a_rest_as_ever(room: RoomHarness[Diary]):
    room.act(1, "plan")
    interrupt(room)
    room.stop()
    room.advance(1)
    assert not room.is_open
    assert room._timers.take_next(math.inf) is None, "nothing keeps it in memory"


def test_a_room_that_has_ended_waits_for_no_timer(room: RoomHarness[Diary]):
    room.act(1, "plan")
    room.stop()
    room.advance(0.2)
    assert room._timers.take_next(math.inf) is None, "nothing keeps it in memory"
    assert room._state.kept is None, "and it takes little there"


def test_a_rest_forgets_what_is_long_ago():
    circuit, now = CircuitBreaker(), 0.0
    for _ in range(3 * INTERRUPTIONS_MAX):
        assert circuit.open(now) == 1.0
        assert circuit.count_seconds_left(now + 0.25) == 0.75
        circuit.close()
        now += WINDOW_SECONDS
