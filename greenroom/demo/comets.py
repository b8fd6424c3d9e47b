"""The demo's arena at 20 Hz: collect stars, shoot the others down; bots fill the free places.

Rooms whose rules say {"type": "comets"} play it, with "ships": 2 to 16 ships, of which bots fly
those that no player flies. Clients send the message `fly` with the direction that they want, the
angle of the nose, whether they fire, and a number. All else is the server's: places, hits, points.

`places` says twenty times a second where everybody is; it may be lost, for the next one says it
anew. `boom` and `star` are for sound and sparks. Names, points and stars are the state that members
see. Nobody's place is lost by a lost connection: who is away for `AWAY_SECONDS_MAX` loses it.
"""

from __future__ import annotations

import math
from typing import Annotated, Final

import msgspec

from greenroom.behaviour import JsonObject, Member, Refused, Room, RoomBehaviour, Stat, message
from greenroom.demo import pilots
from greenroom.demo.flight import (
    DOWN_SECONDS,
    HEALTH,
    RADIUS,
    REACH,
    RELOAD_SECONDS,
    SHIELD_SECONDS,
    SIZE,
    Bolt,
    Ship,
    nearness,
)

STARS: Final = 14
"""Stars that there are at a time."""
STAR_POINTS: Final = 1
HIT_POINTS: Final = 3
COLORS: Final = 8
AWAY_SECONDS_MAX: Final = 60.0
"""How long the ship of a player without a connection stays."""
STATS = {"comets_points": Stat(), "comets_best": Stat()}

Direction = Annotated[float, msgspec.Meta(ge=-1, le=1)]


class FillRules(msgspec.Struct, frozen=True):
    """The rules that a room's creator may choose."""

    ships: Annotated[int, msgspec.Meta(ge=2, le=16)] = 8


class Fly(msgspec.Struct, frozen=True):
    """A pilot's wish."""

    x: Direction
    y: Direction
    angle: Annotated[float, msgspec.Meta(ge=-3.15, le=3.15)]
    fire: bool
    number: Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Sky(msgspec.Struct):
    """The state. Ships are by player id; the ids of bots are below 0."""

    ships_wanted: int = 8
    tick: int = 0
    made: int = 0
    """How many bolts and stars there have been, by which they are numbered."""
    ships: dict[int, Ship] = {}
    bolts: list[Bolt] = []
    stars: dict[int, tuple[float, float]] = {}


