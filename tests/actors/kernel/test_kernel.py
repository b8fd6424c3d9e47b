"""The kernel's promises, one test each, under a clock that jumps."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from kernel_kit import (
    Add,
    Counter,
    CounterRole,
    Forward,
    HandCommitter,
    Negative,
    Read,
    Remind,
    StopReminding,
)

from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.errors import (
    ActorCrashed,
    ActorStopped,
    MailboxFull,
    StorageUnavailable,
)
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.kernel.timers import RETRY_SECONDS, BeforeTimer
from greenroom.supervisors.dynamic import DynamicSupervisor

Counters = DynamicSupervisor[CounterRole]
Held = Ref[CounterRole]
Jump = trio.testing.MockClock


class Noting(Counter):
    """Adds nothing up: it notes in what order it was asked to."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self.amounts: list[int] = []

    @handles(Add)
    def add(self, command: Add) -> int:
        self.amounts.append(command.amount)
        return 0


@asynccontextmanager
async def counters_with(before_timer: BeforeTimer) -> AsyncGenerator[Counters]:
    """Run counters that have something done before their timers."""
    committer = HandCommitter()
    supervisor: Counters = DynamicSupervisor(
        "counter", committer.load, committer, before_timer=before_timer
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(supervisor.run)
        yield supervisor
        nursery.cancel_scope.cancel()


async def settle_down() -> None:
    """Let every other task run as far as it can."""
    await trio.testing.wait_all_tasks_blocked()


# Asking and telling


async def test_an_ask_answers_with_the_reply(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    assert await counters.get_ref(1).ask(Add(5)) == 5
    assert await counters.get_ref(1).ask(Read()) == 5


async def test_a_passive_actor_is_loaded_once_however_many_ask(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    committer.records["counter/1"] = 40
    answers: list[int] = []

    async def ask() -> None:
        answers.append(await counters.get_ref(1).ask(Add(1)))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ask)
    assert sorted(answers) == [41, 42, 43, 44]
    assert committer.loads == ["counter/1"]


async def test_an_ask_of_an_idle_actor_runs_at_once_without_a_task_switch(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    await counters.get_ref(1).ask(Read())
    coroutine = counters.get_ref(1).ask(Add(5))
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    assert stopped.value.value == 5


async def test_a_tell_returns_before_its_command_runs_and_an_ask_queues_behind_it(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Read())
    ref.tell(Add(1))
    assert ref.read_statistics().queued == 1
    assert await ref.ask(Add(10)) == 11


async def test_commands_run_in_the_order_in_which_they_were_told(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    noting = Noting(0)
    ref = counters.adopt(1, noting)
    for amount in range(3):
        ref.tell(Add(amount))
    await ref.ask(Read())
    assert noting.amounts == [0, 1, 2]


async def test_an_actor_that_does_not_exist_answers_everybody_with_stopped(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    with pytest.raises(ActorStopped):
        await counters.get_ref(-1).ask(Read())
    assert len(counters) == 0


async def test_a_full_mailbox_refuses_and_runs_nothing_of_what_it_refused(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    for _ in range(4):
        ref.tell(Add(1))
    with pytest.raises(MailboxFull):
        ref.tell(Add(100))
    with pytest.raises(MailboxFull):
        await ref.ask(Add(100))
    await trio.sleep(2)
    assert await ref.ask(Read()) == 4


async def test_what_an_actor_tells_another_is_sent_after_its_own_change(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    await counters.get_ref(1).ask(Forward(counters.get_ref(2), 7))
    assert await counters.get_ref(2).ask(Read()) == 7


async def test_an_ask_may_be_given_its_own_patience(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    with pytest.raises(StorageUnavailable):
        await counters.get_ref(1).ask(Add(1), seconds_max=0.5)
    assert await counters.get_ref(1).ask(Read()) == 0


def test_a_handler_annotated_with_another_command_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="handles Add but is annotated"):

        class Wrong(Actor[CounterRole]):
            @handles(Add)
            def add(self, command: Read) -> int:
                return 0


# Cancellation


async def test_a_command_still_queued_when_its_caller_is_cancelled_does_not_run(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    with trio.move_on_after(0.5) as scope:
        await ref.ask(Add(5))
    assert scope.cancelled_caught
    assert await ref.ask(Read()) == 0


async def test_a_command_that_ran_is_waited_for_even_when_its_caller_is_cancelled(
    held: Held,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    answers: list[int] = []

    async def add() -> None:
        with trio.move_on_after(1) as scope:
            answers.append(await held.ask(Add(5)))
        assert not scope.cancelled_caught

    async with trio.open_nursery() as nursery:
        nursery.start_soon(add)
        await trio.sleep(3)
        committer.commit()
    assert answers == [5]


async def test_a_queued_command_that_ran_is_waited_for_too(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    committer.automatic = False
    answers: list[int] = []

    async def add() -> None:
        with trio.move_on_after(2):
            answers.append(await counters.get_ref(1).ask(Add(5)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(add)
        await trio.sleep(4)
        committer.commit()
    assert answers == [5]


# Timers


async def test_a_timer_is_a_command_to_oneself(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Remind("once", 30, 5))
    await trio.sleep(29)
    assert await ref.ask(Read()) == 0
    await trio.sleep(2)
    assert await ref.ask(Read()) == 5


async def test_a_timer_is_replaced_by_name_and_can_be_stopped(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Remind("a", 30, 1))
    await ref.ask(Remind("a", 10, 10))
    await ref.ask(Remind("b", 10, 100))
    await ref.ask(StopReminding("b"))
    await trio.sleep(60)
    assert await ref.ask(Read()) == 10


async def test_a_crash_ends_the_timers_of_that_life(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Remind("a", 30, 1))
    with pytest.raises(ActorCrashed):
        await ref.ask(Add(13))
    await trio.sleep(60)
    assert await ref.ask(Read()) == 0


async def test_what_is_done_before_a_timer_has_its_turns_first(autojump_clock: Jump) -> None:
    called: list[tuple[Any, Any]] = []

    def before_timer(key: Any, command: Any) -> None:
        called.append((key, command))
        if command == Add(2):
            counters.get_ref(key).post(Add(1))
        else:
            noting.timers.stop("b")

    async with counters_with(before_timer) as counters:
        noting = Noting(0)
        counters.adopt(1, noting)
        noting.timers.start("a", 10, Add(2))
        noting.timers.start("b", 20, Add(3))
        noting.timers.start("stopped", 30, Add(4))
        noting.timers.stop("stopped")
        await trio.sleep(60)
    assert noting.amounts == [1, 2]
    assert called == [(1, Add(2)), (1, Add(3))]


async def test_a_timer_whose_actor_crashes_over_what_is_done_before_it_is_not_delivered(
    autojump_clock: Jump,
) -> None:
    def before_timer(key: Any, command: Any) -> None:
        with pytest.raises(ActorCrashed):
            counters.get_ref(key).post(Add(13))

    async with counters_with(before_timer) as counters:
        counter = Counter(0)
        ref = counters.adopt(1, counter)
        counter.timers.start("a", 10, Add(5))
        await trio.sleep(60)
        assert await ref.ask(Read()) == 0


async def test_timers_go_before_what_users_sent(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    noting = Noting(0)
    ref = counters.adopt(1, noting)
    ref.tell(Add(1))
    counters.get_cell(1).wake(Add(2), "a")
    await ref.ask(Read())
    assert noting.amounts == [2, 1]


async def test_a_timer_that_meets_the_closed_gate_comes_again_until_it_is_taken(
    counters: Counters, committer: HandCommitter, autojump_clock: Jump
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Remind("taken", 1, 1))
    await ref.ask(Remind("stopped", 1, 10))
    await ref.ask(Remind("replaced", 1, 100))
    committer.is_open = False
    await trio.sleep(100)
    await ref.ask(StopReminding("stopped"))
    await ref.ask(Remind("replaced", 1000, 1000))
    assert len(counters.timers) < 10, "one timer a name"
    assert not counters.passivate(1)
    committer.is_open = True
    await trio.sleep(RETRY_SECONDS)
    assert await ref.ask(Read()) == 1
    await trio.sleep(1000)
    assert await ref.ask(Read()) == 1001


async def test_what_is_told_again_comes_again_until_the_gate_is_open(
    counters: Counters, committer: HandCommitter, autojump_clock: Jump
) -> None:
    ref = counters.get_ref(1)
    assert await ref.ask(Read()) == 0
    committer.is_open = False
    ref.tell(Add(1))
    ref.tell(Add(10), again="a")
    ref.notify(Add(100), again="b")
    await trio.sleep(100)
    committer.is_open = True
    assert await ref.ask(Read()) == 0
    await trio.sleep(RETRY_SECONDS * 1.1)
    assert await ref.ask(Read()) == 110


async def test_timers_replaced_again_and_again_do_not_pile_up_and_the_last_of_each_is_delivered(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    refs = [counters.get_ref(key) for key in range(3)]
    for _ in range(1000):
        for ref in refs:
            await ref.ask(Remind("a", 100, 1))
    assert len(counters.timers) < 200
    await trio.sleep(101)
    assert [await ref.ask(Read()) for ref in refs] == [1, 1, 1]


# Passivation and stop


async def test_an_actor_is_passivated_only_when_it_has_been_idle_long_enough(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Add(5))
    assert not counters.passivate(1), "the first look only notes the time"
    await trio.sleep(31)
    await ref.ask(Read())
    assert not counters.passivate(1), "it has worked since"
    await trio.sleep(31)
    assert counters.passivate(1)
    assert len(counters) == 0
    assert await ref.ask(Read()) == 5, "the address wakes it again"
    assert committer.loads == ["counter/1", "counter/1"]


async def test_an_actor_with_a_timer_or_a_change_in_flight_is_not_passivated(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    await counters.get_ref(1).ask(Remind("a", 1000, 1))
    await counters.get_ref(2).ask(Read())
    committer.automatic = False
    async with trio.open_nursery() as nursery:
        committer.commit_seconds_max = 1000
        nursery.start_soon(counters.get_ref(2).ask, Add(1))
        await settle_down()
        for key in (1, 2):
            assert not counters.passivate(key)
        await trio.sleep(100)
        for key in (1, 2):
            assert not counters.passivate(key)
        committer.commit()


async def test_a_discarded_actor_answers_everybody_queued_and_runs_its_stop_hook(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    log: list[str] = []
    ref = counters.adopt(1, Counter(3, log))
    errors: list[str] = []

    async def wait_stopped() -> None:
        errors.append(type(await ref.wait_stopped()).__name__)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_stopped)
        await settle_down()
        counters.discard(1)
    assert log == ["start 3", "stop 3"]
    assert errors == ["ActorStopped"]


async def test_adopting_an_actor_that_is_present_keeps_the_one_that_is(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    await counters.get_ref(1).ask(Add(5))
    assert await counters.adopt(1, Counter(99)).ask(Read()) == 5


async def test_an_actor_that_is_being_loaded_is_up_at_once_when_somebody_has_its_state(
    counters: Counters, committer: HandCommitter, autojump_clock: Jump
) -> None:
    ref = counters.get_ref(1)
    ref.tell(Add(5))
    await settle_down()
    begun = trio.current_time()
    log: list[str] = []
    assert await counters.adopt(1, Counter(90, log)).ask(Read()) == 95
    assert trio.current_time() == begun
    await trio.sleep(2)
    assert committer.loads == ["counter/1"]
    assert await ref.ask(Read()) == 95
    assert log == ["start 90"]


@pytest.mark.parametrize("error", [None, MailboxFull("no space"), RuntimeError("a broken record")])
async def test_what_comes_of_a_load_is_nothing_once_the_actor_has_been_up(
    counters: Counters, committer: HandCommitter, autojump_clock: Jump, error: Exception | None
) -> None:
    """Its record was read before the change, and it has crashed since."""
    counters.get_ref(1).tell(Read())
    await trio.sleep(0.5)
    committer.records["counter/1"] = 90
    ref = counters.adopt(1, Counter(90))
    await ref.ask(Add(5))
    with pytest.raises(ActorCrashed):
        await ref.ask(Add(13))
    committer.load_error = error
    await trio.sleep(0.7)
    committer.load_error = None
    assert counters.get_cell(1).actor is None
    assert await ref.ask(Read()) == 95


async def test_when_the_supervisor_stops_everybody_queued_is_answered(
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    supervisor: Counters = DynamicSupervisor("counter", committer.load, committer)
    errors: list[str] = []

    async def ask() -> None:
        try:
            await supervisor.get_ref(1).ask(Read())
        except ActorStopped:
            errors.append("stopped")

    async with trio.open_nursery() as outer, trio.open_nursery() as inner:
        await inner.start(supervisor.run)
        outer.start_soon(ask)
        await settle_down()
        inner.cancel_scope.cancel()
    assert errors == ["stopped"]


async def test_statistics_count_turns_refusals_and_crashes(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Add(1))
    with pytest.raises(Negative):
        await ref.ask(Add(-1))
    with pytest.raises(ActorCrashed):
        await ref.ask(Add(13))
    statistics = ref.read_statistics()
    assert (statistics.handled, statistics.refused, statistics.crashed) == (3, 1, 1)
