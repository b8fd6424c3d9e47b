"""Messages to a room that ticks wait for the tick, in their order, and nothing passes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from greenroom.actors.studio_room.input_buffer import MESSAGES_MAX
from greenroom.behaviour import (
    BehaviourBug,
    Forward,
    Member,
    Refused,
    Room,
    RoomBehaviour,
    Verdict,
    action,
    message,
    update,
)
from greenroom.behaviour.errors import BadBehaviour, HookTooSlow
from greenroom.testing import RoomHarness
from greenroom.testing.stand_ins import HarnessConnections


class Log(msgspec.Struct):
    lines: list[str] = []


class Line(msgspec.Struct, frozen=True):
    text: str


class Listening(RoomBehaviour[Log]):
    tick_hz = 20

    @message("note")
    def note(self, room: Room[Log], by: Member, line: Line) -> None:
        if line.text == "refuse":
            room.broadcast("never")
            raise Refused("No")
        if line.text == "hang":
            raise HookTooSlow("for ever")
        room.state.lines.append(line.text)
        room.broadcast("noted", line.text)

    @message("answer")
    def answer(self, room: Room[Log], by: Member) -> None:
        return True  # type: ignore[return-value]  # a mistake of the studio's

    @message("pass")
    def let_pass(self, room: Room[Log], by: Member, line: Line) -> Verdict:
        room.state.lines.append(line.text)
        return Forward()

    @action("act")
    def act(self, room: Room[Log], by: Member) -> None:
        room.state.lines.append("act")

    def on_leave(self, room: Room[Log], member: Member, reason: str) -> None:
        room.state.lines.append(f"{member.player_id} left")

    def on_tick(self, room: Room[Log], dt: float) -> None:
        if room.state.lines and room.state.lines[-1] != "tick":
            room.state.lines.append("tick")


class Slow(Listening):
    tick_hz = 5


class Busy(Listening):
    """Writes down whatever else happens."""

    async def job(self) -> None: ...

    @action("plan")
    def plan(self, room: Room[Log], by: Member) -> None:
        room.run(self.job, self.on_done)
        room.after(0.01, "bell")

    @update("change")
    def change(self, room: Room[Log], by: Member) -> None:
        room.state.lines.append("change")

    def on_done(self, room: Room[Log], result: object) -> None:
        room.state.lines.append(f"done {result}")

    def on_timer(self, room: Room[Log], name: str) -> None:
        room.state.lines.append(name)

    def on_drop(self, room: Room[Log], member: Member) -> None:
        room.state.lines.append(f"{member.player_id} dropped")


class Refusals(HarnessConnections):
    """Remembers the members who were refused something that they had sent."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[tuple[int, str | None]] = []

    def refuse(
        self,
        room_id: str,
        player_id: int,
        reason: str | None,
        retry_seconds: int | None = None,
        request_id: str | int | None = None,
    ) -> None:
        self.refused.append((player_id, reason))


def open_room(behaviour: type[RoomBehaviour[Log]] = Listening) -> RoomHarness[Log]:
    harness = RoomHarness(behaviour)
    harness.join()
    harness.join()
    harness._actor.input.is_enabled = True
    return harness


def note(harness: RoomHarness[Log], *texts: str) -> None:
    for text in texts:
        harness.say(1, "note", {"text": text})


def heard(harness: RoomHarness[Log]) -> list[Any]:
    return [told.data for told in harness.heard(2) if told.command == "noted"]


def test_messages_are_heard_in_their_order_right_before_the_tick():
    harness = open_room()
    note(harness, "a", "b")
    assert harness.state.lines == []
    harness.advance(0.05)
    assert harness.state.lines == ["a", "b", "tick"]
    assert heard(harness) == ["a", "b"]


def test_what_comes_behind_a_message_finds_it_heard():
    harness = open_room()
    note(harness, "a")
    harness.act(1, "act")
    assert harness.state.lines == ["a", "act"]
    note(harness, "b")
    harness.say(1, "pass", {"text": "c"})
    assert harness.state.lines == ["a", "act", "b", "c"]


