"""Several who ask the same at once: one run for all of them, none older than its question."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.world.shared_answers import WAIT_SECONDS_MAX, SharedAnswers


class Source:
    """Answers with the number of runs begun so far, each when it is told to."""

    def __init__(self) -> None:
        self.shared = SharedAnswers()
        self.gates: list[trio.Event] = []
        self.failing: dict[int, Exception] = {}
        self.told: list[int] = []

    async def ask(self) -> int:
        self.gates.append(trio.Event())
        number = len(self.gates)
        await self.gates[-1].wait()
        if number in self.failing:
            raise self.failing[number]
        return number

    async def get(self, question: str = "rooms") -> None:
        self.told.append(await self.shared.get(question, self.ask))

    @property
    def is_empty(self) -> bool:
        return not self.shared._running and not self.shared._waiting


async def test_those_who_ask_during_a_run_share_the_next_one():
    source = Source()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.get)
        await wait_all_tasks_blocked()
        for _ in range(20):
            nursery.start_soon(source.get)
        await wait_all_tasks_blocked()
        assert len(source.gates) == 1  # the others wait, and it answers none of them
        source.gates[0].set()
        await wait_all_tasks_blocked()
        assert source.told == [1]
        source.gates[1].set()
    assert source.told == [1, *[2] * 20]
    assert source.is_empty


async def test_those_who_ask_in_the_same_pass_share_a_run():
    source = Source()
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(source.get)
        await wait_all_tasks_blocked()
        source.gates[0].set()
    assert source.told == [1] * 20
    assert source.is_empty


async def test_whoever_asks_when_the_next_run_has_begun_is_answered_by_the_one_after_it():
    source = Source()
    async with trio.open_nursery() as nursery:
        for _ in range(3):  # one runs, one waits and then runs; then the third comes
            nursery.start_soon(source.get)
            await wait_all_tasks_blocked()
            if len(source.gates) == 1:
                source.gates[0].set()
                await wait_all_tasks_blocked()
        for gate in source.gates:
            gate.set()
        await wait_all_tasks_blocked()
        for gate in source.gates:
            gate.set()
    assert source.told == [1, 2, 3]


async def test_other_questions_do_not_wait():
    source = Source()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.get, "rooms")
        nursery.start_soon(source.get, "lobbies")
        await wait_all_tasks_blocked()
        assert len(source.gates) == 2
        for gate in source.gates:
            gate.set()


async def test_a_run_that_fails_fails_for_its_own_caller_alone():
    source = Source()
    source.failing = {2: KeyError()}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.get)
        await wait_all_tasks_blocked()

        async def fail() -> None:
            with pytest.raises(KeyError):
                await source.get()

        nursery.start_soon(fail)
        await wait_all_tasks_blocked()
        nursery.start_soon(source.get)
        await wait_all_tasks_blocked()
        source.gates[0].set()
        await wait_all_tasks_blocked()
        source.gates[1].set()
        await wait_all_tasks_blocked()
        source.gates[2].set()
    assert source.told == [1, 3]
    assert source.is_empty


async def test_if_others_do_not_answer_nobody_waits_for_them_twice():
    source, failures = Source(), []
    source.failing = {2: StorageUnavailable("another node does not answer")}

    async def fail() -> None:
        with pytest.raises(StorageUnavailable) as failure:
            await source.get()
        failures.append(failure.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.get)
        await wait_all_tasks_blocked()
        for _ in range(3):
            nursery.start_soon(fail)
        await wait_all_tasks_blocked()
        for gate in source.gates:
            gate.set()
        await wait_all_tasks_blocked()
        source.gates[1].set()
    assert len(source.gates) == 2
    assert len(set(map(id, failures))) == 3, "each has a traceback of its own"
    assert source.is_empty


async def test_if_the_first_who_waits_is_cancelled_the_others_ask_for_themselves():
    source = Source()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.get)
        await wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as cancelled:
                cancelled.start_soon(source.get)
                await wait_all_tasks_blocked()
                nursery.start_soon(source.get)
                await wait_all_tasks_blocked()
                scope.cancel()
        await wait_all_tasks_blocked()
        for gate in source.gates:
            gate.set()
    assert sorted(source.told) == [1, 2]
    assert source.is_empty


async def test_a_run_that_is_held_up_holds_up_no_other(autojump_clock: MockClock):
    source = Source()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.get)
        await wait_all_tasks_blocked()
        nursery.start_soon(source.get)
        await trio.sleep(WAIT_SECONDS_MAX + 0.01)
        assert len(source.gates) == 2
        source.gates[1].set()
        await wait_all_tasks_blocked()
        assert source.told == [2]
        source.gates[0].set()
    assert source.told == [2, 1]
    assert source.is_empty
