"""The faults: what happens to the stage, for how long, and how it ends."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio
from child_kit import is_alive
from crowd_kit import Crowd
from torture_target import TortureTarget
from waiting import until

Fault = Callable[[TortureTarget, random.Random], AbstractAsyncContextManager[None]]
FAULTS: dict[str, tuple[Fault, float]] = {}
"""By name: the fault, and for how many seconds it holds at most."""

OF_CREWS: set[str] = set()
"""Those that take a server of several nodes."""
OF_FLEETS: set[str] = set()
"""Those that take several machines."""

CLOCK_SECONDS = (-86_400, -3_600, -61, -1, 1, 61, 3_600, 86_400)
START_SECONDS_MAX = 60.0
DOWNS = {"killed_server", "stopped_server", "killed_machine"}
"""Faults in which the server is down."""
UNKILLED = {"frozen_server", "killed_machine"}
"""Faults in the midst of which the server is never killed."""
UNKILLED_CREW = UNKILLED | {"jumped_clock"}
"""Likewise for one with workers: those that are started again have another clock than Postgres."""
ORDERLY: set[str] = set()
"""Faults that tear nothing apart."""
_handlers = itertools.count(1)


def fault(
    seconds_max: float, *, of_crews: bool = False, of_fleets: bool = False, orderly: bool = False
) -> Callable[[Fault], Fault]:
    """Note a fault under its function's name.

    Args:
        seconds_max: for how long it holds at most.
        of_crews: whether it takes a server of several nodes.
        of_fleets: whether it takes several machines.
        orderly: whether it tears nothing apart.
    """

    def note(function: Fault) -> Fault:
        name = function.__name__
        FAULTS[name] = (function, seconds_max)
        if of_crews:
            OF_CREWS.add(name)
        if of_fleets:
            OF_FLEETS.add(name)
        if orderly:
            ORDERLY.add(name)
        return function

    return note


@fault(0.0)
@asynccontextmanager
async def killed_server(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """Kill -9, and start it again."""
    stage.server.kill()
    yield
    await started(stage)


@fault(0.0, orderly=True)
@asynccontextmanager
async def stopped_server(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """SIGTERM in the middle of everything, and start it again."""
    status = await trio.to_thread.run_sync(stage.server.stop)
    assert status == 0, f"the server stopped with status {status}"
    yield
    await started(stage)


@fault(3.0)
@asynccontextmanager
async def frozen_server(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """SIGSTOP: the machine thinks of something else."""
    stage.signal_all(signal.SIGSTOP)
    yield
    stage.signal_all(signal.SIGCONT)
    await stage.wait_whole()


@fault(1.0)
@asynccontextmanager
async def killed_postgres(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """Kill -9 to all its processes: what a power cut looks like."""
    await trio.to_thread.run_sync(stage.postgres.kill)
    yield
    await trio.to_thread.run_sync(stage.postgres.start)


@fault(1.0)
@asynccontextmanager
async def killed_machine(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """A power cut of the machine that Postgres and the server share."""
    await trio.to_thread.run_sync(stage.postgres.kill)
    stage.signal_all(signal.SIGKILL)
    stage.server.kill()
    yield
    await trio.to_thread.run_sync(stage.postgres.start)
    await started(stage)


@fault(2.0)
@asynccontextmanager
async def restarted_postgres(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """Stopped as an operator stops it."""
    await trio.to_thread.run_sync(stage.postgres.stop)
    yield
    await trio.to_thread.run_sync(stage.postgres.start)


@fault(8.0)
@asynccontextmanager
async def frozen_postgres(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """SIGSTOP to all its processes."""
    stage.postgres.signal_backends(signal.SIGSTOP)
    yield
    stage.postgres.signal_backends(signal.SIGCONT)


@fault(2.0)
@asynccontextmanager
async def cut_wire(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """Connections to Postgres break, and for a while there are no new ones."""
    stage.wire.is_open = False
    stage.wire.cut()
    yield
    stage.wire.heal()


@fault(8.0)
@asynccontextmanager
async def silent_wire(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """Nothing arrives any more, either way; then connections break, or everything does arrive."""
    stage.wire.freeze()
    yield
    if dice.random() < 0.5:
        stage.wire.cut()
    stage.wire.heal()


@fault(6.0)
@asynccontextmanager
async def slow_wire(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """Every packet takes its time."""
    stage.wire.delay_seconds = dice.uniform(0.01, 0.3)
    yield
    stage.wire.heal()


@fault(6.0)
@asynccontextmanager
async def slow_fsync(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """The disk takes its time."""
    stage.fsync_file.write_text(str(dice.randrange(20, 800)))
    yield
    stage.fsync_file.write_text("0")


@fault(4.0)
@asynccontextmanager
async def full_disk(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """Somebody else has written Postgres' disk full; Postgres may die of it."""
    filler = stage.disk / "filler"

    def fill() -> None:
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:  # until there is no space left
                disk = os.statvfs(stage.disk)
                free_bytes = max(disk.f_bavail * disk.f_bsize, disk.f_bsize)
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), free_bytes)

    await trio.to_thread.run_sync(fill)
    yield
    filler.unlink()
    await trio.to_thread.run_sync(stage.postgres.recover)


@fault(4.0)
@asynccontextmanager
async def jumped_clock(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """The wall clock is somewhere else, and then back."""
    stage.order(clock_seconds=dice.choice(CLOCK_SECONDS))
    stage.tell()
    yield
    stage.order()
    stage.tell()


@fault(0.5)
@asynccontextmanager
async def crashed_actor(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """The next handler crashes, the next time the second, and so on; also half-way."""
    count = next(_handlers)
    stage.order(crash_in=(count + 1) // 2, half_way=count % 2 == 0)
    stage.tell()
    yield
    stage.order()


async def started(stage: TortureTarget) -> None:
    """Start the server, and wait until it serves. Nothing of the one before may be left by then."""
    before = stage.crew.left() if stage.has_crew else []
    stage.server.begin()
    await until(stage.server.is_ready, START_SECONDS_MAX)
    orphans = [pid for pid in before if is_alive(pid)]
    assert not orphans, f"workers outlived their parent: {orphans}"
    await stage.wait_whole()


async def strike(stage: TortureTarget, crowds: list[Crowd], name: str, dice: random.Random) -> str:
    """Do one fault, sometimes with the server killed in the midst of it; return what it was.

    Of a server with workers, one of these may be killed instead.
    """
    make, seconds_max = FAULTS[name]
    unkilled = UNKILLED_CREW | OF_CREWS | OF_FLEETS if stage.has_crew else UNKILLED
    with_kill = seconds_max > 0 and name not in unkilled and dice.random() < 0.2
    of_worker = with_kill and stage.has_crew and dice.random() < 0.5
    downs = name in DOWNS or (with_kill and not of_worker)
    is_shock = name not in ORDERLY or with_kill
    if downs:
        for crowd in crowds:
            crowd.up = trio.Event()
    for crowd in crowds:
        crowd.clock_jumps += name == "jumped_clock"
        if is_shock:
            crowd.shock()
    async with make(stage, dice):
        await trio.sleep(dice.uniform(0.0, seconds_max))
        if of_worker:
            os.kill(dice.choice(stage.crew.running()), signal.SIGKILL)
        elif with_kill:
            stage.server.kill()
    if with_kill and not of_worker:
        await started(stage)
    await stage.wait_whole()
    for crowd in crowds:
        crowd.clock_jumps += name == "jumped_clock"
        if is_shock:
            crowd.shock()
        crowd.up.set()
    if with_kill:
        return f"{name} and killed_{'worker' if of_worker else 'server'}"
    return name
