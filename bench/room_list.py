"""`game_room.php/list` while a game has 10,000 rooms with a free seat."""

from __future__ import annotations

import json

import processes
import seed
from charts import Bars
from scenario import Run, Scenario, spread

ROOMS = 10_000
CONNECTIONS = 16
BODIES = {
    "the first 20": {},
    "the first 100": {"limit": 100},
    "search, many match": {"search": "room 12"},
    "search, none matches": {"search": "nowhere"},
}


def measure(run: Run) -> str:
    """Measure and tell."""
    rates: dict[str, list[float]] = {name: [] for name in BODIES}
    p99: dict[str, list[float]] = {name: [] for name in BODIES}
    cpu: dict[str, list[float]] = {name: [] for name in BODIES}
    with processes.fresh_folder() as folder:
        with processes.serve(folder):
            url = processes.database_url(folder)
            seed.add_players(url, ROOMS * seed.ROOM_MEMBERS)
            seed.add_rooms(url, ROOMS, 0)
        with processes.serve(folder) as target:
            for number in range(1, run.rounds + 1):
                for name, body in BODIES.items():
                    run.say(f"round {number} of {run.rounds}: {name}")
                    row = processes.request(
                        run.program,
                        target,
                        *("-url", f"{target.url}/api/game_room.php/list", "-method", "POST"),
                        *("-H", f"X-Api-Token: {target.api_token}", "-body", json.dumps(body)),
                        *("-c", str(CONNECTIONS), "-d", f"{run.seconds}s", "-warmup", "1s"),
                    )
                    rates[name].append(row["rps"])
                    p99[name].append(row["lat_ms"]["P99"])
                    cpu[name].append(row["cpu_pct"]["server"] * 1e4 / row["rps"])
    run.draw(Bars("listed a second, one core", "requests/s", {n: {"": rates[n]} for n in BODIES}))
    rows = [
        f"| {name} | {spread(rates[name])} | {spread(cpu[name])} | {spread(p99[name], '.1f')} |"
        for name in BODIES
    ]
    lines = [
        f"{ROOMS:,} rooms of one game; {CONNECTIONS} connections in a closed loop.",
        "",
        "| list | a second | µs of CPU each | p99 ms |",
        "|---|---|---|---|",
        *rows,
    ]
    return "\n".join(lines)


SCENARIO = Scenario("room-list", "rooms listed while there are 10,000", measure, minutes=2)
