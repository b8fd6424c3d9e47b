"""Every lobby starts at once: each becomes a room, its players move, all of it durable."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import processes
import seats
from charts import Bars
from scenario import Run, Scenario, spread

MEMBERS = 6
LOBBIES = (100, 1_000)

Row = dict[str, Any]


def measure(run: Run) -> str:
    """Measure and tell."""
    found: dict[int, list[Row]] = {count: [] for count in LOBBIES}
    for number in range(1, run.rounds + 1):
        for count, rows in found.items():
            run.say(f"round {number} of {run.rounds}: {count:,} lobbies")
            rows.append(start_all(run, count))
    of_count = {f"{count:,} lobbies": rows for count, rows in found.items()}
    run.draw(
        Bars("until the last has started", "ms", {n: {"": worst(of_count[n])} for n in of_count})
    )
    lines = [
        f"Lobbies full with {MEMBERS} players; all hosts call `matchmaking.php/start` at the same",
        "moment, each on its own connection.",
        "",
        "| lobbies | starts a second | CPU µs a start | median ms | p99 ms | the last, ms |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {count:,} | {spread(row['rps'] for row in rows)} "
        f"| {spread(row['cpu_pct']['server'] * 1e4 / row['rps'] for row in rows)} "
        f"| {spread((row['lat_ms']['P50'] for row in rows), '.0f')} "
        f"| {spread((row['lat_ms']['P99'] for row in rows), '.0f')} "
        f"| {spread(worst(rows))} |"
        for count, rows in found.items()
    ]
    return "\n".join(lines)


def worst(rows: list[Row]) -> list[float]:
    """Return how long the slowest took in each round, in milliseconds."""
    return [float(row["lat_ms"]["Max"]) for row in rows]


def start_all(run: Run, count: int) -> Row:
    """Fill so many lobbies on a new server, and start them; return the generator's row."""
    with (
        tempfile.TemporaryDirectory() as folder,
        processes.greenroom("greenroom") as target,
    ):
        players = seats.fill(run, target, Path(folder), count, MEMBERS, place=seats.LOBBY)
        hosts = Path(folder) / "hosts"
        hosts.write_text("\n".join(players[:count]) + "\n")
        return processes.request(
            run.program,
            target,
            *("-url", f"{target.url}/api/matchmaking.php/start", "-method", "POST"),
            *("-H", f"X-Api-Token: {target.api_token}", "-creds", str(hosts)),
            *("-H", "X-Game-Player-Token: {{cred}}", "-c", str(count), "-n", str(count)),
        )


SCENARIO = Scenario("lobby-start", "every lobby becomes a room at the same moment", measure)
