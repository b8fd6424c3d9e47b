"""Requests a second of the first endpoints: our server, the same table on Hypercorn, and the floor.

Every round runs all servers in turn, so that a change of the machine's mood hits all of them.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import processes
from charts import Bars
from scenario import Run, Scenario

CONNECTIONS = 64
PLAYERS = 2_000
SERVERS: dict[str, Callable[[], AbstractContextManager[processes.Target]]] = {
    "greenroom": lambda: processes.greenroom("greenroom"),
    "hypercorn": lambda: processes.greenroom("hypercorn"),
    "floor": processes.floor,
}
Figures = dict[tuple[str, str], list[float]]
REGISTER, GET, UPDATE = "register", "player/get", "player/update 1 KB"
CPU = " (server CPU %)"


def measure(run: Run) -> str:
    """Measure and tell."""
    figures: Figures = {}
    for number in range(1, run.rounds + 1):
        for name, start in SERVERS.items():
            run.say(f"round {number} of {run.rounds}: {name}")
            with start() as target:
                for scenario, rps, cpu in measure_server(run.program, name, target, run.seconds):
                    figures.setdefault((name, scenario), []).append(rps)
                    figures.setdefault((name, scenario + CPU), []).append(cpu)
    run.draw(chart(figures))
    return report(figures, run.rounds)


def measure_server(
    program: Path, name: str, target: processes.Target, seconds: int
) -> Iterator[tuple[str, float, float]]:
    """Run the scenarios against one server: scenario, requests a second, the server's CPU."""
    key = ["-H", f"X-Api-Token: {target.api_token}", "-H", "Content-Type: application/json"]
    base = ["-c", str(CONNECTIONS), *key]
    timed = ["-d", f"{seconds}s", "-warmup", "2s"]
    with tempfile.TemporaryDirectory() as folder:
        tokens = f"{folder}/tokens"
        for scenario, arguments in scenarios(target.url, tokens, name):
            if name == "floor" and scenario != GET:
                continue
            if scenario == GET and name != "floor":
                processes.request(program, target, *base, *enrol(target.url, tokens))
            row = processes.request(program, target, *base, *arguments, *timed)
            yield scenario, row["rps"], row["cpu_pct"]["server"]


def enrol(url: str, tokens: str) -> list[str]:
    """Return the generator's arguments that register players and save their tokens."""
    save = ["-save", '"private_key":"([^"]+)"', "-save-out", tokens]
    return [*register(url), "-n", str(PLAYERS), *save]


def register(url: str) -> list[str]:
    """Return the generator's arguments of a registration."""
    body = '{"player_name":"player {{seq}}","player_data":{"level":1}}'
    return ["-url", f"{url}/api/game_players.php/register", "-method", "POST", "-body", body]


def scenarios(url: str, tokens: str, name: str) -> Iterator[tuple[str, list[str]]]:
    """Give the scenarios and the generator's arguments for them."""
    yield REGISTER, register(url)
    player = ["-H", "X-Game-Player-Token: {{cred}}", "-creds", tokens, "-cred-per-request"]
    if name == "floor":
        player = ["-H", "X-Game-Player-Token: gr_plr_0123456789012345678901234567890123456789"]
    yield GET, ["-url", f"{url}/api/game_data.php/player/get", "-method", "GET", *player]
    update = ["-url", f"{url}/api/game_data.php/player/update", "-method", "PUT", *player]
    yield UPDATE, [*update, "-body", "{{json:1024}}"]


def report(figures: Figures, rounds: int) -> str:
    """Return the results as Markdown."""
    lines = [
        f"These are medians of {rounds} rounds (lowest to highest), with {CONNECTIONS} keep-alive",
        "connections in a closed loop. The server has one core; its Postgres (embedded, fsync on)",
        "and the generator have the other.",
        "",
        "| requests a second | greenroom | `--server hypercorn` | floor | ratios |",
        "|---|---|---|---|---|",
    ]
    for scenario in (GET, UPDATE, REGISTER):
        cells = [cell(figures, name, scenario) for name in SERVERS]
        lines.append(f"| {scenario} | {' | '.join(cells)} | {ratios(figures, scenario)} |")
    lines += [
        "",
        "In brackets are the share of a core that the server used, and its CPU of a request. Both",
        "include its embedded Postgres, which runs on the other core. The floor is",
        "`bench/api/floor.py`: trio, httptools and a fixed answer, one task for each connection;",
        "no actors, no database.",
        "",
    ]
    return "\n".join(lines)


def chart(figures: Figures) -> Bars:
    """Return the requests a second of all servers."""
    return Bars(
        "requests a second, one core",
        "requests/s",
        {
            scenario: {name: figures.get((name, scenario), []) for name in SERVERS}
            for scenario in (GET, UPDATE, REGISTER)
        },
    )


def cell(figures: Figures, name: str, scenario: str) -> str:
    """Return one cell of the table."""
    runs = figures.get((name, scenario))
    if runs is None:
        return "-"
    cpu = statistics.median(figures[name, scenario + CPU])
    middle = statistics.median(runs)
    micros = cpu * 1e4 / middle
    return f"{middle:,.0f} ({min(runs):,.0f} to {max(runs):,.0f}; {cpu:.0f} %, {micros:.0f} µs)"


def ratios(figures: Figures, scenario: str) -> str:
    """Return our median over that of the others."""
    ours = statistics.median(figures["greenroom", scenario])
    others = [name for name in SERVERS if name != "greenroom" and (name, scenario) in figures]
    return ", ".join(
        f"{ours / statistics.median(figures[name, scenario]):.2f} of {name}" for name in others
    )


SCENARIO = Scenario(
    "endpoints", "register, player/get and player/update, requests a second", measure, minutes=4
)
