"""Rooms of 8 over WebSocket, in which what a member says goes to the others.

The rooms become more until the p99 is over 50 ms; that, and the most that ever arrived in a second,
are what is told.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import climbs
from charts import Bars
from climbs import Climb, Climbs, Row, delivered
from relays import Relay, relays
from scenario import Run, Scenario, spread

LIMITS = climbs.Limits(p99_ms_max=50.0, delivered_min=0.999)
GROWTH = 1.12
"""From one step to the next."""
STEPS_MAX = 20
ROOMS_MAX = 620
"""So that all connections are within what one address is allowed."""
OVERLOAD = 1.4
"""Times the rooms that were borne: the load under which saturation is looked for."""


def measure(run: Run) -> str:
    """Measure and tell."""
    found = climbs.rounds(run, relays(run), climb)
    held = {
        name: [delivered(LIMITS.best(rows)) for rows in rounds] for name, rounds in found.items()
    }
    run.draw(
        Bars(f"delivered a second at {LIMITS}", "messages/s", {"relay": held}),
        climbs.latency(
            found, LIMITS, "messages offered a second", lambda row: float(row["offered_per_s"])
        ),
    )
    return "\n".join(report(found, held))


def steps(first: int) -> list[int]:
    """Return the numbers of rooms, rising."""
    counts = [round(first * GROWTH**step) for step in range(STEPS_MAX)]
    return [count for count in counts if count <= ROOMS_MAX]


def climb(run: Run, relay: Relay) -> Climb:
    """Return a row for each step, the last of them overloaded."""
    with tempfile.TemporaryDirectory() as folder, relay.start() as target:
        rising = steps(relay.rooms_first)
        rows = climbs.rise(run, relay, target, Path(folder), rooms=rising, limits=LIMITS)
        best = LIMITS.best(rows)
        borne = relay.rooms_first if best is None else best["rooms"]
        overload = min(ROOMS_MAX, round(borne * OVERLOAD))
        # With new seats: not everywhere one can be taken twice.
        more = climbs.rise(run, relay, target, Path(folder), rooms=[overload], limits=LIMITS)
        return rows + more


def report(found: Climbs, held: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the results, line by line."""
    heads = (
        *("relay", f"delivered a second at {LIMITS}", "p99 ms then", "rooms"),
        *("CPU µs a delivery", "its core", "delivered a second, saturated", "p99 ms then"),
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    every_best: list[Row] = []
    for name, rounds in found.items():
        bests = [row for rows in rounds if (row := LIMITS.best(rows)) is not None]
        fullest = [max(rows, key=delivered) for rows in rounds]
        every_best += bests
        lines.append(
            f"| {name} | {spread(held[name])} "
            f"| {spread((row['lat_ms']['P99'] for row in bests), '.0f') if bests else '-'} "
            f"| {spread(row['rooms'] for row in bests) if bests else '-'} "
            f"| {spread(map(cpu_us, bests), '.2f') if bests else '-'} "
            f"| {spread((r['cpu_pct']['server'] for r in bests), '.0f') if bests else '-'} % "
            f"| {spread(map(delivered, fullest))} "
            f"| {spread((row['lat_ms']['P99'] for row in fullest), ',.0f')} |"
        )
    return [
        *lines,
        "",
        f"At {LIMITS} greenroom delivers {climbs.ratios(held)}.",
        *climbs.conditions(every_best),
        "The bare relays pass bytes on, and Colyseus unpacks and packs them. Greenroom reads JSON,",
        "runs a turn of the room, and names the sender. It also tells the sender how many members",
        "were reached, which is one more message for each seven.",
    ]


def cpu_us(row: Row) -> float:
    """Return the server's CPU of a delivery, in microseconds."""
    return float(row["cpu_pct"]["server"]) * 1e4 / delivered(row)


SCENARIO = Scenario(
    "relay", "messages passed on in rooms of 8", measure, is_default=False, minutes=20
)
