"""While passes are slow, addresses that use much of the processor take turns, and nobody else."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from dispatch_kit import DispatchKit
from http_kit import Echo, Running, read_all, replies, serving
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import open_arena

from greenroom.http.overload import turns
from greenroom.http.overload.cpu_shares import CpuShares
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.overload.turns import (
    KEYS_MAX,
    LATE_SECONDS,
    OWED_SECONDS,
    OWED_SECONDS_MAX,
    PART_SECONDS_MIN,
    PARTS_MAX,
    PASSES_KEPT,
    SHARED_SECONDS_MAX,
    TURN_SECONDS_FIRST,
    TURNS_A_PASS_MAX,
    TURNS_KEPT,
    TURNS_SECONDS_MAX,
    WAIT_SECONDS_MAX,
    WAITING_SECONDS,
    WAITING_SECONDS_MAX,
    AddressTurns,
)

FLOOD, HONEST = "127.0.0.1", "127.0.0.2"
GET = b"GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def owing(*keys: str, seconds: float = OWED_SECONDS_MAX) -> AddressTurns:
    """Return turns of addresses that owe so much."""
    found = AddressTurns()
    found.start()
    for key in keys:
        found.charge(key, seconds)
    return found


def owed(of_all: AddressTurns, key: str) -> float:
    return of_all._accounts[key].owed


def test_an_address_that_owes_little_need_not_wait() -> None:
    of_all = owing("flood", seconds=OWED_SECONDS)
    assert of_all.take("honest")
    assert of_all.take("flood")
    assert not of_all.take("flood")
    assert of_all.take("honest")


def test_a_trusted_proxys_connections_never_wait() -> None:
    of_all = owing("", seconds=OWED_SECONDS_MAX)
    assert of_all.take("")


def test_each_pass_pays_off_a_part_of_what_is_owed() -> None:
    of_all = owing("flood", seconds=OWED_SECONDS + 2.5 * WAITING_SECONDS)
    passes = 0
    while owed(of_all, "flood") > OWED_SECONDS:
        of_all.begin_pass()
        passes += 1
    assert passes == 3


def test_a_turn_is_charged_what_turns_usually_cost_before_it_has_used_that() -> None:
    """A call may be costly some passes later: eight lists were encoded in one pass."""
    of_all = owing("flood", seconds=0.0)
    for _ in range(8):
        assert of_all.take("flood")
        of_all.charge("flood", 0.01)
        while owed(of_all, "flood"):
            of_all.begin_pass()
    assert of_all.take("flood")
    assert owed(of_all, "flood") == pytest.approx(0.01, rel=0.1)
    assert not of_all.take("flood")
    before = owed(of_all, "flood")
    of_all.charge("flood", 0.01)
    assert owed(of_all, "flood") == pytest.approx(before, rel=0.01), "it is paid for"


def test_what_is_owed_has_a_bound_and_so_have_the_addresses() -> None:
    of_all = owing("flood", seconds=1000.0)
    assert owed(of_all, "flood") == OWED_SECONDS_MAX
    for number in range(KEYS_MAX + 10):
        of_all.charge(f"address {number}", 0.001)
    assert len(of_all._accounts) == KEYS_MAX
    assert of_all.take("one more")
    of_all.charge("flood", 1000.0)
    for _ in range(2 * PASSES_KEPT):
        of_all.begin_pass()
        of_all.charge("flood", 1000.0)
    assert [*of_all._accounts] == ["flood"]


async def test_those_who_wait_have_one_part_of_a_pass_together(autojump_clock: MockClock) -> None:
    floods = [f"flood {number}" for number in range(10)]
    of_all = owing(*floods)
    async with trio.open_nursery() as nursery:
        for flood in floods:
            nursery.start_soon(of_all.wait, flood)
        await wait_all_tasks_blocked()
        of_all.begin_pass()
        paid = [OWED_SECONDS_MAX - owed(of_all, flood) for flood in floods]
        assert paid == pytest.approx([WAITING_SECONDS / len(floods)] * len(floods))
        for number in range(100):
            nursery.start_soon(of_all.wait, f"crowd {number}")
        await wait_all_tasks_blocked()
        before = owed(of_all, floods[0])
        of_all.begin_pass()
        assert before - owed(of_all, floods[0]) == pytest.approx(PART_SECONDS_MIN)
        of_all.stop()


async def test_an_address_has_a_part_for_each_of_its_players(autojump_clock: MockClock) -> None:
    of_all = owing("school", "flood")
    async with trio.open_nursery() as nursery:
        for key in ("school", "flood"):
            nursery.start_soon(of_all.wait, key)
        await wait_all_tasks_blocked()
        for player_id in (1, 2, 3, 3):
            of_all.note_player("school", player_id)
        of_all.begin_pass()
        paid = {key: OWED_SECONDS_MAX - owed(of_all, key) for key in ("school", "flood")}
        assert paid["school"] == pytest.approx(WAITING_SECONDS * 3 / 4)
        assert paid["flood"] == pytest.approx(WAITING_SECONDS / 4)
        of_all.stop()


async def test_parts_make_no_pass_longer(autojump_clock: MockClock) -> None:
    """Guests are registered in no time: 13 floods with 16 each had 10 ms of every pass."""
    floods = [f"flood {number}" for number in range(13)]
    of_all = owing(*floods, "asks again after each answer")
    for key in of_all._accounts:
        for player_id in range(PARTS_MAX):
            of_all.note_player(key, player_id)
    async with trio.open_nursery() as nursery:
        for flood in floods:
            nursery.start_soon(of_all.wait, flood)
        await wait_all_tasks_blocked()
        of_all.begin_pass()
        paid = [OWED_SECONDS_MAX - owed(of_all, flood) for flood in floods]
        assert sum(paid) == pytest.approx(WAITING_SECONDS_MAX)
        of_all.stop()
    alone = owing("asks again after each answer")
    for player_id in range(PARTS_MAX):
        alone.note_player("asks again after each answer", player_id)
    alone.begin_pass()
    left = owed(alone, "asks again after each answer")
    assert OWED_SECONDS_MAX - left == pytest.approx(WAITING_SECONDS)


def test_the_parts_of_an_address_have_a_bound_and_are_counted_anew() -> None:
    of_all = owing("crowd")
    for player_id in range(1000):
        of_all.note_player("crowd", player_id)
    account = of_all._accounts["crowd"]
    assert account.parts == len(account.players) == PARTS_MAX
    for parts in (PARTS_MAX, PARTS_MAX, 1):
        for _ in range(PASSES_KEPT):
            of_all.charge("crowd", OWED_SECONDS_MAX)
            of_all.begin_pass()
        assert account.parts == parts
    for number in range(KEYS_MAX):
        of_all.charge(f"address {number}", 0.001)
    of_all.note_player("one more", 1)
    assert len(of_all._accounts) == KEYS_MAX


def test_an_address_that_uses_less_than_its_part_of_long_passes_never_waits() -> None:
    """150 players used a quarter of a core, and had 1.5 ms of passes of 30 ms: they waited 80."""
    of_all = owing(*(f"flood {number}" for number in range(13)))
    for player_id in range(PARTS_MAX):
        of_all.note_player("school", player_id)
    part_seconds = 0.03 * PARTS_MAX / (PARTS_MAX + 13)
    calls = int(0.9 * part_seconds / 0.0005)
    for number in range(2 * TURNS_KEPT):
        of_all.begin_pass(0.03 * number)
        of_all.charge("flood 1", OWED_SECONDS_MAX)
        taken = 0
        while taken < calls and of_all.take("school"):
            of_all.charge("school", 0.0005)
            taken += 1
        assert taken == calls or number < 2
    assert not of_all.take("flood 1")


def test_what_is_left_of_a_part_is_not_saved_up() -> None:
    of_all = owing("idle", "other", seconds=0.0)
    for number in range(10):
        of_all.begin_pass(0.01 * number)
    assert owed(of_all, "idle") == pytest.approx(-0.005)
    of_all.begin_pass(60.0)
    assert owed(of_all, "idle") == pytest.approx(-SHARED_SECONDS_MAX / 2)


def test_a_pass_has_a_few_ms_of_turns_for_all_who_owe() -> None:
    """Each of 13 floods had a turn that took 5 ms in the same pass."""
    floods = [f"flood {number}" for number in range(20)]
    of_all = owing(*floods, seconds=OWED_SECONDS / 2)
    taken = [flood for flood in floods for _ in range(2) if of_all.take(flood)]
    assert 2 < len(taken) <= TURNS_SECONDS_MAX / TURN_SECONDS_FIRST
    assert of_all.take("who owes nothing")
    of_all.begin_pass()
    assert of_all.take(floods[-1])


async def test_those_for_whom_a_pass_had_no_turn_are_the_first_next_time(
    autojump_clock: MockClock,
) -> None:
    floods = [f"flood {number}" for number in range(40)]
    of_all = owing(*floods, seconds=OWED_SECONDS / 2)
    gives = 0
    served: dict[str, list[int]] = {key: [] for key in floods}

    async def ask(key: str) -> None:
        for _ in range(2):
            await of_all.wait(key)
            served[key].append(gives)

    async with trio.open_nursery() as nursery:
        for key in floods:
            nursery.start_soon(ask, key)
            await wait_all_tasks_blocked()
        while not all(served.values()):
            gives += 1
            for key in floods:
                of_all._accounts[key].owed = OWED_SECONDS / 2
            of_all._left_seconds = TURNS_SECONDS_MAX
            of_all._give()
            await wait_all_tasks_blocked()
        of_all.stop()
    firsts, seconds = zip(*served.values(), strict=True)
    assert max(firsts) <= min(seconds), "nobody had two before all had one"
    assert max(firsts) > 2


async def test_an_address_with_many_that_wait_is_behind_those_that_had_no_turn(
    autojump_clock: MockClock,
) -> None:
    """All who had to wait were moved behind each other, so they stayed in the same order."""
    floods = [f"flood {number}" for number in range(40)]
    of_all = owing(*floods, seconds=OWED_SECONDS / 2)
    served = Counter[str]()

    async def ask(key: str) -> None:
        await of_all.wait(key)
        served[key] += 1
        of_all.charge(key, TURN_SECONDS_FIRST)

    async with trio.open_nursery() as nursery:
        for key in floods * TURNS_A_PASS_MAX:
            nursery.start_soon(ask, key)
        await wait_all_tasks_blocked()
        for _ in floods:
            for key in floods:
                of_all._accounts[key].owed = OWED_SECONDS / 2
            of_all._left_seconds = TURNS_SECONDS_MAX
            of_all._give()
            await wait_all_tasks_blocked()
        assert len(served) == len(floods)
        assert max(served.values()) <= 2 * min(served.values())
        nursery.cancel_scope.cancel()


def test_players_who_do_not_call_for_a_moment_still_count() -> None:
    of_all = owing("school", seconds=0.0)
    for player_id in range(PARTS_MAX):
        of_all.note_player("school", player_id)
    for _ in range(PASSES_KEPT):
        of_all.begin_pass()
    of_all.note_player("school", 1)
    assert of_all._accounts["school"].parts == PARTS_MAX


async def test_only_players_with_a_good_token_count(autojump_clock: MockClock) -> None:
    async with open_arena() as arena:
        kit = DispatchKit(arena)
        of_all, who = kit.limits.turns, ("POST", "/api/who.php/am/i")
        tokens = [(await kit.register(name))[1] for name in ("Ada", "Bob")]
        await kit.answer(*who, token=tokens[0], address=HONEST)
        assert not of_all._accounts, "nobody takes turns"
        of_all.start()
        for token in (*tokens, tokens[0][:-1] + "x", None):
            await kit.answer(*who, token=token, address=HONEST)
        assert of_all._accounts[HONEST].parts == 2


async def test_a_pass_has_as_many_turns_of_an_address_as_are_paid_for(
    autojump_clock: MockClock,
) -> None:
    """One a pass would hold up a school whose calls are cheap; all at once would be a long pass."""
    of_all = owing("flood", seconds=0.0)
    served: list[int] = []

    async def ask(number: int) -> None:
        await of_all.wait("flood")
        served.append(number)

    for _ in range(TURNS_KEPT):
        of_all.take("flood")
        of_all.charge("flood", OWED_SECONDS / 4)
        of_all.begin_pass()
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, number)
            await wait_all_tasks_blocked()
        of_all._accounts["flood"].owed = OWED_SECONDS_MAX
        of_all._give()
        await wait_all_tasks_blocked()
        assert served == [], "it owes"
        of_all._accounts["flood"].owed = 0.0
        of_all._give()
        await wait_all_tasks_blocked()
        assert sorted(served) == [0, 1, 2, 3, 4], "it may owe a little"
        of_all.stop()
    assert sorted(served) == [*range(20)]
    assert not of_all.is_waited_for


async def test_a_turn_comes_in_any_case_and_one_that_comes_late_says_so(
    autojump_clock: MockClock,
) -> None:
    of_all = owing("flood", "other")
    late: dict[str, bool] = {}

    async def ask(key: str) -> None:
        late[key] = await of_all.wait(key)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "flood")
        await wait_all_tasks_blocked()
        await trio.sleep(WAIT_SECONDS_MAX - LATE_SECONDS / 2)
        nursery.start_soon(ask, "other")
        await wait_all_tasks_blocked()
        of_all._give()
        await wait_all_tasks_blocked()
        assert late == {}
        await trio.sleep(LATE_SECONDS * 0.75)
        of_all._give()
        await wait_all_tasks_blocked()
        assert late == {"flood": True}
        of_all._accounts["other"].owed = 0.0
        of_all._give()
    assert late == {"flood": True, "other": False}


async def test_whoever_gives_up_is_in_nobodys_way(autojump_clock: MockClock) -> None:
    of_all = owing("flood")
    for _ in range(3):
        with trio.move_on_after(0.01):
            await of_all.wait("flood")
    assert not of_all.is_waited_for


async def test_while_somebody_waits_passes_follow_each_other(autojump_clock: MockClock) -> None:
    of_all = owing("flood")
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(of_all.run)
            await wait_all_tasks_blocked()
            async with trio.open_nursery() as asking:
                asking.start_soon(of_all.wait, "flood")
                while asking.child_tasks:
                    of_all.begin_pass()
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert not of_all.is_waited_for


class Passes:
    """A pace whose passes take as long as they are told to."""

    def __init__(self, addresses: int) -> None:
        self.now = 0.0
        self.turns = AddressTurns()
        self.pace = PassBudget(
            None,
            None,
            CpuShares(self.turns, cpu=lambda: self.now),
            self.turns,
            addresses=lambda: addresses,
            monotonic=lambda: self.now,
            cpu=lambda: self.now,
        )

    def run(self, pass_seconds: float, seconds: float) -> bool:
        """Run passes of one length for so long; return whether addresses take turns then."""
        until = self.now + seconds
        while self.now < until:
            self.pace.after_io_wait(0.0)
            self.now += pass_seconds
            self.pace.before_io_wait(0.0)
            self.now += pass_seconds / 10
        return self.turns.is_on


async def test_turns_are_taken_only_while_passes_are_slow() -> None:
    passes = Passes(addresses=2)
    assert not passes.run(0.004, 3.0)
    assert passes.run(0.012, 0.6)
    assert not passes.pace.is_behind, "nobody is refused"
    assert not passes.run(0.004, 3.0)


async def test_an_address_alone_takes_no_turns() -> None:
    passes = Passes(addresses=1)
    assert not passes.run(0.02, 3.0)


async def connect(running: Running, address: str) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", running.port, local_address=address)


async def test_the_requests_of_one_address_are_spread_over_passes_and_anothers_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many floods, each within its limits, made passes of 40 ms: calls took 230 ms."""
    for name in ("OWED_SECONDS_MAX", "LATE_SECONDS", "WAIT_SECONDS_MAX"):
        monkeypatch.setattr(turns, name, 1e9)
    echo = Echo()
    async with serving(echo) as running:
        of_all = running.server._turns
        running.server._pace._slow_at = 1e18
        of_all.start()
        of_all.charge(FLOOD, 1e6)
        answered = Counter[str]()

        async def ask(address: str) -> None:
            async with await connect(running, address) as stream:
                await stream.send_all(GET)
                assert [reply.status for reply in replies(await read_all(stream))] == [200]
                answered[address] += 1

        async with trio.open_nursery() as flood:
            for _ in range(10):
                flood.start_soon(ask, FLOOD)
            for _ in range(10):
                await ask(HONEST)
            assert answered == {HONEST: 10}
            of_all.stop()
        assert answered == {HONEST: 10, FLOOD: 10}


async def test_a_request_whose_turn_came_late_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LATE_SECONDS", -1.0)
    echo = Echo()
    async with serving(echo) as running:
        of_all = running.server._turns
        running.server._pace._slow_at = 1e18
        of_all.start()
        of_all.charge(FLOOD, OWED_SECONDS_MAX)
        async with await connect(running, FLOOD) as stream:
            await stream.send_all(GET)
            (reply,) = replies(await read_all(stream))
        assert reply.status == 429
        assert running.server._limits.refused["overload"] == 1
        assert echo.requests == []
