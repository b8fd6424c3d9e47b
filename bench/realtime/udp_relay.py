"""Rooms on the fast lane: messages of 100 bytes from everybody to the seven other members."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import processes
from charts import Lines
from scenario import Run, Scenario, spread

MEMBERS = 8
SECONDS_MAX = 3
"""Seconds of each step; there are many."""
ROOMS = (25, 50, 100, 150, 200, 250, 270, 300, 350, 400)
FEW_ROOMS, RATES = 16, (10, 40, 80, 120, 160, 200, 240)
P99_MS_MAX = 50.0
DELIVERED_MIN = 0.99

Row = dict[str, Any]
Crowd = tuple[str, list[list[str]]]
SERVERS: dict[str, Callable[[], AbstractContextManager[processes.Target]]] = {
    "greenroom": lambda: processes.greenroom("greenroom"),
    "floor": lambda: processes.floor("realtime/udp_floor.py"),
}
CROWDS: tuple[Crowd, ...] = (
    (
        "more rooms, 10 messages a second from each member",
        [["-rooms", ",".join(map(str, ROOMS))]],
    ),
    (
        f"{FEW_ROOMS} rooms, ever faster",
        [["-rooms", str(FEW_ROOMS), "-rate", str(rate)] for rate in RATES],
    ),
)


def measure(run: Run) -> str:
    """Measure and tell."""
    lines: list[str] = []
    for title, calls in CROWDS:
        climbs: dict[str, list[list[Row]]] = {name: [] for name in SERVERS}
        for number in range(1, run.rounds + 1):
            for name, start in SERVERS.items():
                run.say(f"{title}, round {number} of {run.rounds}: {name}")
                with start() as target:
                    climbs[name].append(climb(run, target, calls))
        run.draw(chart(title, climbs))
        lines += [f"### {title[0].upper()}{title[1:]}", "", *report(climbs), ""]
    return "\n".join(lines)


def chart(title: str, climbs: dict[str, list[list[Row]]]) -> Lines:
    """Return the latency over the load."""
    return Lines(
        title,
        "messages offered a second",
        "p99 ms",
        {
            name: [(r["offered_per_s"], r["lat_ms"]["P99"]) for rows in rounds for r in rows]
            for name, rounds in climbs.items()
        },
        P99_MS_MAX,
    )


def climb(run: Run, target: processes.Target, calls: Iterable[list[str]]) -> list[Row]:
    """Return a row for each load, up to the first that was not held."""
    rows: list[Row] = []
    for call in calls:
        rows += processes.load(
            run.program,
            target,
            "udp",
            *("-url", target.url, "-key", target.api_token, "-players", str(MEMBERS), "-spin"),
            *("-d", f"{min(run.seconds, SECONDS_MAX)}s", "-warmup", "1s"),
            *("-stop-p99", str(P99_MS_MAX), *call),
        )
        if not is_held(rows[-1]):
            break
    return rows


def is_held(row: Row) -> bool:
    """Return whether a load was held: nearly all arrived, in time, and no session was lost."""
    return (
        row["delivered_ratio"] >= DELIVERED_MIN
        and row["lat_ms"]["P99"] <= P99_MS_MAX
        and not row["closed_by_server"]
        and not row["forged"]
    )


def held(rows: list[Row]) -> float:
    """Return the highest load that was held, in messages delivered a second; 0 for none."""
    return max((row["delivered_per_s"] for row in rows if is_held(row)), default=0.0)


def message_us(row: Row) -> float:
    """Return the server's CPU of a message delivered, in microseconds."""
    return float(row["cpu_pct"]["server"]) * 1e4 / max(float(row["delivered_per_s"]), 1.0)


def report(climbs: dict[str, list[list[Row]]]) -> list[str]:
    """Return one crowd's results, line by line."""
    ours, floor = climbs["greenroom"], climbs["floor"]
    most = {
        name: [max(row["delivered_per_s"] for row in rows) for rows in climbs[name]]
        for name in climbs
    }
    ceilings = {name: [held(rows) for rows in climbs[name]] for name in climbs}
    own, bare = (statistics.median(ceilings[name]) for name in SERVERS)
    share = f"{own / bare:.2f} of it" if bare else "not held at all"
    lines = [
        f"Held means a p99 of at most {P99_MS_MAX:.0f} ms and {DELIVERED_MIN:.0%} delivered.",
        "",
        "| messages delivered a second | greenroom | the floor | |",
        "|---|---|---|---|",
        f"| held | {spread(ceilings['greenroom'])} | {spread(ceilings['floor'])} | {share} |",
        f"| at most, beyond that | {spread(most['greenroom'])} | {spread(most['floor'])} | |",
        "",
        "| rooms | offered | delivered | packets | µs of CPU | floor's µs | p50 ms | p99 ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for step in range(min(map(len, ours))):
        rows = [rows[step] for rows in ours]
        floors = [rows[step] for rows in floor if len(rows) > step]
        cells = (
            f"{rows[0]['rooms']}",
            f"{rows[0]['offered_per_s']:,.0f}",
            spread(row["delivered_per_s"] for row in rows),
            spread(row["packets_per_s"] for row in rows),
            spread(map(message_us, rows), ".1f"),
            spread(map(message_us, floors), ".1f") if floors else "-",
            spread((row["lat_ms"]["P50"] for row in rows), ".1f"),
            spread((row["lat_ms"]["P99"] for row in rows), ".1f"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    other = max(row["cpu_pct"]["_other"] for rows in ours for row in rows)
    lines += ["", f"Other work took up to {other:.0f} % of a core."]
    return lines


SCENARIO = Scenario(
    "udp-relay", "rooms of 8 on the fast lane, against a bare relay", measure, minutes=10
)
