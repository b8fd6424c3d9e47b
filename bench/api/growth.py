"""Measure how costs grow with ten times as many players, and then rooms.

Players and rooms are put into the database and restored by a start. Everybody is online. The calls
come from 16 connections in a closed loop. For the snapshots every room changes once. Then a few
calls a second show how long the loop was held up while the rooms are written whole.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import processes
import seats
import seed
from charts import Lines
from scenario import Run, Scenario, spread

WORLDS = ((1_000, 0), (10_000, 0), (100_000, 0), (100_000, 1_000), (100_000, 10_000))
"""Players and rooms of 6."""
UPDATES_EACH = 10
CALLERS = 64
CONNECTIONS = 16
SECONDS_MAX = 3
"""Calls of each kind; there are many kinds."""
PROBES_PER_SECOND = 100
PROBE_SECONDS = 12
"""Longer than `snapshot_seconds`."""
SETTLE_SECONDS = 2.0

START, MEMORY, IDLE = "start, s", "memory, MiB", "idle CPU, % of a core"
GET, REGISTER, LIST = "player/get, CPU µs", "register, CPU µs", "room list of 20, CPU µs"
UPDATE, SNAPSHOT = "update to a whole room, CPU µs", "snapshot of a changed room, CPU µs"
QUIET, HELD_UP = "slowest call, ms", "slowest call during snapshots, ms"
FORMS = {START: ".2f", MEMORY: ",.0f", IDLE: ".1f", QUIET: ".1f", HELD_UP: ".1f"}


@dataclass
class World:
    """The measurements with so many players and rooms."""

    players: int
    rooms: int
    figures: dict[str, list[float]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return what stands over its column."""
        return f"{self.players:,} players" + (f", {self.rooms:,} rooms" if self.rooms else "")

    def note(self, name: str, figure: float) -> None:
        """Add a round's figure."""
        self.figures.setdefault(name, []).append(figure)


def measure(run: Run) -> str:
    """Measure and tell."""
    worlds = [World(players, rooms) for players, rooms in WORLDS]
    for number in range(1, run.rounds + 1):
        for world in worlds:
            run.say(f"round {number} of {run.rounds}: {world.name}")
            with processes.fresh_folder() as folder:
                visit(run, world, folder)
    by_players = [world for world in worlds if not world.rooms]
    run.draw(
        Lines(
            "more players",
            "players",
            "CPU µs",
            {
                name: [(world.players, us) for world in by_players for us in world.figures[name]]
                for name in (GET, REGISTER)
            },
            is_log_x=True,
            is_log_y=False,
        )
    )
    return "\n".join(report(worlds))


def visit(run: Run, world: World, folder: Path) -> None:
    """Make a world and measure it once."""
    with processes.serve(folder):
        url = processes.database_url(folder)
        seed.add_players(url, world.players)
        if world.rooms:
            seed.add_rooms(url, world.rooms, UPDATES_EACH)
        hosts = seed.give_tokens(url, [seed.host_id(number) for number in range(world.rooms)])
    with processes.serve(folder) as target:
        world.note(START, target.start_seconds)
        time.sleep(SETTLE_SECONDS)
        world.note(MEMORY, target.resident_bytes / 2**20)
        before = target.cpu_seconds
        time.sleep(PROBE_SECONDS)
        world.note(IDLE, (target.cpu_seconds - before) / PROBE_SECONDS * 100)
        with tempfile.TemporaryDirectory() as calls:
            call(run, world, target, Path(calls))
            if hosts:
                change_rooms(run, world, target, Path(calls), hosts=hosts, folder=folder)


