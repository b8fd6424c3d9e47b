"""What players notice when somebody presses upon the server with connections.

One address opens as many as it can and says nothing, sends a byte a second, asks for 5,000 lists
and never reads them, or connects and resets without end. Meanwhile players at another address call
in an open loop. The bounds on connections are the defaults; limits by rate are far away
(`rate_limit_factor`), or they would end most of this.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import processes
from scenario import Run, Scenario, spread

MODES = {
    "nobody": 0,
    "idle": 15_000,
    "drip": 15_000,
    "deaf": 20,
    "knock": 64,
}
"""How it presses, with so many connections at a time: beyond what one address may have."""
RATE, PLAYERS = 500, 64
BEGIN_SECONDS = 4
"""Before the players are measured, and after."""

Row = dict[str, Any]


def measure(run: Run) -> str:
    """Measure and tell."""
    lines = [
        f"{PLAYERS} players with {RATE} `player/get` a second, while another address does that:",
        "",
        (
            "| pressure | connections opened | ended by the server | CPU of the server "
            "| players' p99 ms | max ms | failed | MiB more |"
        ),
        "|---" * 8 + "|",
    ]
    for mode, count in MODES.items():
        run.say(mode)
        rounds = [press(run, mode, count) for _ in range(run.rounds)]
        pressed = [each for each, _, _ in rounds]
        players = [each for _, each, _ in rounds]
        cells = (
            mode if not count else f"{mode}, {count:,} at a time",
            spread(row["opened"] for row in pressed) if count else "-",
            spread(row["ended_by_server"] for row in pressed) if count else "-",
            spread((row["cpu_pct"]["server"] for row in players), ".0f") + " %",
            spread((row["lat_ms"]["P99"] for row in players), ".1f"),
            spread((row["lat_ms"]["Max"] for row in players), ".0f"),
            f"{sum(row['bad'] for row in players):,}",
            spread((grown / (1 << 20) for _, _, grown in rounds), ".0f"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def press(run: Run, mode: str, count: int) -> tuple[Row, Row, int]:
    """Press; return the row of that, the row of the players, and the bytes of memory it took."""
    with (
        tempfile.TemporaryDirectory() as folder,
        processes.greenroom("greenroom") as target,
    ):
        key = ("-H", f"X-Api-Token: {target.api_token}", "-H", "Content-Type: application/json")
        tokens = Path(folder) / "tokens"
        processes.request(
            run.program,
            target,
            *("-url", f"{target.url}/api/game_players.php/register", "-method", "POST", *key),
            *("-body", '{"player_name":"player {{seq}}"}', "-n", str(PLAYERS), "-c", "8"),
            *("-save", '"private_key":"([^"]+)"', "-save-out", str(tokens)),
        )
        resident = target.resident_bytes
        seconds = run.seconds + 2 * BEGIN_SECONDS
        command = [
            *(str(run.program), "press", "-url", target.url, "-key", target.api_token),
            *("-mode", mode if count else "idle", "-c", str(count), "-d", f"{seconds}s"),
        ]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            preexec_fn=lambda: os.sched_setaffinity(0, {processes.OTHER_CORE}),  # noqa: PLW1509
        ) as pressing:
            time.sleep(BEGIN_SECONDS)
            (players,) = processes.load(
                run.program,
                target,
                "http",
                *("-url", f"{target.url}/api/game_data.php/player/get", *key),
                *("-H", "X-Game-Player-Token: {{cred}}", "-creds", str(tokens)),
                *("-c", str(PLAYERS), "-rate", str(RATE), "-d", f"{run.seconds}s"),
            )
            grown = target.resident_bytes - resident
            said, _ = pressing.communicate(timeout=120)
        return json.loads(said), players, grown


SCENARIO = Scenario(
    "press", "slow, deaf and too many connections", measure, is_default=False, minutes=5
)
