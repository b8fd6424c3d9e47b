"""A million joins and leaves and 200,000 connections: what the server holds before and after.

Squads of four fill a realtime room and leave it, the host first or last. Meanwhile HTTP connections
and WebSockets end in every way: politely, rudely, by leaving the room. After half of that and a
pause, everything is counted for the first time. Then all of it follows, the same pause, and the
second count. What one player leaves behind would be there a hundred thousand times.

Python seldom gives memory back, because something lives on among what is free. So resident memory
after a pause is about the most that was needed, and the warm-up must have reached that. The report
has the resident memory on the way, which tells a plateau from a slope.
"""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import processes
from scenario import Run, Scenario

JOINS, CONNECTIONS = 500_000, 200_000
"""Joins, and connections. There are as many leaves as joins, so both are a million together."""
QUICK = 0.04
"""The share of all that with `--quick`."""
WARM_UP, QUICK_WARM_UP = 0.5, 1.0
"""The warm-up's share of what follows. It is twice as long as anything is remembered after it is
gone, so that as much is held at a time as ever will be. A small share must be warmed up for
longer."""
PARTS = 10
"""Parts of each run of the generator, to tell how far it is. Everybody connects anew for each."""
SUMMED = ("seconds", "joins", "leaves", "rooms", "http_connections", "websockets", "broken")
SQUADS = 32
LINGER_SECONDS = 30
"""How long rooms that have ended stay in memory to answer for their tokens, instead of 300 s. Like
other rooms they stay for some 30 to 50 s more, until found idle."""
SETTLE_SECONDS = 150.0
"""Longer than anything is remembered after it is gone, and then until free memory is given back."""
COUNT_SECONDS_MAX = 60.0
GROWTH_MAX = 0.05
KINDS_TOLD = 5

Row = dict[str, Any]


@dataclass(frozen=True)
class Holding:
    """The counts of what a server holds."""

    resident_bytes: int
    descriptors: Counter[str]
    """The open descriptors by kind, without those to the database."""
    database_connections: int
    """Counted by themselves: those that read are a pool, which opens another when all are busy, and
    keeps it. How many there are tells how many reads have met, not how many have come and gone."""
    database_connections_max: int
    blocks: int
    """Bytes of memory that Python has given out."""
    objects: int
    kinds: Counter[str]
    """Those objects that are not there since the start, by type."""
    lines: list[str]
    """The lines that took memory, if that is traced."""

    @property
    def figures(self) -> dict[str, int]:
        """Return what must not grow, by name."""
        return {
            "resident memory, KiB": self.resident_bytes >> 10,
            "memory blocks of Python": self.blocks,
            "objects": self.objects,
            "descriptors other than to the database": self.descriptors.total(),
        }


def measure(run: Run) -> str:
    """Measure and tell."""
    share = QUICK if run.is_quick else 1.0
    with processes.fresh_folder() as folder:
        counts = folder / "counts.json"
        program = (
            str(processes.BENCH / "operation" / "watched.py"),
            str(counts),
            str(LINGER_SECONDS),
        )
        with processes.serve(folder, program=program) as target:
            rows = []
            holdings = []
            for part in (QUICK_WARM_UP if run.is_quick else WARM_UP, 1.0):
                run.say(f"{part * share * JOINS * 2:,.0f} joins and leaves")
                rows.append(churn(run, target, folder, share * part))
                time.sleep(SETTLE_SECONDS)
                holdings.append(hold(target, counts))
    before, after = holdings
    for line in after.lines:
        run.say(line)
    return "\n".join(report(rows, before, after))


def churn(run: Run, target: processes.Target, folder: Path, share: float) -> Row:
    """Let everybody come and go, in parts; return what the generator's rows add up to."""
    total: Row = {"errors": Counter(), "resident_mib": []}
    for part in range(1, PARTS + 1):
        (row,) = processes.load(
            run.program,
            target,
            "churn",
            *("-url", target.url, "-ws", target.realtime_url, "-key", target.api_token),
            *("-squads", str(SQUADS), "-tokens", str(folder / "tokens")),
            *("-joins", str(round(JOINS * share / PARTS))),
            *("-connections", str(round(CONNECTIONS * share / PARTS))),
        )
        total["errors"].update(row["errors"])
        for name in SUMMED:
            total[name] = total.get(name, 0) + row[name]
        resident_mib = target.resident_bytes / 2**20
        total["resident_mib"].append(resident_mib)
        run.say(f"part {part} of {PARTS}, {row['seconds']:.0f} s, {resident_mib:.1f} MiB resident")
    return total


