"""The faults of servers with workers: one is killed, stopped, drained, or moved away from."""

from __future__ import annotations

import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from torture_faults import FAULTS, OF_CREWS, fault
from torture_processes import signal_each
from torture_target import TortureTarget

from greenroom.control.admin.cluster_messages import BalanceShards
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

__all__ = ["FAULTS", "OF_CREWS"]

STOPPED_SECONDS = (1.0, 2.5, 6.0)
"""Shorter than a lease is trusted, about as long, and longer than it lasts."""


@fault(0.0, of_crews=True)
@asynccontextmanager
async def killed_workers(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """Kill -9 of one worker, of several, or of all of them."""
    running = stage.crew.running()
    signal_each(dice.sample(running, dice.randint(1, len(running))), signal.SIGKILL)
    yield


@fault(0.0, of_crews=True)
@asynccontextmanager
async def frozen_worker(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """SIGSTOP of one worker."""
    await stage.crew.freeze(dice.choice(stage.crew.running()), dice.choice(STOPPED_SECONDS))
    yield


@fault(0.0, of_crews=True)
@asynccontextmanager
async def halted_commit(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """A worker stops when it has sent half of a transaction; one that has none to send goes on."""
    pid, seconds = dice.choice(stage.crew.running()), dice.choice(STOPPED_SECONDS)
    await stage.crew.halt_in_commit(pid, seconds)
    yield


@fault(0.0, of_crews=True, orderly=True)
@asynccontextmanager
async def drained_worker(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """A worker hands over all that it has, and is started anew: a step of a rolling deploy."""
    node = dice.choice(await trio.to_thread.run_sync(stage.crew.nodes))
    await stage.crew.drain(node)
    await stage.crew.stop_worker(node.pid)
    yield


@fault(0.0, of_crews=True, orderly=True)
@asynccontextmanager
async def stopped_worker(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """SIGTERM of one worker: it hands over first."""
    await stage.crew.stop_worker(dice.choice(stage.crew.running()))
    yield


@fault(0.0, of_crews=True, orderly=True)
@asynccontextmanager
async def balanced_workers(stage: TortureTarget, dice: random.Random) -> AsyncIterator[None]:
    """Shards move to where they belong, whoever is in them."""
    await trio.to_thread.run_sync(call, socket_path(stage.crew.data_dir), BalanceShards())
    yield
