"""The demo's arena, played without a server."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from greenroom.behaviour import Refused
from greenroom.demo import pilots
from greenroom.demo.comets import AWAY_SECONDS_MAX, HIT_POINTS, STAR_POINTS, STARS, Comets, Sky
from greenroom.demo.flight import DOWN_SECONDS, HEALTH, RADIUS, SHIELD_SECONDS, SIZE, SPEED, Ship
from greenroom.testing import RoomHarness

TICK = 0.051


def begin(ships: int = 2) -> RoomHarness[Sky]:
    room = RoomHarness(Comets, rules={"ships": ships}, seed=1)
    room.join("Ann")
    return room


def wish(**given: object) -> dict[str, Any]:
    return {"x": 0, "y": 0, "angle": 0, "fire": False, "number": 1} | given


def put(ship: Ship, x: float, y: float) -> None:
    ship.x, ship.y, ship.vx, ship.vy, ship.shield_seconds = float(x), float(y), 0.0, 0.0, 0.0


def test_bots_fill_the_arena_and_make_room_for_players() -> None:
    room = begin(4)
    assert sorted(room.state.ships) == [-3, -2, -1, 1]
    room.join("Bob")
    assert len(room.state.ships) == 4
    assert {1, 2} < set(room.state.ships)
    room.leave(2)
    assert sorted(i for i in room.state.ships if i > 0) == [1]
    assert len(room.state.ships) == 4
    assert {ship.name for i, ship in room.state.ships.items() if i < 0} <= set(pilots.NAMES)


def test_more_players_than_ships_are_wanted_all_fly() -> None:
    room = begin(2)
    for name in ("Bob", "Cyd", "Dan"):
        room.join(name)
    assert sorted(room.state.ships) == [1, 2, 3, 4]


@pytest.mark.parametrize("rules", [{"ships": 1}, {"ships": 17}, {"ships": "many"}])
def test_other_rules_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="The arena takes other rules"):
        RoomHarness(Comets, rules=rules).join("Ann")


def test_no_wish_makes_a_ship_faster_however_often_it_comes() -> None:
    room = begin()
    put(room.state.ships[1], 60, 60)
    for number in range(50):
        room.say(1, "fly", wish(x=1, y=1, number=number))
    room.advance(1.0)
    ship = room.state.ships[1]
    assert math.hypot(ship.x - 60, ship.y - 60) <= SPEED
    assert ship.input_number == 49


def test_a_wish_that_makes_no_sense_is_refused() -> None:
    room = begin()
    for wrong in (wish(x=2), wish(angle=9), wish(fire="yes"), wish(number=-1), {}):
        with pytest.raises(Refused):
            room.say(1, "fly", wrong)
    with pytest.raises(Refused):
        room.say(1, "points", {"points": 9})


def test_walls_hold_everybody() -> None:
    room = begin()
    room.say(1, "fly", wish(x=-1))
    room.advance(12.0)
    assert room.state.ships[1].x == RADIUS


def test_a_star_makes_a_point_that_the_leaderboard_ranks() -> None:
    room = begin()
    ship = room.state.ships[1]
    number, (x, y) = next(iter(room.state.stars.items()))
    put(ship, x, y)
    points = ship.points
    room.advance(TICK)
    assert number not in room.state.stars
    assert len(room.state.stars) == STARS
    assert ship.points >= points + STAR_POINTS
    assert room.stats[1] == {"comets_points": ship.points, "comets_best": ship.points}


def test_three_hits_shoot_a_ship_down_and_it_comes_back_with_a_shield() -> None:
    room = RoomHarness(Comets, rules={"ships": 2}, seed=1)
    room.join("Ann")
    room.join("Bob")
    ann, bob = room.state.ships[1], room.state.ships[2]
    room.state.stars.clear()
    put(ann, 20, 60)
    put(bob, 30, 60)
    room.say(1, "fly", wish(fire=True))
    room.advance(0.2)
    assert bob.health == HEALTH - 1
    room.advance(0.8)
    assert bob.is_down()
    assert ann.points == HIT_POINTS
    room.say(1, "fly", wish())
    room.advance(DOWN_SECONDS)
    assert not bob.is_down()
    assert bob.health == HEALTH
    assert 0 < bob.shield_seconds <= SHIELD_SECONDS


def test_a_shield_stops_bolts_until_its_ship_shoots() -> None:
    room = RoomHarness(Comets, rules={"ships": 2}, seed=1)
    room.join("Ann")
    room.join("Bob")
    ann, bob = room.state.ships[1], room.state.ships[2]
    put(ann, 20, 60)
    put(bob, 30, 60)
    bob.shield_seconds = 10.0
    room.say(1, "fly", wish(fire=True))
    room.advance(1.0)
    assert bob.health == HEALTH
    room.say(2, "fly", wish(fire=True, angle=1.5))
    room.advance(TICK)
    assert bob.shield_seconds == 0


def test_a_bolt_that_nobody_is_in_the_way_of_ends() -> None:
    room = begin()
    put(room.state.ships[1], 60, 60)
    room.state.ships[-1].shield_seconds = 99.0
    room.say(1, "fly", wish(fire=True))
    room.advance(TICK)
    assert [bolt.by for bolt in room.state.bolts].count(1) == 1
    room.say(1, "fly", wish())
    room.advance(3.0)
    assert not [bolt for bolt in room.state.bolts if bolt.by == 1]


def test_who_is_cut_off_stands_still_and_in_the_end_loses_the_place() -> None:
    room = begin()
    room.join("Bob")
    room.say(1, "fly", wish(x=1, fire=True))
    room.drop(1)
    ship = room.state.ships[1]
    assert (ship.dx, ship.dy, ship.is_firing) == (0, 0, False)
    room.advance(1.0)
    assert room.view(2).shared["ships"]["1"]["is_away"]
    room.advance(AWAY_SECONDS_MAX + 1)
    assert sorted(room.room.members) == [2]


def test_who_comes_back_in_time_has_the_same_ship() -> None:
    room = begin()
    room.state.ships[1].points = 7
    room.drop(1)
    room.advance(AWAY_SECONDS_MAX / 2)
    room.reconnect(1)
    room.advance(AWAY_SECONDS_MAX)
    assert room.state.ships[1].points >= 7
    assert room.state.ships[1].away_seconds == 0


def test_a_restart_of_the_server_keeps_ships_and_points() -> None:
    room = begin(8)
    room.advance(20.0)
    points = {i: ship.points for i, ship in room.state.ships.items()}
    room.restart()
    assert {i: ship.points for i, ship in room.state.ships.items()} == points
    room.advance(1.0)


def test_bots_play_for_minutes_and_everything_stays_in_its_bounds() -> None:
    room = begin(16)
    room.advance(120.0)
    ships = room.state.ships
    assert len(ships) == 16
    assert sum(ship.points for ship in ships.values()) > 50
    assert all(0 <= ship.x <= SIZE and 0 <= ship.y <= SIZE for ship in ships.values())
    assert len(room.state.stars) == STARS
    assert len(room.state.bolts) < 100


def test_a_bot_that_is_alone_flies_to_the_nearest_star() -> None:
    begin(2)
    bot = Ship("Bot", 0, x=10, y=10)
    pilots.think(bot, [bot], [(50.0, 10.0), (100.0, 100.0)], Random(1), 1.0)
    assert (round(bot.dx, 3), round(bot.dy, 3)) == (1, 0)
