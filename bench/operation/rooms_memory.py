"""Measure the memory of a room: the server's, with and without 10,000 rooms of 6.

The rooms are put into the database, and restored by the start. The players in them are there in
either case, so that only the rooms make the difference.
"""

from __future__ import annotations

import time
from pathlib import Path

import processes
import seed
from scenario import Run, Scenario, spread

ROOMS = 10_000
UPDATES = (0, 20)
SETTLE_SECONDS = 2.0


def measure(run: Run) -> str:
    """Measure and tell."""
    without: list[float] = []
    each: dict[int, list[float]] = {count: [] for count in UPDATES}
    for number in range(1, run.rounds + 1):
        with processes.fresh_folder() as folder:
            with processes.serve(folder):
                seed.add_players(processes.database_url(folder), ROOMS * seed.ROOM_MEMBERS)
            for count in UPDATES:
                run.say(f"round {number} of {run.rounds}: {count} updates a room")
                bare = resident_bytes_then(folder, count)
                without.append(bare / 2**20)
                each[count].append((resident_bytes_then(folder, None) - bare) / ROOMS)
    rows = [
        f"| {count} | {spread(runs)} | {spread(run / 1024 for run in runs)} |"
        for count, runs in each.items()
    ]
    lines = [
        f"{ROOMS:,} rooms of {seed.ROOM_MEMBERS}, restored: the server's resident memory less that",
        f"of the same server without them. That is {spread(without)} MiB with",
        f"{ROOMS * seed.ROOM_MEMBERS:,} players online.",
        "",
        f"| kept updates of {seed.UPDATE_BYTES} B | bytes a room | KiB a room |",
        "|---|---|---|",
        *rows,
    ]
    return "\n".join(lines)


def resident_bytes_then(folder: Path, updates_each: int | None) -> int:
    """Start, let it settle, and return its memory; put rooms there or, for None, remove them."""
    with processes.serve(folder) as target:
        time.sleep(SETTLE_SECONDS)
        resident = target.resident_bytes
        url = processes.database_url(folder)
        if updates_each is None:
            seed.remove_rooms(url)
        else:
            seed.add_rooms(url, ROOMS, updates_each)
    return resident


SCENARIO = Scenario("rooms-memory", "what 10,000 rooms of 6 take", measure, minutes=2)
