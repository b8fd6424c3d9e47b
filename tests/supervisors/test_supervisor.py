"""The static supervisor carries out OTP's rules, under a clock that jumps."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from greenroom.supervisors.policy import Restart, Strategy
from greenroom.supervisors.spec import ChildSpec, Hopeless
from greenroom.supervisors.supervisor import RestartLimitExceeded, StartFailed, Supervisor

Jump = trio.testing.MockClock


class Probe:
    """A service that notes its life in a shared log and crashes or returns when told."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.starts = 0
        self.fail_starts: set[int] = set()
        self.stop_seconds = 0.0
        self._end = trio.Event()
        self._error: Exception | None = None

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        self.starts += 1
        self._end = trio.Event()
        self._error = None
        if self.starts in self.fail_starts:
            raise RuntimeError(f"{self.name} cannot start")
        self.log.append(f"+{self.name}")
        task_status.started()
        try:
            await self._end.wait()
            if self._error is not None:
                raise self._error
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(self.stop_seconds)
            self.log.append(f"-{self.name}")

    async def crash(self, error: Exception | None = None) -> None:
        self._error = error or RuntimeError(f"{self.name} crashed")
        await self.end()

    async def end(self) -> None:
        self._end.set()
        await trio.testing.wait_all_tasks_blocked()


def crew(log: list[str], names: str = "abc") -> dict[str, Probe]:
    return {name: Probe(name, log) for name in names}


def specs(probes: dict[str, Probe], **restarts: Restart) -> list[ChildSpec]:
    return [ChildSpec(n, p, restarts.get(n, Restart.PERMANENT)) for n, p in probes.items()]


async def test_children_start_in_order_and_stop_in_reverse_each_waited_for(
    nursery: trio.Nursery, autojump_clock: Jump
) -> None:
    log: list[str] = []
    probes = crew(log)
    probes["c"].stop_seconds = 2.0
    supervisor = Supervisor("root", specs(probes))
    async with trio.open_nursery() as inner:
        await inner.start(supervisor.run)
        inner.cancel_scope.cancel()
    assert log == ["+a", "+b", "+c", "-c", "-b", "-a"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.ONE_FOR_ONE, ["-b", "+b"]),
        (Strategy.REST_FOR_ONE, ["-b", "-c", "+b", "+c"]),
        (Strategy.ONE_FOR_ALL, ["-b", "-c", "-a", "+a", "+b", "+c"]),
    ],
)
async def test_a_crash_restarts_whom_the_strategy_says(
    nursery: trio.Nursery, autojump_clock: Jump, strategy: Strategy, expected: list[str]
) -> None:
    log: list[str] = []
    probes = crew(log)
    await nursery.start(Supervisor("root", specs(probes), strategy=strategy).run)
    log.clear()
    await probes["b"].crash()
    assert log == expected
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("restart", "crashed", "expected"),
    [
        (Restart.PERMANENT, False, ["-a", "+a"]),
        (Restart.PERMANENT, True, ["-a", "+a"]),
        (Restart.TRANSIENT, False, ["-a"]),
        (Restart.TRANSIENT, True, ["-a", "+a"]),
        (Restart.TEMPORARY, True, ["-a"]),
    ],
)
async def test_a_child_is_restarted_as_its_restart_type_says(
    nursery: trio.Nursery,
    autojump_clock: Jump,
    restart: Restart,
    crashed: bool,
    expected: list[str],
) -> None:
    log: list[str] = []
    probes = crew(log, "a")
    await nursery.start(Supervisor("root", specs(probes, a=restart)).run)
    log.clear()
    await (probes["a"].crash if crashed else probes["a"].end)()
    assert log == expected
    nursery.cancel_scope.cancel()


async def test_too_many_restarts_within_the_window_stop_everybody_and_escalate(
    autojump_clock: Jump,
) -> None:
    log: list[str] = []
    probes = crew(log)
    supervisor = Supervisor("root", specs(probes), restarts_max=2, window_seconds=5)

    async def crash_thrice() -> None:
        for _ in range(3):
            await probes["a"].crash()

    with pytest.RaisesGroup(
        pytest.RaisesExc(RestartLimitExceeded, match="lastly a"), flatten_subgroups=True
    ):
        async with trio.open_nursery() as inner:
            await inner.start(supervisor.run)
            await crash_thrice()
    assert log[-2:] == ["-c", "-b"]


