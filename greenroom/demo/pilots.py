"""Bots of the demo's arena: they collect stars, chase who is near, and miss often enough."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Protocol

from greenroom.demo.flight import BOLT_SPEED, Ship

NAMES: Final = (
    *("Altair", "Bellatrix", "Capella", "Deneb", "Electra", "Fomalhaut", "Gemma", "Hadar"),
    *("Izar", "Kochab", "Lesath", "Mizar", "Nashira", "Polaris", "Rigel", "Sirius"),
)
THINK_SECONDS: Final = 0.5
"""How long a bot keeps to what it has decided."""
SIGHT: Final = 30.0
"""How far a bot sees ships."""
SPREAD: Final = 0.2
"""How badly a bot aims, in radians."""
RELOAD_SECONDS: Final = 1.2
"""Bots shoot more slowly than players."""


class Chance(Protocol):
    """The part of a room's chance that bots use."""

    def random(self) -> float:
        """Return a number from 0 to 1."""
        ...

    def gauss(self, mu: float, sigma: float) -> float:
        """Return a number around mu."""
        ...


def think(
    bot: Ship,
    others: Iterable[Ship],
    stars: Iterable[tuple[float, float]],
    chance: Chance,
    dt: float,
) -> None:
    """Let a bot decide where it flies and whether it shoots, when it is time to.

    Args:
        bot: its ship.
        others: the ships that it may shoot at; it may be among them.
        stars: the places of the stars.
        chance: the room's.
        dt: seconds since the last call.
    """
    bot.think_seconds -= dt
    if bot.think_seconds > 0:
        return
    bot.think_seconds = THINK_SECONDS * (0.5 + chance.random())
    prey = _nearest_ship(bot, others)
    bot.is_firing = prey is not None and chance.random() < 0.6
    if prey is not None and bot.is_firing:
        bot.angle = _aim(bot, prey) + chance.gauss(0.0, SPREAD)
    goal = _nearest(bot, stars)
    if prey is not None and chance.random() < 0.3:
        goal = prey.x, prey.y
    _steer(bot, goal)
    if not bot.is_firing and (bot.dx or bot.dy):
        bot.angle = math.atan2(bot.dy, bot.dx)


def _nearest_ship(bot: Ship, others: Iterable[Ship]) -> Ship | None:
    seen = [
        (distance, number, ship)
        for number, ship in enumerate(others)
        if ship is not bot
        and not ship.is_down()
        and (distance := math.hypot(ship.x - bot.x, ship.y - bot.y)) < SIGHT
    ]
    return min(seen)[2] if seen else None


def _nearest(bot: Ship, places: Iterable[tuple[float, float]]) -> tuple[float, float]:
    here = bot.x, bot.y
    return min(places, key=lambda place: math.dist(here, place), default=here)


def _aim(bot: Ship, prey: Ship) -> float:
    """Return the direction in which a bolt meets the prey if that flies straight on."""
    seconds = math.hypot(prey.x - bot.x, prey.y - bot.y) / BOLT_SPEED
    x, y = prey.x + prey.vx * seconds, prey.y + prey.vy * seconds
    return math.atan2(y - bot.y, x - bot.x)


def _steer(bot: Ship, goal: tuple[float, float]) -> None:
    dx, dy = goal[0] - bot.x, goal[1] - bot.y
    distance = math.hypot(dx, dy)
    bot.dx, bot.dy = (dx / distance, dy / distance) if distance > 1 else (0.0, 0.0)
