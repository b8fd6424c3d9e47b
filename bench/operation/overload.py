"""Three times as much as the server can answer, in an open loop: what it does with that.

The ceiling comes first, as `mixed` defines it: the highest rate, of a thousand players, at which no
call fails and the p99 is at most 20 ms. Beyond it the server answers more, later, until its core is
full. The most that it answers at all is taken to be the highest rate with a p99 of at most 100 ms.
Then more players make a light load, three times the ceiling, three times that most, and at once the
light load again. Limits by address are far away (`rate_limit_factor`), so the server refuses only
what would be late. A generator that is itself late, or short of processor time, overloads nobody,
so its own figures are told, too. Postgres is on the server's core here, so that the generator takes
nothing from it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import processes
from mixed import P99_MS_MAX
from scenario import Run, Scenario, spread

TIMES = 3
LIGHT = 0.2
"""The share of the ceiling that is the load before and after."""
PLAYERS, CROWD = 1_000, 4_000
"""Players of the climb and of the overload. Each has a connection, and one call under way at a
time."""
STEPS_MAX = 16
"""Steps of a climb at most."""
CLIMB_SECONDS = 3
WARM_UP_SECONDS = 2
"""Seconds of each rate that are not measured. The server takes half a second of it for a burst, and
then has that to refuse."""
CONNECT_SECONDS = 3
"""Seconds in which a thousand connections that are opened at once have been accepted."""
CROWD_CONNECT_SECONDS = 10
"""Seconds in which thousands have been accepted, and what was due meanwhile has been sent."""
MOST_P99_MS_MAX, ACCEPTED_P99_MS_MAX = 100.0, 250.0
CLIMBS = ((1.4, P99_MS_MAX, 1), (1.08, MOST_P99_MS_MAX, 3))
"""The climbs: the factor from step to step, the p99 in ms that ends one, and at how many steps in a
row. A climb begins beyond the last step that was not over it."""
CEILING_SHARE_MIN = 0.9
GENERATOR_CPU_MAX = 85.0
"""Per cent of its core."""
OFFERED_SHARE_MIN = 0.97
"""The share of what was to be offered."""
BODY_BYTES = 1_024

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """The place of a measurement."""

    run: Run
    target: processes.Target
    folder: Path


@dataclass(frozen=True)
class Limit:
    """When a climb ends."""

    p99_ms_max: float = 0.0
    steps_over_max: int = 0
    """In a row; 0: never."""


@dataclass(frozen=True)
class Load:
    """A kind of load."""

    name: str
    first: int
    """Calls a second with which the climb begins: well below any ceiling."""
    send: Callable[[Place, list[float], int, int, Limit], list[Row]]
    """Sends at each of the rates from so many connections for so many seconds; returns the rows.
    Ends early as the last argument says."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an overload. Rates are calls a second."""

    ceiling: float
    most: float
    """That it answers at all."""
    is_of_most: bool
    """True if three times that was offered, instead of three times the ceiling."""
    before: Row
    during: Row
    after: Row

    @property
    def times(self) -> float:
        """The rate of which several times was offered."""
        return self.most if self.is_of_most else self.ceiling

    @property
    def offered(self) -> float:
        """Calls a second that were sent during the overload, and answered one way or another."""
        return float(self.during["rps"] * (1 + self.during["bad"] / max(1, self.during["ok"])))


def measure(run: Run) -> str:
    """Measure and tell."""
    outcomes: dict[str, list[Outcome]] = {}
    for number in range(1, run.rounds + 1):
        for load in LOADS:
            run.say(f"round {number} of {run.rounds}: {load.name}")
            with (
                tempfile.TemporaryDirectory() as folder,
                processes.greenroom("greenroom") as target,
            ):
                assert target.postgres_pid is not None
                processes.move(target.postgres_pid, processes.SERVER_CORE)
                for outcome in overload(load, Place(run, target, Path(folder))):
                    of = "the most" if outcome.is_of_most else "the ceiling"
                    outcomes.setdefault(f"{load.name}, {TIMES} times {of}", []).append(outcome)
    return "\n".join(report(outcomes))


def overload(load: Load, place: Place) -> list[Outcome]:
    """Find the ceiling and go beyond it."""
    run = place.run
    ceiling, most = climb(load, place)
    rates = [LIGHT * ceiling, TIMES * ceiling, TIMES * most, LIGHT * ceiling]
    run.say(f"{load.name}: ceiling {ceiling:,.0f}, at most {most:,.0f}, now {TIMES} times that")
    rows = load.send(place, rates, CROWD, run.seconds, Limit())
    for row in rows:
        told = ("rps", "lat_ms", "refused_ms", "send_lag_ms", "cpu_pct", "errors", "status")
        run.say(", ".join(f"{name}: {row[name]}" for name in told if name in row))
    before, *overloads, after = rows
    return [
        Outcome(ceiling, most, is_of_most, before, during, after)
        for is_of_most, during in zip((False, True), overloads, strict=True)
    ]


