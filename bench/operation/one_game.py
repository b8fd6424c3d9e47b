"""Measure one game whose partitions are on several workers: what it answers, and a join.

- **answers**: one process, two workers and four, with connections that move to the worker of their
  player, and with connections that stay (`answers.py`); rooms of 8, likewise (`exchanges.py`).
- **joins**: players join rooms of their own partition, of another one of their worker, and of the
  other worker.
- **top-ten**: a leaderboard of 1,000,000 players on one process, and over two nodes
  (`standings.py`).

`--only` takes these names.
"""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import answers
import cluster
import comparison
import crew
import departures
import exchanges
import standings
from comparison import CPU, WALL, Aim
from scenario import Run, Scenario, spread

AUTO: Final = {"partitions_per_game": "auto", "balance_shards": "false"}
"""The partitions are spread evenly from the first, and stay where they are. One that moved would
close the connections of its rooms, and the generator connects once."""
TWO, TWO_STAY = "two workers", "two, connections stay"
FOUR, FOUR_STAY = "four workers", "four, connections stay"
WAYS: answers.Ways = {
    answers.ONE: answers.way_of(1, {}),
    TWO: answers.way_of(2, AUTO),
    TWO_STAY: answers.way_that_stays(2, AUTO),
    FOUR: answers.way_of(4, AUTO),
    FOUR_STAY: answers.way_that_stays(4, AUTO),
}
JOINS, JOINS_QUICK = 100, 10
"""Joins of each kind in a round."""
KINDS: Final = (
    "in their own partition",
    "in another partition of their worker",
    "on the other worker",
)
ACROSS: Final = KINDS[1:]
"""Those between partitions."""
GUESTS_A_JOIN: Final = len(KINDS)
HOSTS: Final = 32
"""Hosts who register at a worker: its partitions are taken in turn, and each has some."""
SECONDS_MAX: Final = 30.0
AIM_MS: Final = 5.0
SHARD_DIGITS: Final = 3
"""Hexadecimal digits of an id that name its shard."""


def measure(run: Run) -> str:
    """Measure and tell.

    Raises:
        SystemExit: a part is named that there is not.
    """
    return cluster.measure_parts(
        run, {"answers": measure_answers, "joins": measure_joins, "top-ten": standings.measure}
    )


def measure_answers(run: Run) -> str:
    """Measure one game on one process, two workers and four by turns."""
    figures = answers.compare(run, WAYS, _measure_all)
    calm = exchanges.list_calm(run)
    aims = (
        *(Aim(way, WALL, 1.2, but=calm) for way in (TWO, FOUR)),
        *(Aim(way, CPU, 0.95, "connections handed on") for way in (TWO, FOUR)),
        Aim(TWO_STAY, CPU, 0.8, "every second call passed on"),
        Aim(FOUR_STAY, CPU, 0.8, "three of four passed on"),
    )
    about = [
        "One game, whose partitions and players are on all workers (`partitions_per_game = auto`),",
        "as many on each. They stay there (`balance_shards = false`).",
        "",
        f"{answers.CONNECTIONS} connections in a closed loop, each of one player. If connections",
        "stay (`connections_move = false`), each takes players of all workers in turn. So every",
        "second call is passed on by two workers, and three of four by four. For `relay` and",
        "`arenas` an answer is a message that arrives at a member. If connections stay, every",
        "second member, or three of four, is connected to another worker than that of their room.",
        "Ratios are by the wall clock, and by CPU.",
    ]
    bases = [answers.ONE]
    lines = [*about, "", *comparison.table(figures, [*WAYS], bases)]
    return "\n".join([*lines, *comparison.verdicts(figures, aims, bases)])


def _measure_all(run: Run, way: answers.Way) -> answers.Answers:
    """Measure calls, and then what members of rooms tell each other."""
    yield from answers.measure_games(run, way, count=1)
    for exchange in exchanges.EXCHANGES:
        yield from exchanges.measure(run, way, exchange)


