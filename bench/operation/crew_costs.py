"""Counts the instructions of an answer of one process, and of two workers together.

If connections move, the worker of its game has each of them after its first call. If they stay,
each takes players of both workers in turn, so exactly every second call is forwarded. That is
compared with one process whose connections take two players in turn: it has the same load. Each
worker has as many connections as one process alone. With fewer it would have fewer calls in a pass
and fewer changes in a commit, which is no cost of the cluster. What a connection costs at its
beginning is left out: there is a short load and a long one, and the difference of the two is told.
What servers do while nobody calls is counted in a pause and taken off: on a busy machine a load
takes longer, and would have more of it.

As in `instructions`, the server is slow, and so are its clocks. Here leases last longer by as much,
and so does each commit: Postgres waits before it. So a commit has as many changes as otherwise.
"""

from __future__ import annotations

import shlex
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import answers
import callgrind
import crew
import departures
import processes
import psycopg
from scenario import Run, spread

COMMIT_SECONDS: Final = 0.001
"""The time that Postgres takes for a commit, about."""
SHORT, LONG = 512, 2_048
"""Calls of the two loads, for each worker."""
ONE, ONE_BY_TURNS = "one process", "one process, two players a connection"
MOVED, FORWARDED = "two workers", "two, every second forwarded"


class Way(NamedTuple):
    """One way to serve."""

    workers: int
    settings: dict[str, str]
    players: int
    """Each connection takes so many in turn."""
    base: str
    """The way that it is compared with: it has the same load."""


WAYS: Final = {
    ONE: Way(1, {}, 1, ONE),
    ONE_BY_TURNS: Way(1, {}, 2, ONE_BY_TURNS),
    MOVED: Way(2, {}, 1, ONE),
    FORWARDED: Way(2, departures.STAY, 2, ONE_BY_TURNS),
}
GAMES: Final = 2
"""One on each worker."""
SLOW_POSTGRES: Final = (
    f"ALTER SYSTEM SET commit_delay = {COMMIT_SECONDS * callgrind.SLOWNESS * 1e6:.0f}",
    "ALTER SYSTEM SET commit_siblings = 0",
    "SELECT pg_reload_conf()",
    f"""
    CREATE FUNCTION lengthen_lease() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.lease := NEW.lease * {callgrind.SLOWNESS};
        NEW.lease_until := clock_timestamp() + NEW.lease;
        RETURN NEW;
    END
    $$
    """,
    "CREATE TRIGGER slow BEFORE INSERT ON nodes FOR EACH ROW EXECUTE FUNCTION lengthen_lease()",
)

IDLE_SECONDS: Final = 5.0
"""The length of the pause that is counted."""


class Counted(NamedTuple):
    """The count of a load or a pause."""

    instructions: float
    seconds: float


Costs = Mapping[tuple[str, str, str], Sequence[float]]
"""Instructions of an answer in each round, by checkout, call and way."""


def measure(run: Run, checkouts: Mapping[str, Path]) -> list[str]:
    """Count all ways by turns; return the results, line by line."""
    costs: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for _ in range(run.rounds):
        for name, checkout in checkouts.items():
            for way in WAYS:
                for call, cost in count_way(run, checkout, way):
                    run.say(f"{name}, {way}: {call} {cost / 1e3:,.1f}")
                    costs[name, call, way].append(cost)
    return report(costs, [*checkouts])


def count_way(run: Run, checkout: Path, way: str) -> Iterator[tuple[str, float]]:
    """Give each call, and the instructions of an answer."""
    workers, settings, players, _ = WAYS[way]
    with processes.fresh_folder() as folder, tempfile.TemporaryDirectory() as files:
        with processes.serve(folder, has_all_cores=True, checkout=checkout):
            slow_postgres(processes.database_url(folder))
        with serve(folder, Path(files), checkout, workers, settings) as server:
            pids = [node.pid for node in server.nodes()] or [server.target.pid]
            counts = callgrind.Counts(Path(files), pids)
            callers = answers.enrol_all(run, server, server.games(GAMES), folder)
            turns = ("-cred-turns", str(players))
            for call, arguments in answers.calls(server.target.url):
                request = [*arguments, *answers.heads(callers), *turns]
                send = partial(_send, run, server.target, request, workers)
                send(SHORT)
                yield call, _count(counts, send, workers)


