"""A skirmish at 20 Hz: clients say where they want to go and shoot; the server decides all else.

    greenroom serve --behaviours-dir examples --behaviours '*/skirmish=skirmish:Skirmish'

Rooms whose rules say {"type": "skirmish", "points": 1 to 20} play it, once. It begins with the
second fighter. Three hits make a point. The round ends at `points`, or after two minutes.

Clients send the messages `steer` with {"x": -1 to 1, "y": -1 to 1} and `shoot` with
{"angle": -3.15 to 3.15}, best over UDP. Those that poll send actions of the same names, and are
answered with what the others see. No client tells a place, a hit or a point. So a message that is
sent twice, or a thousand times, steers once and shoots no faster. Everybody hears `over`. The
leaderboard is sorted by the stat `skirmish_wins`.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from greenroom.behaviour import (
    Joining,
    JsonObject,
    Member,
    Refused,
    Room,
    RoomBehaviour,
    Stat,
    action,
    message,
)

SIZE = 60.0
"""The field is a square from 0 to this."""
SPEED = 20.0
"""How far a fighter gets in a second."""
SHOT_SPEED = 60.0
SHOT_SECONDS = 1.5
"""How long a shot flies."""
RADIUS = 2.0
"""How near a shot must come to hit."""
RELOAD_SECONDS = 0.4
HEALTH = 3
ROUND_SECONDS = 120.0
CLOSE_SECONDS = 30.0
"""How long a room stays after its round."""
STATS = {"skirmish_wins": Stat(), "skirmish_points": Stat(), "skirmish_best": Stat()}

Direction = Annotated[float, msgspec.Meta(ge=-1, le=1)]


class Rules(msgspec.Struct, frozen=True):
    """The rules that a room's creator may choose."""

    points: Annotated[int, msgspec.Meta(ge=1, le=20)] = 5


class Steer(msgspec.Struct, frozen=True):
    """The direction of a fighter's steering; (0, 0) is nowhere."""

    x: Direction
    y: Direction


class Shoot(msgspec.Struct, frozen=True):
    """The direction of a shot, in radians."""

    angle: Annotated[float, msgspec.Meta(ge=-3.15, le=3.15)]


class Fighter(msgspec.Struct):
    """A player in the field."""

    x: float
    y: float
    dx: float = 0.0
    dy: float = 0.0
    health: int = HEALTH
    points: int = 0
    reload_seconds: float = 0.0
    """How long until the next shot."""


class Shot(msgspec.Struct):
    """Something that flies."""

    by: int
    x: float
    y: float
    dx: float
    dy: float
    seconds_left: float = SHOT_SECONDS


class Field(msgspec.Struct):
    """The state: where the players are, and what flies."""

    points: int = 5
    fighters: dict[int, Fighter] = {}
    shots: list[Shot] = []
    is_on: bool = False
    is_over: bool = False
    winner: int = 0


