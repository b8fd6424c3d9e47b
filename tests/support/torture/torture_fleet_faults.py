"""The faults of several machines: NATS is killed, or one machine loses NATS or Postgres."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from line_kit import Line
from torture_crew_faults import FAULTS, OF_CREWS
from torture_faults import OF_FLEETS, fault
from torture_target import TortureTarget

__all__ = ["FAULTS", "OF_CREWS", "OF_FLEETS"]


@fault(4.0, of_fleets=True)
@asynccontextmanager
async def killed_nats(stage: TortureTarget, dice: random.Random) -> AsyncGenerator[None]:
    """All of NATS is away."""
    await trio.to_thread.run_sync(stage.nats.stop)
    yield
    await trio.to_thread.run_sync(stage.nats.start)


@fault(6.0, of_fleets=True)
@asynccontextmanager
async def frozen_nats(stage: TortureTarget, dice: random.Random) -> AsyncGenerator[None]:
    """SIGSTOP of NATS: connections stay, and nothing comes over them."""
    await trio.to_thread.run_sync(stage.nats.freeze)
    yield
    stage.nats.thaw()


@fault(12.0, of_fleets=True)
@asynccontextmanager
async def cut_off_nats(stage: TortureTarget, dice: random.Random) -> AsyncGenerator[None]:
    """One machine loses NATS, for so long that it hands its shards over, or for less."""
    async with lost(dice.choice(stage.fleet.machines).nats, dice):
        yield


@fault(6.0, of_fleets=True)
@asynccontextmanager
async def cut_off_postgres(stage: TortureTarget, dice: random.Random) -> AsyncGenerator[None]:
    """One machine loses Postgres."""
    async with lost(dice.choice(stage.fleet.machines).postgres, dice):
        yield


@fault(6.0, of_fleets=True)
@asynccontextmanager
async def cut_off(stage: TortureTarget, dice: random.Random) -> AsyncGenerator[None]:
    """One machine loses both, and its clients still reach it."""
    machine = dice.choice(stage.fleet.machines)
    async with lost(machine.nats, dice), lost(machine.postgres, dice):
        yield


@asynccontextmanager
async def lost(line: Line, dice: random.Random) -> AsyncGenerator[None]:
    """A line is cut, silent, or loses all that is sent."""
    match dice.randrange(3):
        case 0:
            line.is_open = False
            line.cut()
        case 1:
            line.freeze()
        case _:
            line.is_deaf = True
    yield
    if line.is_deaf:  # what was lost of a connection makes nonsense of the rest
        line.cut()
    line.heal()
