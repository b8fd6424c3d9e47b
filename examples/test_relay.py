"""The relay: the host decides, the room passes on."""

import pytest
from relay import Relay

from greenroom.behaviour import Refused
from greenroom.testing import Heard, Outcome, RoomHarness


def test_actions_wait_for_the_host() -> None:
    room = RoomHarness(Relay)
    ann, bob = room.join("Ann"), room.join("Bob")
    asked = room.act(bob, "open", {"door": 3})
    assert asked == Outcome(asked.action_id, "pending")
    assert room.pending(ann) == [(asked.action_id, "open", {"door": 3})]


def test_updates_and_messages_reach_whom_they_are_meant_for_as_they_were_sent() -> None:
    room = RoomHarness(Relay)
    ann, bob, eve = room.join("Ann"), room.join("Bob"), room.join("Eve", connected=False)
    for member in (ann, bob):
        room.heard(member)
    assert room.update(ann, "door", {"open": True}, to="others") == 2
    room.say(bob, "wave", [1, 2], to="specific", to_ids=[ann, eve])
    assert room.heard(bob) == [Heard("door", {"open": True})]
    assert room.heard(ann) == [Heard("wave", [1, 2])]
    assert room.polled(eve) == [Heard("door", {"open": True}), Heard("wave", [1, 2])]


def test_the_host_leaves_and_the_next_one_decides() -> None:
    room = RoomHarness(Relay)
    ann, bob, eve = room.join("Ann"), room.join("Bob"), room.join("Eve")
    room.leave(ann)
    assert room.host_id == bob
    asked = room.act(eve, "open")
    assert [action_id for action_id, _, _ in room.pending(bob)] == [asked.action_id]
    room.stop()
    with pytest.raises(Refused):
        room.act(eve, "open")
