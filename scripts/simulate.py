"""Simulate clusters of three nodes, each drawn from one seed, under faults of all kinds.

Every run is one process's trio run on a clock that jumps. So minutes of a cluster's life take
seconds, and a seed makes the same run again. Ends with status 0 if every check held in every run;
else with 1, and says which seeds failed, and how.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *map(str, (ROOT / "tests" / "support").glob("**/"))]

from sim_cluster import PARTITIONS  # noqa: E402 (found by the line above)
from sim_faults import FAULTS  # noqa: E402
from sim_mutations import MUTATIONS  # noqa: E402
from sim_run import SECONDS, run_seed  # noqa: E402

SEEDS = 100
PROGRESS_SEEDS = 50
"""After how many seeds a line says how far it is."""
SEEDS_A_MUTATION = 20
"""A defect must be found within so many seeds."""

Job = tuple[int, float, tuple[str, ...], str | None, int | None]
"""A seed, seconds of faults, the faults, the defect to plant, and the partitions of a game."""
Outcome = tuple[int, dict[str, Any], str | None]
"""A seed, what its run was like, and how it failed."""


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    given = _parser().parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets of strings depends on it
        fixed = os.environ | {"PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.argv], fixed)  # noqa: S606 - this script
    first = random.SystemRandom().randrange(10**6) if given.first is None else given.first
    print(f"first seed {first}", flush=True)
    with get_context("spawn").Pool(given.processes, maxtasksperchild=20) as pool:
        if given.prove:
            return prove(pool, first, given)
        return search(pool, first, given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many (default: {SEEDS})")
    parser.add_argument("--first", type=int, help="the first of them; drawn and printed by default")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of simulated faults")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=[], help="only these")
    parser.add_argument(
        "--partitions", type=int, choices=PARTITIONS, help="of each game (default: by the seed)"
    )
    parser.add_argument("--mutation", choices=MUTATIONS, help="plant a defect that must be found")
    parser.add_argument(
        "--prove", action="store_true", help="plant each defect, and show which checker finds it"
    )
    parser.add_argument("--processes", type=int, default=1, help="runs at the same time")
    parser.add_argument("--digests", action="store_true", help="print a digest of each run")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write what happens there")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report there, too")
    return parser


def search(pool: Pool, first: int, given: argparse.Namespace) -> int:
    """Run seeds; return 0 if nothing was found."""
    began = time.monotonic()
    seeds = range(first, first + given.seeds)
    faults, partitions = tuple(given.faults), given.partitions
    jobs: list[Job] = [(s, given.seconds, faults, given.mutation, partitions) for s in seeds]
    outcomes = []
    for outcome in [one(jobs[0], given.trace)] if given.trace else pool.imap(one, jobs):
        outcomes.append(outcome)
        if given.digests:
            print(f"seed {outcome[0]}: {outcome[1].get('digest')}", flush=True)
        if outcome[2] is not None:
            print(f"seed {outcome[0]}: {outcome[2]}", flush=True)
        if len(outcomes) % PROGRESS_SEEDS == 0:
            failed = sum(failure is not None for _, _, failure in outcomes)
            took = time.monotonic() - began
            print(
                f"{len(outcomes)} of {len(jobs)} seeds, {failed} failed, {took:.0f} s", flush=True
            )
    text = report(first, given.seconds, outcomes, time.monotonic() - began)
    print(text)
    if given.report is not None:
        given.report.write_text(text)
    return 1 if any(failure for _, _, failure in outcomes) else 0


def prove(pool: Pool, first: int, given: argparse.Namespace) -> int:
    """Plant every defect; return 0 if each was found by its checker."""
    wanted = [given.mutation] if given.mutation else [*MUTATIONS]
    found = []
    for each in pool.imap(partial(find, first=first, seconds=given.seconds), wanted):
        found.append(each)
        print(*each, flush=True)
    lines = [
        "# Defects that were planted in the simulation",
        "",
        "| defect | checker | seed | what it said |",
        "|---|---|---|---|",
    ]
    for name, checker, seed, failure in found:
        lines.append(f"| {name}: {MUTATIONS[name].what} | {checker} | {seed} | {failure} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if given.report is not None:
        given.report.write_text(text)
    return 0 if all(failure.startswith(name) for _, name, _, failure in found) else 1


def find(mutation: str, first: int, seconds: float) -> tuple[str, str, int, str]:
    """Look for the first seed whose checker finds a defect; return it, and what was found."""
    wanted, seed, last = MUTATIONS[mutation].found_by, first, "nothing"
    for seed in range(first, first + SEEDS_A_MUTATION):
        failure = one((seed, seconds, (), mutation, None))[2]
        last = failure or last
        if failure is not None and failure.startswith(wanted):
            return mutation, wanted, seed, _cell(failure)
    return mutation, wanted, seed, _cell(last)


def _cell(text: str) -> str:
    return text[:160].replace("\n", " ").replace("|", "/")


def one(job: Job, trace: Path | None = None) -> Outcome:
    """Run one seed."""
    seed, seconds, faults, mutation, partitions = job
    try:
        told = run_seed(
            seed,
            seconds=seconds,
            faults=faults,
            mutation=mutation,
            partitions=partitions,
            trace_file=trace,
        )
    except BaseException as error:  # noqa: BLE001 - it is the finding
        return seed, {}, "; ".join(sorted({_short(leaf) for leaf in _leaves(error)}))
    return seed, told, None


def report(first: int, seconds: float, outcomes: list[Outcome], took: float) -> str:
    """Return the runs as a page."""
    failed = [(seed, failure) for seed, _, failure in outcomes if failure is not None]
    totals = Counter[str]()
    for _, told, _ in outcomes:
        totals.update({name: value for name, value in told.items() if isinstance(value, int)})
    spread = sum(told.get("partitions", 1) > 1 for _, told, _ in outcomes)
    each = took / max(len(outcomes), 1)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    lines = [
        f"# Simulation, seeds {first} to {first + len(outcomes) - 1}",
        "",
        f"Runs that failed: **{len(failed)}** of {len(outcomes)}.",
        f"Each has {seconds:.0f} s of faults in a cluster of three nodes, and took {each:.1f} s.",
        f"Games had {PARTITIONS[-1]} partitions in {spread} of those that held, else one.",
        f"{totals['moves']:,} players moved to another partition.",
        f"{platform.platform(terse=True)}, CPython {platform.python_version()}, {today}.",
    ]
    for name, heading in (("faults", "fault"), ("answers", "answer"), ("checked", "history")):
        sums = _sum(told.get(name, {}) for _, told, _ in outcomes)
        lines += ["", f"| {heading} | times |", "|---|---|"]
        lines += [f"| {what} | {count:,} |" for what, count in sorted(sums.items())]
    lines += [
        "",
        f"{totals['open']:,} operations were open, {totals['undecided']:,} histories undecided.",
        f"{totals['commits']:,} rows were committed, and {totals['messages']:,} messages sent.",
        f"{totals['starts']:,} nodes were started, in {totals['seconds']:,} simulated seconds.",
    ]
    if failed:
        lines += ["", "Failures:", "", *(f"- seed {seed}: {text}" for seed, text in failed)]
    return "\n".join(lines) + "\n"


def _sum(counts: Iterable[dict[str, int]]) -> Counter[str]:
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return total


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _short(error: BaseException) -> str:
    text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
    return text[:600]


if __name__ == "__main__":
    sys.exit(main())
