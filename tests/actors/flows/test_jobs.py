"""Jobs of behaviours: each room hears what came of its own, in time, whatever they do."""

from __future__ import annotations

import contextvars
import gc
import io
import logging
import types
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

import outcome
import pytest
import trio

from greenroom.actors.services import job_tasks, jobs
from greenroom.actors.services.jobs import JOBS_AT_ONCE, JOBS_MAX, ROOM_JOBS_MAX, Jobs
from greenroom.behaviour import JobFailed
from greenroom.behaviour.effects import Run
from greenroom.behaviour.runner import Watch, unwatched
from greenroom.behaviour.watchdog import Watchdog
from greenroom.logs import CountingHandler, JsonFormatter, TextFormatter

SECONDS_MAX = 30.0
TOO_LATE = JobFailed("took longer than 30 s")


class Desk:
    """Starts jobs, and writes down what rooms were told and when."""

    def __init__(self, watch: Watch) -> None:
        self.jobs = Jobs(watch, SECONDS_MAX, self._tell)
        self.told: list[tuple[str, object]] = []
        self.began_at = trio.current_time()

    def _tell(self, room_id: str, work: Run, result: object) -> None:
        self.told.append((room_id, result))

    def start(self, job: Callable[[], Awaitable[object]], room_id: str = "a") -> None:
        self.jobs.start(room_id, Run(job, lambda room, result: None))

    @property
    def seconds(self) -> float:
        return trio.current_time() - self.began_at


@asynccontextmanager
async def at_work(watch: Watch = unwatched) -> AsyncGenerator[Desk]:
    async with trio.open_nursery() as nursery:
        desk = Desk(watch)
        desk.jobs.begin(nursery)
        yield desk
        nursery.cancel_scope.cancel()


async def one() -> int:
    await trio.sleep(1)
    return 1


async def crash() -> None:
    await trio.sleep(1)
    raise ZeroDivisionError


async def be_impatient() -> None:
    with trio.fail_after(1):
        await trio.sleep_forever()


async def leave_python_in_a_task() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        raise SystemExit


async def leave_a_generator() -> None:
    await trio.sleep(1)
    raise GeneratorExit


async def interrupt_in_a_task() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        await interrupt()


async def interrupt() -> None:
    raise KeyboardInterrupt


async def raise_a_group() -> None:
    raise BaseExceptionGroup("several", [GeneratorExit(), BaseException("its own"), ValueError()])


