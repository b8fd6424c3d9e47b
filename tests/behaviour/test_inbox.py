"""Messages to a room that ticks wait for the tick, in their order, and nothing passes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from greenroom.actors.room.inbox import INBOX_MAX
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
)
from greenroom.behaviour.errors import BadBehaviour, HookTooSlow
from greenroom.testing import RoomHarness


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


def open_room(behaviour: type[RoomBehaviour[Log]] = Listening) -> RoomHarness[Log]:
    harness = RoomHarness(behaviour)
    harness.join()
    harness.join()
    harness._actor.inbox.is_open = True
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
    assert harness._actor.is_resting
    assert harness.state.lines == []


def test_who_leaves_behind_what_makes_a_behaviour_rest_is_told_of_once():
    harness = open_room()
    note(harness, "hang")
    with pytest.raises(BehaviourBug):
        harness.leave(2)
    assert harness._actor.is_resting
    harness.advance(60.0)
    assert harness.state.lines == ["2 left", "tick"]


def test_more_than_may_wait_is_heard_at_once():
    harness = open_room()
    note(harness, *map(str, range(INBOX_MAX)))
    assert harness.state.lines == []
    note(harness, "last")
    assert harness.state.lines == [*map(str, range(INBOX_MAX)), "last"]


def test_nothing_waits_where_ticks_are_rare():
    harness = open_room(Slow)
    note(harness, "a")
    assert harness.state.lines == ["a"]