def test_who_has_left_has_been_heard_before():
    harness = open_room()
    harness.say(2, "note", {"text": "farewell"})
    harness.leave(2)
    assert harness.state.lines == ["farewell", "2 left"]


def test_a_refused_message_has_no_effects_and_takes_none_from_others():
    harness = open_room()
    note(harness, "a", "refuse", "b")
    harness.say(1, "note", "no line at all")
    harness.advance(0.05)
    assert harness.state.lines == ["a", "b", "tick"]
    assert heard(harness) == ["a", "b"]


def test_no_refusal_undoes_what_others_sent_however_long_inputs_keep_coming():
    harness = open_room()
    sent = [str(number) for number in range(60)]
    for text in sent:
        note(harness, text)
        harness.say(2, "note", "no line at all")
        harness.advance(0.05)
    assert [line for line in harness.state.lines if line != "tick"] == sent
    assert heard(harness) == sent


def test_what_waits_when_a_room_is_thrown_away_is_refused():
    harness = open_room()
    refusals = harness._actor._connections = Refusals()
    note(harness, "a")
    harness.say(2, "note", {"text": "b"})
    harness._actor.on_stop()
    assert refusals.refused == [(1, None), (2, None)]
    assert not harness._actor.input


def test_a_handler_that_answers_although_it_said_it_would_not_is_a_mistake():
    harness = open_room()
    harness.say(1, "answer")
    with pytest.raises(BadBehaviour, match="answer is annotated -> None, and answers True"):
        harness.advance(0.05)


def test_nothing_more_is_heard_once_a_behaviour_rests():
    harness = open_room()
    note(harness, "hang", "a")
    with pytest.raises(BehaviourBug):
        harness.advance(0.05)
    assert harness._actor.is_paused
    assert harness.state.lines == []


@pytest.mark.parametrize(
    ("what_comes", "line_later"),
    [
        pytest.param(lambda room: room.act(1, "act"), None, id="an action"),
        pytest.param(lambda room: room.update(1, "change"), None, id="an update"),
        pytest.param(lambda room: room.say(1, "pass", {"text": "c"}), None, id="a message"),
        pytest.param(lambda room: room.drop(2), "2 dropped", id="a lost connection"),
        pytest.param(lambda room: room.finish_job("x"), "done x", id="a result"),
        pytest.param(lambda room: room.advance(0.02), "bell", id="a timer"),
    ],
)
def test_what_comes_behind_what_makes_a_behaviour_rest_finds_it_at_rest(
    what_comes: Callable[[RoomHarness[Log]], object], line_later: str | None
):
    harness = open_room(Busy)
    harness.act(1, "plan")
    note(harness, "hang")
    with pytest.raises(BehaviourBug):
        what_comes(harness)
    assert harness._actor.is_paused
    assert harness.state.lines == []
    harness.advance(1.5)
    expected = {"bell"} if line_later is None else {"bell", line_later}
    assert set(harness.state.lines) - {"tick"} == expected, "what cannot be refused is not lost"


def test_who_leaves_behind_what_makes_a_behaviour_rest_is_told_of_once():
    harness = open_room()
    note(harness, "hang")
    with pytest.raises(BehaviourBug):
        harness.leave(2)
    assert harness._actor.is_paused
    harness.advance(60.0)
    assert harness.state.lines == ["2 left", "tick"]


def test_more_than_may_wait_is_heard_at_once():
    harness = open_room()
    note(harness, *map(str, range(MESSAGES_MAX)))
    assert harness.state.lines == []
    note(harness, "last")
    assert harness.state.lines == [*map(str, range(MESSAGES_MAX)), "last"]


def test_nothing_waits_where_ticks_are_rare():
    harness = open_room(Slow)
    note(harness, "a")
    assert harness.state.lines == ["a"]