def hold(target: processes.Target, counts: Path) -> Holding:
    """Have the server count what it holds."""
    resident_bytes = target.resident_bytes
    counts.unlink(missing_ok=True)
    target.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + COUNT_SECONDS_MAX
    while not counts.exists():
        if time.monotonic() > deadline:
            raise SystemExit("the server has not counted what it holds")
        time.sleep(processes.POLL_SECONDS)
    found = json.loads(counts.read_text())
    return Holding(
        resident_bytes=resident_bytes,
        descriptors=Counter(found["descriptors"]),
        database_connections=found["database_connections"],
        database_connections_max=found["database_connections_max"],
        blocks=found["blocks"],
        objects=found["objects"],
        kinds=Counter(found["kinds"]),
        lines=found["lines"],
    )


def report(rows: list[Row], before: Holding, after: Holding) -> Iterator[str]:
    """Return the results, line by line."""
    warm, full = rows
    calls = full["joins"] + full["leaves"]
    yield (
        f"A warm-up had {warm['joins'] + warm['leaves']:,} joins and leaves. Then came "
        f"{full['joins']:,} joins and {full['leaves']:,} leaves,\n"
        f"{full['http_connections']:,} HTTP connections and "
        f"{full['websockets']:,} WebSockets in {full['seconds']:.0f} s\n"
        f"({calls / full['seconds']:,.0f} joins and leaves a second), in {full['rooms']:,} rooms. "
        f"Rooms that have ended answer for\ntheir tokens for {LINGER_SECONDS} s instead of 300, "
        "and then leave memory, because an hour\nis compressed here."
    )
    yield from ("", "| held | after the warm-up | at the end | growth |", "|---|---|---|---|")
    held = after.database_connections <= after.database_connections_max
    for name, first in before.figures.items():
        last = after.figures[name]
        growth = last / first - 1
        held = held and growth <= GROWTH_MAX
        yield f"| {name} | {first:,} | {last:,} | {growth:+.1%} |"
    yield (
        f"| connections to the database | {before.database_connections} "
        f"| {after.database_connections} | at most {after.database_connections_max} |"
    )
    grown = (after.kinds - before.kinds).most_common(KINDS_TOLD)
    told = ", ".join(f"{name} {count:+,}" for name, count in grown)
    failed = sum(warm["errors"].values()) + sum(full["errors"].values())
    yield from (
        "",
        "| | |",
        "|---|---|",
        f"| resident MiB after each tenth of the warm-up | {way(warm)} |",
        f"| … after each tenth of the rest | {way(full)} |",
        (
            f"| grown by at most {GROWTH_MAX:.0%}, and no more connections to the database than "
            f"allowed | {'yes' if held else '**no**'} |"
        ),
        f"| other descriptors after the warm-up | {told_kinds(before.descriptors)} |",
        f"| … at the end | {told_kinds(after.descriptors)} |",
        f"| calls that failed | {failed or 'none'}{told_errors(warm, full)} |",
        f"| connections lost | {warm['broken'] + full['broken']} |",
        f"| types that grew most | {told or 'none'} |",
        "",
        "One connection to the database writes. Those that read are a pool, which opens another",
        "only when all are busy, and keeps it.",
    )


def way(row: Row) -> str:
    """Return what was resident after each part."""
    return ", ".join(f"{each:.0f}" for each in row["resident_mib"])


def told_kinds(descriptors: Counter[str]) -> str:
    """Return what is open, in words."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(descriptors.items()))


def told_errors(*rows: Row) -> str:
    """Return what failed, in words."""
    errors: Counter[str] = Counter()
    for row in rows:
        errors.update(row["errors"])
    return "".join(f" ({count} times {text})" for text, count in errors.most_common(5))


SCENARIO = Scenario(
    "churn",
    "1,000,000 joins and leaves, 200,000 connections",
    measure,
    is_default=False,
    minutes=14,
)
