"""Tasks that are kept, and time limits that one task keeps for all."""

from __future__ import annotations

from functools import partial

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.bus.task_pool import IDLE_MAX, TaskPool
from greenroom.bus.timeouts import Timeouts


class Limit:
    """Something with a time limit, which notes when it expired."""

    def __init__(self) -> None:
        self.is_over = False
        self.expired_at: float | None = None

    def expire(self) -> None:
        self.expired_at = trio.current_time()


async def test_each_expires_at_its_time_and_what_is_over_never(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    nursery.start_soon(timeouts.run)
    limits = {seconds: Limit() for seconds in (5.0, 1.0, 3.0, 2.0, 4.0)}
    for seconds, limit in limits.items():
        timeouts.add(seconds, limit)
        await trio.lowlevel.checkpoint()
    limits[3.0].is_over = True
    await trio.sleep(10)
    assert {seconds: limit.expired_at for seconds, limit in limits.items()} == {
        1.0: 1.0,
        2.0: 2.0,
        3.0: None,
        4.0: 4.0,
        5.0: 5.0,
    }


async def test_what_is_over_is_forgotten_long_before_its_time() -> None:
    timeouts = Timeouts()
    for _ in range(10_000):
        limit = Limit()
        timeouts.add(1e9, limit)
        limit.is_over = True
        assert len(timeouts._heap) <= 64 + 2
    kept = [Limit() for _ in range(1_000)]
    for limit in kept:
        timeouts.add(1e9, limit)
    assert len(timeouts._heap) >= 1_000


async def test_jobs_are_done_cancelled_at_their_time_and_reported_as_ended(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    nursery.start_soon(timeouts.run)
    pool = TaskPool(nursery, timeouts)
    done: list[int] = []
    ended: list[int] = []

    async def work(number: int) -> None:
        await trio.sleep(number % 3)
        done.append(number)

    for round_ in range(3):
        for number in range(30):
            pool.start(
                partial(work, number),
                partial(ended.append, number),
                ends_at=trio.current_time() + 1.5,
            )
        await trio.sleep(5)
        assert len(ended) == 30 * (round_ + 1)
        assert sorted(done) == sorted([n for n in range(30) if n % 3 < 2] * (round_ + 1))


async def test_so_many_tasks_are_kept_and_no_more(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    pool = TaskPool(nursery, Timeouts())
    ended: list[int] = []
    for number in range(3 * IDLE_MAX):
        pool.start(partial(trio.sleep, 1), partial(ended.append, number), ends_at=1e9)
    await trio.sleep(2)
    assert len(ended) == 3 * IDLE_MAX
    assert len(nursery.child_tasks) == IDLE_MAX


async def test_a_job_whose_time_is_over_before_it_begins_is_not_begun(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    pool = TaskPool(nursery, timeouts)
    begun: list[int] = []
    ended: list[int] = []

    async def work() -> None:
        begun.append(1)
        await trio.lowlevel.checkpoint()

    pool.start(work, partial(ended.append, 1), ends_at=-1.0)
    timeouts._heap[0][2].expire()
    await trio.sleep(1)
    assert not begun
    assert ended == [1]


async def test_jobs_that_need_not_wait_share_a_task(nursery: trio.Nursery) -> None:
    pool = TaskPool(nursery, Timeouts())
    tasks: list[trio.lowlevel.Task] = []

    async def work() -> None:
        tasks.append(trio.lowlevel.current_task())

    for _ in range(10):
        tasks.clear()
        for _ in range(20):
            pool.start(work, lambda: None, ends_at=1e9)
        await wait_all_tasks_blocked()
        assert len(tasks) == 20
    assert len(set(tasks)) == 1


async def test_a_job_that_waits_holds_up_no_other(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    pool = TaskPool(nursery, Timeouts())
    ended: list[int] = []
    for number in range(100):  # from then on few tasks are woken
        pool.start(quick, partial(ended.append, number), ends_at=1e9)
        await wait_all_tasks_blocked()
    for number in range(50):
        work = partial(trio.sleep, 1) if number % 2 else quick
        pool.start(work, partial(ended.append, number), ends_at=1e9)
    before = len(ended)
    await trio.sleep(1)
    await wait_all_tasks_blocked()
    assert (before, len(ended)) == (100, 150)
    assert trio.current_time() == 1.0


async def quick() -> None:
    """Need not wait."""


async def test_a_job_that_is_cancelled_as_it_ends_leaves_the_next_alone(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    pool = TaskPool(nursery, timeouts)
    gate = trio.Event()
    done: list[str] = []

    async def first() -> None:
        await gate.wait()
        done.append("first")

    async def second() -> None:
        await trio.sleep(1)
        done.append("second")

    pool.start(first, lambda: None, ends_at=1.0)
    await wait_all_tasks_blocked()
    gate.set()  # it is woken, and then its time is up, before it runs
    timeouts._heap[0][2].expire()
    pool.start(second, lambda: None, ends_at=1e9)
    await trio.sleep(2)
    assert done == ["first", "second"]


async def test_what_has_not_begun_when_all_ends_is_reported(nursery: trio.Nursery) -> None:
    pool = TaskPool(nursery, Timeouts())
    ended: list[int] = []
    for number in range(3):
        pool.start(partial(trio.sleep, 1), partial(ended.append, number), ends_at=1e9)
    nursery.cancel_scope.cancel()
    pool.end()
    assert sorted(ended) == [0, 1, 2]
