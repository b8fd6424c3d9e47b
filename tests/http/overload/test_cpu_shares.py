"""Under overload the addresses that use the most are refused first, and the others not at all."""

from __future__ import annotations

import contextvars
import math
from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest
import trio
from http_kit import Echo, Running, exchange, read_all, replies, serving
from trio.testing import MockClock

from greenroom.http.overload import cpu_shares, pass_budget
from greenroom.http.overload.cpu_shares import (
    ADDRESS,
    HEAVY_FACTOR,
    KEYS_MAX,
    WINDOW_SECONDS,
    CpuShares,
    level_of,
)
from greenroom.http.overload.pass_budget import PassBudget

FLOOD, HONEST = "127.0.0.1", "127.0.0.2"
GET = b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    ("amounts", "heavy"),
    [
        ([], []),
        ([9.0], []),
        ([9.0, 1.0], [9.0]),
        ([1.0, 1.0], []),
        ([1.0] * 100, []),
        ([20.0, 12.0, 10.0, 9.0, 5.0, 4.0, 1.0], [20.0]),
        ([8.0, 8.0, 8.0, 1.0, 1.0], [8.0, 8.0, 8.0]),
        ([3.0, 1.0, 1.0, 1.0, 1.0, 1.0], [3.0]),
    ],
)
def test_who_uses_more_than_the_others_is_heavy(amounts: list[float], heavy: list[float]) -> None:
    level = level_of(amounts)
    assert [amount for amount in amounts if amount > level] == heavy
    if len(amounts) > 1:
        assert level >= HEAVY_FACTOR * sum(amounts) / len(amounts)
    else:
        assert level == math.inf


def task_of(address: str | None) -> trio.lowlevel.Task:
    """Return as much of a task as is looked at, one that works for an address."""
    context = contextvars.Context()
    if address is not None:
        context.run(ADDRESS.set, address)
    return cast("trio.lowlevel.Task", SimpleNamespace(context=context))


class Seconds:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.shares = CpuShares(cpu=lambda: self.now)

    def work(self, **seconds: float) -> None:
        """Let tasks work, each for its address, until the next judgement."""
        self.shares.begin_pass(self.now)
        for address, each in seconds.items():
            self.now += each
            self.shares.after_task_step(task_of(None if address == "nobody" else address))
        self.shares.begin_pass(self.now + WINDOW_SECONDS)


def test_steps_are_charged_to_the_address_that_their_task_works_for() -> None:
    seconds = Seconds()
    seconds.work(flood=0.2, honest=0.01, nobody=0.5)
    shares = seconds.shares
    assert shares.has_heavy
    assert [shares.is_heavy(key) for key in ("flood", "honest", "other")] == [True, False, False]


def test_an_address_that_uses_little_for_some_windows_is_heavy_no_more() -> None:
    seconds = Seconds()
    seconds.work(flood=0.2, honest=0.01)
    for _ in range(20):
        seconds.work(honest=0.01, other=0.01)
    assert not seconds.shares.has_heavy


def test_a_refused_request_counts_as_if_it_had_been_answered() -> None:
    seconds = Seconds()
    seconds.shares.charge("flood", 0.2)
    seconds.work(honest=0.01)
    assert seconds.shares.is_heavy("flood")


def test_no_more_addresses_are_counted_than_may_be() -> None:
    shares = CpuShares(cpu=lambda: 0.0)
    for number in range(KEYS_MAX + 10):
        shares.charge(str(number), 1.0)
    assert len(shares._used) == KEYS_MAX


class Behind:
    """A pace that is always behind, with little space in each pass."""

    def __init__(self) -> None:
        self.refused = Counter[str]()
        self.shares = CpuShares(cpu=lambda: 0.0)
        self.pace = PassBudget(
            self.refused, None, self.shares, monotonic=lambda: 0.0, cpu=lambda: 0.0
        )
        self.pace.is_behind = True
        self.pace._taken_max = 4.0

    def refused_of(self, key: str, requests: int) -> int:
        return [self.pace.must_refuse(key) for _ in range(requests)].count(True)


def test_the_heavy_ones_are_refused_however_early_they_come_and_the_light_ones_are_not() -> None:
    behind = Behind()
    behind.shares._heavy = frozenset({"flood"})
    assert behind.refused_of("flood", 100) == 96
    assert behind.refused_of("honest", 30) == 0
    assert behind.refused_of("honest", 50) == 80 - pass_budget.TAKEN_MIN // 2
    assert behind.shares._used["flood"] == pytest.approx(96 * pass_budget.PASS_SECONDS_AIM / 4)


def test_a_light_address_leaves_places_of_a_pass_to_others() -> None:
    """One with hundreds of connections took them all, and a player who asked once was refused."""
    behind = Behind()
    behind.shares._heavy = frozenset({"flood"})
    behind.refused_of("flood", 4)
    for number in range(4):
        assert behind.refused_of(f"crowd {number}", 100)
    assert behind.refused_of("honest", 1) == 0


