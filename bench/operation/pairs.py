"""Compares the cost of an answer here and in other checkouts, whose servers take turns.

The machine is at times half as fast as at others, so two runs differ by more than two commits do.
Here the servers of all checkouts run side by side. Each round loads one after the other, and every
second round goes the other way round. What is compared is the processor time of the server's own
process for an answer, with that of the other checkout in the same round.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import arenas
import endpoints
import machine
import mixed
import processes
import relays
from climbs import BYTES, MEMBERS, RATE, Row
from scenario import Run, Scenario, spread

HERE = "here"
WARM_UP_SECONDS = 1
RELAY_ROOMS = 120
ARENA_ROOMS = 60
"""With so many rooms the server uses a good half of its core."""

Costs = dict[str, list[float]]
"""Microseconds of each round, by checkout."""


@dataclass(frozen=True)
class Side:
    """The server of one checkout."""

    name: str
    target: processes.Target
    folder: Path
    """For the generator's files."""


@dataclass(frozen=True)
class Kind:
    """One kind of load."""

    name: str
    load: Callable[[Run, Side], Row]
    """Loads a server; returns the generator's row."""
    answers: str = "rps"
    """The figure of that row that is the number of answers a second."""
    prepare: Callable[[Run, Side], object] = lambda _run, _side: None
    """Called once for each server."""
    arguments: tuple[str, ...] = ()
    """The server's."""


def measure(run: Run) -> str:
    """Measure and tell."""
    if not run.against:
        raise SystemExit("pairs compares with other checkouts: name one by --against CHECKOUT")
    checkouts = {HERE: processes.ROOT} | {machine.commit(each): each for each in run.against}
    wanted = [kind for kind in KINDS if run.wants(kind.name)]
    found: dict[str, Costs] = {}
    for arguments, kinds in groupby(wanted, lambda kind: kind.arguments):
        with ExitStack() as stack:
            sides = [
                stack.enter_context(serve(name, checkout, arguments))
                for name, checkout in checkouts.items()
            ]
            found |= {kind.name: rounds(run, kind, sides) for kind in kinds}
    return "\n".join(report(found, [*checkouts][1:]))


@contextmanager
def serve(name: str, checkout: Path, arguments: Sequence[str]) -> Iterator[Side]:
    """Run the server of a checkout."""
    with (
        processes.fresh_folder() as folder,
        processes.serve(folder, "greenroom", *arguments, checkout=checkout) as target,
        tempfile.TemporaryDirectory() as files,
    ):
        yield Side(name, target, Path(files))


def rounds(run: Run, kind: Kind, sides: Sequence[Side]) -> Costs:
    """Load each server once a round."""
    costs: Costs = {side.name: [] for side in sides}
    for side in sides:
        kind.prepare(run, side)
    for number in range(run.rounds):
        run.say(f"{kind.name}, round {number + 1} of {run.rounds}")
        for side in sides if number % 2 else reversed(sides):
            row = kind.load(run, side)
            costs[side.name].append(own_cpu_pct(side.target, row) * 1e4 / row[kind.answers])
    return costs


def own_cpu_pct(target: processes.Target, row: Row) -> float:
    """Return the share of a core that a server used without its Postgres."""
    cpu = row["cpu_pct"]
    return float(cpu["server"] - cpu["postgres"] * target.has_postgres_below)


def tokens(side: Side) -> str:
    """Return the file of the tokens of a server's players."""
    return str(side.folder / "tokens")


def request(run: Run, side: Side, *arguments: str) -> Row:
    """Send requests, as `endpoints` does."""
    key = ("-H", f"X-Api-Token: {side.target.api_token}", "-H", "Content-Type: application/json")
    connections = ("-c", str(endpoints.CONNECTIONS))
    return processes.request(run.program, side.target, *connections, *key, *arguments)


def enrol(run: Run, side: Side) -> None:
    """Register the players who then call."""
    request(run, side, *endpoints.enrol(side.target.url, tokens(side)))


def call(name: str) -> Callable[[Run, Side], Row]:
    """Return the load of one of the calls of `endpoints`."""

    def load(run: Run, side: Side) -> Row:
        calls = dict(endpoints.scenarios(side.target.url, tokens(side), "greenroom"))
        timed = ("-d", f"{run.seconds}s", "-warmup", "300ms")
        return request(run, side, *calls[name], *timed)

    return load


def play(run: Run, side: Side) -> Row:
    """Let the crowd of `mixed` play."""
    (row,) = mixed.climb(
        run, side.target, (mixed.RATE,), with_lobbies=True, warm_up_seconds=WARM_UP_SECONDS
    )
    return row


def seat(relay: relays.Relay, rooms: int) -> Callable[[Run, Side], None]:
    """Return what seats the members of so many rooms, and keeps how they connect."""

    def prepare(run: Run, side: Side) -> None:
        arguments = relay.enter(run, side.target, side.folder, rooms, MEMBERS)
        (side.folder / "connect").write_text("\n".join(arguments))

    return prepare


def exchange(relay: relays.Relay, rooms: int, *arguments: str) -> Callable[[Run, Side], Row]:
    """Return the load of members who send."""

    def load(run: Run, side: Side) -> Row:
        (result,) = processes.load(
            run.program,
            side.target,
            "relay",
            *("-players", str(MEMBERS), "-rate", str(RATE), "-size", str(BYTES)),
            *("-d", f"{run.seconds}s", "-warmup", f"{WARM_UP_SECONDS}s", "-send", relay.message),
            *(side.folder / "connect").read_text().split("\n"),
            *("-rooms", str(rooms), *arguments),
        )
        (row,) = result["steps"]
        return dict(row)

    return load


def report(found: Mapping[str, Costs], others: Sequence[str]) -> list[str]:
    """Return the results, line by line."""
    heads = ("µs of an answer", HERE, *(f"{each}, ratio to it" for each in others))
    return [
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
        *(line(name, costs, others) for name, costs in found.items()),
        "",
        "Each figure is the processor time of the server's own process, without its Postgres.",
        "For relay and arenas an answer is a message that arrives at a member. A ratio is the",
        "median of those of all rounds, with the lowest and the highest; below 1 is cheaper here.",
    ]


def line(name: str, costs: Costs, others: Sequence[str]) -> str:
    """Return a line of the table."""
    cells = [spread(costs[HERE], ".1f")]
    for other in others:
        ratios = [ours / theirs for ours, theirs in zip(costs[HERE], costs[other], strict=True)]
        cells.append(f"{statistics.median(costs[other]):.1f}; {spread(ratios, '.3f')}")
    return f"| {name} | {' | '.join(cells)} |"


KINDS = (
    Kind("get", call(endpoints.GET), prepare=enrol),
    Kind("update", call(endpoints.UPDATE), prepare=enrol),
    Kind("register", call(endpoints.REGISTER)),
    Kind("mixed", play),
    Kind(
        "relay",
        exchange(relays.GREENROOM, RELAY_ROOMS),
        "delivered_per_s",
        seat(relays.GREENROOM, RELAY_ROOMS),
    ),
    Kind(
        "arenas",
        exchange(arenas.GREENROOM, ARENA_ROOMS, "-own"),
        "delivered_per_s",
        seat(arenas.GREENROOM, ARENA_ROOMS),
        arenas.ARGUMENTS,
    ),
)
SCENARIO = Scenario(
    "pairs",
    "what an answer costs, beside other checkouts (--against)",
    measure,
    is_default=False,
    minutes=8,
)
