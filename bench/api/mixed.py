"""A thousand players at once: in the menu, in lobbies, in polled and in turn-based rooms.

Open loop: a call is sent when it is due, whatever became of those before, and its latency counts
from then. First at 1,500 calls a second, then at rising rates until the p99 is over 20 ms or a call
fails: the last rate before is the ceiling. The generator keeps account of every update.
"""

from __future__ import annotations

import statistics
import urllib.error
import urllib.request
from collections.abc import Sequence
from itertools import chain
from typing import Any

import processes
from charts import Lines
from scenario import Run, Scenario, spread

PLAYERS = 1_000
RATE = 1_500
RATES = (RATE, *range(2_000, 8_000, 500), *range(8_000, 20_000, 1_000))
P99_MS_MAX = 20.0
WRONGS = ("lost", "repeated", "disordered", "astray", "missed")

Row = dict[str, Any]


def measure(run: Run) -> str:
    """Measure and tell."""
    climbs: list[list[Row]] = []
    floors: list[Row] = []
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}: greenroom")
        with processes.greenroom("greenroom") as target:
            climbs.append(climb(run, target, RATES, with_lobbies=has_lobbies(target)))
        run.say(f"round {number} of {run.rounds}: floor")
        with processes.floor() as target:
            floors += climb(run, target, (RATE,), with_lobbies=True)
    run.draw(
        Lines(
            f"{PLAYERS:,} players, one core",
            "calls offered a second",
            "ms",
            {
                f"{percentile.lower()} of {name}": [
                    (row["offered_per_s"], row["lat_ms"][percentile]) for row in rows
                ]
                for percentile in ("P50", "P99")
                for name, rows in (("greenroom", [*chain(*climbs)]), ("floor", floors))
            },
            P99_MS_MAX,
        )
    )
    return "\n".join(report(climbs, floors))


def has_lobbies(target: processes.Target) -> bool:
    """Return whether the server has lobbies already."""
    request = urllib.request.Request(
        f"{target.url}/api/matchmaking.php/list", b"{}", {"X-Api-Token": target.api_token}
    )
    try:
        with urllib.request.urlopen(request, timeout=10):
            return True
    except urllib.error.HTTPError:
        return False


def climb(
    run: Run,
    target: processes.Target,
    rates: Sequence[int],
    *,
    with_lobbies: bool,
    warm_up_seconds: int = 2,
) -> list[Row]:
    """Return a row for each rate, up to the first that was not held."""
    return processes.load(
        run.program,
        target,
        "mixed",
        *("-url", target.url, "-key", target.api_token, "-players", str(PLAYERS)),
        *("-rates", ",".join(map(str, rates)), "-stop-p99", str(P99_MS_MAX)),
        *("-d", f"{run.seconds}s", "-warmup", f"{warm_up_seconds}s"),
        f"-lobbies={str(with_lobbies).lower()}",
    )


def is_held(row: Row) -> bool:
    """Return whether a rate was held: every call answered well, in time, and no update wrong."""
    return (
        row["lat_ms"]["P99"] <= P99_MS_MAX
        and not row["errors"]
        and row["rps"] >= 0.99 * row["offered_per_s"]
        and not any(row["updates"][wrong] for wrong in WRONGS)
    )


def ceiling(rows: list[Row]) -> float:
    """Return the last rate that was held; 0 for none."""
    held = 0.0
    for row in rows:
        if not is_held(row):
            break
        held = row["offered_per_s"]
    return held


def call_us(row: Row) -> float:
    """Return the server's CPU of a call, in microseconds."""
    return float(row["cpu_pct"]["server"]) * 1e4 / float(row["rps"])


def report(climbs: list[list[Row]], floors: list[Row]) -> list[str]:
    """Return the results, line by line."""
    first = [rows[0] for rows in climbs]
    ours, floor = (statistics.median(map(call_us, rows)) for rows in (first, floors))
    errors = sorted({text for row in first for text in row["errors"]})
    wrongs = ", ".join(f"{sum(row['updates'][w] for row in first)} {w}" for w in WRONGS)
    ceilings = [ceiling(rows) for rows in climbs]
    at_ceiling = [row for rows in climbs for row in rows if row["offered_per_s"] == ceiling(rows)]
    verdict = "held" if all(map(is_held, first)) else "NOT HELD"
    lines = [
        f"{PLAYERS:,} players at {RATE:,} calls a second, one core for the server: {verdict}.",
        "",
        f"- Latency of all calls: median {spread((r['lat_ms']['P50'] for r in first), '.2f')} ms,",
        f"  p99 {spread((r['lat_ms']['P99'] for r in first), '.1f')} ms.",
        f"  The floor's p99 is {spread((r['lat_ms']['P99'] for r in floors), '.1f')} ms: what is",
        "  left of the machine by other work shows in that.",
        f"- CPU of the server: {ours:.0f} µs a call; {ours / floor:.1f} times the {floor:.0f} µs",
        "  of `bench/api/floor.py` (a fixed answer) at this rate.",
        f"- Updates: {sum(row['updates']['expected'] for row in first):,} expected; {wrongs}.",
        f"- Errors: {'; '.join(errors) or 'none'}.",
        f"- Ceiling (p99 at most {P99_MS_MAX:.0f} ms, no error): {spread(ceilings)} calls a second",
        f"  at {spread(map(call_us, at_ceiling)) if at_ceiling else '-'} µs of CPU a call.",
    ]
    if not first[0]["lobbies"]:
        lines.append("- The server had no lobbies: their quarter of the players was in the menu.")
    lines += ["", "| call | share | median ms | p99 ms | max ms |", "|---|---|---|---|---|"]
    total = sum(kind["Count"] for kind in first[0]["kinds"].values())
    for name, kind in sorted(first[0]["kinds"].items(), key=lambda item: -item[1]["Count"]):
        cells = [
            spread((row["kinds"][name][figure] for row in first), form)
            for figure, form in (("P50", ".2f"), ("P99", ".1f"), ("Max", ".1f"))
        ]
        lines.append(f"| {name} | {kind['Count'] / total:.0%} | {' | '.join(cells)} |")
    return lines


SCENARIO = Scenario("mixed", "1,000 players in menu, lobbies and rooms", measure, minutes=3)
