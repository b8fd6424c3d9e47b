"""Measure a server with workers: what it answers, what a hop costs, and gaps when one goes.

- **answers**: one process, two servers apart, and two workers, with eight games, half of them on
  each (`answers.py`). Nothing is pinned: the generator shares the cores with the server.
- **hop**: the same calls at the worker that has the game, and at the other one.
- **hop-floor**: the least that a hop costs in Python on trio (`hop_floor.py`).
- **gaps**: a game's worker is killed, stopped or drained (`departures.py`).
- **messages**: realtime rooms whose worker is drained (`departures.py`).
- **restarts**: three workers are restarted one after the other (`departures.py`).
- **nats**: each of three NATS servers is killed (`nats_failover.py`).

`--only` takes these names. `--quick` has fewer rooms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import answers
import comparison
import crew
import departures
import endpoints
import nats_failover
import processes
from comparison import CPU, WALL, Aim
from scenario import Run, Scenario, spread

from greenroom.control.admin.cluster_messages import ListedNode

GAMES = 8
APART, TWO, STAYING = "two servers apart", "two workers", "two, connections stay"
WAYS: answers.Ways = {
    answers.ONE: answers.way_of(1, {}),
    APART: answers.Way(crew.running_apart),
    TWO: answers.way_of(2, {}),
    STAYING: answers.way_that_stays(2, {}),
}
"""The last passes every second call on. Clients over TLS or through a proxy are served so."""
AIMS = (
    Aim(APART, WALL, 1.2, "what these cores have"),
    Aim(TWO, WALL, 1.2),
    Aim(TWO, CPU, 0.95, "connections handed on"),
    Aim(STAYING, CPU, 0.8, "every second call passed on"),
)
FLOORS = ("api/floor.py", "api/hop_floor.py")
ALONE_SECONDS_MAX = 3
"""How long the latency with one connection is measured at most."""


def measure(run: Run) -> str:
    """Measure and tell.

    Raises:
        SystemExit: a part is named that there is not.
    """
    parts = {
        "answers": measure_answers,
        "hop": measure_hop,
        "hop-floor": measure_hop_floor,
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
    """Measure one process, two servers apart and two workers by turns."""
    figures = answers.compare(run, WAYS, partial(answers.measure_games, count=GAMES))
    bases = [answers.ONE, APART]
    lines = [
        f"{GAMES} games, half of them on each of two workers; {answers.CONNECTIONS} connections in",
        "a closed loop, each of one player. If connections stay (`connections_move = false`), each",
        "takes players of both workers in turn, so every second call is passed on. Two servers",
        "apart are two single ones with half of the games each, on one Postgres. They show what",
        "two cores give that share caches, Postgres and the generator. So the ratio to them is",
        "the cost of the cluster alone. Ratios are by the wall clock, and by CPU.",
        "",
        *comparison.table(figures, [*WAYS], bases),
        *comparison.verdicts(figures, AIMS, bases),
    ]
    return "\n".join(lines)


# One hop


def measure_hop(run: Run) -> str:
    """Measure the same calls at a game's worker and at the other one."""
    times: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: a hop")
        with crew.running(2, **departures.STAY) as (server, folder):
            game, owner, other = server.game_of_two()
            at = server.at(owner, game)
            tokens = answers.enrol(run, at, game, folder, answers.CONNECTIONS)
            callers = folder / "players"
            callers.write_text("".join(f"{token}\t{game.key}\n" for token in tokens))
            for way, node in (("local", owner), ("forwarded", other)):
                target = server.at(node, game)
                for name, arguments in answers.calls(target.url):
                    row = hop_row(run, target, arguments, callers)
                    shares = {"owner": owner, "other": other}
                    cpu = {w: us_a_call(row["many"], n) for w, n in shares.items()}
                    alone = row["alone"]["lat_ms"]
                    times[name, way].append({**cpu, "p50": alone["P50"], "p99": alone["P99"]})
    lines = [
        f"CPU with {answers.CONNECTIONS} connections in a closed loop, latency with one alone.",
        "Connections stay (`connections_move = false`), or only the first call of each would be",
        "passed on.",
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
    alone_seconds = min(run.seconds, ALONE_SECONDS_MAX)
    ways = {"many": (run.seconds, answers.CONNECTIONS), "alone": (alone_seconds, 1)}

    def measure(seconds: int, connections: int) -> processes.Row:
        timed = [*answers.heads(callers), *answers.for_seconds(seconds, connections)]
        return processes.request(run.program, target, *arguments, *timed)

    return {way: measure(*each) for way, each in ways.items()}


def measure_hop_floor(run: Run) -> str:
    """Measure a fixed answer of one process, and one that comes from another process."""
    costs: dict[str, list[float]] = {script: [] for script in FLOORS}
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: the floor of a hop")
        for script, found in costs.items():
            with processes.floor(script) as target:
                below = processes.children(target.pid)
                target.others = {f"below{place}": pid for place, pid in enumerate(below)}
                calls = dict(answers.calls(target.url))
                timed = answers.for_seconds(run.seconds)
                row = processes.request(run.program, target, *calls[endpoints.GET], *timed)
            used = sum(row["cpu_pct"][name] for name in ("server", *target.others))
            found.append(used * 1e4 / row["rps"])
    local, passed_on = costs.values()
    hops = [there - here for here, there in zip(local, passed_on, strict=True)]
    return "\n".join(
        (
            f"The floor: a fixed answer takes {spread(local, '.1f')} µs of CPU in one process",
            f"(`{FLOORS[0]}`). If another process answers, both take",
            f"{spread(passed_on, '.1f')} µs (`{FLOORS[1]}`). They check, await, count and bound",
            f"nothing. So a hop in Python on trio costs {spread(hops, '.1f')} µs at least.",
        )
    )


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
