"""Tasks that are kept, and time limits that one task keeps for all."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.bus.task_pool import IDLE_MAX, Job, TaskPool
from greenroom.bus.timeouts import SLOTS_A_SECOND, Slot, Timeouts


class Work(Job):
    """A job of two functions."""

    def __init__(
        self, work: Callable[[], Coroutine[Any, Any, None]], done: Callable[[], None]
    ) -> None:
        super().__init__()
        self._work = work
        self._done = done

    def work(self) -> Coroutine[Any, Any, None]:
        return self._work()

    def end(self) -> None:
        super().end()
        self._done()


def start(pool: TaskPool, job: Job, slot: Slot | None = None) -> None:
    """Do something soon, until the time of a slot."""
    if slot is not None:
        job.slot = slot
        slot.add(job)
    pool.start([job])


class Limit:
    """Something with a time limit, which notes when it expired."""

    def __init__(self) -> None:
        self.expired_at: float | None = None

    def expire(self) -> None:
        self.expired_at = trio.current_time()


async def test_each_expires_at_its_time_and_what_is_over_never(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    nursery.start_soon(timeouts.run)
    limits = {seconds: Limit() for seconds in (5.0, 1.0, 3.0, 2.0, 4.0)}
    slots: dict[float, Slot] = {}
    for seconds, limit in limits.items():
        slots[seconds] = timeouts.add(seconds, limit)
        await trio.lowlevel.checkpoint()
    slots[3.0].discard(limits[3.0])
    await trio.sleep(10)
    assert {seconds: limit.expired_at for seconds, limit in limits.items()} == {
        1.0: 1.0,
        2.0: 2.0,
        3.0: None,
        4.0: 4.0,
        5.0: 5.0,
    }


async def test_limits_of_nearly_the_same_time_share_a_slot_and_none_ends_early(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    nursery.start_soon(timeouts.run)
    times = [1.0 + number / (10 * SLOTS_A_SECOND) for number in range(100)]
    limits = {at: Limit() for at in times}
    slots = [timeouts.add(at, limit) for at, limit in limits.items()]
    assert len({id(slot) for slot in slots}) == 11
    await trio.sleep(3)
    for at, limit in limits.items():
        assert limit.expired_at is not None
        assert at <= limit.expired_at < at + 1 / SLOTS_A_SECOND


async def test_what_is_over_is_held_no_longer_and_empty_slots_end_with_the_next(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    nursery.start_soon(timeouts.run)
    for number in range(1_000):
        limit = Limit()
        timeouts.add(5.0 + number / 100, limit).discard(limit)
    last = Limit()
    timeouts.add(20.0, last)
    assert len(timeouts._slots) <= 10 * SLOTS_A_SECOND + 2
    assert sum(map(len, timeouts._slots.values())) == 1
    await trio.sleep(6)
    assert len(timeouts._slots) == len(timeouts._heap) == 1
    await trio.sleep(20)
    assert last.expired_at == 20.0
    assert not timeouts._slots


async def test_jobs_are_done_cancelled_at_their_time_and_reported_as_ended(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    nursery.start_soon(timeouts.run)
    pool = TaskPool(nursery)
    done: list[int] = []
    ended: list[int] = []

    async def work(number: int) -> None:
        await trio.sleep(number % 3)
        done.append(number)

    for round_ in range(3):
        for number in range(30):
            job = Work(partial(work, number), partial(ended.append, number))
            start(pool, job, timeouts.find(trio.current_time() + 1.5))
        await trio.sleep(5)
        assert len(ended) == 30 * (round_ + 1)
        assert sorted(done) == sorted([n for n in range(30) if n % 3 < 2] * (round_ + 1))


async def test_so_many_tasks_are_kept_and_no_more(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    pool = TaskPool(nursery)
    ended: list[int] = []
    for number in range(3 * IDLE_MAX):
        start(pool, Work(partial(trio.sleep, 1), partial(ended.append, number)))
    await trio.sleep(2)
    assert len(ended) == 3 * IDLE_MAX
    assert len(nursery.child_tasks) == IDLE_MAX


async def test_a_job_whose_time_is_over_before_it_begins_is_not_begun(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    pool = TaskPool(nursery)
    begun: list[int] = []
    ended: list[int] = []

    async def work() -> None:
        begun.append(1)
        await trio.lowlevel.checkpoint()

    start(pool, Work(work, partial(ended.append, 1)), timeouts.find(-1.0))
    expire_next(timeouts)
    await trio.sleep(1)
    assert not begun
    assert ended == [1]


async def test_jobs_that_need_not_wait_share_a_task(nursery: trio.Nursery) -> None:
    pool = TaskPool(nursery)
    tasks: list[trio.lowlevel.Task] = []

    async def work() -> None:
        tasks.append(trio.lowlevel.current_task())

    for _ in range(10):
        tasks.clear()
        for _ in range(20):
            start(pool, Work(work, lambda: None))
        await wait_all_tasks_blocked()
        assert len(tasks) == 20
    assert len(set(tasks)) == 1


async def test_a_job_that_waits_holds_up_no_other(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    pool = TaskPool(nursery)
    ended: list[int] = []
    for number in range(100):  # from then on few tasks are woken
        start(pool, Work(quick, partial(ended.append, number)))
        await wait_all_tasks_blocked()
    for number in range(50):
        work = partial(trio.sleep, 1) if number % 2 else quick
        start(pool, Work(work, partial(ended.append, number)))
    before = len(ended)
    await trio.sleep(1)
    await wait_all_tasks_blocked()
    assert (before, len(ended)) == (100, 150)
    assert trio.current_time() == 1.0


def expire_next(timeouts: Timeouts) -> None:
    """Let the time be over of what ends first."""
    for limited in tuple(timeouts._slots[timeouts._heap[0]]):
        limited.expire()


async def quick() -> None:
    """Need not wait."""


async def test_a_job_that_is_cancelled_as_it_ends_leaves_the_next_alone(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    timeouts = Timeouts()
    pool = TaskPool(nursery)
    gate = trio.Event()
    done: list[str] = []

    async def first() -> None:
        await gate.wait()
        done.append("first")

    async def second() -> None:
        await trio.sleep(1)
        done.append("second")

    start(pool, Work(first, lambda: None), timeouts.find(1.0))
    await wait_all_tasks_blocked()
    gate.set()  # it is woken, and then its time is up, before it runs
    expire_next(timeouts)
    start(pool, Work(second, lambda: None))
    await trio.sleep(2)
    assert done == ["first", "second"]


async def test_what_has_not_begun_when_all_ends_is_reported(nursery: trio.Nursery) -> None:
    pool = TaskPool(nursery)
    ended: list[int] = []
    for number in range(3):
        start(pool, Work(partial(trio.sleep, 1), partial(ended.append, number)))
    nursery.cancel_scope.cancel()
    pool.end()
    assert sorted(ended) == [0, 1, 2]