async def interrupt_when_stopped() -> None:
    """Answer a cancellation with something worse."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        try:
            await trio.sleep_forever()
        finally:
            raise GeneratorExit


async def never() -> None:
    await trio.sleep_forever()


async def not_to_be_stopped() -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(1_000)


async def loop() -> None:
    await trio.lowlevel.checkpoint()
    loop_for_ever()


def loop_for_ever(*_: object) -> Any:
    while True:
        pass


async def loop_beside_a_task() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        await loop()


async def loop_in_a_task() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop)


async def loop_in_a_task_of_a_task() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop_in_a_task)
        await trio.sleep_forever()


async def be_three() -> int:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        nursery.start_soon(one)
    return 3


async def test_a_room_hears_what_a_job_returns_or_how_it_failed(autojump_clock):
    async with at_work() as desk:
        jobs = (one, crash, leave_python_in_a_task, be_impatient)
        for room_id, job in zip("abcd", jobs, strict=True):
            desk.start(job, room_id)
        await trio.sleep(2)
        heard = dict(desk.told)
        assert heard["a"] == 1
        assert heard["b"] == JobFailed("ZeroDivisionError()")
        assert "SystemExit" in str(heard["c"])
        assert heard["d"] == JobFailed("TooSlowError()")


@pytest.mark.usefixtures("signals_as_a_server_has_them")
async def test_whatever_a_job_raises_is_its_room_s_alone(autojump_clock):
    jobs = {
        leave_a_generator: "GeneratorExit",
        interrupt: "KeyboardInterrupt",
        interrupt_in_a_task: "KeyboardInterrupt",
        raise_a_group: "its own",
        interrupt_when_stopped: "GeneratorExit",
        one: "1",
    }
    async with at_work() as desk:
        for job in jobs:
            desk.start(job, job.__name__)
        await trio.sleep(SECONDS_MAX + 0.1)
        heard = dict(desk.told)
        for job, said in jobs.items():
            assert said in str(heard[job.__name__])


class Loud(BaseException):
    """Raised by whatever is asked of a hostile object."""


def shout(*_: object) -> Any:
    raise Loud


def lose(*_: object) -> None:
    """Return nothing where the error itself is expected."""


Mute = type("Mute", (Exception,), {"__str__": shout, "__repr__": shout})
Nameless = type("Nameless", (type,), {"__name__": property(shout), "__module__": property(shout)})
Text = type("Text", (str,), dict.fromkeys(("__len__", "__str__", "__format__", "encode"), shout))
Group = type("Group", (BaseExceptionGroup,), {"split": shout, "derive": shout})
HOSTILE: dict[str, Callable[[], BaseException]] = {
    "an error of a class without a name": Nameless("Error", (Exception,), {}),
    "an error that is neither true nor false": type("E", (Exception,), {"__bool__": shout}),
    "an error without attributes": type("E", (Exception,), {"__getattribute__": shout}),
    "an error without a class": type("E", (Exception,), {"__class__": property(shout)}),
    "an error that is mute": Mute,
    "an error that says what cannot be read": type(
        "E", (Exception,), dict.fromkeys(("__str__", "__repr__"), lambda _: Text("x"))
    ),
    "an error that holds a mute one": lambda: ValueError(Mute()),
    "an error that cannot be traced": type("E", (Exception,), {"with_traceback": shout}),
    "an error that is lost when it is traced": type("E", (Exception,), {"with_traceback": lose}),
    "a group that cannot be split": lambda: Group("g", [GeneratorExit(), Loud()]),
    "an interrupt": KeyboardInterrupt,
    "a mere error": ZeroDivisionError,
}


@pytest.fixture(params=[TextFormatter, JsonFormatter])
def logged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """The log of jobs, as a server has it; handlers of the tests would not stand such errors."""
    stream, logger = io.StringIO(), logging.Logger("jobs")  # noqa: LOG001 (nobody else hears of it)
    handler = CountingHandler(stream)
    handler.setFormatter(request.param())
    logger.addHandler(handler)
    monkeypatch.setattr(jobs, "_logger", logger)
    monkeypatch.setattr(job_tasks, "_logger", logger)
    return stream


class Sneaky:
    """Jobs that raise an error where trio does not expect one, or leave trio's own things open."""

    def __init__(self, make_error: Callable[[], BaseException]) -> None:
        self.make_error = make_error

    async def in_the_job(self) -> None:
        raise self.make_error()

    def now(self, *_: object) -> Any:
        raise self.make_error()

    async def in_a_task(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(self.in_the_job)

    async def in_a_nursery(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await self.in_the_job()

    async def in_a_nursery_of_a_task(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.in_a_nursery)

    async def in_a_nursery_that_is_cancelled(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.cancel()
            await self.in_the_job()

    async def in_a_nursery_with_a_deadline(self) -> None:
        with trio.move_on_after(5):
            await self.in_a_nursery()

    async def in_a_nursery_that_is_left_open(self) -> None:
        nursery = await trio.open_nursery().__aenter__()
        nursery.start_soon(trio.sleep_forever)
        raise self.make_error()

    async def in_a_scope_that_is_cancelled(self) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await self.in_the_job()

    async def in_a_task_that_starts(self) -> None:
        async def start(task_status: object) -> None:
            await self.in_the_job()

        async with trio.open_nursery() as nursery:
            await nursery.start(start)

    async def in_a_task_of_its_nursery(self) -> None:
        nursery = trio.lowlevel.current_task().parent_nursery
        assert nursery is not None
        nursery.start_soon(self.in_the_job)
        await trio.sleep_forever()

    async def in_a_task_with_a_mute_name(self) -> None:
        class Name(str):
            __slots__ = ()
            __repr__ = shout

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.in_the_job, name=Name("x"))

    async def in_a_task_without_its_context(self) -> None:
        async with trio.open_nursery() as nursery:
            contextvars.Context().run(nursery.start_soon, self.in_the_job)

    async def in_a_system_task(self) -> None:
        trio.lowlevel.spawn_system_task(self.in_the_job)
        await trio.sleep(0.1)
        self.now()

    async def in_a_nursery_of_a_system_task(self) -> None:
        trio.lowlevel.spawn_system_task(self.in_a_nursery)
        await trio.sleep(0.1)
        self.now()

    async def while_a_cancellation_is_shown(self) -> None:
        task = trio.lowlevel.current_task()
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.deadline = trio.current_time() + 0.1
            trio.lowlevel.spawn_system_task(self._wake, task)
            await trio.lowlevel.wait_task_rescheduled(self.now)
        self.now()

    async def _wake(self, task: trio.lowlevel.Task) -> None:
        await trio.sleep(0.2)
        trio.lowlevel.reschedule(task)

    async def as_what_a_task_waits_for(self) -> None:
        @types.coroutine
        def wait() -> Generator[Any, Any, None]:
            yield self.make_error()

        await wait()

    async def as_the_end_of_a_detached_task(self) -> None:
        end = outcome.Error(self.make_error())
        await trio.lowlevel.permanently_detach_coroutine_object(end)

    async def beside_a_cancellation_of_another_scope(self) -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.sleep_forever()
            except trio.Cancelled as error:
                cancelled = error
        raise BaseExceptionGroup("both", [cancelled, self.make_error()])


WHERE = [name for name in vars(Sneaky) if name.split("_")[0] in {"in", "while", "as", "beside"}]


@pytest.mark.usefixtures("signals_as_a_server_has_them")
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", HOSTILE)
async def test_errors_that_do_harm_when_they_are_looked_at_are_their_room_s_alone(
    autojump_clock, logged: io.StringIO, name: str, where: str
):
    async with at_work() as desk:
        desk.start(getattr(Sneaky(HOSTILE[name]), where), "hostile")
        desk.start(one, "other")
        await trio.sleep(2)
        heard = dict(desk.told)
        assert isinstance(heard["hostile"], JobFailed)
        assert heard["other"] == 1
    assert "a behaviour's job failed" in logged.getvalue()


async def steal_a_cancellation() -> None:
    """Raise the cancellation of a scope outside of it."""
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            cancelled = error
    raise cancelled


async def test_a_job_that_raises_a_cancellation_that_is_not_meant_for_it_ends_nobody_else(
    autojump_clock,
):
    async with at_work() as desk:
        desk.start(steal_a_cancellation)
        desk.start(one, "other")
        await trio.sleep(2)
        assert desk.told == [("a", JobFailed("cancelled")), ("other", 1)]


async def leave_a_shielded_task() -> None:
    nursery = await trio.open_nursery().__aenter__()
    nursery.start_soon(not_to_be_stopped)


async def test_a_job_keeps_its_place_while_tasks_that_it_has_left_run(autojump_clock, monkeypatch):
    monkeypatch.setattr(job_tasks, "ABANDONED_POLL_SECONDS", 10.0)
    async with at_work() as desk:
        desk.start(leave_a_shielded_task)
        await trio.sleep(900)
        assert desk.told == [("a", TOO_LATE)]
        assert len(desk.jobs.list_numbers("a")) == 1
        await trio.sleep(200)
        assert not desk.jobs.list_numbers("a")


async def test_jobs_that_raise_worse_when_they_are_given_up_end_nobody_else(autojump_clock):
    async with at_work() as desk:
        desk.start(interrupt_when_stopped)
        await trio.sleep(1)


async def test_a_job_that_never_ends_is_stopped(autojump_clock):
    async with at_work() as desk:
        desk.start(never)
        await trio.sleep(SECONDS_MAX + 0.1)
        assert desk.told == [("a", TOO_LATE)]


async def test_of_a_job_that_cannot_be_stopped_its_room_hears_once_and_in_time(
    autojump_clock, caplog
):
    async with at_work() as desk:
        desk.start(not_to_be_stopped)
        await trio.sleep(SECONDS_MAX + 1.1)
        assert desk.told == [("a", TOO_LATE)]
        assert [record.getMessage() for record in caplog.records] == [
            "a job of room a does not stop"
        ]
        desk.start(one)
        await trio.sleep(2_000)
        assert desk.told == [("a", TOO_LATE), ("a", 1)]


async def test_jobs_that_come_too_late_to_a_place_fail_in_time(autojump_clock):
    async with at_work() as desk:
        for number in range(JOBS_AT_ONCE + 1):
            desk.start(never, f"room {number}")
        await trio.sleep(SECONDS_MAX + 0.1)
        assert [result for _, result in desk.told] == [TOO_LATE] * (JOBS_AT_ONCE + 1)


async def test_jobs_are_bounded_for_each_room_and_for_all(autojump_clock):
    async with at_work() as desk:
        for _ in range(ROOM_JOBS_MAX + 1):
            desk.start(one)
        assert desk.told == [("a", JobFailed("too many jobs"))]
        for number in range(JOBS_MAX - ROOM_JOBS_MAX + 1):
            desk.start(one, f"room {number}")
        assert [result for _, result in desk.told] == [JobFailed("too many jobs")] * 2
        await trio.sleep(SECONDS_MAX)
        assert [result for _, result in desk.told[2:]] == [1] * JOBS_MAX
        desk.start(one)
        await trio.sleep(2)
        assert desk.told[-1] == ("a", 1)


async def test_jobs_wait_until_there_is_somebody_to_do_them(autojump_clock):
    desk = Desk(unwatched)
    desk.start(one)
    async with trio.open_nursery() as nursery:
        desk.jobs.begin(nursery)
        await trio.sleep(2)
        assert desk.told == [("a", 1)]
        desk.start(never)
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert desk.told == [("a", 1)], "a job is given up with the server, and nobody told"


async def test_a_job_that_computes_without_a_pause_is_interrupted(autojump_clock):
    with Watchdog(0.02) as watchdog:
        async with at_work(watchdog.watch) as desk:
            desk.start(loop, "a")
            desk.start(loop_beside_a_task, "b")
            desk.start(one, "c")
            desk.start(loop_in_a_task, "d")
            desk.start(loop_in_a_task_of_a_task, "e")
            desk.start(be_three, "f")
            await trio.sleep(2)
            heard = dict(desk.told)
            assert "a job was interrupted after" in str(heard["a"])
            assert "Interrupted" in str(heard["b"])
            assert heard["c"] == 1
            assert "a job was interrupted after" in str(heard["d"])
            assert "a job was interrupted after" in str(heard["e"])
            assert heard["f"] == 3
        assert watchdog.running is None


async def leave_a_generator_that_loops() -> None:
    async def loop_at_the_end() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            loop_for_ever()

    async for _ in loop_at_the_end():
        break


async def raise_what_loops() -> None:
    raise type("E", (Exception,), dict.fromkeys(("__str__", "__repr__"), loop_for_ever))


async def raise_what_loops_in_a_task() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raise_what_loops)


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_what_runs_for_a_job_beside_it_is_interrupted_too(
    autojump_clock, logged: io.StringIO
):
    with Watchdog(0.02) as watchdog:
        async with at_work(watchdog.watch) as desk:
            desk.start(leave_a_generator_that_loops, "a")
            desk.start(raise_what_loops, "b")
            desk.start(raise_what_loops_in_a_task, "c")
            await trio.sleep(2)
            gc.collect()
            heard = dict(desk.told)
            assert heard["a"] is None
            assert "cannot be shown" in str(heard["b"])
            assert "cannot be shown" in str(heard["c"])


async def test_tasks_of_jobs_are_watched_though_one_was_interrupted_while_it_began(autojump_clock):
    with Watchdog(0.02) as watchdog:
        async with at_work(watchdog.watch) as desk:
            trio.lowlevel.remove_instrument(desk.jobs._tasks)  # as trio does then
            desk.start(loop_in_a_task)
            await trio.sleep(2)
            assert "a job was interrupted after" in str(desk.told[0][1])
            trio.lowlevel.remove_instrument(desk.jobs._tasks)
            desk.jobs.end()
