"""Measure a server with workers: what it answers, what a hop costs, and gaps when one goes.

- **answers**: one process and two workers with eight games, half of them on each worker. Each
  connection keeps to one player, and the kernel chooses its worker. So half of the calls are
  forwarded. Nothing is pinned: the generator shares the cores with the server.
- **hop**: the same calls at the worker that has the game, and at the other one.
- **gaps**: a game's worker is killed, stopped or drained (`departures.py`).
- **messages**: realtime rooms whose worker is drained (`departures.py`).
- **restarts**: three workers are restarted one after the other (`departures.py`).
- **nats**: each of three NATS servers is killed (`nats_failover.py`).

`--only` takes these names. `--quick` has fewer rooms.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import crew
import departures
import endpoints
import nats_failover
import processes
from scenario import Run, Scenario, spread

from greenroom.control.admin.cluster_messages import ListedNode

Ways = dict[str, tuple[int, dict[str, str]]]
"""Servers to measure: the number of workers of each, and its settings."""
WAYS: Ways = {
    "one process": (1, {}),
    "two workers": (2, {}),
    "two, connections stay": (2, departures.STAY),
}
"""The last passes every second call on. Clients over TLS or through a proxy are served so."""
GAMES, PLAYERS, CONNECTIONS = 8, 512, 64
ALONE_SECONDS_MAX = 3
"""How long the latency with one connection is measured at most."""
MIXED_PLAYERS, MIXED_RATE = 1_000, 8_000
"""It is more than two cores answer, so what is answered is what can be."""
MIXED = f"mixed, {MIXED_RATE:,} a second offered"

Rounds = list[tuple[float, float]]
"""Answers a second, and a CPU-second of the server's processes; by round."""
Figures = dict[tuple[str, str], Rounds]
"""By call and way."""


def measure(run: Run) -> str:
    """Measure and tell.

    Raises:
        SystemExit: a part is named that there is not.
    """
    parts = {
        "answers": measure_answers,
        "hop": measure_hop,
        "gaps": departures.measure_gaps,
        "messages": departures.measure_messages,
        "restarts": departures.measure_restarts,
        "nats": nats_failover.measure,
    }
    return measure_parts(run, parts)


def measure_parts(run: Run, parts: Mapping[str, Callable[[Run], str]]) -> str:
    """Measure the parts that are wanted.

    Raises:
        SystemExit: a part is named that there is not.
    """
    unknown = run.only - parts.keys()
    if unknown:
        named = f"{', '.join(sorted(unknown))}; known: {', '.join(parts)}"
        raise SystemExit(f"no such part of {run.title}: {named}")
    return "\n\n".join(told(run, name, parts[name]) for name in parts if run.wants(name))


def told(run: Run, name: str, part: Callable[[Run], str]) -> str:
    """Return what a part has measured, or why it could not: half an hour of others is not lost."""
    try:
        text = part(run)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever it is, it is told)
        text = f"The part `{name}` could not be measured: {error!r}"
    run.say(f"{name}:\n{text}")
    return text


# Answers


def measure_answers(run: Run) -> str:
    """Measure one process and two workers by turns."""
    lines = [
        f"{GAMES} games, half of them on each of two workers; {CONNECTIONS} connections in a",
        "closed loop, each of one player. The ratios are those to one process, by the wall clock",
        "and by CPU. If connections stay (`connections_move = false`), every second call is passed",
        "on.",
    ]
    return answers_by_way(run, WAYS, GAMES, lines)


def answers_by_way(run: Run, ways: Ways, games: int, about: list[str]) -> str:
    """Measure servers by turns; the first way is what the others are compared with."""
    figures: Figures = defaultdict(list)
    for number in range(1, run.rounds + 1):
        for way, (workers, settings) in ways.items():
            run.say(f"round {number} of {run.rounds}: {way}")
            with crew.running(workers, **settings) as (server, folder):
                placed = server.games(games) if games > 1 else [server.any_game()]
                for name, answers, cpu_seconds in answers_of(run, server.target, placed, folder):
                    figures[name, way].append((answers, answers / cpu_seconds))
    lines = [
        *about,
        "",
        "| call | what | answers a second | a CPU-second | ratios |",
        "|---|---|---|---|---|",
    ]
    base = next(iter(ways))
    for name in dict.fromkeys(name for name, _ in figures):
        for way in ways:
            cells = [spread(each) for each in zip(*figures[name, way], strict=True)]
            ratio = ratios(figures[name, base], figures[name, way])
            lines.append(f"| {name} | {way} | {' | '.join(cells)} | {ratio} |")
    return "\n".join(lines)


def ratios(base: Rounds, other: Rounds) -> str:
    """Return the medians of one way, as ratios to those of another."""
    pairs = zip(zip(*other, strict=True), zip(*base, strict=True), strict=True)
    wall, cpu = (statistics.median(ours) / statistics.median(theirs) for ours, theirs in pairs)
    return f"{wall:.2f}, {cpu:.2f}"


