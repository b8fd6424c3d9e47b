"""Large work is done in pieces: one of each address in a pass, a number of addresses at a time."""

from __future__ import annotations

import time
from collections import Counter
from typing import Self

import pytest
import trio

from greenroom.http.overload import large_work
from greenroom.http.overload.large_work import PIECE_BYTES, LargeWork
from greenroom.http.overload.turns import OWED_SECONDS_MAX, AddressTurns
from greenroom.http.steps import Steps, Work, finish
from greenroom.network.pieces import LARGE_BYTES


class Passes(trio.abc.Instrument):
    """Counts the passes of the scheduler."""

    def __init__(self) -> None:
        self.number = 0

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1

    def __enter__(self) -> Self:
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *_: object) -> None:
        trio.lowlevel.remove_instrument(self)


def count_to(count: int, size: int, seen: list[int]) -> Steps[int]:
    for number in range(count):
        yield size
        seen.append(number)
    return count


def test_steps_are_done_as_far_as_they_fit_and_one_in_any_case():
    seen: list[int] = []
    work = Work(count_to(5, 10, seen))
    done = []
    while not work.go_on(25):
        done.append(len(seen))
    assert (done, work.result) == ([2, 4], 5)
    work = Work(count_to(2, 1_000, seen := []))
    assert [work.go_on(25), len(seen), work.go_on(25), len(seen)] == [False, 0, False, 1]
    assert work.go_on(25)
    assert finish(count_to(3, 10, seen)) == 3


def test_no_step_begins_once_the_time_is_up(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def take_long() -> Steps[None]:
        for _ in range(4):
            yield 1
            now[0] += 0.002

    work = Work(take_long())
    began = []
    while not work.go_on(100, seconds_max=0.003):
        began.append(round(now[0], 3))
    assert began == [0.004]
    assert now[0] == pytest.approx(0.008)


async def test_what_is_small_is_done_at_once():
    with Passes() as passes:
        assert await LargeWork(AddressTurns()).do("a", count_to(8, LARGE_BYTES // 8, [])) == 8
        assert passes.number == 0


async def test_an_address_has_one_piece_a_pass_and_one_work_at_a_time_and_others_come_in_between():
    work, under_way = LargeWork(AddressTurns()), Counter[str]()
    done: list[tuple[str, int]] = []
    most = 0

    def steps(key: str, passes: Passes) -> Steps[None]:
        nonlocal most
        yield PIECE_BYTES
        under_way[key] += 1
        most = max(most, under_way[key])
        for _ in range(4):
            done.append((key, passes.number))
            yield PIECE_BYTES
        under_way[key] -= 1

    with Passes() as passes:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(work.do, "flood", steps("flood", passes))
            nursery.start_soon(work.do, "player", steps("player", passes))
    assert most == 1
    assert max(Counter(done).values()) == 1
    assert max(number for key, number in done if key == "player") < passes.number / 2


async def test_so_many_addresses_have_half_made_results_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(large_work, "PLACES", 3)
    work, under_way, most = LargeWork(AddressTurns()), 0, 0

    def steps() -> Steps[None]:
        nonlocal under_way, most
        yield PIECE_BYTES
        under_way += 1
        most = max(most, under_way)
        for _ in range(3):
            yield PIECE_BYTES
        under_way -= 1

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(work.do, f"{number}", steps())
    assert most == 3


async def test_addresses_that_wait_for_their_turns_are_in_nobodys_way():
    turns = AddressTurns(monotonic=lambda: 0.0)  # and nothing of what is owed is paid off
    turns.start()
    work, begun, done = LargeWork(turns), Counter[str](), trio.Event()
    floods = [f"flood {number}" for number in range(2 * large_work.PLACES)]

    def steps(key: str) -> Steps[None]:
        yield PIECE_BYTES
        begun[key] += 1
        for _ in range(4):
            turns.charge(key, OWED_SECONDS_MAX)  # they have other calls, too
            yield PIECE_BYTES

    async def do_a_players() -> None:
        await work.do("player", count_to(4, PIECE_BYTES, []))
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(turns.run)
        for flood in floods * 2:
            nursery.start_soon(work.do, flood, steps(flood))
        await let_pass(100)
        nursery.start_soon(do_a_players)
        await let_pass(10)
        assert done.is_set()
        assert begun == Counter(floods), "the second of each waits"
        nursery.cancel_scope.cancel()


async def let_pass(passes: int) -> None:
    for _ in range(passes):
        await trio.lowlevel.checkpoint()


async def test_who_fails_or_is_cancelled_is_in_nobodys_way():
    work = LargeWork(AddressTurns())

    def failing() -> Steps[None]:
        yield PIECE_BYTES
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 (any would do)
        await work.do("a", failing())
    with trio.move_on_after(0) as scope:
        await work.do("a", count_to(9, PIECE_BYTES, []))
    assert scope.cancelled_caught
    assert await work.do("a", count_to(9, PIECE_BYTES, [])) == 9
    assert not len(work._pieces)
