"""Simulate placement and balance of very many nodes and players, by the code that servers run.

Nothing is served: there are numbers of players by game, games by shard, and nodes that are lost and
come back. Placement, take-over and balance are the server's own pure functions. A seed makes the
same run again. Prints what `docs/explanation/scale.md` shows.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from greenroom.actors.kernel.shards import SHARDS, home_shard  # noqa: E402 (found above)
from greenroom.cluster.balance_rule import Balancer, loads_of  # noqa: E402
from greenroom.cluster.placement import moves_to_balance, place  # noqa: E402

ROUND_SECONDS: Final = 5
MOVES_A_ROUND: Final = 3
"""A move, then 2 seconds of rest."""
NOISE: Final = 0.1
"""How far a measure may be off, as a part of it."""
BACK_SECONDS: Final = 45
"""After how long a node that was lost is back, under another id."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The size of it all, and how long it runs."""

    nodes: int
    players: int
    games: int
    largest: int
    turns_per_second: float
    minutes: int
    seed: int
    is_balanced: bool


class Report(msgspec.Struct):
    """The counts of a run."""

    moved: int = 0
    moved_players: int = 0
    lost_players: int = 0
    lost_shards: int = 0
    homed: int = 0
    """Shards that nobody was in, and that moved to where placement says."""
    again: Counter[int] = msgspec.field(default_factory=Counter)
    """How often each shard has moved by load."""
    first_work: list[int] = msgspec.field(default_factory=list)
    """After how many seconds each node that came had load."""
    most: list[float] = msgspec.field(default_factory=list)
    """The most loaded node, in parts of the mean, round by round."""
    least: list[float] = msgspec.field(default_factory=list)


class Scene:
    """Nodes, shards and players."""

    def __init__(self, options: Options) -> None:
        """Begin with every shard where placement says."""
        self.options = options
        self.random = random.Random(options.seed)  # noqa: S311 - a seed makes the same run again
        self.players = self._players()
        self.weights = {s: n * options.turns_per_second for s, n in self.players.items()}
        self.nodes = list(range(1, options.nodes + 1))
        self.owners = {shard: place(shard, self.nodes) for shard in range(SHARDS)}
        self.balancer = Balancer()
        self.report = Report()
        self.now = 0
        self._next_node = options.nodes + 1
        self._due: list[int] = []
        self._came: dict[int, int] = {}

    def _players(self) -> dict[int, int]:
        """Return the players of each shard: few games have many, and many have few (Zipf)."""
        options = self.options
        sizes = [1.0 / rank for rank in range(1, options.games + 1)]
        scale, cut = 1.0, sizes
        for _ in range(51):  # what is cut from the largest goes to the others
            scale *= options.players / sum(cut)
            cut = [min(options.largest, size * scale) for size in sizes]
        ids = self.random.sample(range(1, 100 * options.games), options.games)
        players = dict.fromkeys(range(SHARDS), 0)
        for game_id, size in zip(ids, cut, strict=True):
            players[home_shard(game_id)] += round(size)
        return players

    def run(self) -> Iterator[None]:
        """Go on, a round at a time."""
        while self.now < self.options.minutes * 60:
            if self.now and self.now % 60 == 0:
                self.lose()
            while self._due and self._due[0] <= self.now:
                self._due.pop(0)
                self.join()
            self.go_home()
            if self.options.is_balanced:
                self.balance()
            self.note()
            yield
            self.now += ROUND_SECONDS

    def lose(self) -> None:
        """Lose a node; those that stay take its shards over, as placement says."""
        lost = self.random.choice(self.nodes)
        self.nodes.remove(lost)
        self._came.pop(lost, None)
        for shard in [shard for shard, owner in self.owners.items() if owner == lost]:
            self.report.lost_shards += 1
            self.report.lost_players += self.players[shard]
            self.owners[shard] = place(shard, self.nodes)
        self._due.append(self.now + BACK_SECONDS)

    def join(self) -> None:
        """Start a node."""
        self.nodes.append(self._next_node)
        self._came[self._next_node] = self.now
        self._next_node += 1

    def go_home(self) -> None:
        """Move shards with nobody in them to where placement says, as every node does."""
        empty = {s: owner for s, owner in self.owners.items() if not self.players[s]}
        for move in moves_to_balance(self.nodes, empty):
            self.owners[move.shard] = move.to_node
            self.report.homed += 1

    def balance(self) -> None:
        """Measure, with noise, and move what the rule says."""
        noise = self.random.uniform
        self.balancer.note({s: w * noise(1 - NOISE, 1 + NOISE) for s, w in self.weights.items()})
        for number in range(MOVES_A_ROUND):
            now = float(self.now + 2 * number)
            decision = self.balancer.decide(self.nodes, self.owners, now)
            if decision.next is None:
                return
            move = decision.next.move
            self.owners[move.shard] = move.to_node
            self.balancer.note_tried(move.shard, now)
            self.report.moved += 1
            self.report.moved_players += self.players[move.shard]
            self.report.again[move.shard] += 1

    def note(self) -> None:
        """Note how the load is shared."""
        loads = loads_of(self.nodes, self.owners, self.weights)
        mean = sum(loads.values()) / len(loads)
        self.report.most.append(max(loads.values()) / mean)
        self.report.least.append(min(loads.values()) / mean)
        for node_id in [n for n in self._came if loads.get(n, 0.0) > 0]:
            self.report.first_work.append(self.now - self._came.pop(node_id))


