"""Measure idle realtime connections: memory for each, and the CPU of 2,000 rooms full of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import node
import processes
from charts import Bars
from relays import Relay, relays
from scenario import Run, Scenario, spread

ROOMS, MEMBERS = 2_000, 2
STEPS = (ROOMS * MEMBERS,)
"""Connections, at each of which it is measured."""
IDLE_SECONDS = 50
"""Longer than the time to a ping, which each client gets, and answers, within it; shorter than a
silent client is kept, the time that all need to connect included."""

Row = dict[str, Any]


def measure(run: Run) -> str:
    """Measure and tell."""
    found: dict[tuple[str, int], list[Row]] = {}
    for number in range(1, run.rounds + 1):
        for relay in relays(run):
            run.say(f"round {number} of {run.rounds}: {relay.name}")
            for row in connect(run, relay):
                found.setdefault((relay.name, row["conns"]), []).append(row)
    lines = [
        f"There are {ROOMS:,} rooms with {MEMBERS} members each, who are connected and silent for",
        f"{IDLE_SECONDS} s. Memory is what the server takes beyond that with the same rooms and",
        "nobody connected.",
        "",
        "| server | connections | KiB each | made a second | CPU of all, idle |",
        "|---|---|---|---|---|",
    ]
    for (name, count), rows in found.items():
        lines.append(
            f"| {name} | {count:,} | {spread(map(kibibytes, rows), '.1f')} "
            f"| {spread(row['connects_per_s'] for row in rows)} "
            f"| {spread(map(idle_percent, rows), '.1f')} % of a core |"
        )
    all_of = {name: rows for (name, count), rows in found.items() if count == STEPS[-1]}
    run.draw(
        *(
            Bars(
                title, unit, {"": {name: list(map(figure, rows)) for name, rows in all_of.items()}}
            )
            for title, unit, figure in (
                ("memory of an idle connection", "KiB", kibibytes),
                (f"CPU of {ROOMS:,} idle rooms", "% of a core", idle_percent),
            )
        )
    )
    return "\n".join([*lines, "", f"{node.versions()}."])


def kibibytes(row: Row) -> float:
    """Return the memory of a connection, in KiB."""
    return float(row["per_conn"]["server"]["rss_kib_per_conn"])


def idle_percent(row: Row) -> float:
    """Return the CPU of all idle rooms, in per cent of a core."""
    return float(row["cpu_idle"]["server"])


def connect(run: Run, relay: Relay) -> list[Row]:
    """Connect a tenth of all, then all, and wait each time; return the rows of that."""
    with tempfile.TemporaryDirectory() as folder, relay.start() as target:
        entrance = relay.enter(run, target, Path(folder), ROOMS, MEMBERS)
        (result,) = processes.load(
            run.program,
            target,
            "idle",
            *("-steps", ",".join(map(str, STEPS)), "-idle", f"{IDLE_SECONDS}s", *entrance),
        )
    rows: list[Row] = result["steps"]
    if closed := rows[-1]["closed_by_server"]:
        raise SystemExit(f"{relay.name} closed {closed} idle connections")
    return rows


SCENARIO = Scenario(
    "idle-connections",
    "2,000 realtime rooms in which nobody speaks",
    measure,
    is_default=False,
    minutes=18,
)