def slow_postgres(url: str) -> None:
    """Have commits take longer, and leases of nodes last longer."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in SLOW_POSTGRES:
            connection.execute(statement.encode())


@contextmanager
def serve(
    folder: Path, files: Path, checkout: Path, workers: int, settings: dict[str, str]
) -> Iterator[crew.BenchCrew]:
    """Run a server whose workers are under callgrind, or that is itself if it has none."""
    under = callgrind.command(files)
    several = ("--workers", str(workers)) if workers > 1 else ()
    with processes.serve(
        folder,
        "greenroom",
        *several,
        program=(str(callgrind.SLOW_CLOCK), str(callgrind.SLOWNESS), "greenroom"),
        settings=processes.SETTINGS | crew.WHOLE_GAMES | settings,
        has_all_cores=True,
        checkout=checkout,
        under=(
            *callgrind.ENVIRONMENT,
            *((f"SLOW_WORKERS_UNDER={shlex.join(under)}",) if workers > 1 else under),
        ),
    ) as target:
        yield crew.BenchCrew(target, folder, workers)


def _count(counts: callgrind.Counts, send: Callable[[int], object], workers: int) -> float:
    """Return the instructions of an answer."""
    idle = _measure(counts, partial(time.sleep, IDLE_SECONDS))
    short, long = (_measure(counts, partial(send, calls)) for calls in (SHORT, LONG))
    return cost_of(idle, short, long) / workers  # each has made so many calls


def _measure(counts: callgrind.Counts, load: Callable[[], object]) -> Counted:
    with counts.counting():
        began = time.monotonic()
        load()
        seconds = time.monotonic() - began
    return Counted(counts.instructions, seconds)


def cost_of(idle: Counted, short: Counted, long: Counted) -> float:
    """Return the instructions of an answer, out of those of two loads and of a pause."""
    per_second = idle.instructions / idle.seconds
    first, second = (each.instructions - per_second * each.seconds for each in (short, long))
    return (second - first) / (LONG - SHORT)


def _send(
    run: Run, target: processes.Target, request: Sequence[str], workers: int, calls: int
) -> None:
    """Make so many calls for each worker."""
    many = ("-c", str(answers.CONNECTIONS * workers), "-n", str(calls * workers))
    processes.request(run.program, target, *request, *many)


def report(costs: Costs, checkouts: Sequence[str]) -> list[str]:
    """Return the results, line by line."""
    heads = ["call", "what"]
    heads += [
        head
        for name in checkouts
        for head in (f"thousand instructions of an answer, {name}", "ratio to one process")
    ]
    rows = [
        [call, way, *(cell for name in checkouts for cell in _cells(costs, name, call, way))]
        for call in dict.fromkeys(call for _, call, _ in costs)
        for way in WAYS
    ]
    return [
        f"| {' | '.join(heads)} |",
        "|---" * len(heads) + "|",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
        f"{answers.CONNECTIONS} connections for each process that answers, in a closed loop: so a",
        "pass and a commit have as many calls everywhere. All workers are counted together,",
        "without their parent, Postgres and the kernel. A ratio is that of medians, to one process",
        "with as many players a connection. Left out is what a connection costs at its beginning,",
        "and what a server does while nobody calls.",
    ]


def _cells(costs: Costs, name: str, call: str, way: str) -> list[str]:
    """Return the figure of a checkout, and its ratio."""
    found, base = costs[name, call, way], costs[name, call, WAYS[way].base]
    ratio = statistics.median(found) / statistics.median(base)
    return [spread((cost / 1e3 for cost in found), ",.1f"), f"{ratio:.3f}"]
