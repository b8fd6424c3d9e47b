"""Jobs of behaviours, outside of their rooms' turns: bounded, and their rooms always hear.

Jobs are the studio's code, on the server's own loop. So each step of a job, and of the tasks that
it starts, is watched as a hook is: one that computes for long is interrupted. A job that cannot be
stopped, because it shields itself or waits for a thread, keeps its place. Its room is told in time
all the same.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection
from contextlib import suppress

import trio

from greenroom.actors.services.job_tasks import JobTasks, contain, log_failure
from greenroom.behaviour import JobFailed
from greenroom.behaviour.effects import Run
from greenroom.behaviour.errors import shown
from greenroom.behaviour.runner import Watch
from greenroom.foreign_objects import list_leaves
from greenroom.interrupts import is_real_interrupt

JOBS_MAX = 1_000
"""Jobs of all rooms that may run or wait; a further one fails at once."""
ROOM_JOBS_MAX = 32
"""Jobs of one room that may run or wait."""
JOBS_AT_ONCE = 100
STOP_SECONDS = 1.0
"""How long a job that is too late may take to clean up before its room hears without it."""

Tell = Callable[[str, Run, object], None]
"""Tells a room the result of a job."""

_logger = logging.getLogger(__name__)


class Jobs:
    """The jobs of all rooms."""

    def __init__(self, watch: Watch, seconds_max: float, tell: Tell) -> None:
        """Prepare; jobs wait until `begin`.

        Args:
            watch: watches over each step of a job.
            seconds_max: how long a job may take, the wait for its turn included.
            tell: is told what came of each; must not raise.
        """
        self._watch = watch
        self._seconds_max = seconds_max
        self._tell = tell
        self._nursery: trio.Nursery | None = None
        self._waiting: list[tuple[str, int, Run]] = []
        """Jobs from before `begin`."""
        self._numbers = itertools.count()
        self._under_way: dict[str, set[int]] = {}
        """The numbers of the jobs that run or wait, by room."""
        self._total = 0
        self._limiter = trio.CapacityLimiter(JOBS_AT_ONCE)
        self._tasks = JobTasks(watch)

    def begin(self, nursery: trio.Nursery) -> None:
        """Let jobs run in this nursery; whoever cancels it says `end`."""
        self._nursery = nursery
        trio.lowlevel.add_instrument(self._tasks)
        waiting, self._waiting = self._waiting, []
        for room_id, number, work in waiting:
            nursery.start_soon(self._run, room_id, number, work)

    def end(self) -> None:
        """Let jobs wait from now on; those under way have been given up."""
        if self._nursery is not None:
            with suppress(KeyError):  # as below
                trio.lowlevel.remove_instrument(self._tasks)
        self._nursery = None

    def start(self, room_id: str, work: Run) -> None:
        """Do a job of a room; one too many fails at once."""
        if len(self.list_numbers(room_id)) >= ROOM_JOBS_MAX or self._total >= JOBS_MAX:
            self._tell(room_id, work, JobFailed("too many jobs"))
            return
        number = next(self._numbers)
        self._under_way.setdefault(room_id, set()).add(number)
        self._total += 1
        if self._nursery is None:
            self._waiting.append((room_id, number, work))
        else:
            self._nursery.start_soon(self._run, room_id, number, work)

    def list_numbers(self, room_id: str) -> Collection[int]:
        """Return the numbers of a room's jobs that run or wait; no two jobs have the same."""
        return self._under_way.get(room_id, ())

    def _note_done(self, room_id: str, number: int) -> None:
        self._total -= 1
        self._under_way[room_id].remove(number)
        if not self._under_way[room_id]:
            del self._under_way[room_id]

    async def _run(self, room_id: str, number: int, work: Run) -> None:
        """Do a job, and have its room told in time, whatever the job does."""
        told = trio.Event()

        def tell(result: object) -> None:
            if not told.is_set():
                told.set()
                self._tell(room_id, work, result)

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._do, room_id, number, work, tell)
                with trio.move_on_after(self._seconds_max + STOP_SECONDS) as patience:
                    await told.wait()
                if patience.cancelled_caught:
                    _logger.error("a job of room %s does not stop", room_id)
                    tell(self._make_too_late())
        except BaseException as error:  # noqa: BLE001 - as of a job that has left a nursery open
            failed = self._make_failed(error)
            await trio.lowlevel.checkpoint_if_cancelled()
            tell(failed)

    async def _do(
        self, room_id: str, number: int, work: Run, tell: Callable[[object], None]
    ) -> None:
        try:
            result = await self._await_result(work)
        finally:
            self._note_done(room_id, number)
        tell(result)

    async def _await_result(self, work: Run) -> object:
        """Return what a job returns, or how it failed."""
        if self._nursery is not None:  # trio takes out what was interrupted in the middle of it
            trio.lowlevel.add_instrument(self._tasks)
        try:
            with trio.move_on_after(self._seconds_max):
                async with self._limiter:
                    return await contain(_begin(work), self._watch)
            return self._make_too_late()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the job's
            failed = self._make_failed(error)
            await trio.lowlevel.checkpoint_if_cancelled()
            return failed

    def _make_failed(self, error: BaseException) -> JobFailed:
        """Log how a job failed, and say it; a real ^C is raised again."""
        if is_real_interrupt(error):
            raise error
        if all(type(leaf) is trio.Cancelled for leaf in list_leaves(error)):
            return JobFailed("cancelled")
        log_failure(error, self._watch)
        with self._watch("showing what a job raised"):
            return JobFailed(shown(error))

    def _make_too_late(self) -> JobFailed:
        return JobFailed(f"took longer than {self._seconds_max:g} s")


async def _begin(work: Run) -> object:
    return await work.job()
