"""Jobs of behaviours: each room hears what came of its own, in time, whatever they do."""

from __future__ import annotations

import io
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from greenroom.actors.services import jobs
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


Nameless = type("Nameless", (type,), {"__name__": property(shout), "__module__": property(shout)})
Text = type("Text", (str,), dict.fromkeys(("__len__", "__str__", "__format__", "encode"), shout))
Group = type("Group", (BaseExceptionGroup,), {"split": shout, "derive": shout})
HOSTILE: dict[str, Callable[[], BaseException]] = {
    "an error of a class without a name": Nameless("Error", (Exception,), {}),
    "an error that is neither true nor false": type("E", (Exception,), {"__bool__": shout}),
    "an error without attributes": type("E", (Exception,), {"__getattribute__": shout}),
    "an error without a class": type("E", (Exception,), {"__class__": property(shout)}),
    "an error that is mute": type("E", (Exception,), {"__str__": shout, "__repr__": shout}),
    "an error that says what cannot be read": type(
        "E", (Exception,), dict.fromkeys(("__str__", "__repr__"), lambda _: Text("x"))
    ),
    "a group that cannot be split": lambda: Group("g", [GeneratorExit(), Loud()]),
}


@pytest.fixture(params=[TextFormatter, JsonFormatter])
def logged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """The log of jobs, as a server has it; handlers of the tests would not stand such errors."""
    stream, logger = io.StringIO(), logging.Logger("jobs")  # noqa: LOG001 (nobody else hears of it)
    handler = CountingHandler(stream)
    handler.setFormatter(request.param())
    logger.addHandler(handler)
    monkeypatch.setattr(jobs, "_logger", logger)
    return stream


@pytest.mark.usefixtures("signals_as_a_server_has_them")
@pytest.mark.parametrize("where", ["in the job", "in a task of it"])
@pytest.mark.parametrize("name", HOSTILE)
async def test_errors_that_do_harm_when_they_are_looked_at_are_their_room_s_alone(
    autojump_clock, logged: io.StringIO, name: str, where: str
):
    async def job() -> None:
        error = HOSTILE[name]()
        raise error

    async def parent() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(job)

    async with at_work() as desk:
        desk.start(job if where == "in the job" else parent, "hostile")
        desk.start(one, "other")
        await trio.sleep(2)
        heard = dict(desk.told)
        assert isinstance(heard["hostile"], JobFailed)
        assert heard["other"] == 1
    assert "a behaviour's job failed" in logged.getvalue()


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


async def test_tasks_of_jobs_are_watched_though_one_was_interrupted_while_it_began(autojump_clock):
    with Watchdog(0.02) as watchdog:
        async with at_work(watchdog.watch) as desk:
            trio.lowlevel.remove_instrument(desk.jobs._spawned)  # as trio does then
            desk.start(loop_in_a_task)
            await trio.sleep(2)
            assert "a job was interrupted after" in str(desk.told[0][1])
            trio.lowlevel.remove_instrument(desk.jobs._spawned)
            desk.jobs.end()