async def test_restarts_further_apart_than_the_window_are_borne_for_ever(
    nursery: trio.Nursery, autojump_clock: Jump
) -> None:
    probes = crew([], "a")
    supervisor = Supervisor("root", specs(probes), restarts_max=1, window_seconds=5)
    await nursery.start(supervisor.run)
    for _ in range(5):
        await probes["a"].crash()
        await trio.sleep(6)
    assert supervisor.list_branches()[0].restarts == 5
    nursery.cancel_scope.cancel()


async def test_a_supervisor_is_a_child_and_its_escalation_is_a_crash_of_that_child(
    nursery: trio.Nursery, autojump_clock: Jump
) -> None:
    log: list[str] = []
    probes = crew(log, "a")
    inner = Supervisor("inner", specs(probes), restarts_max=0)
    await nursery.start(Supervisor("outer", [ChildSpec("inner", inner)]).run)
    await probes["a"].crash()
    assert log == ["+a", "-a", "+a"]
    assert probes["a"].starts == 2
    nursery.cancel_scope.cancel()


async def test_a_failure_at_the_first_start_stops_those_before_it_and_says_who(
    autojump_clock: Jump,
) -> None:
    log: list[str] = []
    probes = crew(log)
    probes["c"].fail_starts = {1}
    with pytest.RaisesGroup(
        pytest.RaisesExc(StartFailed, match="c did not start"), flatten_subgroups=True
    ):
        async with trio.open_nursery() as inner:
            await inner.start(Supervisor("root", specs(probes)).run)
    assert log == ["+a", "+b", "-b", "-a"]


async def test_a_failure_to_restart_spends_the_budget_and_is_tried_again(
    nursery: trio.Nursery, autojump_clock: Jump
) -> None:
    log: list[str] = []
    probes = crew(log, "a")
    probes["a"].fail_starts = {2, 3}
    await nursery.start(Supervisor("root", specs(probes), restarts_max=3).run)
    await probes["a"].crash()
    assert probes["a"].starts == 4
    assert log == ["+a", "-a", "+a"]
    nursery.cancel_scope.cancel()


async def test_cancellation_and_stops_never_spend_the_budget(
    nursery: trio.Nursery, autojump_clock: Jump
) -> None:
    log: list[str] = []
    probes = crew(log)
    supervisor = Supervisor(
        "root", specs(probes), strategy=Strategy.ONE_FOR_ALL, restarts_max=2, window_seconds=5
    )
    await nursery.start(supervisor.run)
    for _ in range(2):
        await probes["b"].crash()
    assert log.count("+a") == 3
    nursery.cancel_scope.cancel()


