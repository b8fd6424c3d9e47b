"""Waiting for a batch: shielded, bounded, and woken all at once."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel

from greenroom.actors.kernel.durability import Batch
from greenroom.actors.kernel.errors import ActorCrashed, CommitUnsettled


class Writer:
    label = "player/1"
    generation = 0
    shard = None

    def reject(self, error: Exception) -> None: ...


async def wait(
    batch: Batch, outcomes: dict[int, tuple[float, str]], n: int, seconds: float
) -> None:
    try:
        await batch.wait(Writer(), seconds)
    except CommitUnsettled:
        outcomes[n] = (trio.current_time(), "unsettled")
    else:
        outcomes[n] = (trio.current_time(), "durable")


async def test_all_who_wait_are_woken_when_it_settles(autojump_clock):
    batch, outcomes = Batch(), dict[int, tuple[float, str]]()
    async with trio.open_nursery() as nursery:
        for n in range(100):
            nursery.start_soon(wait, batch, outcomes, n, 10)
        await trio.sleep(3)
        batch.settle()

    assert set(outcomes.values()) == {(3, "durable")}


async def test_each_waits_no_longer_than_their_own_time(autojump_clock):
    batch, outcomes = Batch(), dict[int, tuple[float, str]]()
    async with trio.open_nursery() as nursery:
        for n in range(5):
            nursery.start_soon(wait, batch, outcomes, n, 10)
            await trio.sleep(1)
        await trio.sleep(8.5 - 1)  # those who came in the first two and a half seconds are gone
        batch.settle()

    assert {n: time for n, (time, _) in outcomes.items()} == {0: 10, 1: 11, 2: 12, 3: 12.5, 4: 12.5}
    assert [outcomes[n][1] for n in range(5)] == ["unsettled"] * 3 + ["durable"] * 2


async def test_whoever_has_less_patience_keeps_their_own_time(autojump_clock):
    batch, outcomes = Batch(), dict[int, tuple[float, str]]()
    async with trio.open_nursery() as nursery:
        for n, seconds in enumerate([10, 2, 5, 10]):
            nursery.start_soon(wait, batch, outcomes, n, seconds)
            await trio.lowlevel.checkpoint()

    assert {n: time for n, (time, _) in outcomes.items()} == {0: 10, 1: 2, 2: 5, 3: 10}


async def test_the_wait_is_shielded_from_cancellation(autojump_clock):
    batch, outcomes = Batch(), dict[int, tuple[float, str]]()
    async with trio.open_nursery() as nursery:
        for n in range(3):
            nursery.start_soon(wait, batch, outcomes, n, 10)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
            batch.settle()

    assert list(outcomes.values()) == [(2, "durable")] * 3


async def test_a_rejected_writer_and_nobody_else_is_told():
    batch, bad, good = Batch(), Writer(), Writer()
    batch.reject(bad)
    batch.settle()

    await batch.wait(good, 1)
    with pytest.raises(ActorCrashed):
        await batch.wait(bad, 1)


async def test_giving_up_is_told_to_everybody():
    batch = Batch()
    batch.settle(CommitUnsettled("stopped"))

    for _ in range(2):
        with pytest.raises(CommitUnsettled, match="stopped"):
            await batch.wait(Writer(), 1)
