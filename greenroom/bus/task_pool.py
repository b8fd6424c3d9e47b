"""Tasks that answer asks, each within its time. They are kept: to start one costs twice as much.

A task goes on with the next job as long as its jobs need not wait. So most reads, which find all
that they need in memory, cost no switch of tasks. A job that waits keeps its task. How many tasks
are woken for some jobs follows from how many jobs had to wait lately.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import trio

from greenroom.bus.timeouts import Slot

IDLE_MAX: Final = 64
"""Tasks that are kept while they have nothing to do."""
WEIGHT: Final = 1 / 16
"""How much the last job counts in the share of jobs that wait."""


class Job(ABC):
    """Something to do, with a time limit."""

    __slots__ = ("is_over", "scope", "slot")

    def __init__(self) -> None:
        """Begin with nothing done."""
        self.is_over = False
        self.scope: trio.CancelScope | None = None
        """The scope of the task that does it; `None` while it has not begun."""
        self.slot: Slot | None = None
        """It keeps the time limit."""

    @abstractmethod
    def work(self) -> Coroutine[Any, Any, None]:
        """Do it; raises nothing but `trio.Cancelled`."""

    def expire(self) -> None:
        """Cancel it, or keep it from beginning."""
        self.is_over = True
        if self.scope is not None:
            self.scope.cancel()

    def end(self) -> None:
        """Have done with it: it has ended, or will not begin."""
        self.is_over = True
        if self.slot is not None:
            self.slot.discard(self)


class TaskPool:
    """Does what it is given, in tasks of a nursery. Whoever gives bounds how much there is."""

    def __init__(self, nursery: trio.Nursery) -> None:
        """Begin without a task; the pool ends with the nursery, which has the tasks."""
        self._nursery = nursery
        self._jobs: deque[Job] = deque()
        """Jobs that have not begun. While there are any, some task is awake, or called."""
        self._idle: list[trio.lowlevel.Task] = []
        self._called = 0
        """Tasks that have been woken or started, and have not run since."""
        self._running: Job | None = None
        """The job that runs, unless it has waited since it began."""
        self._waiting_share = 1.0
        """The share of jobs that had to wait, of the last ones."""

    def start(self, jobs: Sequence[Job]) -> None:
        """Do some things soon, each of which is in its slot. Not to be called by a job."""
        self._jobs += jobs
        self._running = None
        for _ in jobs:
            if self._called >= 1 + self._waiting_share * len(self._jobs):
                break
            self._call()

    def end(self) -> None:
        """Drop what has not begun: the nursery was cancelled."""
        while self._jobs:
            self._jobs.popleft().end()

    def _call(self) -> None:
        """Start one more task that looks for jobs."""
        self._called += 1
        if self._idle:
            trio.lowlevel.reschedule(self._idle.pop())
        else:
            self._nursery.start_soon(self._work)

    async def _work(self) -> None:
        """Do jobs, and wait for more, until enough other tasks wait for some."""
        task, jobs, idle = trio.lowlevel.current_task(), self._jobs, self._idle

        def forget(_: Any) -> trio.lowlevel.Abort:
            idle.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        self._called -= 1
        while True:
            with trio.CancelScope() as scope:
                is_of_use = True
                while is_of_use:
                    if jobs:
                        is_of_use = await self._do(jobs.popleft(), scope)
                        continue
                    self._running = None
                    if len(idle) >= IDLE_MAX:
                        return
                    idle.append(task)
                    await trio.lowlevel.wait_task_rescheduled(forget)
                    self._called -= 1

    async def _do(self, job: Job, scope: trio.CancelScope) -> bool:
        """Do a job; False if its time was up, so that the scope is of no use any more."""
        self._running = job
        if self._jobs and not self._called:
            self._call()  # this job may have to wait
        try:
            if not job.is_over:
                job.scope = scope
                await job.work()
        finally:
            has_waited = self._running is not job
            self._waiting_share += WEIGHT * (has_waited - self._waiting_share)
            is_cancelled = job.is_over and job.scope is not None
            job.end()
        return not is_cancelled
