"""A crowd arrives: everybody fetches a token, connects, and waits for the first message.

All have their seats before (on Colyseus the reservation of the seat is the token), and all stay
until the last is in.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import colyseus
import node
import processes
import seats
from charts import Bars
from scenario import Run, Scenario, spread

ROOMS, MEMBERS = 500, 8
AT_ONCE = 32

Row = dict[str, Any]
Ask = Callable[[Run, processes.Target, Path], list[str]]


def ask_greenroom(run: Run, target: processes.Target, folder: Path) -> list[str]:
    """Seat players; return the generator's arguments with which each of them joins."""
    file = folder / "players"
    file.write_text("\n".join(seats.fill(run, target, folder, ROOMS, MEMBERS)) + "\n")
    return [
        *("-ask", f"{target.url}/api/realtime.php/token", "-creds", str(file)),
        *("-ask-H", f"X-Api-Token: {target.api_token}"),
        *("-ask-H", "X-Game-Player-Token: {{cred}}", "-ask-save", seats.field("token")),
        *("-url", target.realtime_url, "-H", "X-Realtime-Token: {{cred}}", "-hello-reply", "."),
    ]


def ask_colyseus(_run: Run, target: processes.Target, _folder: Path) -> list[str]:
    """Return the generator's arguments with which everybody joins some room."""
    return [
        *("-ask", f"{target.url}/matchmake/joinOrCreate/relay"),
        *("-ask-body", f'{{"members":{MEMBERS}}}', "-ask-H", "Content-Type: application/json"),
        *("-ask-save", colyseus.SEAT),
        *colyseus.greet(target, "{{cred3}}/{{cred2}}", "{{cred1}}"),
    ]


def measure(run: Run) -> str:
    """Measure and tell."""
    servers: dict[str, tuple[Callable[[], AbstractContextManager[processes.Target]], Ask]] = {
        "greenroom": (lambda: processes.greenroom("greenroom"), ask_greenroom)
    }
    if missing := node.missing():
        run.say(f"Colyseus is left out: {missing}")
    else:
        servers["Colyseus"] = (colyseus.start, ask_colyseus)
    found: dict[str, list[Row]] = {}
    for number in range(1, run.rounds + 1):
        for name, (start, ask) in servers.items():
            run.say(f"round {number} of {run.rounds}: {name}")
            found.setdefault(name, []).append(join(run, start, ask))
    rates = {name: [row["joins_per_s"] for row in rows] for name, rows in found.items()}
    run.draw(Bars("joins a second, one core", "joins/s", {"": rates}))
    lines = [
        f"{ROOMS * MEMBERS:,} players in rooms of {MEMBERS}, {AT_ONCE} joining at a time; a join",
        "is a token over HTTP, a WebSocket handshake, and the first message. Their seats are taken",
        "before; on Colyseus the reservation of a seat is the token.",
        "",
        "| server | joins a second | CPU µs a join | median ms | p99 ms |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {spread(rates[name])} "
        f"| {spread(r['cpu_pct']['server'] * 1e4 / r['joins_per_s'] for r in rows)} "
        f"| {spread((row['lat_ms']['P50'] for row in rows), '.1f')} "
        f"| {spread((row['lat_ms']['P99'] for row in rows), '.1f')} |"
        for name, rows in found.items()
    ]
    return "\n".join([*lines, "", f"{node.versions()}."])


def join(run: Run, start: Callable[[], AbstractContextManager[processes.Target]], ask: Ask) -> Row:
    """Let all join a new server; return the generator's row."""
    with tempfile.TemporaryDirectory() as folder, start() as target:
        arguments = ask(run, target, Path(folder))
        count = ["-n", str(ROOMS * MEMBERS), "-c", str(AT_ONCE)]
        (row,) = processes.load(run.program, target, "join", *arguments, *count)
    return row


SCENARIO = Scenario("join-rate", "token, connection and first message, joins a second", measure)