def answers_of(
    run: Run, target: processes.Target, games: list[crew.PlacedGame], folder: Path
) -> Iterator[tuple[str, float, float]]:
    """Give each call, its answers a second, and the CPU-seconds of the server in a second."""
    tokens = [enrol(run, target, game.key, folder, PLAYERS // GAMES) for game in games]
    lines = [
        f"{token}\t{game.key}"
        for each in zip(*tokens, strict=True)
        for token, game in zip(each, games, strict=True)
    ]
    callers = folder / "players"
    callers.write_text("\n".join(lines) + "\n")
    for name, arguments in calls(target.url):
        row = processes.request(run.program, target, *arguments, *timed(run.seconds, callers))
        yield name, row["rps"], cpu_seconds(row)
    rows = mixed_of_all(run, target, games, MIXED_RATE)
    yield MIXED, sum(row["rps"] for row in rows), statistics.mean(map(cpu_seconds, rows))


def enrol(run: Run, target: processes.Target, key: str, folder: Path, count: int) -> list[str]:
    """Register players of a game; return their tokens."""
    saved = folder / "registered"
    arguments = [*endpoints.register(target.url), "-n", str(count), "-c", "8"]
    save = ["-save", '"private_key":"([^"]+)"', "-save-out", str(saved)]
    heads = ["-H", f"X-Api-Token: {key}", "-H", "Content-Type: application/json"]
    saved.unlink(missing_ok=True)
    processes.request(run.program, target, *arguments, *save, *heads)
    return saved.read_text().splitlines()


def calls(url: str) -> Iterator[tuple[str, list[str]]]:
    """Give the calls of players, and the generator's arguments for them."""
    area = f"{url}/api/game_data.php/player"
    yield endpoints.GET, ["-url", f"{area}/get", "-method", "GET"]
    yield endpoints.UPDATE, ["-url", f"{area}/update", "-method", "PUT", "-body", "{{json:1024}}"]


def timed(seconds: int, callers: Path, connections: int = CONNECTIONS) -> list[str]:
    """Return the generator's arguments by which each connection keeps to one player."""
    heads = ["-H", "X-Game-Player-Token: {{cred1}}", "-H", "X-Api-Token: {{cred2}}"]
    heads += ["-H", "Content-Type: application/json", "-creds", str(callers)]
    return [*heads, "-c", str(connections), "-d", f"{seconds}s", "-warmup", "2s"]


def cpu_seconds(row: processes.Row) -> float:
    """Return the CPU-seconds that the server took in a second, its Postgres left out."""
    share: dict[str, float] = row["cpu_pct"]
    return (share["server"] - share.get("postgres", 0.0)) / 100


def mixed_of_all(
    run: Run, target: processes.Target, games: list[crew.PlacedGame], rate: int
) -> list[processes.Row]:
    """Have the players of all games do all that players do; return a row a game."""

    def play(game: crew.PlacedGame) -> processes.Row:
        arguments = ["-url", target.url, "-key", game.key, "-rates", str(rate / len(games))]
        players = ["-players", str(MIXED_PLAYERS // len(games)), "-d", f"{run.seconds}s"]
        (row,) = processes.load(run.program, target, "mixed", *arguments, *players)
        return row

    with ThreadPoolExecutor(len(games)) as pool:
        return list(pool.map(play, games))


# One hop


def measure_hop(run: Run) -> str:
    """Measure the same calls at a game's worker and at the other one."""
    times: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: a hop")
        with crew.running(2, **departures.STAY) as (server, folder):
            game, owner, other = server.game_of_two()
            tokens = enrol(run, server.at(owner, game), game.key, folder, CONNECTIONS)
            callers = folder / "players"
            callers.write_text("".join(f"{token}\t{game.key}\n" for token in tokens))
            for way, node in (("local", owner), ("forwarded", other)):
                target = server.at(node, game)
                for name, arguments in calls(target.url):
                    row = hop_row(run, target, arguments, callers)
                    shares = {"owner": owner, "other": other}
                    cpu = {w: us_a_call(row["many"], n) for w, n in shares.items()}
                    alone = row["alone"]["lat_ms"]
                    times[name, way].append({**cpu, "p50": alone["P50"], "p99": alone["P99"]})
    lines = [
        f"CPU with {CONNECTIONS} connections in a closed loop, latency with one alone. Connections",
        "stay (`connections_move = false`), or only the first call of each would be passed on.",
        "",
        "| call | way | owner's CPU, µs a call | other worker's | latency, median ms | p99 ms |",
        "|---|---|---|---|---|---|",
    ]
    for (name, way), rows in times.items():
        forms = {"owner": ",.0f", "other": ",.0f", "p50": ".3f", "p99": ".2f"}
        cells = [spread((row[k] for row in rows), form) for k, form in forms.items()]
        lines.append(f"| {name} | {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def hop_row(
    run: Run, target: processes.Target, arguments: list[str], callers: Path
) -> dict[str, processes.Row]:
    """Return the rows with many connections and with one."""
    ways = {"many": (run.seconds, CONNECTIONS), "alone": (min(run.seconds, ALONE_SECONDS_MAX), 1)}
    return {
        way: processes.request(run.program, target, *arguments, *timed(seconds, callers, count))
        for way, (seconds, count) in ways.items()
    }


def us_a_call(row: processes.Row, node: ListedNode) -> float:
    """Return the microseconds of CPU that a worker took for each call."""
    return float(row["cpu_pct"][f"node{node.node}"]) * 1e4 / float(row["rps"])


SCENARIO = Scenario(
    "cluster",
    "workers: answers, a hop, gaps and messages when one goes; NATS",
    measure,
    is_default=False,
    minutes=20,
)
