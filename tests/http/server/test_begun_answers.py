"""Answers of other nodes that a connection's task does not wait for, over real sockets."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trio
from begun_kit import CLIENT, GET, LAST, Served, serving
from http_kit import Reply, replies
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.http.overload.body_memory import ANSWER_BYTES_MIN
from greenroom.http.request import Answer
from greenroom.http.server import connection
from greenroom.http.server.connection import BEGUN_MAX, WAITED_MIN
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.reaper import ANSWERING, IDLE, Phase

UNREAD = bytes(8 << 20)
"""More than the kernel's buffers take."""


@pytest.fixture(autouse=True, scope="module")
def one_is_waited_for() -> Iterator[None]:
    """The task waits for the first answer alone, not for the first few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "WAITED_MIN", 1)
        yield


@pytest.fixture
async def one() -> AsyncIterator[Served]:
    async with serving() as one:
        yield one


def phase_of(one: Served) -> Phase:
    return one.connection.phase


def bodies(found: list[Reply]) -> list[bytes]:
    return [reply.body for reply in found]


async def test_an_answer_is_written_as_it_comes(one: Served) -> None:
    begun = await one.begin()
    assert phase_of(one) is ANSWERING
    assert await one.take() == []
    begun.end(b"there")
    assert bodies(await one.take()) == [b"there"]
    assert phase_of(one) is IDLE
    assert not begun.is_awaited
    await one.ask()  # and so on
    one.node.begun[1].end(b"again")
    assert bodies(await one.take()) == [b"again"]
    assert one.node.asked == 2


async def test_nothing_is_read_before_the_answer(one: Served) -> None:
    begun = await one.begin()
    await one.ask()
    assert len(one.node.begun) == 1
    begun.end(b"first")
    await wait_all_tasks_blocked()
    assert len(one.node.begun) == 2
    one.node.begun[1].end(b"second")
    assert bodies(await one.take()) == [b"first", b"second"]


@pytest.mark.parametrize("is_refused", [False, True])
async def test_the_task_waits_for_what_cannot_be_read(one: Served, *, is_refused: bool) -> None:
    one.node.is_refused = is_refused
    begun = await one.begin()
    if not is_refused:
        assert not begun.is_awaited
        begun.then()
        await wait_all_tasks_blocked()
    assert begun.is_awaited
    await one.ask()  # waits
    begun.rest.set()
    one.node.is_refused = False
    assert bodies(await one.take()) == [b"awaited"]
    one.node.begun[1].end(b"next")
    assert bodies(await one.take()) == [b"next"]


async def test_whoever_does_not_know_leaves_it_to_the_dispatcher(one: Served) -> None:
    one.node.is_known = False
    for asked in (1, 2, 3, 4):
        await one.ask()
        assert bodies(await one.take()) == [b"here"]
        assert one.node.asked == asked


async def test_pipelined_requests_are_answered_in_order(one: Served) -> None:
    begun = await one.begin()
    begun.end(b"there")
    assert bodies(await one.take()) == [b"there"]
    await one.ask(GET * 3)  # their answers leave together
    assert bodies(await one.take()) == [b"here"] * 3
    assert len(one.node.begun) == 1


async def test_now_and_then_the_task_waits_itself(one: Served) -> None:
    for _ in range(2 * BEGUN_MAX + 1):
        await one.ask()
        if one.node.begun and one.node.begun[-1].answer is None:
            one.node.begun[-1].end(b"there")
        assert len(await one.take()) == 1
    assert one.node.asked == 4  # two at first, then one of `BEGUN_MAX`


async def test_the_task_waits_for_the_first_few_so_that_the_connection_may_move(
    one: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WAITED_MIN", WAITED_MIN)
    for _ in range(WAITED_MIN):
        await one.ask()
        assert bodies(await one.take()) == [b"here"]
    assert not one.node.begun
    await one.ask()
    assert len(one.node.begun) == 1


async def test_a_last_request_is_answered_as_ever(one: Served) -> None:
    for _ in range(2):
        await one.ask()
        await one.take()
    await one.ask(LAST)
    assert not one.node.begun
    [reply] = await one.take()
    assert reply.headers["connection"] == "close"
    await one.is_over.wait()


async def test_a_server_that_stops_waits_for_the_answer(one: Served) -> None:
    begun = await one.begin()
    one.context.stopping = True
    one.connection.stop()
    await wait_all_tasks_blocked()
    assert not one.is_over.is_set()
    begun.answer = Answer(200, b"late")
    begun.rest.set()
    begun.then()
    [reply] = await one.take()
    assert (reply.body, reply.headers["connection"]) == (b"awaited", "close")
    await one.is_over.wait()


async def test_an_answer_that_comes_as_the_time_is_up_is_not_a_second_one(one: Served) -> None:
    begun = await one.begin()
    one.connection.expire()
    begun.end(b"in the same moment")
    await one.is_over.wait()
    assert [reply.status for reply in await one.take()] == [500]


async def test_an_answer_that_does_not_come_is_a_500(
    autojump_clock: MockClock, one: Served
) -> None:
    begun = await one.begin()
    began = trio.current_time()
    await one.is_over.wait()
    assert trio.current_time() - began > 10
    [reply] = await one.take()
    assert (reply.status, reply.headers["connection"]) == (500, "close")
    assert begun.is_dropped
    begun.end(b"too late")  # and nobody minds


async def test_a_client_that_has_left_is_noticed_after_the_answer(one: Served) -> None:
    begun = await one.begin()
    one.client.close()
    await wait_all_tasks_blocked()
    assert not one.is_over.is_set()
    begun.end(b"to nobody")
    await one.is_over.wait()


async def test_an_answer_waits_for_none_that_is_not_read(one: Served) -> None:
    begun = await one.begin()
    begun.end(b"x" * (8 << 20))
    await wait_all_tasks_blocked()
    await one.ask()
    assert len(one.node.begun) == 1
    got = 0
    while got < 8 << 20:
        await wait_all_tasks_blocked()
        got += len(one.client.recv(1 << 20))
    await wait_all_tasks_blocked()
    assert len(one.node.begun) == 2
    one.node.begun[1].end(b"there")
    assert bodies(await one.take())[-1:] == [b"there"]


async def test_a_connection_that_ends_meanwhile_leaves_nothing_behind(
    autojump_clock: MockClock,
) -> None:
    async with serving() as one:
        begun = await one.begin()
    assert begun.is_dropped
    gone: list[weakref.ref[Any]] = [weakref.ref(begun)]
    del begun, one
    gc.collect()
    assert gone[0]() is None


async def test_an_answer_to_head_has_no_body(one: Served) -> None:
    head = GET.replace(b"GET", b"HEAD")
    for _ in range(2):
        await one.ask(head)
        one.client.recv(1 << 16)
    await one.ask(head)
    one.node.begun[0].end(b"there")
    await wait_all_tasks_blocked()
    [reply] = replies(one.client.recv(1 << 16), heads=(0,))
    assert (reply.headers["content-length"], reply.body) == ("5", b"")


async def test_an_answer_that_cannot_be_written_is_a_500(one: Served) -> None:
    begun = await one.begin()
    begun.answer = Answer(999, b"no status of HTTP's")
    begun.then()
    [reply] = await one.take()
    assert reply.status == 500
    await one.ask()  # and so on
    one.node.begun[1].end(b"next")
    assert bodies(await one.take()) == [b"next"]


async def test_a_call_that_cannot_be_sent_on_is_a_500(one: Served) -> None:
    (await one.begin()).end(b"there")
    await one.take()
    one.node.is_broken = True
    await one.ask()
    assert not one.is_over.is_set()
    [reply] = await one.take()
    assert reply.status == 500
    assert one.node.asked == 2, "it may have been sent on before that"
    one.node.is_broken = False
    await one.ask()  # and so on
    one.node.begun[1].end(b"next")
    assert bodies(await one.take()) == [b"next"]


async def test_the_time_limit_of_an_answer_begins_once(
    autojump_clock: MockClock, one: Served
) -> None:
    begun = await one.begin()
    began, limit = trio.current_time(), HttpOptions().answer_seconds_max
    await trio.sleep(limit / 2)
    begun.then()  # the rest of the answer is waited for
    await one.is_over.wait()
    assert trio.current_time() - began < 1.2 * limit
    assert begun.is_dropped


async def test_what_a_client_behind_a_proxy_does_not_read_is_its_own() -> None:
    near = GET.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 203.0.113.1\r\n\r\n")
    far = near.replace(b"113.1", b"113.2")
    async with serving(HttpOptions(trusted_proxies=(CLIENT,))) as one:
        for data in (near, near, far, far):
            await one.ask(data)
            await one.take()
        await one.ask(near)
        assert one.node.begun_for == ["203.0.113.1"]
        one.node.begun[0].end(UNREAD)
        await wait_all_tasks_blocked()
        held = one.context.budgets.answers
        assert held.count_held("203.0.113.1") == held.held > len(UNREAD) // 2


async def test_what_is_not_read_is_held_after_a_large_answer_too(one: Served) -> None:
    one.node.body = bytes(ANSWER_BYTES_MIN + 1)
    for _ in range(2):
        await one.ask()
        await one.take()
    await one.ask()
    one.node.begun[0].end(UNREAD)
    await wait_all_tasks_blocked()
    assert one.context.budgets.answers.held > len(UNREAD) // 2
