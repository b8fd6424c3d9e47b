"""Counters under a dynamic supervisor, for kernel tests."""

from __future__ import annotations

import pytest
import trio
from kernel_kit import CounterRole, HandCommitter, Read

from greenroom.actors.kernel.ref import Ref
from greenroom.supervisors.dynamic import Bounds, DynamicSupervisor


@pytest.fixture
def committer() -> HandCommitter:
    """A committer that commits at once until told otherwise."""
    return HandCommitter()


@pytest.fixture
async def counters(
    committer: HandCommitter, nursery: trio.Nursery
) -> DynamicSupervisor[CounterRole]:
    """A running supervisor of counters; tests name `autojump_clock` themselves."""
    supervisor: DynamicSupervisor[CounterRole] = DynamicSupervisor(
        "counter", committer.load, committer, Bounds(mailbox_max=4, restarts_max=3)
    )
    await nursery.start(supervisor.run)
    return supervisor


@pytest.fixture
async def held(
    counters: DynamicSupervisor[CounterRole], committer: HandCommitter
) -> Ref[CounterRole]:
    """A counter in memory; its changes are durable when the test commits them."""
    ref = counters.get_ref(1)
    await ref.ask(Read())
    committer.automatic = False
    return ref
