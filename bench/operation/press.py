"""Measure what players notice while an address attacks the server.

With connections, one address opens as many as it can. It says nothing, sends a byte a second, asks
for 5,000 lists and never reads them, or connects and resets without end. Meanwhile players at
another address call in an open loop. The bounds on connections are the defaults. Limits by rate are
far away (`rate_limit_factor`), or they would end most of this.

With floods, one address does what costs the server most, each kind alone and then many or all at
once, each from an address of its own. All limits are the defaults. Players do all that players do,
look at the game's leaderboard, which is in use, and read the reference.

In the row `beside`, all floods go to another server on the same core. So it says what players would
notice of the floods if the operating system alone divided the core between them.

`--quick` leaves the connections out, and measures sooner after a flood has begun. `--only` names
what is to be measured: modes of connections, floods, `nobody`, `most`, `all`, `beside`.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import processes
import stalls
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
BEGIN_SECONDS_QUICK = 1
SET_UP_SECONDS = 4
"""For what players do before they are measured."""

Row = dict[str, Any]


class Flood(NamedTuple):
    """The attack of one address."""

    about: str
    connections: int
    rate: int = 0
    """A second at most; 0 means that each connection goes on as soon as it is answered."""


FLOODS = {
    "rules": Flood("lists of rooms with the largest rules, `format=engine`", 8, 30),
    "window": Flood("100 streams of `/openapi.json` over HTTP/2, window 0, closed at once", 12),
    "unread": Flood("`/openapi.json`, never read", 278),
    "bodies": Flood("bodies of 1 MiB less 200 bytes, no token", 270),
    "healthz": Flood("`/healthz`", 64),
    "heads": Flood("heads of 32 KiB of empty fields", 16),
    "docs": Flood("the reference's largest file", 16),
    "search": Flood("`/mcp`: a search for 1 MB of words", 8),
    "boards": Flood("leaderboards by 16 fields that nobody has asked for", 8, 30),
    "rooms": Flood("guests, each with a room of the largest rules", 8),
    "stored": Flood("messages of 60 KB to members without a connection", 10),
    "settings": Flood("SETTINGS frames of HTTP/2", 1),
    "streams": Flood("64 streams at once of a path that does not exist, over HTTP/2", 64),
}
BESIDE, MOST = "beside", "most"
LAST = {"settings", "streams"}
"""Floods that cost little to send: a client needs no request for them."""
TOGETHER = {
    MOST: "all of these but the last two at once",
    "all": "all of these at once",
    BESIDE: "the same, but they flood another server on the same core",
}
P99_MS_MAX = 50
"""For honest players, whatever the others do."""
RESIDENT_MIB_MAX = 512
"""A server that has just started takes 90. An address may make it hold some tens more for each kind
of thing that all share (`docs/reference/limits.md`), as far as others have left them free."""
PLAYERS_MIXED, RATE_MIXED, RATE_BOARD, RATE_PAGES = 150, 300, 10, 2
BOARD = ("-body", '{"sort_by":["level"],"limit":10}')
SAMPLE_SECONDS = 0.2
LOOK_SECONDS = 0.02
FLOOD_NICENESS = 19
"""Floods come from elsewhere: here they must not keep the players and Postgres off their core.