async def test_a_child_that_does_not_stop_in_time_is_reported_and_still_waited_for(
    autojump_clock: Jump, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    probes = crew(log, "a")
    probes["a"].stop_seconds = 60
    async with trio.open_nursery() as inner:
        await inner.start(Supervisor("root", [ChildSpec("a", probes["a"], shutdown_seconds=5)]).run)
        inner.cancel_scope.cancel()
    assert log == ["+a", "-a"]
    assert "root/a has not stopped within 5 s" in caplog.text


async def test_a_stop_during_the_start_ends_it(autojump_clock: Jump) -> None:
    log: list[str] = []

    class Slow:
        async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
            await trio.sleep_forever()

    children = [*specs(crew(log, "a")), ChildSpec("slow", Slow())]
    with trio.move_on_after(3) as scope:
        await Supervisor("root", children).run()
    assert scope.cancelled_caught
    assert log == ["+a", "-a"]


async def test_a_stop_during_a_restart_ends_it_and_starts_nobody_else(autojump_clock: Jump) -> None:
    log: list[str] = []
    probes = crew(log, "abc")

    class SlowTheSecondTime(Probe):
        async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
            if self.starts == 1:
                self.starts = 2
                await trio.sleep_forever()
            await super().run(task_status=task_status)

    probes["b"] = SlowTheSecondTime("b", log)
    root = Supervisor("root", specs(probes), strategy=Strategy.ONE_FOR_ALL)
    with trio.move_on_after(9):
        async with trio.open_nursery() as nursery:
            await nursery.start(root.run)
            await probes["a"].crash()
            nursery.cancel_scope.cancel()
    assert log == ["+a", "+b", "+c", "-a", "-c", "-b", "+a", "-a"]


async def test_a_stop_while_siblings_stop_for_a_restart_starts_nobody_again(
    autojump_clock: Jump,
) -> None:
    log: list[str] = []
    probes = crew(log, "ab")
    probes["b"].stop_seconds = 3
    root = Supervisor("root", specs(probes), strategy=Strategy.ONE_FOR_ALL)
    async with trio.open_nursery() as nursery:
        await nursery.start(root.run)
        await probes["a"].crash()
        nursery.cancel_scope.cancel()
    assert log == ["+a", "+b", "-a", "-b"]


async def test_a_service_that_fails_to_restart_waits_for_what_crashed_before_and_it_may_need(
    nursery: trio.Nursery, autojump_clock: Jump
) -> None:
    log: list[str] = []
    probes = crew(log, "ab")
    needed = probes["a"]
    running = trio.Event()

    class Needy(Probe):
        async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
            if self.starts and not running.is_set():
                await trio.sleep(1)
                running.set()  # from now on `a` is being restarted
                await needed.crash()
                raise RuntimeError("what I need is not there")
            await super().run(task_status=task_status)

    probes["b"] = Needy("b", log)
    root = Supervisor("root", specs(probes), strategy=Strategy.REST_FOR_ONE, restarts_max=3)
    await nursery.start(root.run)
    await probes["b"].crash()
    await trio.sleep(2)
    assert log == ["+a", "+b", "-b", "-a", "+a", "+b"], "b came up once, after a"
    nursery.cancel_scope.cancel()


async def test_the_tree_shows_states_restarts_and_what_is_below(
    nursery: trio.Nursery, autojump_clock: Jump
) -> None:
    probes = crew([], "ab")
    inner = Supervisor("inner", specs(probes, b=Restart.TEMPORARY))
    outer = Supervisor("outer", [ChildSpec("inner", inner)])
    await nursery.start(outer.run)
    await probes["a"].crash()
    await probes["b"].end()
    (node,) = outer.list_branches()
    shown = [(child.name, child.state, child.restarts) for child in node.children]
    assert shown == [("a", "running", 1), ("b", "stopped", 0)]
    nursery.cancel_scope.cancel()


async def test_what_no_restart_can_help_stops_everybody_up_to_the_root_at_once(
    autojump_clock: Jump,
) -> None:
    log: list[str] = []
    probes = crew(log)
    inner = Supervisor("inner", specs(probes))
    with pytest.RaisesGroup(pytest.RaisesExc(Hopeless, match="taken"), flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            await nursery.start(Supervisor("outer", [ChildSpec("inner", inner)]).run)
            await probes["a"].crash(Hopeless("taken over"))
    assert log == ["+a", "+b", "+c", "-a", "-c", "-b"]


async def test_what_no_restart_can_help_is_so_at_a_start_further_down_too(
    autojump_clock: Jump,
) -> None:
    log: list[str] = []
    probes = crew(log, "a")

    class Held(Probe):
        async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
            if self.starts:
                log.append("held")
                raise Hopeless("held by another")
            await super().run(task_status=task_status)

    probes["b"] = Held("b", log)
    inner = Supervisor("inner", specs(probes), restarts_max=0)
    with pytest.RaisesGroup(pytest.RaisesExc(Hopeless, match="held"), flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            await nursery.start(Supervisor("outer", [ChildSpec("inner", inner)]).run)
            await probes["b"].crash()
    assert log.count("held") == 1