def main() -> None:
    """Simulate what the command line asks for, and print what happened."""
    options = _options()
    print(f"seed {options.seed}")
    scene = Scene(options)
    largest = max(scene.players.values())
    print(
        f"{options.nodes} nodes, {sum(scene.players.values()):,} players in {options.games:,} games"
        f" of at most {options.largest:,}, {SHARDS} shards of at most {largest:,} players"
    )
    rate = sum(scene.weights.values())
    print(f"{rate:,.0f} turns a second, {rate / options.nodes:,.0f} a node on average")
    for _ in scene.run():
        if scene.now % 300 == 0:
            print(_line(scene))
    _print_sums(scene)


def _line(scene: Scene) -> str:
    report = scene.report
    return (
        f"minute {scene.now // 60:3}: busiest {report.most[-1]:.2f} of the mean, "
        f"calmest {report.least[-1]:.2f}; {report.moved} shards moved so far"
    )


def _print_sums(scene: Scene) -> None:
    report, minutes = scene.report, scene.options.minutes
    print(f"nodes lost: {minutes - 1}, with {report.lost_shards / (minutes - 1):.1f} shards each")
    print(f"players whose node was lost: {report.lost_players:,}")
    print(f"shards moved by load: {report.moved}, {report.moved / minutes:.1f} a minute")
    print(f"players who moved with them: {report.moved_players:,}")
    print(f"shards that moved while empty: {report.homed}")
    often = max(report.again.values(), default=0)
    print(f"the shard that moved most often: {often} times in {minutes} minutes")
    if report.first_work:
        first = sorted(report.first_work)
        print(f"a new node had load after {first[len(first) // 2]} s, at most {first[-1]} s")
    late = report.most[len(report.most) // 6 :]
    print(f"busiest node after the first sixth: {_spread(late)} of the mean")


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return f"median {ordered[len(ordered) // 2]:.2f}, most {ordered[-1]:.2f}"


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="scripts/simulate-scale", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--players", type=int, default=1_000_000)
    parser.add_argument("--games", type=int, default=20_000)
    parser.add_argument("--largest", type=int, default=10_000, help="players of one game at most")
    parser.add_argument("--turns-per-second", type=float, default=0.2, help="of one player")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--seed", type=int, help="drawn and printed by default")
    parser.add_argument("--no-balance", action="store_true", help="placement alone")
    given = parser.parse_args()
    return Options(
        nodes=given.nodes,
        players=given.players,
        games=given.games,
        largest=given.largest,
        turns_per_second=given.turns_per_second,
        minutes=given.minutes,
        seed=random.SystemRandom().randrange(10**6) if given.seed is None else given.seed,
        is_balanced=not given.no_balance,
    )


if __name__ == "__main__":
    main()
