"""Measure what servers answer by turns: each call of one player, and all that players do.

Each connection keeps to one player, as a client does. Where connections stay at the worker that
the kernel chose, each takes players of all workers in turn. So exactly every second call is passed
on by two workers, and three of four by four. If it kept to one player, calls that need not be
passed on would be faster, and so be more.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import crew
import departures
import endpoints
import processes
from comparison import Figure
from scenario import Run

PLAYERS, CONNECTIONS = 512, 64
MIXED_PLAYERS, MIXED_RATE = 160, 12_000
"""The rate is more than two cores answer, so what is answered is what can be. A player has one call
under way. With more players one process would have passes so long that it refused calls."""
MIXED: Final = f"mixed ({MIXED_RATE:,} a second offered)"
ONE: Final = "one process"

Answers = Iterator[tuple[str, Figure]]
"""Each call, and what was answered."""


@dataclass(frozen=True)
class Way:
    """A server to measure."""

    start: Callable[..., AbstractContextManager[tuple[crew.BenchCrew, Path]]]
    """Runs it; it may be given further arguments of its command."""
    players_in_turn: int = 1
    """The players that a connection takes in turn."""
    stays: bool = False
    """True if realtime connections are not where their room is."""


Ways = Mapping[str, Way]


def way_of(workers: int, settings: Mapping[str, str]) -> Way:
    """Return the way of so many workers whose connections move to the worker of their player."""
    return Way(partial(crew.running, workers, **settings))


def way_that_stays(workers: int, settings: Mapping[str, str]) -> Way:
    """Return the same with connections that stay where they are."""
    start = partial(crew.running, workers, **settings, **departures.STAY)
    return Way(start, workers, stays=True)


def compare(
    run: Run, ways: Ways, measure: Callable[[Run, Way], Answers]
) -> dict[tuple[str, str], list[Figure]]:
    """Measure all ways by turns."""
    found: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for number in range(1, run.rounds + 1):
        for name, way in ways.items():
            run.say(f"round {number} of {run.rounds}: {name}")
            for call, figure in measure(run, way):
                run.say(f"{name}: {call} {figure.per_second:,.0f} a second")
                found[call, name].append(figure)
    return found


def measure_games(run: Run, way: Way, *, count: int) -> Answers:
    """Measure a server with so many games, as many on each worker; a single one is on all."""
    with way.start() as (server, folder):
        games = server.games(count) if count > 1 else [server.spread_game()]
        callers = enrol_all(run, server, games, folder)
        turns = ["-cred-turns", str(way.players_in_turn)]
        for url in server.target.beside:
            turns += ["-also", urlsplit(url).netloc]
        for call, arguments in calls(server.target.url):
            timed = [*heads(callers), *turns, *for_seconds(run.seconds)]
            row = processes.request(run.program, server.target, *arguments, *timed)
            yield call, figure_of(row)
        yield MIXED, play(run, server.target, games)


def figure_of(row: processes.Row) -> Figure:
    """Return the answers of a row of `http`."""
    return Figure.of(row["rps"], cpu_seconds(row), row["lat_ms"]["P99"])


def enrol_all(run: Run, server: crew.BenchCrew, games: list[crew.PlacedGame], folder: Path) -> Path:
    """Register players of games; return a file of their tokens, each with its game's key.

    Those of all workers take turns, line by line.
    """
    if len(games) > 1:
        count = PLAYERS // len(games)
        tokens = [enrol(run, server.target, game, folder, count) for game in games]
        keys = [game.key for game in games]
    else:
        (game,) = games
        nodes = server.nodes()
        targets = [server.at(node, game) for node in nodes] or [server.target]
        count = PLAYERS // len(targets)
        found = [token for each in targets for token in enrol(run, each, game, folder, count)]
        tokens = server.by_home(found)
        keys = [game.key] * len(tokens)
    lines = [
        f"{token}\t{key}"
        for each in zip(*tokens, strict=len(games) > 1)
        for token, key in zip(each, keys, strict=True)
    ]
    callers = folder / "players"
    callers.write_text("\n".join(lines) + "\n")
    return callers


def enrol(
    run: Run, target: processes.Target, game: crew.PlacedGame, folder: Path, count: int
) -> list[str]:
    """Register players of a game; return their tokens."""
    saved = folder / "registered"
    arguments = [*endpoints.register(game.url or target.url), "-n", str(count), "-c", "8"]
    save = ["-save", '"private_key":"([^"]+)"', "-save-out", str(saved)]
    key = ["-H", f"X-Api-Token: {game.key}", "-H", "Content-Type: application/json"]
    saved.unlink(missing_ok=True)
    processes.request(run.program, target, *arguments, *save, *key)
    return saved.read_text().splitlines()


def calls(url: str) -> Iterator[tuple[str, list[str]]]:
    """Give the calls of players, and the generator's arguments for them."""
    area = f"{url}/api/game_data.php/player"
    yield endpoints.GET, ["-url", f"{area}/get", "-method", "GET"]
    yield endpoints.UPDATE, ["-url", f"{area}/update", "-method", "PUT", "-body", "{{json:1024}}"]


def heads(callers: Path) -> list[str]:
    """Return the generator's arguments by which each connection is of a player."""
    named = ["-H", "X-Game-Player-Token: {{cred1}}", "-H", "X-Api-Token: {{cred2}}"]
    return [*named, "-H", "Content-Type: application/json", "-creds", str(callers)]


def for_seconds(seconds: int, connections: int = CONNECTIONS) -> list[str]:
    """Return the generator's arguments of a closed loop."""
    return ["-c", str(connections), "-d", f"{seconds}s", "-warmup", "2s"]


def cpu_seconds(row: processes.Row) -> float:
    """Return the CPU-seconds that all servers took in a second, their Postgres left out."""
    share: dict[str, float] = row["cpu_pct"]
    return (share["server"] - share.get("postgres", 0.0) + share.get(crew.APART, 0.0)) / 100


def play(run: Run, target: processes.Target, games: list[crew.PlacedGame]) -> Figure:
    """Have the players of all games do all that players do."""

    def play_one(game: crew.PlacedGame) -> processes.Row:
        arguments = ["-url", game.url or target.url, "-key", game.key]
        arguments += ["-rates", str(MIXED_RATE / len(games)), "-d", f"{run.seconds}s"]
        arguments += ["-players", str(MIXED_PLAYERS // len(games))]
        meeting = ["-meet", folder, "-meet-count", str(len(games))]
        (row,) = processes.load(run.program, target, "mixed", *arguments, *meeting)
        return row

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(games)) as pool:
        rows = list(pool.map(play_one, games))
    errors = sum((Counter(row["errors"]) for row in rows), Counter[str]())
    if errors:
        run.say(f"not answered well: {', '.join(f'{n} {text}' for text, n in errors.items())}")
    per_second = sum(row["answered_per_s"] for row in rows)
    cpu = statistics.mean(map(cpu_seconds, rows))
    return Figure.of(per_second, cpu, failed=errors.total())