class Skirmish(RoomBehaviour[Field]):
    """One round, simulated by the server alone."""

    tick_hz = 20
    strict = True
    stats = STATS

    def initial_state(self, rules: JsonObject) -> Field:
        """Refuse rules that make no round; a lobby is told so, too."""
        try:
            return Field(points=msgspec.convert(rules, Rules).points)
        except msgspec.ValidationError as error:
            raise Refused(f"The skirmish takes other rules: {error}") from None

    def can_join(self, room: Room[Field], joining: Joining) -> None:
        if room.state.is_over:
            raise Refused("The round is over")

    def on_join(self, room: Room[Field], member: Member) -> None:
        """Put a fighter somewhere; begin with the second."""
        state = room.state
        x, y = self._somewhere(room)
        state.fighters[member.player_id] = Fighter(x, y)
        if len(state.fighters) == 2 and not state.is_on:
            state.is_on = True
            room.after(ROUND_SECONDS, "end")

    def on_leave(self, room: Room[Field], member: Member, reason: str) -> None:
        """Let a fighter go; their points stay theirs. Nobody wins by kicking the best."""
        del room.state.fighters[member.player_id]
        if reason == "kicked" and room.state.is_on:
            self._end(room, has_winner=False)

    def on_drop(self, room: Room[Field], member: Member) -> None:
        """Stop a player whose connection is lost. They can still be hit."""
        fighter = room.state.fighters[member.player_id]
        fighter.dx = fighter.dy = 0.0

    @message("steer")
    def steer(self, room: Room[Field], by: Member, steer: Steer) -> None:
        """Take note of a direction, at one speed for all."""
        length = max(1.0, math.hypot(steer.x, steer.y))
        fighter = room.state.fighters[by.player_id]
        fighter.dx, fighter.dy = steer.x / length, steer.y / length

    @message("shoot")
    def shoot(self, room: Room[Field], by: Member, shoot: Shoot) -> None:
        """Shoot from where the server has the fighter, if they have reloaded."""
        state = room.state
        if not state.is_on:
            raise Refused("The round is over" if state.is_over else "Wait for somebody to fight")
        fighter = state.fighters[by.player_id]
        if fighter.reload_seconds > 0:
            raise Refused("You are reloading")
        fighter.reload_seconds = RELOAD_SECONDS
        dx, dy = math.cos(shoot.angle) * SHOT_SPEED, math.sin(shoot.angle) * SHOT_SPEED
        state.shots.append(Shot(by.player_id, fighter.x, fighter.y, dx, dy))

    @action("steer")
    def steer_and_look(self, room: Room[Field], by: Member, steer: Steer) -> JsonObject:
        self.steer(room, by, steer)
        return self.look(room, by)

    @action("shoot")
    def shoot_and_look(self, room: Room[Field], by: Member, shoot: Shoot) -> JsonObject:
        self.shoot(room, by, shoot)
        return self.look(room, by)

    @action("look")
    def look(self, room: Room[Field], by: Member) -> JsonObject:
        """See what a connected client sees."""
        return {"places": self._places(room), "field": self.shared(room)}

    def on_tick(self, room: Room[Field], dt: float) -> None:
        """Move everybody and everything, and say where they are."""
        state = room.state
        for fighter in state.fighters.values():
            fighter.x = min(max(fighter.x + fighter.dx * SPEED * dt, 0.0), SIZE)
            fighter.y = min(max(fighter.y + fighter.dy * SPEED * dt, 0.0), SIZE)
            fighter.reload_seconds = max(0.0, fighter.reload_seconds - dt)
        state.shots = [shot for shot in state.shots if self._fly(room, shot, dt)]
        if state.is_on and any(f.points >= state.points for f in state.fighters.values()):
            self._end(room)
        room.broadcast("places", self._places(room), reliable=False, stream="places")

    def on_timer(self, room: Room[Field], name: str) -> None:
        """End the round when its time is up; close the room some time after it."""
        if name == "end":
            self._end(room)
        else:
            room.stop()

    def shared(self, room: Room[Field]) -> JsonObject:
        """Show what changes now and then."""
        state = room.state
        fighters = state.fighters.items()
        return {
            "is_on": state.is_on,
            "is_over": state.is_over,
            "winner": state.winner,
            "points": {player_id: fighter.points for player_id, fighter in fighters},
            "health": {player_id: fighter.health for player_id, fighter in fighters},
        }

    def _fly(self, room: Room[Field], shot: Shot, dt: float) -> bool:
        """Move a shot, and hit the first fighter in its way; return whether it flies on."""
        x, y = shot.x + shot.dx * dt, shot.y + shot.dy * dt
        hit = min(
            (
                (along, player_id)
                for player_id, fighter in room.state.fighters.items()
                if player_id != shot.by
                and (along := _meeting(fighter, (shot.x, shot.y), (x, y))) is not None
            ),
            default=None,
        )
        if hit is not None:
            self._hit(room, shot.by, hit[1])
            return False
        shot.x, shot.y = x, y
        shot.seconds_left -= dt
        return shot.seconds_left > 0 and 0 <= x <= SIZE and 0 <= y <= SIZE

    def _hit(self, room: Room[Field], by: int, player_id: int) -> None:
        """Take health; a fighter without any comes back elsewhere, and the shot made a point."""
        state = room.state
        fighter = state.fighters[player_id]
        fighter.health -= 1
        if fighter.health > 0:
            return
        fighter.health = HEALTH
        fighter.x, fighter.y = self._somewhere(room)
        shooter = state.fighters.get(by)
        if shooter is not None:
            shooter.points += 1
            room.player(by).increment("skirmish_points")
            room.player(by).max("skirmish_best", shooter.points)

    def _end(self, room: Room[Field], *, has_winner: bool = True) -> None:
        """End the round for good; a draw has no winner, nor has a round that the best has left."""
        state = room.state
        state.is_on, state.is_over, state.shots = False, True, []
        best = max((fighter.points for fighter in state.fighters.values()), default=0)
        leaders = [i for i, fighter in state.fighters.items() if fighter.points == best]
        if has_winner and best and len(leaders) == 1 and room.members[leaders[0]].is_online:
            state.winner = leaders[0]
            room.player(state.winner).increment("skirmish_wins")
        room.cancel("end")
        room.broadcast("over", {"winner": state.winner or None, "points": best})
        room.after(CLOSE_SECONDS, "close")

    @staticmethod
    def _places(room: Room[Field]) -> JsonObject:
        state = room.state
        return {
            "fighters": {i: (round(f.x, 2), round(f.y, 2)) for i, f in state.fighters.items()},
            "shots": [(shot.by, round(shot.x, 2), round(shot.y, 2)) for shot in state.shots],
        }

    @staticmethod
    def _somewhere(room: Room[Field]) -> tuple[float, float]:
        return room.random.uniform(0, SIZE), room.random.uniform(0, SIZE)


def _meeting(
    fighter: Fighter, start: tuple[float, float], end: tuple[float, float]
) -> float | None:
    """Return where on its way, from 0 to 1, a shot is nearest to a fighter it hits; else None.

    The whole way counts, because a shot flies further in a tick than a fighter is wide.
    """
    (x, y), (to_x, to_y) = start, end
    dx, dy = to_x - x, to_y - y
    along = ((fighter.x - x) * dx + (fighter.y - y) * dy) / (dx * dx + dy * dy or 1.0)
    along = min(max(along, 0.0), 1.0)
    near = math.hypot(x + along * dx - fighter.x, y + along * dy - fighter.y) <= RADIUS
    return along if near else None
