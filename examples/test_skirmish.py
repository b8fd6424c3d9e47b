"""The skirmish, played without a server."""

import math
from random import Random
from typing import Any

import pytest
from skirmish import CLOSE_SECONDS, HEALTH, RELOAD_SECONDS, SIZE, SPEED, Field, Skirmish

from greenroom.behaviour import Refused
from greenroom.testing import Heard, RoomHarness, SimulatedCrowd


def begin(**rules: int) -> RoomHarness[Field]:
    room = RoomHarness(Skirmish, rules=rules, seed=1)
    room.join("Ann")
    room.join("Bob")
    return room


def aim(room: RoomHarness[Field], by: int, at: int) -> dict[str, float]:
    fighter, target = room.state.fighters[by], room.state.fighters[at]
    return {"angle": math.atan2(target.y - fighter.y, target.x - fighter.x)}


def shoot_down(room: RoomHarness[Field], by: int, at: int) -> None:
    for _ in range(HEALTH):
        room.say(by, "shoot", aim(room, by, at))
        room.advance(2.0)


def test_three_hits_make_a_point_and_the_points_make_a_win() -> None:
    room = begin(points=1)
    shoot_down(room, 1, 2)
    assert Heard("over", {"winner": 1, "points": 1}) in room.heard(2)
    assert room.stats == {1: {"skirmish_points": 1, "skirmish_best": 1, "skirmish_wins": 1}}
    with pytest.raises(Refused, match="The round is over"):
        room.say(1, "shoot", {"angle": 0})
    with pytest.raises(Refused, match="The round is over"):
        room.join("Eve")
    room.advance(CLOSE_SECONDS)
    assert not room.is_open


def test_a_message_sent_many_times_shoots_once_and_steers_no_faster() -> None:
    room = begin()
    for _ in range(50):
        room.say(1, "steer", {"x": 1, "y": 1})
    x = room.state.fighters[1].x
    room.advance(0.051)
    assert room.state.fighters[1].x - x <= SPEED * 0.05
    room.say(1, "shoot", {"angle": 0})
    for _ in range(50):
        with pytest.raises(Refused, match="You are reloading"):
            room.say(1, "shoot", {"angle": 0})
    assert len(room.state.shots) == 1
    room.advance(RELOAD_SECONDS + 0.051)
    room.say(1, "shoot", {"angle": 0})


def test_a_shot_hits_what_lies_between_two_ticks_and_the_nearest_alone() -> None:
    room = begin()
    room.join("Eve")
    for player_id, x in ((1, 10.0), (2, 14.5), (3, 16.0)):
        fighter = room.state.fighters[player_id]
        fighter.x, fighter.y = x, 30.0
    room.say(1, "shoot", {"angle": 0})
    room.advance(1.0)
    assert [fighter.health for fighter in room.state.fighters.values()] == [HEALTH, HEALTH - 1, 3]


def test_nobody_leaves_the_field_and_no_shot_stays_for_ever() -> None:
    room = begin()
    room.say(1, "steer", {"x": -1, "y": 0})
    room.say(1, "shoot", {"angle": math.pi})
    room.advance(10.0)
    assert (room.state.fighters[1].x, room.state.shots) == (0.0, [])


@pytest.mark.parametrize(
    ("command", "data"),
    [
        ("steer", {"x": 2, "y": 0}),
        ("steer", {"x": "1", "y": 0}),
        ("steer", {"x": 1}),
        ("shoot", {"angle": 4}),
        ("shoot", {"angle": None}),
        ("shoot", {}),
    ],
)
def test_what_is_out_of_range_is_refused(command: str, data: dict[str, Any]) -> None:
    room = begin()
    with pytest.raises(Refused, match=f"Invalid data for {command}"):
        room.say(1, command, data)


def test_one_alone_does_not_shoot_and_other_rules_make_no_room() -> None:
    room = RoomHarness(Skirmish)
    room.join("Ann")
    with pytest.raises(Refused, match="Wait for somebody to fight"):
        room.say(1, "shoot", {"angle": 0})
    with pytest.raises(Refused, match="The skirmish takes other rules"):
        RoomHarness(Skirmish, rules={"points": 0}).join("Ann")


def test_who_is_cut_off_stands_still_and_can_be_hit_and_who_has_left_wins_nothing() -> None:
    room = begin(points=2)
    room.say(2, "steer", {"x": 1, "y": 0})
    room.drop(2)
    shoot_down(room, 1, 2)
    room.leave(1)
    room.advance(120.0)
    assert room.stats == {1: {"skirmish_points": 1, "skirmish_best": 1}}


def test_a_kick_ends_the_round_and_nobody_has_won() -> None:
    room = begin(points=2)
    shoot_down(room, 1, 2)
    room.kick(2)
    assert (room.state.is_over, room.state.winner) == (True, 0)
    assert "skirmish_wins" not in room.stats[1]


def test_who_polls_fights_by_actions() -> None:
    room = begin()
    seen = room.act(2, "shoot", aim(room, 2, 1)).response_data
    assert seen["field"]["health"] == {"1": HEALTH, "2": HEALTH}
    assert room.act(2, "shoot", aim(room, 2, 1)).response_data == {"error": "You are reloading"}


def steer(room: RoomHarness[Field], player_id: int, chance: Random) -> None:
    room.say(player_id, "steer", {"x": chance.uniform(-1, 1), "y": chance.uniform(-1, 1)})


def shoot(room: RoomHarness[Field], player_id: int, chance: Random) -> None:
    room.say(player_id, "shoot", aim(room, player_id, chance.choice(list(room.state.fighters))))


def check_field(room: RoomHarness[Field]) -> None:
    """Check that everybody is in the field, and that shots are few."""
    if room.is_open:
        for fighter in room.state.fighters.values():
            assert 0 <= fighter.x <= SIZE
            assert 0 <= fighter.y <= SIZE
        assert len(room.state.shots) <= 4 * 16


def test_a_crowd_finds_no_hole_and_wins_nothing_while_nobody_is_there() -> None:
    crowd = SimulatedCrowd(
        Skirmish,
        {"steer": steer, "shoot": shoot},
        rules={"points": 1},
        seed=1,
        seconds_max=3.0,
        check=check_field,
        wins_need_players=True,
    )
    crowd.run(1_000)
    assert crowd.rooms > 1
