"""Climbs, which `relay_rooms` and `arenas` measure: more and more rooms, until there are too many.

Open loop: a message is sent when it is due, and its latency counts from then to its arrival at each
of those who are to get it. Every server has one core, the generator the other. A climb ends when
messages come too late in some steps in a row.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import node
import processes
from charts import Lines
from relays import Relay
from scenario import Run

MEMBERS = 8
RATE = 10
BYTES = 100
SLOW_STEPS = 3
"""How many steps in a row end the climb; one or two may be another program's fault."""

Row = dict[str, Any]
Climb = list[Row]
Climbs = Mapping[str, Sequence[Climb]]
"""The rounds by server."""


@dataclass(frozen=True)
class Limits:
    """The limits that count as held."""

    p99_ms_max: float
    delivered_min: float
    """The share of what should have arrived."""

    def __str__(self) -> str:
        """Name it."""
        return f"p99 < {self.p99_ms_max:.0f} ms"

    def is_held(self, row: Row) -> bool:
        """Return whether everything arrived in time, and nobody was cut off."""
        return bool(
            row["lat_ms"]["P99"] <= self.p99_ms_max
            and row["delivered_ratio"] >= self.delivered_min
            and not row["closed_by_server"]
        )

    def best(self, rows: Climb) -> Row | None:
        """Return the highest step that was held, if any."""
        return max(filter(self.is_held, rows), key=delivered, default=None)


def rounds(run: Run, servers: Sequence[Relay], climb: Callable[[Run, Relay], Climb]) -> Climbs:
    """Let each server climb in each round."""
    climbs: dict[str, list[Climb]] = {}
    for number in range(1, run.rounds + 1):
        for server in servers:
            run.say(f"round {number} of {run.rounds}: {server.name}")
            climbs.setdefault(server.name, []).append(climb(run, server))
    return climbs


def rise(
    run: Run,
    server: Relay,
    target: processes.Target,
    folder: Path,
    *,
    rooms: Sequence[int],
    limits: Limits,
    arguments: Sequence[str] = (),
) -> Climb:
    """Take seats and run the generator.

    Args:
        run: with the generator.
        server: how to speak to it.
        target: where it runs.
        folder: for files.
        rooms: how many in each step, rising.
        limits: what ends it.
        arguments: more of the generator's.

    Returns:
        A row for each step.
    """
    (result,) = processes.load(
        run.program,
        target,
        "relay",
        *("-players", str(MEMBERS), "-rate", str(RATE), "-size", str(BYTES)),
        *("-d", f"{run.seconds}s", "-warmup", "2s", "-send", server.message),
        *server.enter(run, target, folder, rooms[-1], MEMBERS),
        *("-rooms", ",".join(map(str, rooms))),
        *("-stop-p99", str(limits.p99_ms_max), "-stop-steps", str(SLOW_STEPS)),
        *arguments,
    )
    return list(result["steps"])


def delivered(row: Row | None) -> float:
    """Return how many messages arrived in a second; 0 of no row."""
    return 0.0 if row is None else float(row["delivered_per_s"])


def latency(climbs: Climbs, limits: Limits, x: str, load: Callable[[Row], float]) -> Lines:
    """Return the chart of the latency over the load, of which `x` says what it is."""
    return Lines(
        f"rooms of {MEMBERS}, one core",
        x,
        "p99 ms",
        {
            name: [(load(row), row["lat_ms"]["P99"]) for rows in of_rounds for row in rows]
            for name, of_rounds in climbs.items()
        },
        limits.p99_ms_max,
    )


def ratios(held: Mapping[str, Sequence[float]]) -> str:
    """Return how many times what the others hold greenroom holds, by the medians, in words."""
    middles = {name: statistics.median(of_rounds) for name, of_rounds in held.items()}
    ours = middles.pop("greenroom")
    return (
        " and ".join(
            f"{ours / theirs:.2f} times {name}" for name, theirs in middles.items() if theirs
        )
        or "-"
    )


def conditions(rows: Iterable[Row]) -> list[str]:
    """Return how late the generator was in some steps, and what else ran; and the versions."""
    steps = list(rows)
    lag = max([0.0, *(row["send_lag_ms"]["P99"] for row in steps)])
    other = max([0.0, *(row["cpu_pct"]["_other"] for row in steps)])
    return [
        f"The generator was at most {lag:.0f} ms late (p99); other work took at most {other:.0f} %",
        f"of a core. {node.versions()}.",
    ]
