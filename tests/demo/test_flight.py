"""Flight: a ship gets to the same place in Python and in the page, however it is cut into steps."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
from seeds import SEED

from greenroom.demo import flight
from greenroom.demo.flight import RADIUS, SIZE, Bolt, Ship, nearness

PAGE = Path(flight.__file__).parent / "page"
PROGRAM = """
import { fly, SIZE, RADIUS, SPEED, DRAG, BOLT_SPEED } from "%s";
const cases = JSON.parse(process.argv[1]);
for (const [ship, dx, dy, seconds] of cases) fly(ship, dx, dy, seconds);
const constants = { SIZE, RADIUS, SPEED, DRAG, BOLT_SPEED };
console.log(JSON.stringify([cases.map(([ship]) => ship), constants]));
"""


def test_a_second_is_a_second_in_however_many_steps() -> None:
    one, many = (Ship("", 0, x=50, y=50, vx=-9, vy=3, dx=0.6, dy=0.8) for _ in range(2))
    one.fly(1.0)
    for _ in range(1000):
        many.fly(0.001)
    assert (one.x, one.y, one.vx, one.vy) == pytest.approx((many.x, many.y, many.vx, many.vy))


@pytest.mark.chance
@pytest.mark.skipif(shutil.which("node") is None, reason="no Node")
def test_the_page_moves_ships_as_the_server_does() -> None:
    random = Random(SEED)
    cases, expected = [], []
    for _ in range(200):
        angle, seconds = random.uniform(-math.pi, math.pi), random.uniform(0, 0.5)
        ship = Ship("", 0, dx=math.cos(angle), dy=math.sin(angle))
        ship.x, ship.y = (random.uniform(RADIUS, SIZE - RADIUS) for _ in range(2))
        ship.vx, ship.vy = (random.uniform(-18, 18) for _ in range(2))
        start = {"x": ship.x, "y": ship.y, "vx": ship.vx, "vy": ship.vy}
        cases.append((start, ship.dx, ship.dy, seconds))
        ship.fly(seconds)
        expected.append([ship.x, ship.y, ship.vx, ship.vy])
    program = PROGRAM.replace("%s", (PAGE / "flight.js").as_uri())
    command = ["node", "--input-type=module", "-e", program, json.dumps(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    ships, constants = json.loads(done.stdout)
    for ship, wanted in zip(ships, expected, strict=True):
        assert [ship["x"], ship["y"], ship["vx"], ship["vy"]] == pytest.approx(wanted)
    assert constants == {name: getattr(flight, name) for name in constants}


def test_a_bolt_that_flies_past_between_two_ticks_is_seen() -> None:
    ship = Ship("", 0, x=50, y=51)
    assert nearness(ship, (45, 50), (55, 50)) == pytest.approx(1)
    assert nearness(ship, (45, 50), (46, 50)) == pytest.approx(math.hypot(4, 1))
    assert nearness(ship, (50, 50), (50, 50)) == pytest.approx(1)


def test_a_bolt_is_spent_outside_of_the_arena_and_in_the_end() -> None:
    bolt = Bolt(1, 1, SIZE - 1, 50, 0.0)
    assert bolt.fly(0.01) == (SIZE - 1, 50)
    assert not bolt.is_spent()
    bolt.fly(0.05)
    assert bolt.is_spent()
    late = Bolt(1, 1, 50, 50, 0.0, seconds_left=0.02)
    late.fly(0.05)
    assert late.is_spent()
