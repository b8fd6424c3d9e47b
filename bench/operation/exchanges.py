"""Measure what members of rooms of one game tell each other, on one process and on workers.

Open loop, first with rooms that all servers bear, then with more than two cores do. The rooms are
those of `relay` and `arenas`. A member connects to the worker that has their room, as their token
says. Where connections stay, members of a room are connected to all workers in turn.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import answers
import arenas
import climbs
import processes
import relays
import seats
from comparison import Figure
from scenario import Run

QUICK_SHARE: Final = 10
"""The factor by which rooms are fewer with `--quick`."""


@dataclass(frozen=True)
class Exchange:
    """One kind of rooms."""

    name: str
    relay: relays.Relay
    rooms: tuple[int, int]
    """How many all servers bear, and how many are too many."""
    load: tuple[str, ...] = ()
    """Arguments of the generator."""
    arguments: tuple[str, ...] = ()
    """The server's."""

    def list_steps(self, run: Run) -> dict[str, int]:
        """Return the rooms of each step, by what it is called."""
        share = QUICK_SHARE if run.is_quick else 1
        return {f"{self.name} ({rooms // share} rooms)": rooms // share for rooms in self.rooms}


EXCHANGES: Final = (
    Exchange("relay", relays.GREENROOM, (100, 400)),
    Exchange("arenas", arenas.GREENROOM, (60, 350), ("-own",), arenas.ARGUMENTS),
)


def list_calm(run: Run) -> tuple[str, ...]:
    """Return the steps that all servers bear: there the wall clock tells nothing."""
    return tuple(next(iter(exchange.list_steps(run))) for exchange in EXCHANGES)


def measure(run: Run, way: answers.Way, exchange: Exchange) -> answers.Answers:
    """Measure both steps."""
    steps = exchange.list_steps(run)
    rooms = [*steps.values()]
    with way.start(exchange.arguments) as (server, folder):
        target = copy(server.target)
        target.api_token = server.spread_game().key
        wanted = seats.TOKEN_AND_PORT
        tokens = seats.take(run, target, folder, rooms[-1], climbs.MEMBERS, wanted=wanted)
        if way.stays:
            tokens.write_text(scatter(tokens.read_text()))
        at = urlsplit(target.realtime_url)
        url = at._replace(netloc=f"{at.hostname}:{{{{cred2}}}}").geturl()
        (result,) = processes.load(
            run.program, target, *_arguments(run, exchange, rooms, url, tokens)
        )
    for name, row in zip(steps, result["steps"], strict=False):
        cpu_seconds, late_ms = answers.cpu_seconds(row), row["lat_ms"]["P99"]
        lost = row["closed_by_server"]
        yield name, Figure.of(row["delivered_per_s"], cpu_seconds, late_ms, lost)


def _arguments(run: Run, exchange: Exchange, rooms: list[int], url: str, tokens: Path) -> list[str]:
    """Return the generator's arguments."""
    return [
        *("relay", "-players", str(climbs.MEMBERS), "-rate", str(climbs.RATE)),
        *("-size", str(climbs.BYTES), "-d", f"{run.seconds}s", "-warmup", "2s"),
        *("-send", exchange.relay.message, "-rooms", ",".join(map(str, rooms)), *exchange.load),
        *("-url", url, "-stop-lost=false"),
        *("-H", "X-Realtime-Token: {{cred1}}", "-creds", str(tokens)),
    ]


def scatter(lines: str) -> str:
    """Return tokens with the ports of all workers in turn, in place of those of their rooms."""
    seats_taken = [line.split("\t") for line in lines.splitlines()]
    ports = sorted({port for _, port in seats_taken})
    return "".join(
        f"{token}\t{ports[number % len(ports)]}\n" for number, (token, _) in enumerate(seats_taken)
    )
