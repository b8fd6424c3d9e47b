"""Counts the instructions of an answer here and in other checkouts, and those of two workers.

Processor time scatters by several per cent on a busy machine. The number of instructions does not:
it hardly depends on what else runs. So it shows what a change costs, down to one per cent. What
it does not show are waits for memory and the kernel's share. Loads that have a rate need a quiet
machine all the same: else fewer of their calls and messages arrive together.

The server runs under callgrind, which makes it some 50 times slower, and its clocks are slowed as
much (`slow_clock.py`). So loads that are a fiftieth of those of other scenarios keep it as busy.
Callgrind counts while a load runs, and not before. Each round starts each server anew.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import arenas
import callgrind
import climbs
import crew_costs
import endpoints
import machine
import pairs
import processes
import relays
from pairs import HERE, Costs, Side
from scenario import Run, Scenario, spread

CREW = "crew"
"""The name of the part that `crew_costs.py` counts."""
AT_ONCE = 3
"""Servers that are counted at a time: it does not disturb."""
CALLS, PLAYERS = 1_000, 200
MIXED_PLAYERS, MIXED_RATE = 60, 30
RELAY_ROOMS, ARENA_ROOMS = 30, 20
RATE = climbs.RATE / callgrind.SLOWNESS
SECONDS = 15
"""The length of the loads that have a rate."""
DELIVERED_MIN = 0.7
"""The last messages arrive too late to be seen."""


@dataclass(frozen=True)
class Kind:
    """One kind of load."""

    name: str
    load: Callable[[Run, Side], float]
    """Loads a server; returns how many answers it gave."""
    prepare: Callable[[Run, Side], object] = lambda _run, _side: None
    """Called before anything is counted."""
    arguments: tuple[str, ...] = ()
    """The server's."""


def measure(run: Run) -> str:
    """Measure and tell.

    Raises:
        SystemExit: there is no callgrind, or nothing to compare with.
    """
    callgrind.require()
    checkouts = {HERE: processes.ROOT} | {machine.commit(each): each for each in run.against}
    wanted = [kind for kind in KINDS if run.wants(kind.name)]
    if wanted and not run.against:
        raise SystemExit(
            f"name another checkout to compare with by --against, or count --only {CREW}"
        )
    tables = [count_kinds(run, wanted, checkouts)] if wanted else []
    if run.wants(CREW):
        tables.append(crew_costs.measure(run, checkouts))
    return "\n\n".join(map("\n".join, tables))


def count_kinds(run: Run, wanted: Sequence[Kind], checkouts: Mapping[str, Path]) -> list[str]:
    """Count the answers of one process; return the results, line by line."""
    found: dict[str, Costs] = {kind.name: {name: [] for name in checkouts} for kind in wanted}

    def count_all(name: str) -> None:
        for arguments, kinds in groupby(wanted, lambda kind: kind.arguments):
            for kind, cost in count(run, name, checkouts[name], arguments, kinds):
                run.say(f"{name}: {kind.name} {cost / 1e3:,.1f}")
                found[kind.name][name].append(cost)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        deque(pool.map(count_all, [*checkouts] * run.rounds), maxlen=0)  # raises what they raise
    return report(found, [*checkouts][1:])


def count(
    run: Run, name: str, checkout: Path, arguments: Sequence[str], kinds: Iterable[Kind]
) -> Iterator[tuple[Kind, float]]:
    """Give each kind, and the instructions of an answer."""
    with serve(name, checkout, arguments) as side:
        counts = callgrind.Counts(side.folder, [side.target.pid])
        for kind in kinds:
            kind.prepare(run, side)
            with counts.counting():
                answers = kind.load(run, side)
            yield kind, counts.instructions / answers


@contextmanager
def serve(name: str, checkout: Path, arguments: Sequence[str]) -> Iterator[Side]:
    """Run the server of a checkout under callgrind, which does not count yet."""
    with (
        processes.fresh_folder() as folder,
        tempfile.TemporaryDirectory() as files,
        processes.serve(
            folder,
            "greenroom",
            *arguments,
            program=(str(callgrind.SLOW_CLOCK), str(callgrind.SLOWNESS), "greenroom"),
            has_all_cores=True,
            checkout=checkout,
            under=(*callgrind.ENVIRONMENT, *callgrind.command(Path(files))),
        ) as target,
    ):
        yield Side(name, target, Path(files))


