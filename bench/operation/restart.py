"""How long a start takes: from the process to the ready file, the embedded Postgres included.

Before each of the others the server was stopped in order; what was put there in between does not
count.
"""

from __future__ import annotations

import processes
import seed
from charts import Bars
from scenario import Run, Scenario, spread

PLAYERS = 100_000
ROOMS = 10_000
UPDATES_EACH = 10

FIRST = "the first: a new database"
EMPTY = "empty"
PEOPLED = f"{PLAYERS:,} players online"
FULL = f"{PLAYERS:,} players online, {ROOMS:,} rooms of {seed.ROOM_MEMBERS}"


def measure(run: Run) -> str:
    """Measure and tell."""
    seconds: dict[str, list[float]] = {name: [] for name in (FIRST, EMPTY, PEOPLED, FULL)}
    mebibytes: dict[str, list[float]] = {name: [] for name in seconds}
    for number in range(1, run.rounds + 1):
        with processes.fresh_folder() as folder:
            for name, runs in seconds.items():
                run.say(f"round {number} of {run.rounds}: {name}")
                with processes.serve(folder) as target:
                    runs.append(target.start_seconds)
                    mebibytes[name].append(target.resident_bytes / 2**20)
                    if name == EMPTY:
                        seed.add_players(processes.database_url(folder), PLAYERS)
                    elif name == PEOPLED:
                        seed.add_rooms(processes.database_url(folder), ROOMS, UPDATES_EACH)
    names = ("first", "empty", "players", "players, rooms")
    run.draw(
        *(
            Bars(title, unit, {n: {"": runs} for n, runs in zip(names, of.values(), strict=True)})
            for title, unit, of in (
                ("time to ready", "s", seconds),
                ("resident memory then", "MiB", mebibytes),
            )
        )
    )
    rows = [
        f"| {name} | {spread(runs, '.2f')} | {spread(mebibytes[name])} |"
        for name, runs in seconds.items()
    ]
    lines = [
        f"Every room keeps {UPDATES_EACH} updates of {seed.UPDATE_BYTES} B, which are read again",
        "from the journal.",
        "",
        "| start | seconds to ready | MiB resident |",
        "|---|---|---|",
        *rows,
    ]
    return "\n".join(lines)


SCENARIO = Scenario("restart", "seconds to ready, empty and full", measure)
