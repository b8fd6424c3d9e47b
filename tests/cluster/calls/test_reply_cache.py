"""Changes that are sent twice are carried out once, and what is kept for that is bounded."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.cluster.calls.messages import Forwarded, ForwardLike, NotOwner
from greenroom.cluster.calls.reply_cache import (
    ANSWER_BYTES,
    KEEP_SECONDS,
    SENDER_SECONDS,
    Reply,
    ReplyCache,
)

LOST = Forwarded(500, b"lost")


def change(number: int) -> ForwardLike:
    return ForwardLike(1, number, b"")


class Work:
    """Carries out a change, and counts how often."""

    def __init__(self, reply: Reply | Exception | None = None) -> None:
        self.reply = Forwarded(200, b"{}") if reply is None else reply
        self.times = 0
        self.gate: trio.Event | None = None

    async def __call__(self, sender: int, call: ForwardLike) -> Reply:
        self.times += 1
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


async def test_a_repeated_number_gets_the_same_answer() -> None:
    cache, work = ReplyCache(LOST), Work()
    answers = [await cache.carry_out_once(1, change(5), work) for _ in range(3)]
    assert answers == [work.reply] * 3
    assert (work.times, cache.repeated) == (1, 2)


async def test_numbers_and_senders_are_told_apart() -> None:
    cache, work = ReplyCache(LOST), Work()
    for sender, number in ((1, 1), (1, 2), (2, 1)):
        await cache.carry_out_once(sender, change(number), work)
    assert work.times == 3


async def test_a_change_that_comes_behind_later_ones_is_carried_out_once() -> None:
    cache, work = ReplyCache(LOST), Work()
    for number in (2, 1, 1, 2, 3):
        await cache.carry_out_once(1, change(number), work)
    assert (work.times, cache.repeated) == (3, 2)


async def test_whoever_comes_while_it_is_carried_out_joins_in(nursery: trio.Nursery) -> None:
    cache, work, answers = ReplyCache(LOST), Work(), []
    work.gate = trio.Event()

    async def ask() -> None:
        answers.append(await cache.carry_out_once(1, change(1), work))

    for _ in range(3):
        nursery.start_soon(ask)
    await wait_all_tasks_blocked()
    work.gate.set()
    await wait_all_tasks_blocked()
    assert answers == [work.reply] * 3
    assert work.times == 1


async def test_what_did_not_run_may_run_later() -> None:
    cache, work = ReplyCache(LOST), Work(NotOwner(0, 2, 1))
    await cache.carry_out_once(1, change(1), work)
    work.reply = Forwarded(200, b"{}")
    assert await cache.carry_out_once(1, change(1), work) == work.reply
    assert work.times == 2


async def test_a_change_that_was_broken_off_is_never_run_again(nursery: trio.Nursery) -> None:
    cache, work = ReplyCache(LOST), Work()
    work.gate = trio.Event()
    with trio.move_on_after(0.01):
        await cache.carry_out_once(1, change(1), work)
    assert await cache.carry_out_once(1, change(1), work) is LOST
    assert work.times == 1


async def test_a_change_that_failed_is_never_run_again() -> None:
    cache, work = ReplyCache(LOST), Work(ValueError())
    with pytest.raises(ValueError):  # noqa: PT011
        await cache.carry_out_once(1, change(1), work)
    assert await cache.carry_out_once(1, change(1), work) is LOST
    assert work.times == 1


async def test_a_change_whose_answer_was_forgotten_is_never_run_again(
    autojump_clock: MockClock,
) -> None:
    cache, work = ReplyCache(LOST), Work()
    await cache.carry_out_once(1, change(7), work)
    await trio.sleep(KEEP_SECONDS)
    cache.forget_old(trio.current_time())
    assert cache.held_bytes == 0
    assert await cache.carry_out_once(1, change(7), work) is LOST
    assert await cache.carry_out_once(1, change(8), work) == work.reply
    assert work.times == 2


async def test_a_sender_that_is_gone_leaves_nothing(autojump_clock: MockClock) -> None:
    cache, work = ReplyCache(LOST), Work()
    await cache.carry_out_once(1, change(1), work)
    await trio.sleep(SENDER_SECONDS)
    cache.forget_old(trio.current_time())
    assert cache.senders == 0


async def test_whoever_holds_most_loses_the_oldest() -> None:
    large = Forwarded(200, bytes(1_000))
    cache, work = ReplyCache(LOST, 4 * (1_000 + ANSWER_BYTES)), Work(large)
    await cache.carry_out_once(2, change(1), work)
    for number in range(1, 6):
        await cache.carry_out_once(1, change(number), work)
    assert cache.held_bytes <= 4 * (1_000 + ANSWER_BYTES)
    assert (
        await cache.carry_out_once(2, change(1), work) == large
    )  # the small sender's is still there
    assert await cache.carry_out_once(1, change(5), work) == large
    assert work.times == 6
    assert await cache.carry_out_once(1, change(1), work) is LOST
