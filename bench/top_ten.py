"""`leaderboard.php` over 1,000,000 players."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from http import HTTPStatus

import processes
import room_list
import seed
from scenario import Run, Scenario

PLAYERS = 1_000_000
BUILD_SECONDS_MAX = 300.0
BODIES: dict[str, dict[str, object]] = {
    "top 10": {"sort_by": ["score"]},
    "top 100": {"sort_by": ["score"], "limit": 100},
}


def measure(run: Run) -> str:
    """Measure and tell."""
    with processes.fresh_folder() as folder:
        run.say(f"{PLAYERS:,} players are put into the database")
        with processes.serve(folder):
            seed.add_players(processes.database_url(folder), PLAYERS, are_online=False)
        with processes.serve(folder) as target:
            before = target.resident_bytes
            seconds = build(target)
            each = (target.resident_bytes - before) / PLAYERS
            rows = room_list.compare(run, target, "leaderboard.php", BODIES)
    lines = [
        f"{PLAYERS:,} players with a score; {room_list.CONNECTIONS} connections in a closed loop.",
        f"The first call builds the index, in {seconds:.1f} s; {each:,.0f} bytes a player.",
        "",
        *rows,
    ]
    return "\n".join(lines)


def build(target: processes.Target) -> float:
    """Ask until the index is there; return how many seconds that took."""
    request = urllib.request.Request(
        f"{target.url}/api/leaderboard.php",
        json.dumps(BODIES["top 10"]).encode(),
        {"X-Api-Token": target.api_token},
    )
    began = time.monotonic()
    while time.monotonic() - began < BUILD_SECONDS_MAX:
        try:
            with urllib.request.urlopen(request, timeout=BUILD_SECONDS_MAX):
                return time.monotonic() - began
        except urllib.error.HTTPError as refusal:
            if refusal.code != HTTPStatus.TOO_MANY_REQUESTS:
                raise
    raise SystemExit("the leaderboard is not built")


SCENARIO = Scenario("top-ten", "a leaderboard of 1,000,000 players", measure, minutes=2)
