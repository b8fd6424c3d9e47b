"""Three times as much as the server can answer, in an open loop: what it does with that.

The ceiling comes first: the highest rate at which the p99 is at most 20 ms and no call fails. Then
a light load, three times the ceiling from more connections, and within 5 s of its end the light
load again. Limits by address are far away (`rate_limit_factor`): what is refused, the server
refuses because it would be late.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import processes
from scenario import Run, Scenario, spread

TIMES = 3
LIGHT = 0.2
"""Of the ceiling: the load before and after."""
PLAYERS, CROWD = 1_000, 4_000
"""Connections of the climb and of the overload."""
GROWTH = 1.15
STEPS_MAX = 18
CLIMB_SECONDS = 3
CEILING_P99_MS_MAX, ACCEPTED_P99_MS_MAX = 20.0, 250.0
CEILING_SHARE_MIN = 0.9
BODY_BYTES = 1_024

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where something is measured."""

    run: Run
    target: processes.Target
    folder: Path


@dataclass(frozen=True)
class Load:
    """A kind of load."""

    name: str
    first: int
    """Calls a second with which the climb begins: well below any ceiling."""
    send: Callable[[Place, list[float], int, int], list[Row]]
    """Sends at each of the rates from so many connections, so many seconds; returns the rows."""


@dataclass(frozen=True)
class Outcome:
    """What became of an overload."""

    ceiling: float
    before: Row
    during: Row
    after: Row


def measure(run: Run) -> str:
    """Measure and tell."""
    outcomes: dict[str, list[Outcome]] = {load.name: [] for load in LOADS}
    for number in range(1, run.rounds + 1):
        for load in LOADS:
            run.say(f"round {number} of {run.rounds}: {load.name}")
            with (
                tempfile.TemporaryDirectory() as folder,
                processes.greenroom("greenroom") as target,
            ):
                outcomes[load.name].append(overload(load, Place(run, target, Path(folder))))
    return "\n".join(report(outcomes))


def overload(load: Load, place: Place) -> Outcome:
    """Find the ceiling and go beyond it."""
    run = place.run
    ceiling = 0.0
    for step in range(STEPS_MAX):
        rate = load.first * GROWTH**step
        (row,) = load.send(place, [rate], PLAYERS, CLIMB_SECONDS)
        if row["bad"] or row["lat_ms"]["P99"] > CEILING_P99_MS_MAX:
            break
        ceiling = row["rps"]
    ceiling = ceiling or load.first
    rates = [LIGHT * ceiling, TIMES * ceiling, LIGHT * ceiling]
    run.say(f"{load.name}: ceiling {ceiling:,.0f}, now {TIMES} times that")
    rows = load.send(place, rates, CROWD, run.seconds)
    for row in rows:
        told = ("rps", "lat_ms", "refused_ms", "send_lag_ms", "cpu_pct", "errors", "status")
        run.say(", ".join(f"{name}: {row[name]}" for name in told if name in row))
    return Outcome(ceiling, *rows)


def send_mixed(place: Place, rates: list[float], players: int, seconds: int) -> list[Row]:
    """Let a crowd play, as `mixed.py` does."""
    run, target = place.run, place.target
    return processes.load(
        run.program,
        target,
        "mixed",
        *("-url", target.url, "-key", target.api_token, "-players", str(players)),
        *("-rates", ",".join(f"{rate:.0f}" for rate in rates)),
        *("-d", f"{seconds}s", "-warmup", "1s"),
    )


def send_updates(place: Place, rates: list[float], conns: int, seconds: int) -> list[Row]:
    """Let players write their documents."""
    run, target = place.run, place.target
    tokens = place.folder / f"tokens-{conns}"
    key = ("-H", f"X-Api-Token: {target.api_token}", "-H", "Content-Type: application/json")
    if not tokens.exists():
        processes.request(
            run.program,
            target,
            *("-url", f"{target.url}/api/game_players.php/register", "-method", "POST", *key),
            *("-body", '{"player_name":"player {{seq}}"}', "-c", "64", "-n", str(conns)),
            *("-save", '"private_key":"([^"]+)"', "-save-out", str(tokens)),
        )
    rows = []
    for rate in rates:
        rows += processes.load(
            run.program,
            target,
            "http",
            *("-url", f"{target.url}/api/game_data.php/player/update", "-method", "PUT", *key),
            *("-H", "X-Game-Player-Token: {{cred}}", "-creds", str(tokens), "-cred-per-request"),
            *("-body", f"{{{{json:{BODY_BYTES}}}}}", "-c", str(conns), "-rate", f"{rate:.0f}"),
            *("-d", f"{seconds}s", "-warmup", "1s"),
        )
    return rows


LOADS = (
    Load("mixed", 1_500, send_mixed),
    Load("player/update 1 KB", 2_500, send_updates),
)


def statuses(row: Row) -> dict[str, int]:
    """Return how often what but success was answered, by status or by status and text."""
    found: dict[str, int] = row["errors"] if "errors" in row else row["status"]
    return {status: count for status, count in found.items() if not status.startswith("200")}


def report(outcomes: dict[str, list[Outcome]]) -> Iterator[str]:
    """Return the results, line by line."""
    yield from (
        f"{TIMES} times the ceiling in an open loop from {CROWD:,} connections; medians.",
        "",
        (
            "| load | ceiling | offered | answered | of the ceiling | p99 ms of those "
            "| refused (429) | p99 ms of those | other answers | light p99 ms before | after |"
        ),
        "|---" * 11 + "|",
    )
    for name, rounds in outcomes.items():
        yield f"| {name} | {' | '.join(cells(rounds))} |"
    every = [each for rounds in outcomes.values() for each in rounds]
    shares = {name: share(rounds) for name, rounds in outcomes.items()}
    late = max(each.during["lat_ms"]["P99"] for each in every)
    yield from (
        "",
        (
            f"- Answers at its ceiling, within {1 - CEILING_SHARE_MIN:.0%}: "
            f"{verdict(is_held=all(each >= CEILING_SHARE_MIN for each in shares.values()))}."
        ),
        (
            f"- p99 of what is accepted at most {ACCEPTED_P99_MS_MAX:.0f} ms in every round: "
            f"{verdict(is_held=late <= ACCEPTED_P99_MS_MAX)}."
        ),
        "- The light load after it begins at once and is measured from 1 s after the end on.",
    )


def share(rounds: list[Outcome]) -> float:
    """Return how much of the ceiling was answered."""
    return statistics.median(float(each.during["rps"]) / each.ceiling for each in rounds)


def verdict(*, is_held: bool) -> str:
    """Say whether a promise was kept."""
    return "yes" if is_held else "**no**"


def cells(rounds: list[Outcome]) -> Iterator[str]:
    """Return the figures of a line."""
    during = [each.during for each in rounds]
    others = sum(
        count
        for row in during
        for status, count in statuses(row).items()
        if not status.startswith("429")
    )
    yield spread(each.ceiling for each in rounds)
    yield spread(TIMES * each.ceiling for each in rounds)
    yield spread(row["rps"] for row in during)
    yield f"{share(rounds):.0%}"
    yield spread((row["lat_ms"]["P99"] for row in during), ",.0f")
    yield spread(row["refused_ms"]["Count"] for row in during)
    yield spread((row["refused_ms"]["P99"] for row in during), ",.0f")
    yield f"{others:,}"
    for rows in ([each.before for each in rounds], [each.after for each in rounds]):
        yield spread((row["lat_ms"]["P99"] for row in rows), ",.1f")


SCENARIO = Scenario(
    "overload", "three times what it can answer", measure, is_default=False, minutes=10
)
