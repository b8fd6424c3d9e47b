"""The guard: trust in the lease, and what happens when it ends."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from greenroom.cluster.lease_guard import Guard
from greenroom.persistence.nodes.session import boot_seconds

LEASE = 3.0


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def installed(guard: Guard) -> Generator[None]:
    trio.lowlevel.add_instrument(guard)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(guard)


def made(*, trusted: bool = True) -> tuple[Guard, HandClock, list[str]]:
    clock, stopped = HandClock(), list[str]()
    guard = Guard(LEASE, clock)
    guard.stop_with(lambda: stopped.append("stopped"))
    if trusted:
        assert guard.note_renewed(guard.read_clock())
    return guard, clock, stopped


async def test_the_guard_stops_before_the_first_task_of_the_pass() -> None:
    guard, clock, stopped = made()
    order: list[str] = []
    guard.stop_with(lambda: order.append("stop"))

    async def late(event: trio.Event) -> None:
        await event.wait()
        order.append("task")

    with installed(guard):
        async with trio.open_nursery() as nursery:
            event = trio.Event()
            nursery.start_soon(late, event)
            await trio.testing.wait_all_tasks_blocked()
            event.set()
            clock.now += 2.5
    assert order == ["stop", "task"]
    assert stopped


def test_trust_counts_from_the_moment_before_the_renewal_was_sent() -> None:
    guard, clock, _ = made(trusted=False)
    assert not guard.is_trusted
    sent_at = guard.read_clock()
    clock.now += 1.5  # the answer was slow
    assert guard.note_renewed(sent_at)
    assert guard.seconds_left == pytest.approx(0.9)
    clock.now += 0.9
    assert not guard.is_trusted


def test_a_renewal_whose_answer_comes_too_late_is_worth_nothing() -> None:
    guard, clock, stopped = made()
    sent_at = guard.read_clock()
    clock.now += 2.4
    guard.after_io_wait(0)
    assert stopped
    assert not guard.note_renewed(sent_at)
    assert not guard.is_trusted
    assert guard.note_renewed(guard.read_clock())
    assert guard.is_trusted


def test_answers_in_the_wrong_order_never_shorten_trust() -> None:
    guard, clock, _ = made()
    first = guard.read_clock()
    clock.now += 1.0
    assert guard.note_renewed(guard.read_clock())
    assert guard.note_renewed(first)
    assert guard.seconds_left == pytest.approx(2.4)


def test_everything_is_stopped_once_and_again_after_the_next_renewal() -> None:
    guard, clock, stopped = made()
    for _ in range(3):
        clock.now += 3.0
        guard.after_io_wait(0)
        guard.after_io_wait(0)
        assert guard.note_renewed(guard.read_clock())
    assert len(stopped) == 3


def test_a_part_that_cannot_be_stopped_keeps_no_other_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, stopped = HandClock(), list[str]()
    guard = Guard(LEASE, clock)

    def fail() -> None:
        raise RuntimeError("a bug")

    guard.stop_with(fail)
    guard.stop_with(lambda: stopped.append("the other"))
    guard.note_renewed(guard.read_clock())
    clock.now += 2.5
    guard.after_io_wait(0)
    assert stopped == ["the other"]
    assert "could not be stopped" in caplog.text


def test_distrust_stops_at_once_and_only_what_runs() -> None:
    guard, _, stopped = made()
    guard.distrust("both connections are gone")
    guard.distrust("both connections are gone")
    assert stopped == ["stopped"]
    assert not guard.is_trusted


def test_while_nobody_can_take_over_trust_goes_on() -> None:
    guard, clock, stopped = made()
    for _ in range(20):
        clock.now += 0.5
        guard.after_io_wait(0)
        assert guard.note_unreachable_for_all(guard.read_clock(), 1.0)
    assert not stopped
    clock.now += 1.1
    guard.after_io_wait(0)
    assert stopped
    assert not guard.note_unreachable_for_all(guard.read_clock(), 1.0)


async def test_whoever_waits_is_told_of_the_loss() -> None:
    guard, clock, _ = made()
    with installed(guard):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(guard.wait_lost)
            await trio.testing.wait_all_tasks_blocked()
            clock.now += 2.5
            await trio.lowlevel.checkpoint()


async def test_without_a_renewal_not_one_more_pass_runs_on_old_state() -> None:
    guard, clock, stopped = made()
    turns: list[bool] = []

    async def turn() -> None:
        while not stopped:
            turns.append(guard.is_trusted)
            clock.now += 0.1
            await trio.lowlevel.checkpoint()

    with installed(guard):
        await turn()
    assert turns == [True] * 24


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_the_clock_is_none_that_anybody_can_set_or_that_stands_still_in_sleep() -> None:
    assert abs(boot_seconds() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1.0
    uptime = Path("/proc/uptime")
    if uptime.exists():
        assert abs(boot_seconds() - float(uptime.read_text().split()[0])) < 5.0
