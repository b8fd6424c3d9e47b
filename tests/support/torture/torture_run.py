"""A run of the torture: crowds at work, one fault after the other, and what came of it."""

from __future__ import annotations

import json
import platform
import random
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack

import trio
from crowd_kit import Crowd
from torture_faults import strike
from torture_fleet_faults import FAULTS, OF_CREWS, OF_FLEETS
from torture_rooms import CROWDS
from torture_server import CRASH_TEXT
from torture_target import TortureTarget, open_stage, say

PROGRESS_SECONDS = 10.0
TOLD_LENGTH_MAX = 4_000
"""Characters of what was found: a history that does not hold has some dozen lines."""
TOLD_FRAMES_MAX = 6
"""The innermost calls that are told of what was found: the wait, and the fault that waits."""
STILL_SECONDS_MAX = 30.0
"""If this machine stands still for longer, players fall silent by that, and may lose their seats:
after two minutes all of them do."""
CALM_SECONDS_MAX = 1.5
"""At most so long is nothing done to the stage between two faults."""


class Outcome:
    """The outcome of a run."""

    def __init__(
        self,
        seed: int,
        seconds: float,
        mutation: str | None,
        *,
        workers: int,
        machines: int,
        partitions: int,
    ) -> None:
        self.seed = seed
        self.seconds = seconds
        self.mutation = mutation
        self.workers, self.machines, self.partitions = workers, machines, partitions
        self.faults: Counter[str] = Counter()
        self.heal_seconds: dict[str, float] = {}
        """By fault, the longest time until every crowd had changes acknowledged again."""
        self.crowds: dict[str, tuple[int, int, int]] = {}
        """By crowd: changes acknowledged, checks made, calls refused (429 or 500)."""
        self.skipped: dict[str, str] = {}
        self.errors: Counter[str] = Counter()
        """Lines of level error in the server's log, but for crashes that were ordered."""
        self.notes: list[str] = []
        """Further lines, as the crowds tell them."""
        self.violations: list[str] = []
        self.log = ""
        """The server's."""

    def report(self) -> str:
        """Return the run as a page."""
        skipped = "; ".join(f"{name} ({why})" for name, why in self.skipped.items()) or "none"
        today = time.strftime("%Y-%m-%d", time.gmtime())
        workers = f", {self.workers} workers" if self.workers > 1 else ""
        if self.machines > 1:
            workers = f", {self.machines} machines"
        if self.partitions > 1:
            workers += f", {self.partitions} partitions a game"
        lines = [
            f"# Torture, seed {self.seed}, {self.seconds / 60:.0f} minutes{workers}",
            "",
            f"Violations: **{len(self.violations)}**. Not allowed on this machine: {skipped}.",
            f"{platform.platform(terse=True)}, CPython {platform.python_version()}, {today}.",
            "",
            "| fault | times | longest until all crowds went on, s |",
            "|---|---|---|",
            *(
                f"| {name} | {count} | {self.heal_seconds.get(name, 0):.1f} |"
                for name, count in sorted(self.faults.items())
            ),
            "",
            "| crowd | changes acknowledged | checks | calls refused |",
            "|---|---|---|---|",
            *(
                f"| {name} | {' | '.join(f'{n:,}' for n in counts)} |"
                for name, counts in self.crowds.items()
            ),
        ]
        for note in self.notes:
            lines += ["", note]
        if self.errors:
            lines += ["", "Lines of level error in the server's log, ordered crashes aside:", ""]
            lines += [f"- {count} times {text}" for text, count in self.errors.most_common()]
        if self.violations:
            lines += ["", "Violations:", "", *(f"- {text}" for text in self.violations)]
        return "\n".join(lines) + "\n"