def test_while_light_addresses_are_refused_more_of_the_others_are_heavy() -> None:
    """Only the first of many floods was heavy, and a player was refused as often as the others."""
    seconds = Seconds()
    floods = {"first": 0.08, "second": 0.05, "third": 0.04}
    use = {**floods, "honest": 0.01, "another": 0.001, "one more": 0.001}
    seconds.work(**use)
    shares = seconds.shares
    assert [key for key in use if shares.is_heavy(key)] == ["first"]
    for _ in range(8):
        shares.note_light_refused()
        seconds.work(**use)
    assert [key for key in use if shares.is_heavy(key)] == [*floods]
    for _ in range(120):
        seconds.work(**use)
    assert [key for key in use if shares.is_heavy(key)] == ["first"]


async def test_it_is_known_who_is_heavy_when_the_first_request_is_refused() -> None:
    """For a quarter of a second players were refused like everybody else."""
    seconds = Seconds()
    pace = PassBudget(
        None, None, seconds.shares, monotonic=lambda: seconds.now, cpu=lambda: seconds.now
    )
    while not pace.is_behind:
        pace.after_io_wait(0.0)
        for address, each in (("flood", 0.04), ("honest", 0.001)):
            seconds.now += each
            seconds.shares.after_task_step(task_of(address))
        pace.before_io_wait(0.0)
    assert seconds.shares.is_heavy("flood")
    pace.rest()


def test_where_nobody_is_heavy_all_are_alike() -> None:
    behind = Behind()
    assert behind.refused_of("flood", 4) == 0
    assert behind.refused_of("honest", 1) == 1


async def test_nothing_is_measured_while_the_server_keeps_pace(autojump_clock: MockClock) -> None:
    shares = CpuShares()
    shares.start(0.0)
    shares.start(0.0)
    shares.charge("flood", 1.0)
    shares.stop()
    shares.stop()
    assert not shares._used
    token = ADDRESS.set("somebody")
    await trio.lowlevel.checkpoint()
    ADDRESS.reset(token)
    assert not shares._used


def keep_behind(running: Running, monkeypatch: pytest.MonkeyPatch) -> CpuShares:
    """Let a server take itself for overloaded, with a flood that is known."""
    pace = running.server._pace
    shares = pace._cpu_shares
    assert shares is not None
    pace._refused_at = math.inf
    monkeypatch.setattr(pass_budget, "TAKEN_MIN", 1)
    monkeypatch.setattr(pass_budget, "LIGHT_FACTOR", 64)
    monkeypatch.setattr(pass_budget, "HEAVY_TAKEN_MIN", 1)
    monkeypatch.setattr(pass_budget, "IDLE_SECONDS_MAX", 0.0)
    monkeypatch.setattr(pass_budget, "TAKEN_FIRST", 1.0)
    monkeypatch.setattr(pass_budget, "STEP_MAX", 1.0)
    return shares


async def ask_often(running: Running, address: str, times: int) -> Counter[int]:
    """Ask many times in one go; return the statuses of the answers."""
    stream = await trio.open_tcp_stream("127.0.0.1", running.port, local_address=address)
    async with stream:
        await stream.send_all(GET * times)
        await stream.send_eof()
        return Counter(reply.status for reply in replies(await read_all(stream)))


async def test_the_address_that_floods_is_refused_and_an_honest_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(Echo()) as running:
        shares = keep_behind(running, monkeypatch)
        monkeypatch.setattr(cpu_shares, "WINDOW_SECONDS", math.inf)
        asked = {address: Counter[int]() for address in (FLOOD, HONEST)}
        await ask_often(running, FLOOD, 300)
        await ask_often(running, HONEST, 1)
        shares._judge()
        assert shares.is_heavy(FLOOD)
        for address, times in ((FLOOD, 300), (HONEST, 30), (FLOOD, 300), (HONEST, 30)):
            asked[address] = asked[address] + await ask_often(running, address, times)
        assert asked[FLOOD][429] > 100
        assert asked[HONEST] == {200: 60}


async def test_behind_a_trusted_proxy_each_client_is_judged_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(Echo(), trusted_proxies=(FLOOD,)) as running:
        shares = keep_behind(running, monkeypatch)
        await exchange(running.port, GET)
        monkeypatch.setattr(cpu_shares, "WINDOW_SECONDS", math.inf)
        shares._heavy = frozenset({"192.0.2.1"})
        statuses = {}
        for client in ("192.0.2.1", "192.0.2.2"):
            head = GET.replace(b"Host: a", b"Host: a\r\nX-Forwarded-For: " + client.encode())
            said = replies(await exchange(running.port, head * 30))
            statuses[client] = Counter(reply.status for reply in said)
        assert statuses["192.0.2.1"][429] > 10
        assert statuses["192.0.2.2"] == {200: 30}