def climb(load: Load, place: Place) -> tuple[float, float]:
    """Return the ceiling, and the most that is answered at all, in calls a second.

    One that cannot be found ends the measurement.
    """
    rows: list[Row] = []
    last_good = 0.0
    for growth, p99_ms_max, steps_over_max in CLIMBS:
        first = last_good * growth or load.first
        rates = [first * growth**step for step in range(STEPS_MAX)]
        limit = Limit(p99_ms_max, steps_over_max)
        rows += load.send(place, rates, PLAYERS, CLIMB_SECONDS, limit)
        last_good = highest(rows, p99_ms_max)
    if not highest(rows, P99_MS_MAX):
        raise SystemExit(f"{load.name}: {load.first} a second are too much already: {rows[0]}")
    return highest(rows, P99_MS_MAX), highest(rows, MOST_P99_MS_MAX)


def highest(rows: list[Row], p99_ms_max: float) -> float:
    """Return the highest rate that was not too much; 0 for none."""
    return max((row["rps"] for row in rows if not is_too_much(row, p99_ms_max)), default=0.0)


def is_too_much(row: Row, p99_ms_max: float) -> bool:
    """Return whether calls failed at this rate, or were late."""
    return bool(row["bad"]) or row["lat_ms"]["P99"] > p99_ms_max


def send_mixed(
    place: Place, rates: list[float], players: int, seconds: int, limit: Limit
) -> list[Row]:
    """Let a crowd play, as `mixed.py` does."""
    run, target = place.run, place.target
    stop = ("-stop-p99", str(limit.p99_ms_max), "-stop-steps", str(limit.steps_over_max))
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
            *(stop if limit.steps_over_max else ()),
        ),
    )


def send_updates(
    place: Place, rates: list[float], players: int, seconds: int, limit: Limit
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
        over = over + 1 if is_too_much(rows[-1], limit.p99_ms_max) else 0
        if over and over == limit.steps_over_max:
            break
    return rows


LOADS = (
    Load("mixed", 2_000, send_mixed),
    Load("player/update 1 KB", 2_500, send_updates),
)


def statuses(row: Row) -> dict[str, int]:
    """Return how often what but success was answered, by status or by status and text."""
    found: dict[str, int] = row["errors"] if "errors" in row else row["status"]
    return {status: count for status, count in found.items() if not status.startswith("200")}


def report(outcomes: dict[str, list[Outcome]]) -> Iterator[str]:
    """Return the results, line by line."""
    yield from (
        f"These are medians of an open loop from {CROWD:,} connections. The server and its",
        "Postgres share a core, and the generator has the other. The ceiling is that of `mixed`",
        f"(p99 at most {P99_MS_MAX:.0f} ms, no error). The most is what is answered at all",
        f"(p99 at most {MOST_P99_MS_MAX:.0f} ms, no error). Both are from {PLAYERS:,} connections.",
        "",
        (
            "| load | ceiling | the most | offered | answered | of the ceiling | of the most "
            "| p99 ms of those | refused (429) a second | p99 ms of those | other answers "
            "| light p99 ms before | after | CPU of the server | of the generator | its p99 late |"
        ),
        "|---" * 16 + "|",
    )
    for name, rounds in outcomes.items():
        yield f"| {name} | {' | '.join(cells(rounds))} |"
    yield from (
        "",
        (
            f"| load | answers at its ceiling, within {1 - CEILING_SHARE_MIN:.0%} "
            f"| p99 of what is accepted at most {ACCEPTED_P99_MS_MAX:.0f} ms in every round "
            f"| offered in every round by a generator below {GENERATOR_CPU_MAX:.0f} % of its core |"
        ),
        "|---|---|---|---|",
    )
    for name, rounds in outcomes.items():
        during = [each.during for each in rounds]
        late = max(row["lat_ms"]["P99"] for row in during)
        cpu = max(row["cpu_pct"]["loadgen"] for row in during)
        offered = min(each.offered / (TIMES * each.times) for each in rounds)
        is_overload = cpu <= GENERATOR_CPU_MAX and offered >= OFFERED_SHARE_MIN
        yield (
            f"| {name} | {verdict(is_held=ceiling_share(rounds) >= CEILING_SHARE_MIN)} "
            f"| {verdict(is_held=late <= ACCEPTED_P99_MS_MAX)} | {verdict(is_held=is_overload)} |"
        )
    yield from (
        "",
        f"Each load is measured from {WARM_UP_SECONDS} s after its beginning, and so is the light",
        "one that follows at once. Updates use new connections and are measured",
        f"from {CROWD_CONNECT_SECONDS} s.",
    )


def ceiling_share(rounds: list[Outcome]) -> float:
    """Return how much of the ceiling was answered."""
    return statistics.median(float(each.during["rps"]) / each.ceiling for each in rounds)


def most_share(rounds: list[Outcome]) -> float:
    """Return how much was answered of the most that is answered at all."""
    return statistics.median(float(each.during["rps"]) / each.most for each in rounds)


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
    yield spread(each.most for each in rounds)
    yield spread(each.offered for each in rounds)
    yield spread(row["rps"] for row in during)
    yield f"{ceiling_share(rounds):.0%}"
    yield f"{most_share(rounds):.0%}"
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
    "overload", "three times what it can answer", measure, is_default=False, minutes=12
)