async def torture(
    seconds: float,
    seed: int,
    *,
    mutation: str | None = None,
    faults: Sequence[str] = (),
    crowd_types: Sequence[type[Crowd]] = CROWDS,
    workers: int = 1,
    machines: int = 1,
    partitions: int = 1,
) -> Outcome:
    """Run for some time; stops at the first violation.

    Args:
        seconds: how long faults are made; checking comes on top.
        seed: which faults come when, and what the crowds do.
        mutation: a bug to plant in the server, by its name in `torture_server`.
        faults: only these; all that the machine allows, if none are given.
        crowd_types: who plays.
        workers: how many workers the server has; 1 is a server that is one process.
        machines: how many machines there are, of one process each; more than 1 have NATS.
        partitions: how many shards each game lives in.
    """
    outcome = Outcome(
        seed, seconds, mutation, workers=workers, machines=machines, partitions=partitions
    )
    async with open_stage(mutation, workers, machines, partitions) as stage:
        outcome.skipped = stage.skipped
        crowds = []
        for kind in crowd_types:  # in a thread: the wire to Postgres runs here
            game = await trio.to_thread.run_sync(stage.server.new_game, kind.__name__)
            crowds.append(kind(stage.server, game))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(note_standstills, outcome.notes)
                await _play(stage, crowds, outcome, faults)
                nursery.cancel_scope.cancel()
        except* (AssertionError, trio.TooSlowError, OSError) as violations:
            outcome.violations += [_told(leaf) for leaf in _leaves(violations)]
        for crowd in crowds:
            counts = (crowd.acknowledged, crowd.checked, crowd.refused)
            outcome.crowds[type(crowd).__name__] = counts
            outcome.notes += [note for note in [crowd.told()] if note]
        outcome.log = stage.server.read_log()
        outcome.errors = _errors(outcome.log)
        if outcome.violations and mutation is None:
            say(outcome.log[-4000:])
    return outcome


async def note_standstills(notes: list[str]) -> None:
    """Note when this machine, and with it all of the stage, has stood still for long."""
    while True:
        before = trio.current_time()
        await trio.sleep(1.0)
        seconds = trio.current_time() - before
        if seconds > STILL_SECONDS_MAX:
            at = time.strftime("%H:%M:%S", time.gmtime())
            notes.append(
                f"Until {at} this machine stood still for {seconds:.0f} s. Players were silent as"
                " long, so seats that are lost after it are no violation."
            )


async def _play(
    stage: TortureTarget, crowds: list[Crowd], outcome: Outcome, faults: Sequence[str]
) -> None:
    dice = random.Random(outcome.seed)
    impossible = set(stage.skipped)
    if not stage.has_crew:
        impossible |= OF_CREWS
    if not stage.has_fleet:
        impossible |= OF_FLEETS
    names = [name for name in faults or FAULTS if name not in impossible]
    bag: list[str] = []
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        for crowd in crowds:
            crowd.up.set()
            await stack.enter_async_context(crowd.at_work())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_show_progress, started, crowds, outcome)
            while time.monotonic() - started < outcome.seconds:
                await trio.sleep(dice.uniform(0, CALM_SECONDS_MAX))
                if not bag:  # each once before any twice
                    bag = dice.sample(names, len(names))
                name = await strike(stage, crowds, bag.pop(), dice)
                outcome.faults[name] += 1
                await _go_on(crowds, outcome, name)
            nursery.cancel_scope.cancel()
    status = await trio.to_thread.run_sync(stage.server.stop)
    assert status == 0, f"the server stopped with status {status}"


async def _go_on(crowds: list[Crowd], outcome: Outcome, name: str) -> None:
    """Wait until every crowd has a change acknowledged again."""
    began = time.monotonic()
    async with trio.open_nursery() as nursery:
        for crowd in crowds:
            nursery.start_soon(crowd.wait_acknowledged, 1)
    took = time.monotonic() - began
    outcome.heal_seconds[name] = max(took, outcome.heal_seconds.get(name, 0.0))


async def _show_progress(started: float, crowds: list[Crowd], outcome: Outcome) -> None:
    while True:
        await trio.sleep(PROGRESS_SECONDS)
        passed = time.monotonic() - started
        say(
            f"{passed:,.0f} of {outcome.seconds:,.0f} s, seed {outcome.seed}:"
            f" {outcome.faults.total()} faults,"
            f" {sum(crowd.acknowledged for crowd in crowds):,} changes acknowledged,"
            f" {sum(crowd.checked for crowd in crowds):,} checks, no violation"
        )


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-TOLD_FRAMES_MAX:]
    place = " > ".join(f"{frame.name}:{frame.lineno}" for frame in frames)
    text = "what was waited for did not happen" if isinstance(error, trio.TooSlowError) else error
    return f"{type(error).__name__}: {str(text)[:TOLD_LENGTH_MAX]} ({place})"


def _errors(log: str) -> Counter[str]:
    """Return the lines of level error by their text, ids and ordered crashes aside."""
    found: Counter[str] = Counter()
    for line in log.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry.get("level") == "error" and CRASH_TEXT not in line:
            say(line)
            found["".join("#" if c.isdigit() else c for c in entry["message"])] += 1
    return found
