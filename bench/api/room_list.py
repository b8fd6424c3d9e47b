"""`game_room.php/list` while a game has 10,000 rooms with a free seat."""

from __future__ import annotations

import json
from collections.abc import Mapping

import processes
import seed
from charts import Bars
from scenario import Run, Scenario, spread

ROOMS = 10_000
CONNECTIONS = 16
BODIES: dict[str, dict[str, object]] = {
    "the first 20": {},
    "the first 100": {"limit": 100},
    "search, many match": {"search": "room 12"},
    "search, none matches": {"search": "nowhere"},
}


def measure(run: Run) -> str:
    """Measure and tell."""
    with processes.fresh_folder() as folder:
        with processes.serve(folder):
            url = processes.database_url(folder)
            seed.add_players(url, ROOMS * seed.ROOM_MEMBERS)
            seed.add_rooms(url, ROOMS, 0)
        with processes.serve(folder) as target:
            rows = compare(run, target, "game_room.php/list", BODIES)
    lines = [f"{ROOMS:,} rooms of one game; {CONNECTIONS} connections in a closed loop.", "", *rows]
    return "\n".join(lines)


def compare(
    run: Run, target: processes.Target, path: str, bodies: Mapping[str, Mapping[str, object]]
) -> list[str]:
    """Call one endpoint with each of the bodies, in turn; return a table, and have it drawn."""
    found: dict[str, list[processes.Row]] = {name: [] for name in bodies}
    for number in range(1, run.rounds + 1):
        for name, body in bodies.items():
            run.say(f"round {number} of {run.rounds}: {name}")
            row = processes.request(
                run.program,
                target,
                *("-url", f"{target.url}/api/{path}", "-method", "POST"),
                *("-H", f"X-Api-Token: {target.api_token}", "-body", json.dumps(body)),
                *("-c", str(CONNECTIONS), "-d", f"{run.seconds}s", "-warmup", "1s"),
            )
            found[name].append(row)
    rates = {name: [row["rps"] for row in rows] for name, rows in found.items()}
    run.draw(Bars("calls a second, one core", "calls/s", {n: {"": rates[n]} for n in rates}))
    return [
        f"| {path} | a second | µs of CPU each | p99 ms |",
        "|---|---|---|---|",
        *(
            f"| {name} | {spread(rates[name])} "
            f"| {spread(row['cpu_pct']['server'] * 1e4 / row['rps'] for row in rows)} "
            f"| {spread((row['lat_ms']['P99'] for row in rows), '.1f')} |"
            for name, rows in found.items()
        ),
    ]


SCENARIO = Scenario("room-list", "rooms listed while there are 10,000", measure, minutes=2)
