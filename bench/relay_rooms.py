"""Rooms of 8 over WebSocket, each member sending 10 messages of 100 bytes a second to the others.

Open loop: a message is sent when it is due, and its latency counts from then to its arrival at each
of the others. The rooms become more until the p99 is over 50 ms; that, and the most that ever
arrived in a second, are what is told. Every server has one core, the generator the other.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import node
import processes
from charts import Bars, Lines
from relays import Relay, relays
from scenario import Run, Scenario, spread

MEMBERS = 8
RATE = 10
BYTES = 100
P99_MS_MAX = 50.0
SLOW_STEPS = 3
"""So many in a row end the climb: one or two may be somebody else's fault."""
GROWTH = 1.12
"""From one step to the next."""
STEPS_MAX = 20
ROOMS_MAX = 620
"""So that all connections are within what one address is allowed."""
OVERLOAD = 1.4
"""Times the rooms that were borne: the load under which saturation is looked for."""

Row = dict[str, Any]
Climb = list[Row]


def measure(run: Run) -> str:
    """Measure and tell."""
    climbs: dict[str, list[Climb]] = {}
    for number in range(1, run.rounds + 1):
        for relay in relays(run):
            run.say(f"round {number} of {run.rounds}: {relay.name}")
            climbs.setdefault(relay.name, []).append(climb(run, relay))
    run.draw(*charts(climbs))
    return "\n".join(report(climbs))


def charts(climbs: dict[str, list[Climb]]) -> list[Bars | Lines]:
    """Return what is held, and the latency over the load."""
    held = {name: [delivered(best(rows)) for rows in rounds] for name, rounds in climbs.items()}
    return [
        Bars(f"delivered a second at p99 < {P99_MS_MAX:.0f} ms", "messages/s", {"relay": held}),
        Lines(
            f"rooms of {MEMBERS}, one core",
            "messages offered a second",
            "p99 ms",
            {
                name: [(r["offered_per_s"], r["lat_ms"]["P99"]) for rows in rounds for r in rows]
                for name, rounds in climbs.items()
            },
            P99_MS_MAX,
        ),
    ]


def steps(first: int) -> list[int]:
    """Return the numbers of rooms, rising."""
    counts = [round(first * GROWTH**step) for step in range(STEPS_MAX)]
    return [count for count in counts if count <= ROOMS_MAX]


def climb(run: Run, relay: Relay) -> Climb:
    """Return a row for each step, the last of them overloaded."""
    with tempfile.TemporaryDirectory() as folder, relay.start() as target:
        entrance = relay.enter(run, target, Path(folder), ROOMS_MAX, MEMBERS)
        arguments = [
            *("-players", str(MEMBERS), "-rate", str(RATE), "-size", str(BYTES)),
            *("-d", f"{run.seconds}s", "-warmup", "2s", "-send", relay.message),
        ]
        rising = ",".join(map(str, steps(relay.rooms_first)))
        limits = ["-stop-p99", str(P99_MS_MAX), "-stop-steps", str(SLOW_STEPS)]
        rows = load(run, target, [*arguments, *entrance, "-rooms", rising, *limits])
        borne = max((row["rooms"] for row in rows if is_held(row)), default=relay.rooms_first)
        overload = min(ROOMS_MAX, round(borne * OVERLOAD))
        # Not everywhere a seat can be taken twice.
        entrance = relay.enter(run, target, Path(folder), overload, MEMBERS)
        return rows + load(run, target, [*arguments, *entrance, "-rooms", str(overload)])


def load(run: Run, target: processes.Target, arguments: list[str]) -> Climb:
    """Run the generator; return its steps."""
    (result,) = processes.load(run.program, target, "relay", *arguments)
    return list(result["steps"])


def is_held(row: Row) -> bool:
    """Return whether everything arrived, and in time."""
    return (
        row["lat_ms"]["P99"] <= P99_MS_MAX
        and row["delivered_ratio"] >= 0.999
        and not row["closed_by_server"]
    )


def best(rows: Climb) -> Row | None:
    """Return the highest step that was held, if any."""
    return max(filter(is_held, rows), key=delivered, default=None)


def delivered(row: Row | None) -> float:
    """Return how many messages arrived in a second; 0 of no row."""
    return 0.0 if row is None else float(row["delivered_per_s"])


def report(climbs: dict[str, list[Climb]]) -> list[str]:
    """Return the results, line by line."""
    heads = (
        *("relay", f"delivered a second at p99 < {P99_MS_MAX:.0f} ms", "p99 ms then", "rooms"),
        *("CPU µs a delivery", "its core", "delivered a second, saturated", "p99 ms then"),
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    held: dict[str, float] = {}
    other = lag = 0.0
    for name, rounds in climbs.items():
        bests = [row for rows in rounds if (row := best(rows)) is not None]
        fullest = [max(rows, key=delivered) for rows in rounds]
        held[name] = statistics.median(delivered(best(rows)) for rows in rounds)
        other = max([other, *(row["cpu_pct"]["_other"] for row in bests)])
        lag = max([lag, *(row["send_lag_ms"]["P99"] for row in bests)])
        lines.append(
            f"| {name} | {spread(delivered(best(rows)) for rows in rounds)} "
            f"| {spread((row['lat_ms']['P99'] for row in bests), '.0f') if bests else '-'} "
            f"| {spread(row['rooms'] for row in bests) if bests else '-'} "
            f"| {spread(map(cpu_us, bests), '.2f') if bests else '-'} "
            f"| {spread((r['cpu_pct']['server'] for r in bests), '.0f') if bests else '-'} % "
            f"| {spread(map(delivered, fullest))} "
            f"| {spread((row['lat_ms']['P99'] for row in fullest), ',.0f')} |"
        )
    ours = held.pop("greenroom")
    ratios = [f"{ours / theirs:.2f} times {name}" for name, theirs in held.items() if theirs]
    return [
        *lines,
        "",
        f"At p99 < {P99_MS_MAX:.0f} ms greenroom delivers {' and '.join(ratios) or '-'}.",
        f"The generator was at most {lag:.0f} ms late (p99); other work took at most {other:.0f} %",
        f"of a core. {node.versions()}.",
        "The bare relays pass bytes on, Colyseus unpacks and packs them; greenroom reads JSON,",
        "runs a turn of the room, names the sender, and tells him how many he has reached, which",
        "is one more message for each seven.",
    ]


def cpu_us(row: Row) -> float:
    """Return the server's CPU of a delivery, in microseconds."""
    return float(row["cpu_pct"]["server"]) * 1e4 / delivered(row)


SCENARIO = Scenario(
    "relay", "messages passed on in rooms of 8", measure, is_default=False, minutes=20
)
