"""A turn takes effect as a whole or not at all, whoever ends it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from greenroom.actors.kernel.message import Changed
from greenroom.actors.room.messages import LeaveRoom, SendActions
from greenroom.actors.room.rules.events import BehaviourChanged, MemberLeft
from greenroom.actors.room.rules.groups import read_targets
from greenroom.actors.room.studio_messages import NoteConnection, NoteDelivered
from greenroom.actors.studio_room import hooks
from greenroom.actors.studio_room.host import BehaviourHost
from greenroom.actors.studio_room.refusals import BehaviourFailed, RefusedByBehaviour
from greenroom.actors.studio_room.turn import ORDERS_MAX, Turn
from greenroom.behaviour import JobFailed, Member, Refused, Room, RoomBehaviour, action
from greenroom.behaviour.effects import Push, UpdatePlayer
from greenroom.behaviour.errors import HookCrashed, TooMuch
from greenroom.testing import RoomHarness


class Tally(msgspec.Struct):
    ticks: int = 0
    left: list[int] = []
    more: Any = None


class Counting(RoomBehaviour[Tally]):
    tick_hz = 10

    def on_tick(self, room: Room[Tally], dt: float) -> None:
        room.state.ticks += 1

    def on_leave(self, room: Room[Tally], member: Member, reason: str) -> None:
        room.state.left.append(member.player_id)
        room.broadcast("gone", member.player_id)

    def on_drop(self, room: Room[Tally], member: Member) -> None:
        room.state.more = f"{member.player_id} dropped"

    def on_timer(self, room: Room[Tally], name: str) -> None:
        room.state.ticks += 1_000
        room.broadcast("timer", name)
        if name == "refuse":
            raise Refused("No")
        if name == "crash":
            raise ZeroDivisionError
        if name == "grow":
            room.state.more = object()
        if name == "win":
            room.update_player(1, {"wins": 1})
            room.after(9, "later")

    @action("win")
    def win(self, room: Room[Tally], by: Member) -> None:
        room.update_player(by.player_id, {"wins": 1})

    @action("many")
    def many(self, room: Room[Tally], by: Member) -> None:
        for number in range(200):
            room.update_player(by.player_id, {"wins": number})


class Stage:
    """A room of three, with its second player without a connection, whose turns are ours."""

    def __init__(self) -> None:
        self.room: RoomHarness[Tally] = RoomHarness(Counting)
        for name in ("Ann", "Bob", "Cid"):
            self.room.join(name, connected=name != "Bob")
        self.errors: list[Exception] = []

    @property
    def host(self) -> BehaviourHost:
        return self.room._open_host

    @property
    def state(self) -> Tally:
        return self.room.state

    def turn(self, *, is_exact: bool = True) -> Turn:
        def report(_room_id: str, bug: Exception, _payload: object) -> None:
            self.errors.append(bug)

        members = self.room._connections.members
        return Turn(self.host, self.room.now, members, report, is_exact=is_exact)

    def tick(self) -> None:
        turn = self.turn(is_exact=False)
        turn.note("on_tick", 0.1)
        turn.commit_unwritten()

    def is_unchanged(self) -> bool:
        """Return whether a new turn would write down nothing."""
        return self.turn().commit(0) == ()


def test_a_turn_without_hooks_writes_down_nothing():
    assert Stage().is_unchanged()


def test_a_turn_that_is_committed_hands_out_events_orders_and_effects():
    stage = Stage()
    turn = stage.turn()
    turn.events = (MemberLeft(3, "left", 0),)
    turn.note("on_timer", "win")
    left, changed = turn.commit(7)
    assert left == MemberLeft(3, "left", 0)
    assert isinstance(changed, BehaviourChanged)
    assert changed.kept == stage.host.memory.saved
    assert [type(order).__name__ for order in changed.orders] == ["Deliver", "UpdatePlayer"]
    assert turn.effects.pushes == [Push("timer", b'"win"', None, True)]
    assert turn.effects.results == [(2, UpdatePlayer(1, {"wins": b"1"}))]
    assert turn.effects.timers_changed


@pytest.mark.parametrize("name", ["refuse", "crash"])
def test_a_hook_that_refuses_or_fails_takes_an_exact_turn_back_to_the_tick_before(name: str):
    stage = Stage()
    stage.tick()
    turn = stage.turn()
    turn.note("on_timer", "win")
    with pytest.raises(RefusedByBehaviour if name == "refuse" else BehaviourFailed):
        turn.ask("on_timer", name)
    assert stage.state == Tally(ticks=1)
    assert not stage.host.runner.timers
    assert turn.commit(0) == ()
    assert turn.effects.is_empty
    assert [type(error) for error in stage.errors] == [HookCrashed] * (name == "crash")


def test_a_turn_that_is_not_exact_keeps_what_a_refusal_changed_and_undoes_a_failure_further():
    stage = Stage()
    stage.tick()
    turn = stage.turn(is_exact=False)
    with pytest.raises(RefusedByBehaviour):
        turn.ask("on_timer", "refuse")
    assert stage.state.ticks == 1_001
    assert not turn.commit_unwritten()
    assert turn.effects.is_empty
    turn = stage.turn(is_exact=False)
    turn.note("on_timer", "crash")
    assert stage.state.ticks == 0, "back to the last saved state"


@pytest.mark.parametrize("is_before_the_turn", [True, False])
def test_a_state_that_cannot_be_written_down_is_undone_and_the_turn_goes_on(
    is_before_the_turn: bool,
):
    stage = Stage()
    if is_before_the_turn:
        unwritten = stage.turn(is_exact=False)
        unwritten.note("on_timer", "grow")
        unwritten.commit_unwritten()
    turn = stage.turn()
    hooks.follow(turn, (MemberLeft(3, "left", 0),))
    if is_before_the_turn:
        assert stage.state == Tally(left=[3])
    else:
        turn.note("on_timer", "grow")
        with pytest.raises(BehaviourFailed):
            turn.commit(0)
        assert turn.commit(0) == (MemberLeft(3, "left", 0),)
        assert stage.state == Tally()
    assert len(stage.errors) == 1


def test_what_is_rolled_back_leaves_nothing_behind():
    stage = Stage()
    unwritten = stage.turn(is_exact=False)
    unwritten.note("on_timer", "win")
    assert unwritten.commit_unwritten()
    before = stage.host.memory
    for _ in range(2):
        turn = stage.turn()
        saved = stage.host.memory
        assert saved.orders == before.orders
        hooks.follow(turn, (MemberLeft(3, "left", 0),))
        hooks.note_connection(turn, 2, is_connected=False)
        _, changed = turn.commit(0)
        assert isinstance(changed, BehaviourChanged)
        assert changed.orders[:2] == before.orders
        assert stage.host.memory.orders == ()
        assert stage.host.memory.dropped == {2}
        turn.roll_back()
        assert stage.host.memory == saved
        assert stage.state == Tally(ticks=1_000)
        assert list(stage.host.runner.timers) == ["later"]
        assert sorted(stage.host.runner.room.members) == [1, 2, 3]


def test_a_turn_may_not_order_more_than_a_room_may_wait_for():
    stage = Stage()
    turn = stage.turn()
    for _ in range(ORDERS_MAX // 200 + 1):
        turn.note("many", stage.host.roster.members[1])
    with pytest.raises(BehaviourFailed):
        turn.commit(0)
    assert [type(error) for error in stage.errors] == [TooMuch]
    assert stage.is_unchanged()


def refuse(stage: Stage, command: Any) -> None:
    """Have a turn's events refused, because the database is away."""
    actor = stage.room._actor
    result = actor.handlers[type(command)](actor, command)
    assert isinstance(result, Changed)
    assert result.events
    actor.on_refused()


