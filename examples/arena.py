"""An arena at 20 Hz: the server moves everybody, so nobody is faster than the rest, or elsewhere.

    greenroom serve --behaviours-dir examples --behaviours '*/arena=arena:Arena'

Rooms whose rules say {"type": "arena"} play it, in rounds of a minute, or of "seconds": 3 to 600.
Clients send the message `steer` with {"x": -1 to 1, "y": -1 to 1} as often as they like, best over
UDP; the last one counts. A player who polls sends the action `steer` instead. Its answer has what
the others see.

What must be right, the coin and the scores, is the state that members see. Where everybody is may
be lost on the way, for the next tick says it anew: that is broadcast unreliably, as `places`.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from greenroom.behaviour import (
    JsonObject,
    Member,
    Refused,
    Room,
    RoomBehaviour,
    Stat,
    action,
    message,
)

SIZE = 100.0
"""The arena is a square from 0 to this."""
SPEED = 20.0
"""How far one gets in a second."""
REACH = 4.0
"""How near one must be to take a coin."""
STATS = {"arena_wins": Stat(), "arena_best": Stat()}

Direction = Annotated[float, msgspec.Meta(ge=-1, le=1)]


class Rules(msgspec.Struct, frozen=True):
    """The rules that a room's creator may choose."""

    seconds: Annotated[float, msgspec.Meta(ge=3, le=600)] = 60.0
    """How long a round lasts."""


class Steer(msgspec.Struct, frozen=True):
    """The direction of a player's steering; (0, 0) is nowhere."""

    x: Direction
    y: Direction


class Runner(msgspec.Struct):
    """A player in the arena."""

    x: float
    y: float
    dx: float = 0.0
    dy: float = 0.0
    coins: int = 0


class Field(msgspec.Struct):
    """The state: who runs where, and where the coin lies."""

    coin_x: float = SIZE / 2
    coin_y: float = SIZE / 2
    round: int = 1
    runners: dict[int, Runner] = {}
    round_seconds: float = 60.0


class Arena(RoomBehaviour[Field]):
    """An arena: the player with the most coins at its end wins the round."""

    tick_hz = 20
    strict = True
    stats = STATS

    def on_join(self, room: Room[Field], member: Member) -> None:
        x, y = self._somewhere(room)
        room.state.runners[member.player_id] = Runner(x, y)

    @message("steer")
    def steer(self, room: Room[Field], by: Member, steer: Steer) -> None:
        """Note a direction; the next tick moves the player."""
        length = max(1.0, math.hypot(steer.x, steer.y))
        runner = room.state.runners[by.player_id]
        runner.dx, runner.dy = steer.x / length, steer.y / length

    def on_tick(self, room: Room[Field], dt: float) -> None:
        """Move everybody, and say where they are."""
        state = room.state
        for runner in state.runners.values():
            runner.x = min(max(runner.x + runner.dx * SPEED * dt, 0.0), SIZE)
            runner.y = min(max(runner.y + runner.dy * SPEED * dt, 0.0), SIZE)
            if math.hypot(runner.x - state.coin_x, runner.y - state.coin_y) <= REACH:
                runner.coins += 1
                state.coin_x, state.coin_y = self._somewhere(room)
        room.broadcast("places", self._places(room), reliable=False, stream="places")

    @staticmethod
    def _places(room: Room[Field]) -> dict[int, tuple[float, float]]:
        return {i: (round(r.x, 2), round(r.y, 2)) for i, r in room.state.runners.items()}

    @staticmethod
    def _somewhere(room: Room[Field]) -> tuple[float, float]:
        return round(room.random.uniform(0, SIZE), 2), round(room.random.uniform(0, SIZE), 2)

    def shared(self, room: Room[Field]) -> object:
        """Show what changes now and then."""
        state = room.state
        return {
            "round": state.round,
            "coin": (state.coin_x, state.coin_y),
            "coins": {player_id: runner.coins for player_id, runner in state.runners.items()},
        }

    def initial_state(self, rules: JsonObject) -> Field:
        try:
            return Field(round_seconds=msgspec.convert(rules, Rules).seconds)
        except msgspec.ValidationError as error:
            raise Refused(f"The arena takes other rules: {error}") from None

    def on_create(self, room: Room[Field]) -> None:
        room.every(room.state.round_seconds, "round")

    def on_timer(self, room: Room[Field], name: str) -> None:
        """End the round; a draw has no winner."""
        state = room.state
        best = max(runner.coins for runner in state.runners.values())
        leaders = [i for i, runner in state.runners.items() if runner.coins == best]
        winner = leaders[0] if len(leaders) == 1 and best else None
        room.broadcast("over", {"round": state.round, "winner": winner, "coins": best})
        if winner is not None:
            room.player(winner).increment("arena_wins")
            room.player(winner).max("arena_best", best)
        state.round += 1
        for runner in state.runners.values():
            runner.coins = 0

    def on_leave(self, room: Room[Field], member: Member, reason: str) -> None:
        """Let a runner go; after a kick all coins count anew, so no host kicks who leads."""
        runners = room.state.runners
        del runners[member.player_id]
        if reason == "kicked":
            for runner in runners.values():
                runner.coins = 0

    def on_drop(self, room: Room[Field], member: Member) -> None:
        """Stop a player whose connection is lost, so that they do not run into a wall."""
        runner = room.state.runners[member.player_id]
        runner.dx = runner.dy = 0.0

    @action("steer")
    def steer_and_look(self, room: Room[Field], by: Member, steer: Steer) -> object:
        """Steer for a player without a connection, and answer what the others see."""
        self.steer(room, by, steer)
        return {"places": self._places(room), "field": self.shared(room)}