def enrol(run: Run, side: Side) -> None:
    """Register the players who then call, and let them call."""
    save = ["-save", '"private_key":"([^"]+)"', "-save-out", pairs.tokens(side)]
    register = endpoints.register(side.target.url)
    pairs.request(run, side, *register, "-n", str(PLAYERS), "-warmup", "0s", *save)
    send(endpoints.UPDATE, PLAYERS)(run, side)


def send(name: str, calls: int = CALLS) -> Callable[[Run, Side], float]:
    """Return the load of one of the calls of `endpoints`."""

    def load(run: Run, side: Side) -> float:
        known = dict(endpoints.scenarios(side.target.url, pairs.tokens(side), "greenroom"))
        pairs.request(run, side, *known[name], "-n", str(calls), "-warmup", "0s")
        return calls

    return load


def play(run: Run, side: Side) -> float:
    """Let a crowd play as in `mixed`; it registers and sits down first, which is counted, too."""
    arguments = ["-url", side.target.url, "-key", side.target.api_token]
    arguments += ["-players", str(MIXED_PLAYERS), "-rates", str(MIXED_RATE)]
    timed = ["-d", f"{SECONDS}s", "-warmup", "0s"]
    (row,) = processes.load(run.program, side.target, "mixed", *arguments, *timed)
    return float(row["rps"]) * SECONDS


def exchange(relay: relays.Relay, rooms: int, *arguments: str) -> Callable[[Run, Side], float]:
    """Return the load of members who send."""

    def load(run: Run, side: Side) -> float:
        steady = ("-rate", str(RATE), "-d", f"{SECONDS}s", "-warmup", "0s")
        row = pairs.exchange(relay, rooms, *arguments, *steady)(run, side)
        if row["delivered_ratio"] < DELIVERED_MIN:
            raise SystemExit(f"{side.name} was too slow: {row['delivered_ratio']} of all arrived")
        sent_per_s = float(row["delivered_per_s"]) / float(row["delivered_ratio"])
        return sent_per_s * SECONDS

    return load


def report(found: Mapping[str, Costs], others: Sequence[str]) -> list[str]:
    """Return the results, line by line."""
    heads = ("thousand instructions of an answer", HERE, *(f"ratio to {each}" for each in others))
    return [
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
        *(line(name, costs, others) for name, costs in found.items()),
        "",
        "The server's own process is counted, without its Postgres and without the kernel. Ratios",
        "are those of medians; in brackets, all rounds against all. Below 1 is cheaper here. Other",
        "work on the machine hardly changes these figures. Loads that have a rate (`mixed`,",
        "`relay`, `arenas`) need a quiet one: else fewer calls and messages arrive together.",
    ]


def line(name: str, costs: Costs, others: Sequence[str]) -> str:
    """Return a line of the table."""
    cells = [spread((cost / 1e3 for cost in costs[HERE]), ",.1f")]
    for other in others:
        ratio = statistics.median(costs[HERE]) / statistics.median(costs[other])
        low, high = min(costs[HERE]) / max(costs[other]), max(costs[HERE]) / min(costs[other])
        cells.append(f"{ratio:.3f} ({low:.3f} to {high:.3f})")
    return f"| {name} | {' | '.join(cells)} |"


KINDS = (
    Kind("get", send(endpoints.GET), enrol),
    Kind("update", send(endpoints.UPDATE)),
    Kind("register", send(endpoints.REGISTER)),
    Kind("mixed", play),
    Kind(
        "relay",
        exchange(relays.GREENROOM, RELAY_ROOMS),
        pairs.seat(relays.GREENROOM, RELAY_ROOMS),
    ),
    Kind(
        "arenas",
        exchange(arenas.GREENROOM, ARENA_ROOMS, "-own"),
        pairs.seat(arenas.GREENROOM, ARENA_ROOMS),
        arenas.ARGUMENTS,
    ),
)
SCENARIO = Scenario(
    "instructions",
    "how many an answer costs, of two workers, and beside other checkouts (--against)",
    measure,
    is_default=False,
    minutes=20,
)