That alone does not suffice. Linux's scheduler (EEVDF) lets a program wait that has had more than
its part, until that is made up. Beside nice programs this takes long: a commit waited for half a
second. So the players and Postgres go first, if the user may do that.
"""
FLOOD_SETTINGS = {"http2_clear_from": "127.0.0.0/8"}
"""Three of the floods speak HTTP/2, and the generator no TLS."""


def measure(run: Run) -> str:
    """Measure and tell.

    Raises:
        SystemExit: a part is named that there is not.
    """
    known_parts = (*TOGETHER, *MODES, *FLOODS)
    unknown = run.only - {*known_parts}
    if unknown:
        known = ", ".join(known_parts)
        raise SystemExit(f"no such part of press: {', '.join(unknown)}; known: {known}")
    parts = [measure_connections] if _wants_connections(run) else []
    if not run.only or run.only & {"nobody", *TOGETHER, *FLOODS}:
        parts.append(measure_floods)
    return "\n\n".join(part(run) for part in parts)


def _wants_connections(run: Run) -> bool:
    return bool(run.only & (MODES.keys() - {"nobody"})) if run.only else not run.is_quick


def measure_floods(run: Run) -> str:
    """Let each flood come alone, then all at once."""
    lines = [
        (
            f"{PLAYERS_MIXED} players make {RATE_MIXED} calls a second of all kinds. They look "
            f"{RATE_BOARD} times at a leaderboard, and {RATE_PAGES} times at the reference.\n"
            "Meanwhile another address floods. Limits are the defaults:"
        ),
        "",
        (
            "| flood | sent a second | of these refused | CPU of the server | players' p99 ms "
            "| leaderboard's p99 ms | reference's p99 ms | refused | failed | resident MiB |"
        ),
        "|---" * 10 + "|",
    ]
    found: dict[str, list[Flooded]] = {}
    for name, floods in {
        "nobody": [],
        **{each: [each] for each in FLOODS},
        **{each: [*FLOODS] for each in TOGETHER},
        MOST: [each for each in FLOODS if each not in LAST],
    }.items():
        if not run.wants(name):
            continue
        run.say(name)
        found[name] = [flood(run, floods, is_beside=name == BESIDE) for _ in range(run.rounds)]
        lines.append(_row(name, found[name]))
    held_up = [
        stalls.row(name, (each.held_up for each in rounds)) for name, rounds in found.items()
    ]
    table = ["Of all rounds the most that may have held calls up:", "", stalls.HEADER]
    table += ["|---" * 8 + "|", *held_up]
    return "\n".join([*lines, "", *_verdict(found), "", *table])


def _verdict(found: dict[str, list[Flooded]]) -> list[str]:
    """Say what is asked for, and which floods keep to it, by their medians."""
    found = {name: rounds for name, rounds in found.items() if name != BESIDE} or found
    p99_ms = {
        name: max(statistics.median(each.p99_ms[kind] for each in rounds) for kind in HONEST)
        for name, rounds in found.items()
    }
    bad = sum(each.refused + each.failed for rounds in found.values() for each in rounds)
    resident = max(each.resident_bytes for rounds in found.values() for each in rounds)
    late = [f"{name} ({p99:.0f} ms)" for name, p99 in p99_ms.items() if not p99 <= P99_MS_MAX]
    verdict = f"beyond it: {', '.join(late)}" if late else "in every row"
    return [
        "| asked for | found |",
        "|---|---|",
        f"| p99 of every kind of player at most {P99_MS_MAX} ms | {verdict} |",
        f"| no call of a player refused or failed | {bad:,} |",
        f"| at most {RESIDENT_MIB_MAX} MiB resident | {resident / (1 << 20):.0f} MiB at most |",
        "",
        (
            "The floods run on the core that the players and Postgres share.\n"
            f"Their generators take {_share(found)} of it at most, "
            "and the server's own core is free of them.\n"
            + _tell_order(all(each.goes_first for rounds in found.values() for each in rounds))
        ),
    ]


def _tell_order(goes_first: bool) -> str:  # noqa: FBT001 - the only argument
    """Say who has that core first."""
    if goes_first:
        return "Postgres and the players have it first (`SCHED_RR`)."
    return (
        "Postgres and the players compete with them for it, because this user may not let them go "
        "first.\nSo a commit may wait for its core for hundreds of milliseconds."
    )


def _share(found: dict[str, list[Flooded]]) -> str:
    """Return what part of a core the generators of the floods took at most."""
    return f"{max(each.generator_pct for rounds in found.values() for each in rounds):.0f} %"


def _row(name: str, rounds: list[Flooded]) -> str:
    about = FLOODS[name].about if name in FLOODS else TOGETHER.get(name, "")
    cells = (
        f"{name}: {about}" if about else name,
        spread((each.sent for each in rounds), ",.0f"),
        spread((each.sent_refused for each in rounds), ",.0f"),
        spread((each.cpu_pct for each in rounds), ".0f") + " %",
        *(spread((each.p99_ms[kind] for each in rounds), ".1f") for kind in HONEST),
        f"{sum(each.refused for each in rounds):,}",
        f"{sum(each.failed for each in rounds):,}",
        spread((each.resident_bytes / (1 << 20) for each in rounds), ".0f"),
    )
    return f"| {' | '.join(cells)} |"


HONEST = ("players", "board", "pages")


class Flooded(NamedTuple):
    """The outcome of a flood."""

    sent: float
    """Requests of the flood a second."""
    sent_refused: float
    cpu_pct: float
    p99_ms: dict[str, float]
    refused: int
    """Latency of the players' calls."""
    failed: int
    resident_bytes: int
    generator_pct: float
    """The part of a core that the generators of the floods took."""
    held_up: stalls.Stalls
    goes_first: bool
    """Postgres and the players had their core before the floods."""


