"""The kernel's promises when something fails: refusals, crashes, the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from kernel_kit import (
    AWAY,
    Add,
    Counter,
    CounterRole,
    HandCommitter,
    Negative,
    Read,
)

from greenroom.actors.kernel.cell import CellState
from greenroom.actors.kernel.durability import Batch
from greenroom.actors.kernel.errors import (
    ActorCrashed,
    CommitUnsettled,
    Moved,
    StorageUnavailable,
)
from greenroom.actors.kernel.ref import Ref
from greenroom.supervisors.dynamic import DynamicSupervisor

Counters = DynamicSupervisor[CounterRole]
Held = Ref[CounterRole]
Jump = trio.testing.MockClock


async def settle_down() -> None:
    """Let every other task run as far as it can."""
    await trio.testing.wait_all_tasks_blocked()


async def expect_crash(ask: Callable[[Any], Awaitable[object]], command: object) -> None:
    """Ask what must meet a crash."""
    with pytest.raises(ActorCrashed):
        await ask(command)


# Refusal and crash


async def test_a_refusal_is_an_answer_and_changes_nothing(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Add(5))
    with pytest.raises(Negative, match="amounts are positive"):
        await ref.ask(Add(-1))
    assert await ref.ask(Read()) == 5
    assert ref.read_statistics().refused == 1


@pytest.mark.parametrize("poison", [13, 17, 31])
async def test_a_crash_answers_its_caller_alone_and_the_actor_returns_to_its_last_good_state(
    counters: Counters,
    poison: int,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Add(5))
    with pytest.raises(ActorCrashed):
        await ref.ask(Add(poison))
    assert await ref.ask(Add(1)) == 6


async def test_what_the_committer_throws_back_is_acknowledged_to_nobody(
    counters: Counters,
    committer: HandCommitter,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Add(5))

    def refuse(*_: object) -> Batch:
        raise Moved("its shard is another node's now")

    with monkeypatch.context() as planted:
        planted.setattr(committer, "submit", refuse)
        with pytest.raises(Moved):
            await ref.ask(Add(1))
    assert await ref.ask(Read()) == 5  # what was applied is void


async def test_the_mailbox_outlives_the_crash_and_the_queued_are_served(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Add(5))
    ref.tell(Add(13))
    ref.tell(Add(2))
    assert await ref.ask(Read()) == 7


async def test_changes_in_flight_at_a_crash_are_settled_before_the_restart_reads(
    held: Held,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(held.ask, Add(5))
        await settle_down()
        with pytest.raises(ActorCrashed):
            await held.ask(Add(13))
        await trio.sleep(5)
        assert held.read_statistics().state is CellState.LOADING
        committer.commit()
    assert await held.ask(Read()) == 5


async def test_an_actor_that_keeps_crashing_is_given_up_and_everybody_queued_is_answered(
    counters: Counters,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Read())
    for _ in range(4):
        with pytest.raises(ActorCrashed):
            await ref.ask(Add(13))
    with pytest.raises(ActorCrashed, match="keeps crashing"):
        await ref.ask(Read())
    assert await counters.get_ref(2).ask(Add(1)) == 1, "a neighbour notices nothing"
    await trio.sleep(11)
    assert await ref.ask(Read()) == 0, "after the window he is tried again"


async def test_a_record_that_cannot_be_loaded_crashes_its_callers_and_nobody_hangs(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    committer.load_error = ValueError("a broken record")
    with pytest.raises(ActorCrashed):
        await counters.get_ref(1).ask(Read())
    committer.load_error = None
    assert await counters.get_ref(1).ask(Read()) == 0


# Durability


async def test_the_reply_to_a_change_leaves_when_the_change_is_durable(
    held: Held,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    answers: list[int] = []

    async def add() -> None:
        answers.append(await held.ask(Add(5)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(add)
        await settle_down()
        assert answers == []
        committer.commit()
    assert answers == [5]


async def test_the_actor_goes_on_while_its_change_is_being_committed(
    held: Held,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(held.ask, Add(1))
        await settle_down()
        assert held.read_statistics().handled == 4
        committer.commit()


async def test_a_read_and_a_refusal_that_saw_an_undurable_state_wait_for_it(
    held: Held,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    seen: list[object] = []

    async def read() -> None:
        seen.append(await held.ask(Read()))

    async def refused() -> None:
        with pytest.raises(Negative):
            await held.ask(Add(-1))
        seen.append("refused")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(held.ask, Add(5))
        await settle_down()
        nursery.start_soon(read)
        nursery.start_soon(refused)
        await settle_down()
        assert seen == []
        committer.commit()
    assert sorted(map(str, seen)) == ["5", "refused"]


async def test_a_change_not_durable_in_time_is_unsettled_and_a_read_of_it_unavailable(
    held: Held,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    with pytest.raises(CommitUnsettled):
        await held.ask(Add(5))
    with pytest.raises(StorageUnavailable):
        await held.ask(Read())
    committer.commit()
    assert await held.ask(Read()) == 5, "it was committed later, all the same"


async def test_with_the_gate_closed_a_change_is_refused_before_it_runs_and_reads_go_on(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Add(5))
    committer.is_open = False
    with pytest.raises(StorageUnavailable):
        await ref.ask(Add(1))
    assert await ref.ask(Read()) == 5
    committer.is_open = True
    assert await ref.ask(Add(1)) == 6


async def test_a_row_refused_by_the_database_takes_its_writer_back_and_nobody_else(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    first, second = counters.get_ref(1), counters.get_ref(2)
    await first.ask(Add(1))
    await second.ask(Add(1))
    committer.automatic = False
    outcomes: list[str] = []

    async def add(key: int, amount: int) -> None:
        try:
            await counters.get_ref(key).ask(Add(amount))
            outcomes.append(f"{key} added {amount}")
        except ActorCrashed:
            outcomes.append(f"{key} lost {amount}")

    async with trio.open_nursery() as nursery:
        for key, amount in [(1, 2), (1, 3), (2, 4)]:
            nursery.start_soon(add, key, amount)
            await settle_down()
        committer.reject_first()
        committer.commit()
    assert sorted(outcomes) == ["1 lost 2", "1 lost 3", "2 added 4"]
    assert await first.ask(Read()) == 1
    assert await second.ask(Read()) == 5


async def test_while_the_database_is_away_loading_is_tried_again_and_callers_hear_in_time(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    committer.load_error = AWAY
    with pytest.raises(StorageUnavailable):
        await counters.get_ref(1).ask(Read())
    committer.load_error = None
    assert await counters.get_ref(1).ask(Read()) == 0


async def test_an_actor_given_up_is_not_read_again_before_what_it_wrote_has_settled(
    counters: Counters, committer: HandCommitter, autojump_clock: Jump
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Read())
    for _ in range(3):
        with pytest.raises(ActorCrashed):
            await ref.ask(Add(13))
    await ref.ask(Read())
    committer.automatic = False
    committer.commit_seconds_max = 100
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ref.ask, Add(5))
        await settle_down()
        with pytest.raises(ActorCrashed):
            await ref.ask(Add(13))
        await trio.sleep(20)
        with pytest.raises(ActorCrashed, match="keeps crashing"):
            await ref.ask(Read())
        committer.commit()
    assert await ref.ask(Read()) == 5


# What the kernel must not lose count of


async def test_a_queued_ask_hears_that_its_own_change_failed_however_soon_that_is(
    counters: Counters, committer: HandCommitter, autojump_clock: Jump
) -> None:
    committer.automatic = False
    cell = counters.get_cell(1)
    with pytest.RaisesGroup(CommitUnsettled):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cell.ask, Add(5), None)
            await settle_down()
            cell.come_up(Counter(0))
            cell.drain(10)
            committer.commit(CommitUnsettled("the server is stopping"))


async def test_a_queued_ask_waits_for_its_own_change_and_not_for_later_ones(
    counters: Counters, committer: HandCommitter, autojump_clock: Jump
) -> None:
    committer.automatic = False
    cell = counters.get_cell(1)
    answers: list[int] = []

    async def ask() -> None:
        answers.append(await cell.ask(Add(5), None))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await settle_down()
        cell.come_up(Counter(0))
        cell.drain(10)
        committer.commit()
        cell.run_turn(Add(1))
        await settle_down()
        assert answers == [5]
        committer.commit()


async def test_one_actor_is_brought_up_once_when_a_crash_and_a_refused_row_meet(
    held: Held,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_crash, held.ask, Add(5))
        await settle_down()
        await expect_crash(held.ask, Add(13))
        committer.reject_first()
    assert await held.ask(Read()) == 0
    await trio.sleep(5)
    assert committer.loads == ["counter/1", "counter/1"], "the first time and after the crash"
    assert held.read_statistics().crashed == 2


async def test_an_actor_asked_while_the_supervisor_starts_is_brought_up_once(
    committer: HandCommitter, nursery: trio.Nursery, autojump_clock: Jump
) -> None:
    supervisor: Counters = DynamicSupervisor("counter", committer.load, committer)

    async def ask(key: int) -> None:
        for _ in range(key):
            await trio.lowlevel.checkpoint()
        await supervisor.get_ref(key).ask(Read())

    async with trio.open_nursery() as asking:
        for key in range(8):
            asking.start_soon(ask, key)
        await nursery.start(supervisor.run)
    await trio.sleep(5)
    assert sorted(committer.loads) == [f"counter/{key}" for key in range(8)]


async def test_nothing_is_kept_of_an_actor_that_is_gone(
    counters: Counters, committer: HandCommitter, autojump_clock: Jump
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Read())
    assert not counters.passivate(1)
    committer.load_error = ValueError("a broken record")
    await expect_crash(ref.ask, Add(13))
    await expect_crash(ref.ask, Read())
    kept = {name: held for name, held in vars(counters).items() if isinstance(held, dict)}
    assert not any(kept.values()), kept


async def test_an_actor_given_up_leaves_memory_when_its_window_is_over(
    counters: Counters, autojump_clock: Jump
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Read())
    for _ in range(4):
        await expect_crash(ref.ask, Add(13))
    assert not counters.passivate(1)
    await trio.sleep(11)
    assert counters.passivate(1)
    assert len(counters) == 0


async def test_an_error_told_to_many_keeps_nobodys_traceback(
    counters: Counters, autojump_clock: Jump
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Read())
    for _ in range(4):
        await expect_crash(ref.ask, Add(13))
    errors: list[ActorCrashed] = []
    for _ in range(2):
        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(Read())
        errors.append(caught.value)
    assert errors[0] is not errors[1]


async def test_the_log_says_where_an_actor_crashed(
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ref = counters.get_ref(1)
    await ref.ask(Read())
    committer.load_error = ValueError("a broken record")
    await expect_crash(ref.ask, Add(13))
    await expect_crash(ref.ask, Read())
    assert [record.getMessage() for record in caplog.records] == [
        "counter/1 crashed at Add",
        "counter/1 crashed at its loading",
    ]


async def test_the_tree_counts_actors_and_names_those_in_trouble(
    counters: Counters, autojump_clock: Jump
) -> None:
    for key in range(12):
        await counters.get_ref(key).ask(Read())
    for key in range(2):
        await expect_crash(counters.get_ref(key).ask, Add(13))
    counters.get_ref(0).tell(Read())
    (node,) = counters.list_branches()
    assert (node.name, node.state, node.restarts, node.mailbox) == ("actors", "12 active", 2, 1)
    troubled = [(child.name, child.state, child.restarts) for child in node.children]
    assert troubled == [("counter/0", "loading", 1), ("counter/1", "loading", 1)]


async def test_what_was_read_before_the_change_of_a_discarded_actor_is_durable_is_not_adopted(
    held: Held,
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(held.ask, Add(5))
        await settle_down()
        counters.discard(1)
        counters.adopt(1, Counter(0))
        committer.commit()
    assert await held.ask(Read()) == 5


async def test_an_actor_discarded_with_a_change_in_flight_is_read_again_when_that_has_settled(
    held: Held,
    counters: Counters,
    committer: HandCommitter,
    autojump_clock: Jump,
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(held.ask, Add(5))
        await settle_down()
        counters.discard(1)
        held.tell(Read())
        await trio.sleep(5)
        assert committer.loads == ["counter/1"]
        committer.commit()
    assert await held.ask(Read()) == 5
