"""Processes inside one trio run: each can be stopped as by SIGSTOP, and killed as by kill -9.

A task belongs to the process in whose context it was started, and so do all that it starts. While a
process is stopped, none of its tasks takes a step: what should wake them waits. Time goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import trio

_PROCESS: ContextVar[SimProcess | None] = ContextVar("process", default=None)


class SimProcess:
    """One of them: its tasks, and whether they run."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.is_dead = False
        self.is_ending = False
        """True once it has begun to end by itself."""
        self._stopped_at = 0.0
        self._waking: list[tuple[trio.lowlevel.Task, tuple[Any, ...] | None]] = []
        """Tasks that are to wake, and what with; None if they had woken already."""
        self._scope = trio.CancelScope()

    async def run(
        self,
        main: Callable[[], Any],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run the process's main program in the current task, until it is killed."""
        token = _PROCESS.set(self)
        try:
            with self._scope:
                task_status.started()
                await main()
        finally:
            self.is_dead = True
            _PROCESS.reset(token)

    def clock(self) -> float:
        """Return trio's time as this process sees it: it does not look while it is stopped."""
        return self._stopped_at if self.is_stopped else trio.current_time()

    def stop(self) -> None:
        """Let no task of the process take another step."""
        if self.is_stopped or self.is_dead:
            return
        self._stopped_at, self.is_stopped = trio.current_time(), True
        queue = trio._core._run.GLOBAL_RUN_CONTEXT.runner.runq
        ready = list(queue)
        queue.clear()
        for task in ready:
            if task.context.get(_PROCESS) is self:
                self._waking.append((task, None))
            else:
                queue.append(task)

    def go_on(self, first: Callable[[], None] = lambda: None) -> None:
        """Let them go on, after something that comes before any task."""
        if not self.is_stopped:
            return
        self.is_stopped = False
        first()
        waking, self._waking = self._waking, []
        runner = trio._core._run.GLOBAL_RUN_CONTEXT.runner
        for task, sent in waking:
            if sent is None:
                runner.runq.append(task)
            else:
                _sound(runner, task, *sent)

    def kill(self) -> None:
        """Have all tasks end; what they do meanwhile reaches nobody: the caller sees to that."""
        self.is_dead = True
        self.go_on()
        self._scope.cancel()

    def hold(self, task: trio.lowlevel.Task, sent: tuple[Any, ...]) -> None:
        """Keep a task from waking while the process is stopped."""
        task._abort_func = None
        self._waking.append((task, sent))


def is_going_on() -> bool:
    """Return whether the process of the current task, if it is of one, is not about to end."""
    try:
        process = trio.lowlevel.current_task().context.get(_PROCESS)
    except RuntimeError:  # outside of every task, so of every process
        return True
    return process is None or not (process.is_dead or process.is_ending)


_sound: Any = trio._core._run.Runner.reschedule


@contextmanager
def stoppable() -> Iterator[None]:
    """Let processes be stopped in every trio run of the block."""

    def reschedule(runner: Any, task: Any, *sent: Any) -> None:
        process = task.context.get(_PROCESS)
        if process is not None and process.is_stopped:
            process.hold(task, sent)
        else:
            _sound(runner, task, *sent)

    kind: Any = trio._core._run.Runner
    kind.reschedule = reschedule
    try:
        yield
    finally:
        kind.reschedule = _sound