def flood(run: Run, names: list[str], *, is_beside: bool) -> Flooded:
    """Flood a fresh server; return what the floods got, and the players.

    With `is_beside`, the players are at another one.
    """
    with ExitStack() as servers:
        opened = partial(processes.greenroom, "greenroom", settings=FLOOD_SETTINGS)
        target = servers.enter_context(opened())
        goes_first = target.postgres_pid is not None and processes.let_go_first(target.postgres_pid)
        victim = servers.enter_context(opened()) if is_beside else target
        key = ("-H", f"X-Api-Token: {target.api_token}", "-H", "Content-Type: application/json")
        processes.request(
            run.program,
            target,
            *("-url", f"{target.url}/api/game_players.php/register", "-method", "POST", *key),
            *("-body", '{"player_name":"player {{seq}}","player_data":{"level":{{rand:100}}}}'),
            *("-n", "100", "-c", "4", "-warmup", "0s"),
        )
        for _ in range(2):  # it is in use, as a game's own board is
            board = (f"{target.url}/api/leaderboard.php", "-method", "POST", *key)
            processes.request(run.program, target, "-url", *board, *BOARD, "-n", "1", "-c", "1")
        begin_seconds = BEGIN_SECONDS_QUICK if run.is_quick else BEGIN_SECONDS
        seconds = run.seconds + 2 * begin_seconds + SET_UP_SECONDS
        most = [0]
        watch = Thread(target=_watch, args=(target, seconds, most))
        watch.start()
        floods = [
            _start(
                *(str(run.program), "press", "-url", victim.url, "-ws", victim.realtime_url),
                *("-key", victim.api_token, "-mode", name, "-c", str(FLOODS[name].connections)),
                *("-rate", str(FLOODS[name].rate), "-from", f"127.0.1.{number}"),
                *("-d", f"{seconds}s"),
                niceness=FLOOD_NICENESS,
            )
            for number, name in enumerate(names, 1)
        ]
        time.sleep(begin_seconds)
        stalls_watch = servers.enter_context(stalls.Watch(target))
        rows = _play(run, target, key)
        held_up = stalls_watch.read_stalls()
        flooded = [json.loads(each.communicate(timeout=120)[0]) for each in floods]
        watch.join()
    generator_seconds = sum(row.get("own_cpu_s", 0.0) for row in flooded)
    statuses = [row["statuses"] for row in flooded]
    p99_ms = {kind: row.get("lat_ms", {}).get("P99", math.nan) for kind, row in rows.items()}
    return Flooded(
        sum(row["sent"] for row in flooded) / seconds,
        sum(each.get("429", 0) for each in statuses) / seconds,
        rows["players"].get("cpu_pct", {}).get("server", math.nan),
        p99_ms,
        sum(_bad(row, is_refused=True) for row in rows.values()),
        sum(_bad(row, is_refused=False) for row in rows.values()),
        most[0],
        100 * generator_seconds / seconds,
        held_up,
        goes_first=goes_first,
    )


def _play(run: Run, target: processes.Target, key: tuple[str, ...]) -> dict[str, Row]:
    """Play; return the row of each kind of player, empty where there was no playing."""
    duration = ("-d", f"{run.seconds}s", "-procs", target.processes)
    crowd = ("-players", str(PLAYERS_MIXED), "-rates", str(RATE_MIXED), "-lobbies=false")
    commands = {
        "players": ("mixed", "-url", target.url, "-key", target.api_token, *crowd),
        "board": (
            *("http", "-url", f"{target.url}/api/leaderboard.php", "-method", "POST", *key),
            *(*BOARD, "-c", "4", "-rate", str(RATE_BOARD)),
        ),
        "pages": (
            *("http", "-url", f"{target.url}/openapi.json", "-c", "2", "-rate", str(RATE_PAGES)),
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        running: dict[str, subprocess.Popen[bytes]] = {}
        for kind, command in commands.items():
            meeting = ("-meet", folder) if kind == "players" else ()
            running[kind] = _start(str(run.program), *command, *duration, *meeting)
            if meeting:
                _await_meeting(Path(folder), running[kind])
        rows: dict[str, Row] = {}
        for kind, process in running.items():
            said, _ = process.communicate(timeout=300)
            rows[kind] = json.loads(said.splitlines()[-1]) if said.strip() else {}
        return rows


def _await_meeting(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the players are set up, so that all are measured at the same time."""
    while process.poll() is None and not any(folder.iterdir()):
        time.sleep(LOOK_SECONDS)


def _bad(row: Row, *, is_refused: bool) -> int:
    """Count what was refused, or else failed; a generator that could not begin failed once."""
    if not row:
        return 0 if is_refused else 1
    counts: dict[str, int] = row.get("errors") or row.get("status") or {}
    bad = {name: count for name, count in counts.items() if not name.startswith("2")}
    return sum(count for name, count in bad.items() if name.startswith("429") == is_refused)


def _start(*command: str, niceness: int = 0) -> subprocess.Popen[bytes]:
    """Start the generator on the other core; unless it is nice, it goes first if it may."""

    def prepare() -> None:
        os.sched_setaffinity(0, {processes.OTHER_CORE})
        if niceness:
            os.nice(niceness)
        else:
            processes.let_go_first(0)

    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        preexec_fn=prepare,  # noqa: PLW1509 - no thread holds a lock that it takes
    )


def _watch(target: processes.Target, seconds: float, most: list[int]) -> None:
    """Note the most memory that the server takes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        most[0] = max(most[0], target.resident_bytes)
        time.sleep(SAMPLE_SECONDS)


def measure_connections(run: Run) -> str:
    """Press with connections."""
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
        if not run.wants(mode):
            continue
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
    "press", "slow, deaf and too many connections; floods", measure, is_default=False, minutes=15
)