def test_what_the_database_refuses_is_undone_and_comes_again():
    stage = Stage()
    refuse(stage, LeaveRoom(3))
    assert stage.state == Tally()
    refuse(stage, NoteConnection(3, False))
    assert stage.state == Tally()
    stage.room.drop(3)
    assert stage.state.more == "3 dropped"
    stage.room.leave(3)
    assert stage.state.left == [3]


def test_a_departure_that_is_refused_leaves_the_member_dropped():
    stage = Stage()
    stage.room.drop(3)
    dropped = stage.host.memory.dropped
    refuse(stage, LeaveRoom(3))
    assert stage.host.memory.dropped == dropped == {3}


def test_a_result_that_cannot_be_noted_undoes_no_tick():
    stage = Stage()
    stage.room._studio.results = []
    actor = stage.room._actor
    send = SendActions(
        player_id=1,
        targets=read_targets("host", None),
        action_type="win",
        request_data=b"{}",
        seed=b"0" * 16,
    )
    stage.room._turn(send)
    (number,) = actor.state.orders  # type: ignore[union-attr]
    stage.tick()
    refuse(stage, NoteDelivered(number))
    assert stage.state.ticks == 1


def test_a_job_that_fails_is_told_like_any_result():
    stage = Stage()
    turn = stage.turn()
    told: list[object] = []
    hooks.take_result(turn, lambda _room, result: told.append(result), JobFailed("slow"))
    assert told == [JobFailed("slow")]
    assert turn.commit(0) == ()
