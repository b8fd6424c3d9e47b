"""A simulated crowd in a room: seeded players who do what a studio lets them, with faults.

    def place(room: RoomHarness[Board], player_id: int, chance: Random) -> None:
        room.act(player_id, "place", {"cell": chance.randrange(9)})

    def test_a_crowd() -> None:
        SimulatedCrowd(TicTacToe, {"place": place}).run(1_000)

Everything goes through `RoomHarness`. After each step it checks that a refusal has changed nothing,
and that the state comes back the same from a snapshot.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, Generic, TypeVar

from greenroom.behaviour import JobFailed, Member, Refused, RoomBehaviour
from greenroom.testing.checks import CheckFailed
from greenroom.testing.harness import RoomHarness

State = TypeVar("State")

Move = Callable[[RoomHarness[State], int, Random], object]
"""A move of a player: a function of the room, the player's id and a random generator. It may be
refused."""

SHOWN_STEPS: Final = 20
"""How many of the last steps a failure tells."""


class SimulatedCrowd(Generic[State]):
    """Players who join, play at random, are cut off, return and leave; rooms that crash and end.

    The same seed, behaviour and moves make the same run.

    Attributes:
        seed: the seed that repeats the run.
        room: the room they are in; a new one replaces one that has ended.
        rooms: how many there were.
        steps: the steps done so far, in order.
        refused: how many steps were refused.
    """

    def __init__(
        self,
        behaviour: type[RoomBehaviour[State]],
        moves: Mapping[str, Move[State]],
        *,
        seed: int | None = None,
        players_max: int = 4,
        rules: Mapping[str, Any] | None = None,
        fault_chance: float = 0.2,
        seconds_max: float = 1.0,
        check: Callable[[RoomHarness[State]], object] | None = None,
        wins_need_players: bool = False,
    ) -> None:
        """Prepare a crowd.

        Args:
            behaviour: the class to be tested.
            moves: what players do, by name; all are equally likely.
            seed: the seed of all randomness; None for a new one each time. It is printed.
            players_max: how many players are in the room at most; 2 to 16.
            rules: the rules that the room's creator gives.
            fault_chance: the probability that a step is a fault instead of a move. Faults are lost
                connections and returns, silence and its end, departures, crashes of the server, and
                failing jobs of `room.run`.
            seconds_max: how many seconds pass before a step, at most.
            check: is called with the room after each step; it raises if something is wrong.
            wins_need_players: whether to check that nobody is there, nothing is won: no result is
                written while time passes and no member is connected or online.
        """
        self.seed = int.from_bytes(os.urandom(6), "big") if seed is None else seed
        self.rooms = 0
        self.steps: list[str] = []
        self.refused = 0
        self._chance = Random(self.seed)
        self._behaviour = behaviour
        self._moves = dict(moves)
        self._options: dict[str, Any] = {"max_players": players_max, "rules": rules}
        self._fault_chance = fault_chance
        self._seconds_max = seconds_max
        self._check = check
        self._wins_need_players = wins_need_players
        self.room = self._make_room()

    def run(self, steps: int) -> None:
        """Play.

        Args:
            steps: how many steps to do.

        Raises:
            Exception: an error of a hook, a check or a move, other than a refusal. A note tells the
                seed and the last steps.
        """
        sys.stdout.write(f"SimulatedCrowd(seed={self.seed})\n")
        try:
            for _ in range(steps):
                self._step()
        except Exception as error:
            shown = self.steps[-SHOWN_STEPS:]
            first = len(self.steps) - len(shown) + 1
            lines = [f"  {number}. {step}" for number, step in enumerate(shown, first)]
            told = f"SimulatedCrowd(seed={self.seed}) does it again; the last steps:"
            error.add_note("\n".join([told, *lines]))
            raise

    def _make_room(self) -> RoomHarness[State]:
        self.rooms += 1
        seed = self._chance.getrandbits(32)
        return RoomHarness(self._behaviour, seed=seed, **self._options)

    def _step(self) -> None:
        """Let some time pass, then do one step."""
        self.steps.append("time")
        self._wait(round(self._chance.uniform(0, self._seconds_max), 3))
        if not self.room.is_open and self.room.has_been_open:
            self.room = self._make_room()
        name, act = self._choose()
        self.steps[-1] = name
        try:
            act()
        except Refused as refused:
            self.refused += 1
            self.steps[-1] += f": {refused}"
        if self._check is not None and self.room.is_open:
            self._check(self.room)

    def _wait(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            CheckFailed: nobody was there, and something was won.
        """
        room = self.room
        if not (self._wins_need_players and room.is_open):
            room.advance(seconds)
            return
        is_empty = not any(one.is_connected or one.is_online for one in room.room.members.values())
        before = _results(room)
        room.advance(seconds)
        if is_empty and _results(room) != before:
            raise CheckFailed(f"nobody is there, and {before} has become {_results(room)}")

    def _choose(self) -> tuple[str, Callable[[], object]]:
        """Return what happens next, and its name."""
        chance, room = self._chance, self.room
        members = list(room.room.members.values()) if room.is_open else []
        online = [member for member in members if member.is_online]
        seats = self._options["max_players"]
        if not members or (len(members) < seats and chance.random() < 0.5 / (1 + len(members))):
            connected = chance.random() < 0.7
            return f"join, connected={connected}", lambda: room.join(connected=connected)
        if not online or chance.random() < self._fault_chance:
            return self._choose_fault(members)
        player_id = chance.choice(online).player_id
        name = chance.choice(list(self._moves))
        return f"{name} by {player_id}", lambda: self._moves[name](room, player_id, chance)

    def _choose_fault(self, members: list[Member]) -> tuple[str, Callable[[], object]]:
        room, chance = self.room, self._chance
        if room.jobs and chance.random() < 0.5:
            return "a job fails", lambda: room.finish_job(JobFailed("the crowd says so"))
        if chance.random() < 0.2:
            return "the server crashes", room.restart
        member = chance.choice(members)
        player_id = member.player_id
        if not member.is_online:
            return f"{player_id} is heard of again", lambda: room.come_back(player_id)
        faults: dict[str, Callable[[int], None]] = {
            "falls silent": room.go_offline,
            "leaves": room.leave,
        }
        if member.is_connected:
            faults["loses the connection"] = room.drop
        else:
            faults["connects"] = room.reconnect
        name = chance.choice(list(faults))
        return f"{player_id} {name}", lambda: faults[name](player_id)


def _results(room: RoomHarness[Any]) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return a copy of all documents and stats."""
    documents = {player_id: dict(fields) for player_id, fields in room.documents.items()}
    return documents, {player_id: dict(stats) for player_id, stats in room.stats.items()}