def call(run: Run, world: World, target: processes.Target, calls: Path) -> None:
    """Make calls that change no room, and note what they cost."""
    url, timed = f"{target.url}/api", ["-d", f"{min(run.seconds, SECONDS_MAX)}s", "-warmup", "1s"]
    body = '{"player_name":"player {{seq}}"}'
    tokens = seats.call(
        run,
        target,
        calls,
        path="api/game_players.php/register",
        body=body,
        wanted=seats.field("private_key"),
        count=CALLERS,
    )
    (calls / "players").write_text("\n".join(tokens) + "\n")
    register = ["-url", f"{url}/game_players.php/register", "-method", "POST", "-body", body]
    kinds = {GET: probe(target, calls), REGISTER: register}
    if world.rooms:
        kinds[LIST] = ["-url", f"{url}/game_room.php/list", "-method", "POST", "-body", "{}"]
    for name, arguments in kinds.items():
        row = processes.request(
            run.program, target, *common(target), *arguments, *timed, "-c", str(CONNECTIONS)
        )
        world.note(name, row["cpu_pct"]["server"] * 1e4 / row["rps"])


def change_rooms(
    run: Run,
    world: World,
    target: processes.Target,
    calls: Path,
    *,
    hosts: list[str],
    folder: Path,
) -> None:
    """Have every room change once; note what that costs, and what the snapshots after it cost."""
    quiet = probe_for(run, target, calls)
    (calls / "hosts").write_text("\n".join(hosts) + "\n")
    body = '{"target_players":"others","type":"moved","data":{"x":1}}'
    row = processes.request(
        run.program,
        target,
        *common(target),
        *("-url", f"{target.url}/api/game_room.php/updates", "-method", "POST", "-body", body),
        *("-H", "X-Game-Player-Token: {{cred}}", "-creds", str(calls / "hosts")),
        *("-cred-per-request", "-n", str(len(hosts)), "-c", str(CONNECTIONS)),
    )
    world.note(UPDATE, row["cpu_pct"]["server"] * 1e4 / row["rps"])
    began = time.time()
    busy = probe_for(run, target, calls)
    written = seed.snapshots_since(processes.database_url(folder), began)
    percent = busy["cpu_pct"]["server"] - quiet["cpu_pct"]["server"]
    world.note(SNAPSHOT, percent * 1e4 * PROBE_SECONDS / max(written, 1))
    world.note(QUIET, quiet["lat_ms"]["Max"])
    world.note(HELD_UP, busy["lat_ms"]["Max"])


def probe_for(run: Run, target: processes.Target, calls: Path) -> processes.Row:
    """Make a few calls a second until all snapshots are written; return the generator's row."""
    return processes.request(
        run.program,
        target,
        *(*common(target), *probe(target, calls), "-rate", str(PROBES_PER_SECOND)),
        *("-d", f"{PROBE_SECONDS}s", "-warmup", "0s", "-c", str(CONNECTIONS)),
    )


def probe(target: processes.Target, calls: Path) -> list[str]:
    """Return the generator's arguments of a call that only reads memory."""
    return [
        *("-url", f"{target.url}/api/game_data.php/player/get", "-method", "GET"),
        *("-H", "X-Game-Player-Token: {{cred}}", "-creds", str(calls / "players")),
        "-cred-per-request",
    ]


def common(target: processes.Target) -> list[str]:
    """Return the generator's arguments of every call."""
    return ["-H", f"X-Api-Token: {target.api_token}", "-H", "Content-Type: application/json"]


def report(worlds: list[World]) -> list[str]:
    """Return the results, line by line."""
    lines = [
        f"| | {' | '.join(world.name for world in worlds)} |",
        "|---" * (len(worlds) + 1) + "|",
    ]
    for name in (START, MEMORY, IDLE, GET, REGISTER, LIST, UPDATE, SNAPSHOT, QUIET, HELD_UP):
        cells = [
            spread(world.figures[name], FORMS.get(name, ",.0f")) if name in world.figures else "-"
            for world in worlds
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append("")
    for less, more in pairwise(worlds):
        kind, growth = "player", more.players - less.players
        if more.rooms > less.rooms:
            kind, growth = "room of 6", more.rooms - less.rooms
        pairs = zip(less.figures[MEMORY], more.figures[MEMORY], strict=True)
        each = [(high - low) * 2**20 / growth for low, high in pairs]
        lines.append(f"- From {less.name} to {more.name}: {spread(each)} bytes a {kind}.")
    return lines


SCENARIO = Scenario(
    "growth", "what ten times as many players and rooms cost", measure, is_default=False, minutes=18
)
