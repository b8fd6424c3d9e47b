"""Three times as much as the server can answer, in an open loop: what it does with that.

The ceiling comes first: the highest rate, of a thousand players, at which no call fails and the p99
is at most 100 ms; near it nearly all of the server's core is used. Then, from more players, a light
load, three times the ceiling, and at once the light load again. Limits by address are far away
(`rate_limit_factor`): what is refused, the server refuses because it would be late. A generator
that is itself late, or short of processor time, overloads nobody: hence its own figures are told,
too; and Postgres is on the server's core here, so that the generator takes nothing from it.
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
"""Of the climb and of the overload: each has a connection, and one call under way at a time."""
GROWTHS = ((1.5, 1), (1.08, 2))
"""Of the rate from step to step of the climbs to the ceiling, and after how many steps in a row
that were too much each ends; a climb begins where the one before was last good."""
STEPS_MAX = 12
CLIMB_SECONDS = 3
WARM_UP_SECONDS = 2
"""Of each rate; the server calls it a burst for half a second, and then has that to refuse."""
CONNECT_SECONDS = 3
"""In which a thousand connections that are opened at once have been accepted."""
CROWD_CONNECT_SECONDS = 10
"""In which thousands have been, and what was due meanwhile has been sent."""
CEILING_P99_MS_MAX, ACCEPTED_P99_MS_MAX = 100.0, 250.0
CEILING_SHARE_MIN = 0.9
GENERATOR_CPU_MAX = 85.0
"""Per cent of its core."""
OFFERED_SHARE_MIN = 0.97
"""Of what was to be offered."""
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
    send: Callable[[Place, list[float], int, int, int], list[Row]]
    """Sends at each of the rates from so many connections for so many seconds; returns the rows.
    Ends early after so many rates in a row, if any, that were too much."""


@dataclass(frozen=True)
class Outcome:
    """What became of an overload."""

    ceiling: float
    before: Row
    during: Row
    after: Row

    @property
    def offered(self) -> float:
        """Calls a second that were sent during the overload, and answered one way or another."""
        return float(self.during["rps"] * (1 + self.during["bad"] / max(1, self.during["ok"])))


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
                assert target.postgres_pid is not None
                processes.move(target.postgres_pid, processes.SERVER_CORE)
                outcomes[load.name].append(overload(load, Place(run, target, Path(folder))))
    return "\n".join(report(outcomes))


def overload(load: Load, place: Place) -> Outcome:
    """Find the ceiling and go beyond it."""
    run = place.run
    ceiling = climb(load, place)
    rates = [LIGHT * ceiling, TIMES * ceiling, LIGHT * ceiling]
    run.say(f"{load.name}: ceiling {ceiling:,.0f}, now {TIMES} times that")
    rows = load.send(place, rates, CROWD, run.seconds, 0)
    for row in rows:
        told = ("rps", "lat_ms", "refused_ms", "send_lag_ms", "cpu_pct", "errors", "status")
        run.say(", ".join(f"{name}: {row[name]}" for name in told if name in row))
    return Outcome(ceiling, *rows)


def climb(load: Load, place: Place) -> float:
    """Return the ceiling, in calls a second; one that cannot be found ends the measurement."""
    ceiling = 0.0
    rows: list[Row] = []
    for growth, steps_over_max in GROWTHS:
        first = ceiling * growth or load.first
        rates = [first * growth**step for step in range(STEPS_MAX)]
        rows = load.send(place, rates, PLAYERS, CLIMB_SECONDS, steps_over_max)
        ceiling = max([ceiling, *(row["rps"] for row in rows if not is_too_much(row))])
    if not ceiling:
        raise SystemExit(f"{load.name}: {load.first} a second are too much already: {rows[0]}")
    return ceiling


def is_too_much(row: Row) -> bool:
    """Return whether this rate is beyond the ceiling."""
    return bool(row["bad"]) or row["lat_ms"]["P99"] > CEILING_P99_MS_MAX


def send_mixed(
    place: Place, rates: list[float], players: int, seconds: int, steps_over_max: int
) -> list[Row]:
    """Let a crowd play, as `mixed.py` does."""
    run, target = place.run, place.target
    limit = ("-stop-p99", str(CEILING_P99_MS_MAX), "-stop-steps", str(steps_over_max))
    return processes.load(
        run.program,
        target,
        "mixed",
        *("-url", target.url, "-key", target.api_token, "-players", str(players)),
        *("-rates", ",".join(f"{rate:.0f}" for rate in rates)),
        *(
            "-d",
            f"{seconds}s",
            "-warmup",
            f"{WARM_UP_SECONDS}s",
            *(limit if steps_over_max else ()),
        ),
    )


def send_updates(
    place: Place, rates: list[float], players: int, seconds: int, steps_over_max: int
) -> list[Row]:
    """Let players write their documents."""
    run, target = place.run, place.target
    tokens = place.folder / f"tokens-{players}"
    key = ("-H", f"X-Api-Token: {target.api_token}", "-H", "Content-Type: application/json")
    if not tokens.exists():
        processes.request(
            run.program,
            target,
            *("-url", f"{target.url}/api/game_players.php/register", "-method", "POST", *key),
            *("-body", '{"player_name":"player {{seq}}"}', "-c", "64", "-n", str(players)),
            *("-save", '"private_key":"([^"]+)"', "-save-out", str(tokens)),
        )
    rows: list[Row] = []
    over = 0
    warm_up = CONNECT_SECONDS if players <= PLAYERS else CROWD_CONNECT_SECONDS
    for rate in rates:
        rows += processes.load(
            run.program,
            target,
            "http",
            *("-url", f"{target.url}/api/game_data.php/player/update", "-method", "PUT", *key),
            *("-H", "X-Game-Player-Token: {{cred}}", "-creds", str(tokens), "-cred-per-request"),
            *("-body", f"{{{{json:{BODY_BYTES}}}}}", "-c", str(players), "-rate", f"{rate:.0f}"),
            *("-d", f"{seconds}s", "-warmup", f"{warm_up}s"),
        )
        over = over + 1 if is_too_much(rows[-1]) else 0
        if over and over == steps_over_max:
            break
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
        f"{TIMES} times the ceiling in an open loop from {CROWD:,} connections; medians. The",
        "server and its Postgres share a core, the generator has the other.",
        "",
        (
            "| load | ceiling | offered | answered | of the ceiling | p99 ms of those "
            "| refused (429) a second | p99 ms of those | other answers "
            "| light p99 ms before | after | CPU of the server | of the generator | its p99 late |"
        ),
        "|---" * 14 + "|",
    )
    for name, rounds in outcomes.items():
        yield f"| {name} | {' | '.join(cells(rounds))} |"
    yield ""
    for name, rounds in outcomes.items():
        during = [each.during for each in rounds]
        late = max(row["lat_ms"]["P99"] for row in during)
        cpu = max(row["cpu_pct"]["loadgen"] for row in during)
        offered = min(each.offered / (TIMES * each.ceiling) for each in rounds)
        is_overload = cpu <= GENERATOR_CPU_MAX and offered >= OFFERED_SHARE_MIN
        yield (
            f"- {name}: answers at its ceiling, within {1 - CEILING_SHARE_MIN:.0%}: "
            f"{verdict(is_held=share(rounds) >= CEILING_SHARE_MIN)}; p99 of what is accepted at "
            f"most {ACCEPTED_P99_MS_MAX:.0f} ms in every round: "
            f"{verdict(is_held=late <= ACCEPTED_P99_MS_MAX)}; offered in every round by a "
            f"generator below {GENERATOR_CPU_MAX:.0f} % of its core: "
            f"{verdict(is_held=is_overload)}."
        )
    yield (
        f"- Measured from {WARM_UP_SECONDS} s after the beginning of each load on, and so is the "
        f"light one that follows at once; updates, over new connections, from "
        f"{CROWD_CONNECT_SECONDS} s."
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
    yield spread(each.offered for each in rounds)
    yield spread(row["rps"] for row in during)
    yield f"{share(rounds):.0%}"
    yield spread((row["lat_ms"]["P99"] for row in during), ",.0f")
    yield spread(each.offered - each.during["rps"] for each in rounds)
    yield spread((row["refused_ms"]["P99"] for row in during), ",.0f")
    yield f"{others:,}"
    for rows in ([each.before for each in rounds], [each.after for each in rounds]):
        yield spread((row["lat_ms"]["P99"] for row in rows), ",.1f")
    for process in ("server", "loadgen"):
        yield spread((row["cpu_pct"][process] for row in during), ".0f") + " %"
    yield spread((row["send_lag_ms"]["P99"] for row in during), ",.1f")


SCENARIO = Scenario(
    "overload", "three times what it can answer", measure, is_default=False, minutes=10
)