class Comets(RoomBehaviour[Sky]):
    """A fight without an end, for those who come and go."""

    tick_hz = 20
    strict = True
    stats = STATS

    def initial_state(self, rules: JsonObject) -> Sky:
        try:
            return Sky(ships_wanted=msgspec.convert(rules, FillRules).ships)
        except msgspec.ValidationError as error:
            raise Refused(f"The arena takes other rules: {error}") from None

    def on_create(self, room: Room[Sky]) -> None:
        for _ in range(STARS):
            self._add_star(room)

    def on_join(self, room: Room[Sky], member: Member) -> None:
        """Give a ship to a player; a bot makes room for them."""
        self._launch(room, member.player_id, member.player_name)
        self._fill(room)

    def on_leave(self, room: Room[Sky], member: Member, reason: str) -> None:
        """Let a bot take the place."""
        room.state.ships.pop(member.player_id, None)
        self._fill(room)

    def on_drop(self, room: Room[Sky], member: Member) -> None:
        """Let the ship float. It can be hit: pulling the plug saves nobody."""
        ship = room.state.ships[member.player_id]
        ship.dx = ship.dy = 0.0
        ship.is_firing = False

    @message("fly")
    def fly(self, room: Room[Sky], by: Member, wish: Fly) -> None:
        """Take note of a wish; the next tick does it, at one speed for all."""
        ship = room.state.ships[by.player_id]
        length = max(1.0, math.hypot(wish.x, wish.y))
        ship.dx, ship.dy = wish.x / length, wish.y / length
        ship.angle, ship.is_firing = wish.angle, wish.fire
        ship.input_number = wish.number

    def on_tick(self, room: Room[Sky], dt: float) -> None:
        """Move everybody and everything, and say where they are."""
        state = room.state
        state.tick += 1
        for player_id, ship in tuple(state.ships.items()):
            self._note_presence(room, player_id, ship, dt)
            self._advance(room, player_id, ship, dt)
        state.bolts = [bolt for bolt in state.bolts if self._move_bolt(room, bolt, dt)]
        room.broadcast("places", _places(room), reliable=False, stream="places")

    def shared(self, room: Room[Sky]) -> object:
        """Show what changes now and then."""
        state = room.state
        return {
            "ships": {
                player_id: {
                    "name": ship.name,
                    "color": ship.color,
                    "points": ship.points,
                    "is_bot": player_id < 0,
                    "is_away": ship.away_seconds > 0,
                }
                for player_id, ship in state.ships.items()
            },
            "stars": state.stars,
        }

    # Ships.

    def _launch(self, room: Room[Sky], player_id: int, name: str) -> None:
        ships = room.state.ships
        taken = [ship.color for ship in ships.values()]
        ship = Ship(name, min(range(COLORS), key=taken.count))
        ship.x, ship.y = _somewhere(room)
        ships[player_id] = ship

    def _fill(self, room: Room[Sky]) -> None:
        """Add or remove bots until there are as many as are wanted beside the players."""
        ships = room.state.ships
        bots = [player_id for player_id in ships if player_id < 0]
        wanted = max(0, room.state.ships_wanted - (len(ships) - len(bots)))
        for player_id in bots[wanted:]:
            del ships[player_id]
        for _ in range(wanted - len(bots)):
            number = next(n for n in range(1, len(pilots.NAMES) + 1) if -n not in ships)
            self._launch(room, -number, pilots.NAMES[number - 1])

    def _note_presence(self, room: Room[Sky], player_id: int, ship: Ship, dt: float) -> None:
        """Count how long a player has been away, and let them go in the end."""
        if player_id < 0:
            return
        if room.members[player_id].is_connected:
            ship.away_seconds = 0.0
            return
        if ship.away_seconds <= AWAY_SECONDS_MAX < ship.away_seconds + dt:
            room.kick(player_id)
        ship.away_seconds += dt

    def _advance(self, room: Room[Sky], player_id: int, ship: Ship, dt: float) -> None:
        if ship.is_down():
            ship.down_seconds -= dt
            if not ship.is_down():
                ship.x, ship.y = _somewhere(room)
                ship.health, ship.shield_seconds = HEALTH, SHIELD_SECONDS
            return
        ship.count_down(dt)
        state = room.state
        if player_id < 0:
            pilots.think(ship, state.ships.values(), state.stars.values(), room.random, dt)
        ship.fly(dt)
        self._collect(room, player_id, ship)
        if ship.is_firing and ship.reload_seconds <= 0:
            self._shoot(room, player_id, ship)

    def _shoot(self, room: Room[Sky], player_id: int, ship: Ship) -> None:
        ship.reload_seconds = RELOAD_SECONDS if player_id > 0 else pilots.RELOAD_SECONDS
        ship.shield_seconds = 0.0
        state = room.state
        state.made += 1
        x, y = ship.x + math.cos(ship.angle) * RADIUS, ship.y + math.sin(ship.angle) * RADIUS
        state.bolts.append(Bolt(state.made, player_id, x, y, ship.angle))

    def _move_bolt(self, room: Room[Sky], bolt: Bolt, dt: float) -> bool:
        """Move a bolt, and hit the ship that is nearest to its way; return whether it flies on."""
        before = bolt.fly(dt)
        after = bolt.x, bolt.y
        hit = min(
            (
                (near, player_id)
                for player_id, ship in room.state.ships.items()
                if player_id != bolt.by
                and not ship.is_down()
                and (near := nearness(ship, before, after)) <= RADIUS
            ),
            default=None,
        )
        if hit is not None:
            self._hit(room, bolt.by, hit[1])
        return hit is None and not bolt.is_spent()

    def _hit(self, room: Room[Sky], by: int, player_id: int) -> None:
        """Take health; the hit that takes the last of it makes points."""
        ship = room.state.ships[player_id]
        if ship.shield_seconds > 0:
            return
        ship.health -= 1
        is_last = ship.health <= 0
        boom = {"x": round(ship.x, 1), "y": round(ship.y, 1), "ship": player_id, "by": by}
        room.broadcast("boom", boom | {"is_last": is_last}, reliable=False)
        if is_last:
            ship.down_seconds = DOWN_SECONDS
            ship.vx = ship.vy = 0.0
            self._add_points(room, by, HIT_POINTS)

    # Stars and points.

    def _collect(self, room: Room[Sky], player_id: int, ship: Ship) -> None:
        stars = room.state.stars
        for number, (x, y) in tuple(stars.items()):
            if abs(x - ship.x) <= REACH and math.hypot(x - ship.x, y - ship.y) <= REACH:
                del stars[number]
                self._add_star(room)
                room.broadcast("star", {"x": x, "y": y, "by": player_id}, reliable=False)
                self._add_points(room, player_id, STAR_POINTS)

    def _add_star(self, room: Room[Sky]) -> None:
        state = room.state
        state.made += 1
        state.stars[state.made] = _somewhere(room)

    def _add_points(self, room: Room[Sky], player_id: int, points: int) -> None:
        """Add points, for players also to what the leaderboard ranks."""
        ship = room.state.ships.get(player_id)
        if ship is None:
            return
        ship.points += points
        if player_id > 0:
            room.player(player_id).increment("comets_points", points)
            room.player(player_id).max("comets_best", ship.points)


def _places(room: Room[Sky]) -> JsonObject:
    """Return what changes with every tick, as short as may be.

    A ship is its id, place, speed, angle, health (0 while it is down), shield, number of the input.
    A bolt is its number, place, angle, and whose it is.
    """
    state = room.state
    return {
        "tick": state.tick,
        "time": round(room.now, 3),
        "ships": [
            (
                *(player_id, round(ship.x, 2), round(ship.y, 2)),
                *(round(ship.vx, 1), round(ship.vy, 1), round(ship.angle, 2)),
                *(0 if ship.is_down() else ship.health, ship.shield_seconds > 0, ship.input_number),
            )
            for player_id, ship in state.ships.items()
        ],
        "bolts": [
            (bolt.number, round(bolt.x, 1), round(bolt.y, 1), round(bolt.angle, 2), bolt.by)
            for bolt in state.bolts
        ],
    }


def _somewhere(room: Room[Sky]) -> tuple[float, float]:
    """Return a place that is not too near to the walls."""
    chance = room.random
    return round(chance.uniform(6, SIZE - 6), 1), round(chance.uniform(6, SIZE - 6), 1)
