"""Tasks that answer asks, each within its time. They are kept: to start one costs twice as much."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from greenroom.bus.timeouts import Timeouts

IDLE_MAX: Final = 64
"""Tasks that are kept while they have nothing to do."""


class _Job:
    """Something to do, with a time limit."""

    __slots__ = ("done", "is_over", "scope", "work")

    def __init__(self, work: Callable[[], Awaitable[None]], done: Callable[[], None]) -> None:
        self.work = work
        self.done = done
        self.is_over = False
        self.scope: trio.CancelScope | None = None
        """The scope of the task that does it; `None` while it has not begun."""

    def expire(self) -> None:
        """Cancel it, or keep it from beginning."""
        self.is_over = True
        if self.scope is not None:
            self.scope.cancel()


class _Idle:
    """A task that waits for a job."""

    __slots__ = ("job", "task")

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self.task = task
        self.job: _Job | None = None


class TaskPool:
    """Does what it is given, in tasks of a nursery. Whoever gives bounds how much there is."""

    def __init__(self, nursery: trio.Nursery, timeouts: Timeouts) -> None:
        """Begin without a task.

        Args:
            nursery: has the tasks; the pool ends with it.
            timeouts: cancel what takes too long.
        """
        self._nursery = nursery
        self._timeouts = timeouts
        self._idle: list[_Idle] = []

    def start(
        self, work: Callable[[], Awaitable[None]], done: Callable[[], None], *, ends_at: float
    ) -> None:
        """Do something soon.

        Args:
            work: raises nothing but `trio.Cancelled`.
            done: called once it has ended, or will not begin.
            ends_at: the time of trio's clock at which it is cancelled.
        """
        job = _Job(work, done)
        self._timeouts.add(ends_at, job)
        if self._idle:
            idle = self._idle.pop()
            idle.job = job
            trio.lowlevel.reschedule(idle.task)
        else:
            self._nursery.start_soon(self._work, job)

    async def _work(self, job: _Job | None) -> None:
        """Do this job and those that come afterwards."""
        while job is not None:
            with trio.CancelScope() as scope:
                while job is not None:
                    await _do(job, scope)
                    job = await self._next_job()
            if scope.cancelled_caught:
                job = await self._next_job()

    async def _next_job(self) -> _Job | None:
        """Wait for a job; `None` if enough tasks wait for one already."""
        if len(self._idle) >= IDLE_MAX:
            return None
        idle = _Idle(trio.lowlevel.current_task())
        self._idle.append(idle)

        def forget(_: Any) -> trio.lowlevel.Abort:
            self._idle.remove(idle)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(forget)
        return idle.job


async def _do(job: _Job, scope: trio.CancelScope) -> None:
    try:
        if not job.is_over:
            job.scope = scope
            await job.work()
    finally:
        job.is_over = True
        job.done()
