"""`leaderboard.php` over 1,000,000 players, while the best of them are away, and while they play.

Then once more while they write, each change bringing another of them to the first place.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import processes
import room_list
import seats
import seed
from scenario import Run, Scenario

PLAYERS = 1_000_000
BUILD_SECONDS_MAX = 300.0
BEST = 100
CHANGES_PER_SECOND = 100
BODY: dict[str, object] = {"sort_by": ["score"]}
BODIES = {"top 10": BODY, f"top {BEST}": {**BODY, "limit": BEST}}


def measure(run: Run) -> str:
    """Measure and tell."""
    with processes.fresh_folder() as folder:
        run.say(f"{PLAYERS:,} players are put into the database")
        with processes.serve(folder):
            url = processes.database_url(folder)
            seed.add_players(url, PLAYERS, are_online=False)
            tokens = seed.give_tokens(url, seed.best_players(url, BEST))
        with processes.serve(folder) as target:
            before = target.resident_bytes
            seconds, _ = build(target)
            each = (target.resident_bytes - before) / PLAYERS
            away = {f"{name}, away": body for name, body in BODIES.items()}
            rows = room_list.compare(run, target, "leaderboard.php", away)
            log_in(run, target, folder, tokens)
            online = {f"{name}, online": body for name, body in BODIES.items()}
            rows += room_list.compare(run, target, "leaderboard.php", online)[2:]
            busy = {
                f"{name}, {CHANGES_PER_SECOND} changes/s": body for name, body in BODIES.items()
            }
            with changing(run, target, folder, tokens):
                rows += room_list.compare(run, target, "leaderboard.php", busy)[2:]
    lines = [
        f"{PLAYERS:,} players with a score; {room_list.CONNECTIONS} connections in a closed loop.",
        f"The first call builds the index, in {seconds:.1f} s; {each:,.0f} bytes a player.",
        "Each change brings one of the best to the first place; what it costs itself is included.",
        "",
        *rows,
    ]
    return "\n".join(lines)


def log_in(run: Run, target: processes.Target, folder: Path, tokens: list[str]) -> None:
    """Let players come online."""
    seats.call(
        run,
        target,
        folder,
        path="api/game_players.php/heartbeat",
        body="{}",
        wanted='("success":true)',
        callers=[f"-\t{token}" for token in tokens],
    )


@contextmanager
def changing(run: Run, target: processes.Target, folder: Path, tokens: list[str]) -> Iterator[None]:
    """Have players write ever higher scores meanwhile, in turn."""
    callers = folder / "callers"
    callers.write_text("".join(f"{token}\n" for token in tokens))
    command = [
        *(str(run.program), "http", "-url", f"{target.url}/api/game_data.php/player/update"),
        *("-method", "PUT", "-body", '{"level":1,"score":{{seq}}}'),
        *("-H", f"X-Api-Token: {target.api_token}", "-H", "X-Game-Player-Token: {{cred1}}"),
        *("-creds", str(callers), "-cred-per-request", "-c", "4"),
        *("-rate", str(CHANGES_PER_SECOND), "-d", "1h"),
    ]
    with subprocess.Popen(
        command,
        preexec_fn=processes.pin_generator(target),  # noqa: PLW1509 - there are no threads here
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield
            assert process.poll() is None, "the changes have ended"
        finally:
            process.terminate()


def build(target: processes.Target) -> tuple[float, Any]:
    """Ask until the index is there; return how many seconds that took, and the first answer."""
    request = urllib.request.Request(
        f"{target.url}/api/leaderboard.php",
        json.dumps(BODY).encode(),
        {"X-Api-Token": target.api_token},
    )
    began = time.monotonic()
    while time.monotonic() - began < BUILD_SECONDS_MAX:
        try:
            with urllib.request.urlopen(request, timeout=BUILD_SECONDS_MAX) as answer:
                return time.monotonic() - began, json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code != HTTPStatus.TOO_MANY_REQUESTS:
                raise
    raise SystemExit("the leaderboard is not built")


SCENARIO = Scenario("top-ten", "a leaderboard of 1,000,000 players", measure, minutes=3)
