"""Measure what members of rooms of one game tell each other, on one process and on workers.

Open loop, first with rooms that all servers bear, then with more than two cores do. The rooms are
those of `relay` and `arenas`. A member connects to the worker that has their room, as their token
says. Where connections stay, members of a room are connected to all workers in turn.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import answers
import arenas
import climbs
import processes
import relays
import seats
from comparison import Figure
from scenario import Run


@dataclass(frozen=True)
class Exchange:
    """One kind of rooms."""

    name: str
    relay: relays.Relay
    rooms: tuple[int, int]
    """How many all bear, and how many are too many."""
    load: tuple[str, ...] = ()
    """Arguments of the generator."""
    arguments: tuple[str, ...] = ()
    """The server's."""

    def name_step(self, rooms: int) -> str:
        """Return what a step is called."""
        return f"{self.name}, {rooms} rooms"


EXCHANGES: Final = (
    Exchange("relay", relays.GREENROOM, (100, 400)),
    Exchange("arenas", arenas.GREENROOM, (60, 350), ("-own",), arenas.ARGUMENTS),
)
QUICK_SHARE: Final = 10
"""With `--quick` there are so many times fewer."""


def measure(run: Run, way: answers.Way, exchange: Exchange) -> answers.Answers:
    """Measure both steps."""
    rooms = [count // (QUICK_SHARE if run.is_quick else 1) for count in exchange.rooms]
    with way.start(exchange.arguments) as (server, folder):
        target = copy(server.target)
        target.api_token = server.spread_game().key
        wanted = seats.TOKEN_AND_PORT
        tokens = seats.take(run, target, folder, rooms[-1], climbs.MEMBERS, wanted=wanted)
        if way.stays:
            tokens.write_text(scatter(tokens.read_text()))
        (result,) = processes.load(run.program, target, *_arguments(run, exchange, rooms, tokens))
    for count, row in zip(exchange.rooms, result["steps"], strict=False):
        cpu_seconds = answers.cpu_seconds(row)
        late_ms = row["lat_ms"]["P99"]
        if row["closed_by_server"]:
            run.say(f"{row['closed_by_server']} connections were closed by the server")
        figure = Figure.of(row["delivered_per_s"], cpu_seconds, late_ms)
        yield exchange.name_step(count), figure


def _arguments(run: Run, exchange: Exchange, rooms: list[int], tokens: Path) -> list[str]:
    """Return the generator's arguments."""
    return [
        *("relay", "-players", str(climbs.MEMBERS), "-rate", str(climbs.RATE)),
        *("-size", str(climbs.BYTES), "-d", f"{run.seconds}s", "-warmup", "2s"),
        *("-send", exchange.relay.message, "-rooms", ",".join(map(str, rooms)), *exchange.load),
        *("-url", "ws://127.0.0.1:{{cred2}}/realtime", "-stop-lost=false"),
        *("-H", "X-Realtime-Token: {{cred1}}", "-creds", str(tokens)),
    ]


def scatter(lines: str) -> str:
    """Return tokens with the ports of all workers in turn, in place of those of their rooms."""
    seats_taken = [line.split("\t") for line in lines.splitlines()]
    ports = sorted(Counter(port for _, port in seats_taken))
    return "".join(
        f"{token}\t{ports[number % len(ports)]}\n" for number, (token, _) in enumerate(seats_taken)
    )
