"""One simulated run, by its seed."""

from __future__ import annotations

import logging
import random
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import trio
from sim_chance import Trace, same_each_time
from sim_checks import BugWatch
from sim_cluster import PLAYS, SimCluster, simulate
from sim_connection import connections_simulated
from sim_faults import harm
from sim_mutations import MUTATIONS, Mutation
from sim_process import stoppable

from greenroom.actors.flows import partitions as partitioning
from greenroom.actors.flows.partitions import FEWER_ROOMS_MIN, ROOMS_MAX

SECONDS = 15.0
FULL: Final = ((ROOMS_MAX, FEWER_ROOMS_MIN), (2, 1))
"""Rooms of a full partition, and how many fewer an emptier one has: as ever, or so few that nearly
everybody who makes a room moves first."""


def run_seed(
    seed: int,
    *,
    seconds: float = SECONDS,
    faults: tuple[str, ...] = (),
    mutation: str | None = None,
    partitions: int | None = None,
    trace_file: Path | None = None,
) -> dict[str, Any]:
    """Run a cluster under faults, and check everything.

    Args:
        seed: of all chance.
        seconds: how long faults are made, in simulated time.
        faults: only these; all, if none are given.
        mutation: a defect to plant.
        partitions: of each game; None lets the seed, or the defect, choose.
        trace_file: what happens is written there, line by line.

    Returns:
        What the run was like.

    Raises:
        Exception: a check has failed; usually in a group.
    """
    planted = Mutation("", "") if mutation is None else MUTATIONS[mutation]
    names = faults or planted.faults

    async def do_harm(cluster: SimCluster) -> None:
        await harm(cluster, seconds=seconds, names=names)

    logger, bugs = logging.getLogger("greenroom"), BugWatch()
    before = logger.level, logger.propagate
    with ExitStack() as stack:
        logger.propagate = False
        logger.setLevel(logging.ERROR)
        logger.addHandler(bugs)
        stack.callback(logger.removeHandler, bugs)
        stack.callback(setattr, logger, "propagate", before[1])
        stack.callback(logger.setLevel, before[0])
        file = (
            None if trace_file is None else stack.enter_context(trace_file.open("w", buffering=1))
        )
        clock = stack.enter_context(same_each_time(seed))
        stack.enter_context(connections_simulated())
        stack.enter_context(stoppable())
        stack.enter_context(planted.code())
        rooms_max, fewer = FULL[0] if mutation else random.Random(seed + 4).choice(FULL)
        stack.enter_context(patch.object(partitioning, "ROOMS_MAX", rooms_max))
        stack.enter_context(patch.object(partitioning, "FEWER_ROOMS_MIN", fewer))
        run = partial(
            simulate,
            seed,
            do_harm,
            plays=planted.plays or tuple(PLAYS),
            partitions=partitions or planted.partitions,
        )
        told: dict[str, Any] = trio.run(
            partial(run, trouble=planted.node, trace=Trace(file)), clock=clock
        )
    bugs.check()
    return told