def measure_joins(run: Run) -> str:
    """Measure joins, one after the other."""
    medians: dict[str, list[float]] = defaultdict(list)
    count = JOINS_QUICK if run.is_quick else JOINS
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: joins")
        with crew.running(2, **AUTO, **departures.STAY) as (server, _):
            for kind, times in _join_all(server, count).items():
                if times:
                    medians[kind].append(1_000 * statistics.median(times))
    lines = [
        f"{count:,} players of each kind join a room, one after the other, while the",
        "server has nothing else to do.",
        "",
        "| a room | median ms |",
        "|---|---|",
        *(f"| {kind} | {spread(medians[kind], '.1f')} |" for kind in KINDS if medians[kind]),
        "",
        f"The aim is {AIM_MS:.0f} ms between partitions: {judge_joins(medians)}.",
    ]
    return "\n".join(lines)


def judge_joins(medians: Mapping[str, Sequence[float]]) -> str:
    """Return whether joins between partitions are as fast as they should be."""
    told = [
        f"{'holds' if (middle := statistics.median(medians[kind])) <= AIM_MS else 'MISSED'}"
        f" {kind} ({middle:.1f})"
        for kind in ACROSS
        if medians.get(kind)
    ]
    return ", ".join(told) or "not measured"


def _join_all(server: crew.BenchCrew, count: int) -> dict[str, list[float]]:
    """Return the seconds that joins of each kind took, as clients of the first worker see them."""
    game = server.spread_game()
    here, there = (_Caller(str(node.own_http), game.key) for node in server.nodes())
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with closing(here), closing(there):
        rooms = _rooms_by_shard(here)
        others = [*_rooms_by_shard(there).values()]
        guests = [here.register() for _ in range(GUESTS_A_JOIN * count)]
        homes = server.shards_of([guest.player_id for guest in guests])
        for number, (guest, own) in enumerate(zip(guests, homes, strict=True)):
            choices = {
                KINDS[0]: [room for shard, room in rooms.items() if shard == own],
                KINDS[1]: [room for shard, room in rooms.items() if shard != own],
                KINDS[2]: others,
            }
            kind = KINDS[number % len(KINDS)]
            if choices[kind]:
                times[kind].append(here.join(guest, choices[kind][number % len(choices[kind])]))
    return times


class _Player(NamedTuple):
    player_id: int
    token: str


class _Caller:
    """A client of one worker, over a connection that stays."""

    def __init__(self, url: str, key: str) -> None:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        assert host is not None
        self._connection = http.client.HTTPConnection(host, port, timeout=SECONDS_MAX)
        self._key = key

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def register(self) -> _Player:
        """Register a player, who lives on this worker then."""
        made = self._post("/api/game_players.php/register", {"player_name": "Ada"})
        return _Player(int(made["player_id"]), str(made["private_key"]))

    def open_room(self, host: _Player) -> str:
        """Make a room of a player's; return its id."""
        room = {"room_name": "Den", "max_players": 16}
        return str(self._post("/api/game_room.php/create", room, host)["room_id"])

    def join(self, guest: _Player, room_id: str) -> float:
        """Have a player join a room, and leave it; return the seconds of the first."""
        began = time.perf_counter()
        self._post(f"/api/game_room.php/{room_id}/join", {}, guest)
        seconds = time.perf_counter() - began
        self._post("/api/game_room.php/leave", {}, guest)
        return seconds

    def _post(self, path: str, body: dict[str, Any], player: _Player | None = None) -> Any:
        heads = {"X-Api-Token": self._key, "Content-Type": "application/json"}
        if player is not None:
            heads["X-Game-Player-Token"] = player.token
        self._connection.request("POST", path, json.dumps(body), heads)
        response = self._connection.getresponse()
        text = response.read()
        if response.status != http.client.OK:
            raise RuntimeError(f"{path}: {response.status} {text.decode()}")
        return json.loads(text)


def _rooms_by_shard(caller: _Caller) -> dict[int, str]:
    """Make rooms in the partitions of a worker; return one of each."""
    rooms = (caller.open_room(caller.register()) for _ in range(HOSTS))
    return {int(room_id[:SHARD_DIGITS], 16): room_id for room_id in rooms}


SCENARIO = Scenario(
    "one-game",
    "one game on several workers: answers, and joins between its partitions",
    measure,
    is_default=False,
    minutes=30,
)
