"""Large pieces of one address are dealt with one a pass, so that others come in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest
import trio
from dispatch_kit import DispatchKit
from http_kit import Echo
from trio.testing import MockClock
from world_kit import open_arena

from greenroom.http.limits import CallLimits
from greenroom.http.overload.body_memory import Budgets, Unsent
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.overload.turns import AddressTurns
from greenroom.http.server.connection import Connection
from greenroom.http.server.connection_context import ConnectionContext
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.reaper import Reaper
from greenroom.http.server.wire import TcpStream
from greenroom.http.server.writer import AnswerWriter
from greenroom.network.pieces import LARGE_BYTES, Pieces


class Passes(trio.abc.Instrument):
    """Counts the passes of the scheduler."""

    def __init__(self) -> None:
        self.number = 0

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1


@pytest.fixture
async def passes() -> AsyncIterator[Passes]:
    passes = Passes()
    trio.lowlevel.add_instrument(passes)
    yield passes
    trio.lowlevel.remove_instrument(passes)


async def test_an_address_has_one_turn_a_pass_in_the_order_of_asking(passes: Passes) -> None:
    pieces = Pieces()
    asked: list[int] = []
    turns: list[tuple[int, int]] = []

    async def ask(number: int) -> None:
        asked.append(number)
        await pieces.turn("flood")
        turns.append((number, passes.number))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, number)
    assert [number for number, _ in turns] == asked
    assert len({number for _, number in turns}) == 20
    assert not len(pieces)


async def test_nobody_waits_for_the_turns_of_another_address(passes: Passes) -> None:
    pieces = Pieces()
    waited: list[int] = []

    async def ask(key: str) -> None:
        began = passes.number
        await pieces.turn(key)
        if key == "player":
            waited.append(passes.number - began)

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(ask, "flood")
        nursery.start_soon(ask, "player")
    assert waited == [1]


async def test_whoever_is_cancelled_leaves_nothing_behind_and_is_in_nobodys_way() -> None:
    pieces, had = Pieces(), []

    async def ask(number: int, scope: trio.CancelScope) -> None:
        with scope:
            await pieces.turn("flood")
            had.append(number)

    scopes = [trio.CancelScope() for _ in range(5)]
    async with trio.open_nursery() as nursery:
        for number, scope in enumerate(scopes):
            nursery.start_soon(ask, number, scope)
        await trio.lowlevel.checkpoint()
        for scope in scopes[:3]:
            scope.cancel()
    assert set(had) >= {3, 4}
    assert not len(pieces)


async def test_large_bodies_of_one_address_are_read_in_as_many_passes(
    autojump_clock: MockClock, passes: Passes
) -> None:
    async with open_arena() as arena:
        stage = DispatchKit(arena)
        read: list[tuple[str, int]] = []

        async def store(address: str, body: bytes) -> None:
            answer = await stage.answer("PUT", "/api/store.php", body, address=address)
            assert answer.status == 200
            read.append((address, passes.number))

        await store("203.0.113.1", b"{}")
        read.clear()
        large = b'{"a":"%s"}' % (b"x" * LARGE_BYTES)
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(store, "203.0.113.8", large)
            nursery.start_soon(store, "203.0.113.9", large)
        assert max(Counter(read).values()) == 1
        flood = [number for address, number in read if address.endswith("8")]
        (player,) = (number for address, number in read if address.endswith("9"))
        assert player <= flood[1]


async def test_a_small_body_does_not_wait_for_the_large_ones_of_its_address(
    autojump_clock: MockClock,
) -> None:
    async with open_arena() as arena:
        stage = DispatchKit(arena)
        answered: list[int] = []

        async def store(size: int) -> None:
            await stage.answer("PUT", "/api/store.php", b'{"a":"%s"}' % (b"x" * size))
            answered.append(size)

        await store(1)
        answered.clear()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(store, LARGE_BYTES)
            await trio.lowlevel.checkpoint()
            nursery.start_soon(store, 1)
        assert 1 in answered[:3]


class LargeBodies:
    """A wire over which a body comes as fast as it is read; notes the passes of its pieces."""

    is_late = False

    def __init__(self, passes: Passes, pieces: int) -> None:
        self._passes = passes
        head = f"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: {pieces * LARGE_BYTES}\r\n\r\n"
        self._left = [b"x" * LARGE_BYTES] * (pieces - 1) + [head.encode()]
        self.taken: list[int] = []

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._left:
            return b""
        self.taken.append(self._passes.number)
        return self._left.pop()

    def take_turns(self, turns: AddressTurns, key: str) -> None: ...

    def count_unsent(self, unsent: Unsent) -> None: ...

    async def send(self, data: bytes) -> None: ...

    def post(self, data: bytes) -> bool:
        return True

    async def finish_sending(self) -> None: ...

    async def close(self) -> None: ...

    async def abort(self) -> None: ...

    def release_stream(self) -> TcpStream:
        raise NotImplementedError


async def test_connections_of_one_address_read_their_large_bodies_by_turns(
    passes: Passes,
) -> None:
    options, writer = HttpOptions(), AnswerWriter(0)
    context = ConnectionContext(
        options,
        Echo(),
        writer,
        Reaper(options, writer),
        Budgets(options),
        pace=PassBudget(),
        limits=CallLimits(),
    )
    flood = [LargeBodies(passes, 20) for _ in range(10)]
    player = LargeBodies(passes, 20)
    async with trio.open_nursery() as nursery:
        for wire in flood:
            nursery.start_soon(Connection(context, wire, "198.51.100.1").run)
        nursery.start_soon(Connection(context, player, "198.51.100.2").run)
    taken = Counter(number for wire in flood for number in wire.taken[2:])
    assert sum(taken.values()) == 10 * 18
    assert max(taken.values()) == 1
    assert player.taken[-1] < sorted(taken)[3 * 20]
