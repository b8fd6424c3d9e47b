"""Flight in the demo's arena: ships, bolts, and how they move; `page/flight.js` moves alike."""

from __future__ import annotations

import math
from typing import Final

import msgspec

SIZE: Final = 120.0
"""The arena is a square from 0 to this."""
RADIUS: Final = 2.5
"""The radius of a ship. How near a bolt must come to hit."""
SPEED: Final = 18.0
"""How far a ship gets in a second."""
DRAG: Final = 5.0
"""How fast a ship takes on the speed that its pilot wants: after 1 / DRAG seconds, 63 % of it."""
REACH: Final = 4.0
"""How near a ship must be to take a star."""
BOLT_SPEED: Final = 50.0
BOLT_SECONDS: Final = 1.1
"""How long a bolt flies."""
RELOAD_SECONDS: Final = 0.35
HEALTH: Final = 3
DOWN_SECONDS: Final = 2.0
"""How long a ship that was shot down stays away."""
SHIELD_SECONDS: Final = 2.0
"""How long nothing hits a ship that has come back."""


class Ship(msgspec.Struct):
    """A ship, of a player or of a bot."""

    name: str
    color: int
    x: float = 0.0
    y: float = 0.0
    vx: float = 0.0
    vy: float = 0.0
    dx: float = 0.0
    dy: float = 0.0
    """The wanted direction, no longer than 1."""
    angle: float = 0.0
    """The direction of its nose, in radians."""
    is_firing: bool = False
    input_number: int = 0
    """The number of the last input that counts, by which its player measures the delay."""
    health: int = HEALTH
    points: int = 0
    reload_seconds: float = 0.0
    down_seconds: float = 0.0
    shield_seconds: float = SHIELD_SECONDS
    away_seconds: float = 0.0
    """How long its player has had no connection."""
    think_seconds: float = 0.0
    """How long until its bot thinks again."""

    def is_down(self) -> bool:
        """Return whether it was shot down and is not back yet."""
        return self.down_seconds > 0

    def fly(self, dt: float) -> None:
        """Move for some seconds; however many steps they are cut into, it gets as far."""
        kept = math.exp(-DRAG * dt)
        self.x, self.vx = _glide(self.x, self.vx, self.dx * SPEED, dt, kept)
        self.y, self.vy = _glide(self.y, self.vy, self.dy * SPEED, dt, kept)

    def count_down(self, dt: float) -> None:
        """Let the time of reloading and of the shield pass."""
        self.reload_seconds = max(0.0, self.reload_seconds - dt)
        self.shield_seconds = max(0.0, self.shield_seconds - dt)


class Bolt(msgspec.Struct):
    """A shot that flies."""

    number: int
    by: int
    x: float
    y: float
    angle: float
    seconds_left: float = BOLT_SECONDS

    def fly(self, dt: float) -> tuple[float, float]:
        """Move for some seconds; return where it was before."""
        before = self.x, self.y
        self.x += math.cos(self.angle) * BOLT_SPEED * dt
        self.y += math.sin(self.angle) * BOLT_SPEED * dt
        self.seconds_left -= dt
        return before

    def is_spent(self) -> bool:
        """Return whether it has flown long enough, or out of the arena."""
        return self.seconds_left <= 0 or not (0 <= self.x <= SIZE and 0 <= self.y <= SIZE)


def nearness(ship: Ship, start: tuple[float, float], end: tuple[float, float]) -> float:
    """Return how near the way from start to end comes to a ship.

    The whole way counts: a bolt flies further in a tick than a ship's radius.
    """
    (x, y), (to_x, to_y) = start, end
    dx, dy = to_x - x, to_y - y
    along = ((ship.x - x) * dx + (ship.y - y) * dy) / (dx * dx + dy * dy or 1.0)
    along = min(max(along, 0.0), 1.0)
    return math.hypot(x + along * dx - ship.x, y + along * dy - ship.y)


def _glide(x: float, v: float, wanted: float, dt: float, kept: float) -> tuple[float, float]:
    """Return place and speed along one axis after `dt` seconds; walls stop a ship."""
    x += wanted * dt + (v - wanted) * (1 - kept) / DRAG
    v = wanted + (v - wanted) * kept
    if RADIUS <= x <= SIZE - RADIUS:
        return x, v
    return min(max(x, RADIUS), SIZE - RADIUS), 0.0
