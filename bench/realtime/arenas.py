"""Arenas of 8 at 20 Hz whose state is kept in sync, over WebSocket, in whole servers.

Each member steers 10 times a second. With the next tick the member's ship moves, and a delta of the
room's state, in which the sent value is found again, tells all 8. So a message waits up to 50 ms
for its tick, and p99 may be 100 ms: deltas are at most 50 ms late. Rooms are added until it is over
that. A message that its sender's next one overtakes before a tick is lost, as it should be. If more
than one of a hundred is, ticks were left out, and that does not count as held.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import climbs
import colyseus
import node
import processes
import relays
from charts import Bars
from climbs import MEMBERS, Climb, Climbs, Row
from scenario import Run, Scenario, spread

LIMITS = climbs.Limits(p99_ms_max=100.0, delivered_min=0.99)
ROOMS = (*range(50, 300, 25), *range(300, 501, 50))
FOLDER = Path(__file__).parent

ARGUMENTS = ("--behaviours-dir", str(FOLDER), "--behaviours", "sea:Sea")

GREENROOM = relays.Relay(
    "greenroom",
    ROOMS[0],
    lambda: processes.greenroom("greenroom", *ARGUMENTS),
    '{"type":"send","command":"steer","target":"all","data":{"note":"{{payload}}"}}',
    relays.enter_greenroom,
)
COLYSEUS = relays.Relay(
    "Colyseus",
    ROOMS[0],
    colyseus.start,
    os.fsdecode(colyseus.MESSAGE),
    partial(colyseus.enter, kind="arena"),
)


def measure(run: Run) -> str:
    """Measure and tell."""
    servers = [GREENROOM]
    if missing := node.missing():
        run.say(f"Colyseus is left out: {missing}")
    else:
        servers.append(COLYSEUS)
    found = climbs.rounds(run, servers, climb)
    held = {name: [rooms_held(rows) for rows in rounds] for name, rounds in found.items()}
    run.draw(
        Bars(f"arenas held at {LIMITS}", "arenas", {"": held}),
        climbs.latency(found, LIMITS, "arenas", lambda row: float(row["rooms"])),
    )
    return "\n".join(report(found, held))


def climb(run: Run, server: relays.Relay) -> Climb:
    """Return a row for each number of rooms, up to those that are too many."""
    with tempfile.TemporaryDirectory() as folder, server.start() as target:
        return climbs.rise(
            run, server, target, Path(folder), rooms=ROOMS, limits=LIMITS, arguments=["-own"]
        )


def rooms_held(rows: Climb) -> int:
    """Return how many rooms were held; 0 if not even the first."""
    best = LIMITS.best(rows)
    return 0 if best is None else int(best["rooms"])


def report(found: Climbs, held: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the results, line by line."""
    heads = (
        *("server", f"rooms of {MEMBERS}", "updates told a second", "of all"),
        *("p50 ms", "p99 ms", "its core", "MB/s"),
    )
    # The last steps, which some round did not come to, are left out.
    steps = [(name, rows) for name in found for rows in zip(*found[name], strict=False)]
    return [
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
        *(line(name, rows) for name, rows in steps),
        "",
        *(f"Held at {LIMITS} by {name}: {spread(held[name])} rooms of {MEMBERS}." for name in held),
        *([f"Greenroom holds {climbs.ratios(held)}."] if len(held) > 1 else []),
        *climbs.conditions(row for _, rows in steps for row in rows),
        "",
        "Colyseus' patches are sent at the end of each tick (`broadcastPatch`) and are binary.",
        "Greenroom's deltas are JSON, and it tells each sender how many members were reached.",
    ]


def line(name: str, rows: Sequence[Row]) -> str:
    """Return a server's step in all rounds as a line of the table."""
    return (
        f"| {name} | {rows[0]['rooms']} | {spread(map(climbs.delivered, rows))} "
        f"| {spread((row['delivered_ratio'] * 100 for row in rows), '.1f')} % "
        f"| {spread((row['lat_ms']['P50'] for row in rows), '.0f')} "
        f"| {spread((row['lat_ms']['P99'] for row in rows), '.0f')} "
        f"| {spread((row['cpu_pct']['server'] for row in rows), '.0f')} % "
        f"| {spread((row['recv_mb_per_s'] for row in rows), '.1f')} |"
    )


SCENARIO = Scenario(
    "arenas",
    "rooms of 8 at 20 Hz with their state in sync",
    measure,
    is_default=False,
    minutes=12,
    settings="`behaviours` = sea:Sea",
)
