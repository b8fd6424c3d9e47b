"""Tasks that jobs run in: each step is watched over, and nothing that they do harms trio.

trio trusts what runs on it. It shows what a task raises, and ends the whole run where that fails,
where an abort function fails, and where a system task does. So all that a studio's code gives to
trio is made harmless before. Only `TrioToken.run_sync_soon` cannot be made so.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar

import trio

from greenroom.behaviour.runner import Watch, unwatched
from greenroom.foreign_objects import describe_error, is_showable, name_of, plain

ABANDONED_POLL_SECONDS = 0.05
"""How often it is looked whether the tasks of a nursery have ended that was never closed."""

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)

_IS_JOB: ContextVar[bool] = ContextVar("is_job", default=False)
_ABORTED: Final = trio.lowlevel.Abort.SUCCEEDED
_CLOSING_GENERATOR: Final = "close asyncgen "
"""How the names of the tasks begin in which trio closes generators that were left in the middle."""


async def _wait() -> None:
    await trio.lowlevel.wait_task_rescheduled(lambda _: _ABORTED)


async def _pause() -> None:
    await trio.lowlevel.cancel_shielded_checkpoint()


def _first_yielded(waiting: Coroutine[Any, Any, object]) -> Any:
    """Return what one of trio's functions tells trio. There are no public names for it."""
    told = waiting.send(None)
    waiting.close()
    return told


_WAIT: Any = _first_yielded(_wait()).__class__
_CHECKPOINT: Final = _first_yielded(_pause())


class UnshowableError(Exception):
    """A task of a job has raised what cannot even be looked at."""


async def contain(job: Coroutine[Any, Any, Result], watch: Watch) -> Result:
    """Await a job, or a task of one, with every step watched over.

    A nursery that it has left without closing it is cancelled, and outlived: its tasks would be
    nobody's.
    """
    _IS_JOB.set(True)
    try:
        return await _watched(job, watch)
    finally:
        _IS_JOB.set(False)  # not by a token: trio may have changed the context
        await _outlive_abandoned()


async def _outlive_abandoned() -> None:
    task = trio.lowlevel.current_task()
    for nursery in reversed(task.child_nurseries):
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            while nursery.child_tasks:  # noqa: ASYNC110 - trio has no event for it
                await trio.sleep(ABANDONED_POLL_SECONDS)
        with suppress(RuntimeError):  # it was closed, though its nursery was not
            nursery.cancel_scope.__exit__(None, None, None)


class JobTasks(trio.abc.Instrument):
    """Has tasks contained that jobs start, and that those start."""

    def __init__(self, watch: Watch) -> None:
        """Watch over each step of them with `watch`."""
        self._watch = watch

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """Contain a task that has not begun yet, if a job has started it."""
        if not (_is_of_job(task) or task.name.startswith(_CLOSING_GENERATOR)):
            return
        task.context.run(_IS_JOB.set, True)
        task.name = plain(task.name)
        contained: Any = (_contain_system_task if _is_system(task) else _contain_task)(
            task.coro, self._watch
        )
        task.coro = contained


def _is_of_job(task: trio.lowlevel.Task) -> bool:
    """Return whether a task inherits a job's context, or is started by a task of one."""
    if task.context.get(_IS_JOB, False):
        return True
    is_started = trio.lowlevel.in_trio_task()
    return is_started and trio.lowlevel.current_task().context.get(_IS_JOB, False)


def _is_system(task: trio.lowlevel.Task) -> bool:
    nursery = task.parent_nursery
    return nursery is None or nursery.parent_task is trio.lowlevel.current_root_task()


async def _contain_task(job: Coroutine[Any, Any, object], watch: Watch) -> object:
    """Replace what a task raises if trio could not show it."""
    try:
        return await contain(job, watch)
    except trio.Cancelled:
        raise
    except BaseException as error:
        with watch("showing what a job raised"):
            is_harmless = is_showable(error)
        if is_harmless:
            raise
        raise UnshowableError(f"{name_of(error)} that cannot be shown") from None


async def _contain_system_task(job: Coroutine[Any, Any, object], watch: Watch) -> None:
    """Log what a system task raises. It runs in a task of its own, which `JobTasks` contains."""

    async def run() -> None:
        await job

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the job's
        await trio.lowlevel.checkpoint_if_cancelled()
        log_failure(error, watch)


@types.coroutine
def _watched(job: Coroutine[Any, Any, Result], watch: Watch) -> Generator[Any, Any, Result]:
    step: Callable[[], Any] = partial(job.send, None)
    while True:
        try:
            with watch("a job"):
                wanted = step()
        except StopIteration as end:
            result: Result = end.value
            return result
        if _kind_of(wanted) is _WAIT:
            wanted = _WAIT(_make_harmless(wanted.abort_func))
        elif wanted is not _CHECKPOINT:
            step = partial(job.throw, TypeError(f"a job waits for a {name_of(wanted)}, not trio"))
            continue
        try:
            step = partial(job.send, (yield wanted))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the job's
            step = partial(job.throw, error)


def _kind_of(told: object) -> Any:
    return type(told)  # its own `__class__` may be anything


def _make_harmless(
    abort: Callable[[Callable[[], Any]], trio.lowlevel.Abort],
) -> Callable[[Callable[[], Any]], trio.lowlevel.Abort]:
    """Return an abort function that fails instead of raising."""

    def do_abort(raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
        try:
            done = abort(raise_cancel)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the job's
            log_failure(error, unwatched)  # it may be called in the middle of a step
            return trio.lowlevel.Abort.FAILED
        return done if type(done) is trio.lowlevel.Abort else trio.lowlevel.Abort.FAILED

    return do_abort


def log_failure(error: BaseException, watch: Watch) -> None:
    """Log what a job has raised; `watch` watches over it while it is shown."""
    with watch("showing what a job raised"):
        _logger.error("a behaviour's job failed", exc_info=describe_error(error))
