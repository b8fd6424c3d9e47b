"""The tests' clock: real time, but for what the machine kept from the process."""

from __future__ import annotations

import time

import trio
from patient_clock import PASS_SECONDS_MAX, PatientClock


def stall(seconds: float) -> None:
    """Keep the process from its tasks, as a busy machine does."""
    time.sleep(seconds)


async def test_the_tests_run_by_it():
    assert isinstance(trio.lowlevel.current_clock(), PatientClock)


async def test_sleep_takes_as_long_as_ever():
    began, real = trio.current_time(), time.perf_counter()
    await trio.sleep(0.1)

    assert trio.current_time() - began >= 0.1
    assert time.perf_counter() - real >= 0.1


async def test_a_stall_counts_as_a_pass():
    began = trio.current_time()
    stall(10 * PASS_SECONDS_MAX)

    assert trio.current_time() - began <= 1.01 * PASS_SECONDS_MAX


async def test_what_is_waited_for_is_not_late_because_of_a_stall():
    with trio.fail_after(5 * PASS_SECONDS_MAX):
        async with trio.open_nursery() as nursery:
            send, receive = trio.open_memory_channel[None](0)
            nursery.start_soon(send.send, None)
            stall(20 * PASS_SECONDS_MAX)
            await receive.receive()
