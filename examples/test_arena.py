"""The arena, played without a server."""

import math

import pytest
from arena import REACH, SPEED, Arena, Field

from greenroom.behaviour import Refused
from greenroom.testing import Heard, RoomHarness


def test_the_server_moves_everybody_at_the_same_speed() -> None:
    room = RoomHarness(Arena, seed=1)
    ann, bob = room.join("Ann"), room.join("Bob")
    start = room.state.runners[ann].x
    room.say(ann, "steer", {"x": 1 if start < 50 else -1, "y": 0})
    room.advance(1.01)
    assert abs(room.state.runners[ann].x - start) == pytest.approx(SPEED)
    room.say(ann, "steer", {"x": 1, "y": 1})
    heard = room.heard(bob)
    assert [message.command for message in heard[1:]] == ["places"] * 20
    assert heard[-1].data[str(ann)][0] == pytest.approx(room.state.runners[ann].x)
    runner = room.state.runners[ann]
    assert math.hypot(runner.dx, runner.dy) == pytest.approx(1)


def test_nobody_steers_faster_than_allowed() -> None:
    room = RoomHarness(Arena)
    ann = room.join("Ann")
    with pytest.raises(Refused, match="Invalid data for steer"):
        room.say(ann, "steer", {"x": 2, "y": 0})


def chase(room: RoomHarness[Field], player_id: int) -> None:
    """Run to the coin with one player."""
    state = room.state
    runner = state.runners[player_id]
    x, y = state.coin_x - runner.x, state.coin_y - runner.y
    length = math.hypot(x, y)
    room.say(player_id, "steer", {"x": x / length, "y": y / length})
    room.advance(max(0.0, length - REACH) / SPEED + 0.1)


def test_a_coin_is_seen_by_all_to_be_taken_and_the_round_is_won_by_it() -> None:
    room = RoomHarness(Arena, seed=3)
    ann, bob = room.join("Ann"), room.join("Bob")
    before = room.view(bob).shared["coin"]
    chase(room, ann)
    seen = room.view(bob).shared
    assert (seen["coins"], seen["coin"] != before) == ({str(ann): 1, str(bob): 0}, True)
    room.drop(ann)
    room.advance(60.0)
    assert Heard("over", {"round": 1, "winner": ann, "coins": 1}) in room.heard(bob)
    assert room.stats == {ann: {"arena_wins": 1, "arena_best": 1}}
    assert room.view(bob).shared["round"] == 2


def test_nobody_wins_by_kicking_the_others() -> None:
    room = RoomHarness(Arena, seed=3)
    ann, bob = room.join("Ann"), room.join("Bob")
    chase(room, ann)
    room.kick(bob)
    room.advance(60.0)
    assert room.stats == {}


def test_a_player_who_is_cut_off_stands_still_and_sees_everything_when_back() -> None:
    room = RoomHarness(Arena, seed=5)
    ann, bob = room.join("Ann"), room.join("Bob")
    room.say(ann, "steer", {"x": 1, "y": 0})
    room.drop(ann)
    x = room.state.runners[ann].x
    chase(room, bob)
    assert room.state.runners[ann].x == x
    room.reconnect(ann)
    assert room.view(ann).shared == room.view(bob).shared
