"""Arenas of 8 at 20 Hz whose state is kept in sync, over WebSocket, in a whole server.

Each member steers 10 times a second; with the next tick his ship moves, and all 8 are told by a
delta of the room's state, in which what he sent is found again. So a message waits up to 50 ms for
its tick, and p99 may be 100 ms: deltas are at most 50 ms late. The rooms become more until it is
over that. A message that its sender's next one overtakes before a tick is lost, as it should be;
if more than one of a hundred is, ticks were left out, and that is not held either.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import processes
import relay_rooms
import relays
from charts import Lines
from scenario import Run, Scenario, spread

MEMBERS = 8
RATE = 10
BYTES = 100
P99_MS_MAX = 100.0
DELIVERED_MIN = 0.99
ROOMS = "50,100,150,200,250,300,350,400,450,500,550,600"
FOLDER = Path(__file__).parent

SERVER = relays.Relay(
    "greenroom",
    100,
    lambda: processes.greenroom(
        "greenroom", "--behaviours-dir", str(FOLDER), "--behaviours", "sea:Sea"
    ),
    '{"type":"send","command":"steer","target":"all","data":{"note":"{{payload}}"}}',
    relays.enter_greenroom,
)


def measure(run: Run) -> str:
    """Measure and tell."""
    rounds = []
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}")
        rounds.append(climb(run))
    lines = [
        f"| rooms of {MEMBERS} | updates told a second | p50 ms | p99 ms | its core | MB/s |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {rows[0]['rooms']} | {spread(row['delivered_per_s'] for row in rows)} "
        f"| {spread((row['lat_ms']['P50'] for row in rows), '.0f')} "
        f"| {spread((row['lat_ms']['P99'] for row in rows), '.0f')} "
        f"| {spread((row['cpu_pct']['server'] for row in rows), '.0f')} % "
        f"| {spread((row['recv_mb_per_s'] for row in rows), '.1f')} |"
        for rows in zip(*rounds, strict=False)
    ]
    run.draw(
        Lines(
            f"arenas of {MEMBERS} at 20 Hz, one core",
            "arenas",
            "ms",
            {
                p.lower(): [(row["rooms"], row["lat_ms"][p]) for rows in rounds for row in rows]
                for p in ("P50", "P99")
            },
            P99_MS_MAX,
        )
    )
    held = [max((row["rooms"] for row in rows if is_held(row)), default=0) for rows in rounds]
    return "\n".join(
        [*lines, "", f"Held at p99 < {P99_MS_MAX:.0f} ms: {spread(held)} rooms of {MEMBERS}."]
    )


def climb(run: Run) -> relay_rooms.Climb:
    """Return a row for each number of rooms, up to the first that is too many."""
    most = int(ROOMS.rpartition(",")[2])
    with tempfile.TemporaryDirectory() as folder, SERVER.start() as target:
        entrance = SERVER.enter(run, target, Path(folder), most, MEMBERS)
        arguments = [
            *("-players", str(MEMBERS), "-rate", str(RATE), "-size", str(BYTES), "-own"),
            *("-d", f"{run.seconds}s", "-warmup", "2s", "-send", SERVER.message, *entrance),
            *("-rooms", ROOMS, "-stop-p99", str(P99_MS_MAX)),
        ]
        return relay_rooms.load(run, target, arguments)


def is_held(row: dict[str, Any]) -> bool:
    """Return whether everything came in time, and nobody was cut off."""
    return (
        row["lat_ms"]["P99"] <= P99_MS_MAX
        and row["delivered_ratio"] >= DELIVERED_MIN
        and not row["closed_by_server"]
    )


SCENARIO = Scenario(
    "arenas",
    "rooms of 8 at 20 Hz with their state in sync",
    measure,
    is_default=False,
    minutes=7,
    settings="`behaviours` = sea:Sea",
)
