"""Loops that tick together, however their time is rounded."""

import math

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import MockClock

from greenroom.actors.kernel.clock import sleep_until_tick
from greenroom.actors.kernel.timers import STEP_SECONDS, in_step


async def test_ticks_fall_together_whenever_they_began(autojump_clock: MockClock):
    times: list[list[float]] = [[], []]

    async def tick(began: float, times: list[float]) -> None:
        await trio.sleep(began)
        for _ in range(3):
            await sleep_until_tick(1.0)
            times.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick, 0.3, times[0])
        nursery.start_soon(tick, 0.7, times[1])
    assert times == [[1.0, 2.0, 3.0]] * 2


@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.1, 0.3, 1 / 3, 0.7])
async def test_no_tick_falls_on_the_time_of_the_one_before(
    seconds: float, autojump_clock: MockClock
):
    for _ in range(1_000):
        before = trio.current_time()
        await sleep_until_tick(seconds)
        assert before < trio.current_time() <= before + 2.01 * seconds


@given(st.floats(0, 1e9))
@example(math.nextafter(11 * STEP_SECONDS, math.inf))
def test_a_step_is_never_before_what_is_due_in_it(due: float):
    assert due <= in_step(due) <= due + 1.001 * STEP_SECONDS
