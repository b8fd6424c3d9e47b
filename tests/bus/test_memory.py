"""The bus in memory: its latency, its harm, and that the same seed does the same."""

from __future__ import annotations

from random import Random

import pytest
import trio
from bus_kit import Gate, echo, heard_by
from seeds import SEED
from trio.testing import MockClock

from greenroom.bus.bus import BusLost, NobodyThere, TooSlow
from greenroom.bus.memory import MemoryBus, MemoryNetwork


async def start(nursery: trio.Nursery, network: MemoryNetwork, *node_ids: int) -> list[MemoryBus]:
    buses = [network.join(node_id) for node_id in node_ids]
    for bus in buses:
        bus.answer_with(echo)
        await nursery.start(bus.run)
    return buses


async def test_an_ask_takes_two_ways(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    network = MemoryNetwork(Random(SEED), latency_seconds=(10.0, 20.0))
    first, _ = await start(nursery, network, 1, 2)
    began = trio.current_time()
    assert await first.ask(2, b"hello", seconds_max=60) == b"hello"
    assert 20.0 <= trio.current_time() - began <= 40.0

    began = trio.current_time()
    with pytest.raises(NobodyThere):
        await first.ask(3, b"", seconds_max=90)
    assert 20.0 <= trio.current_time() - began <= 60.0


async def lost_numbers(network: MemoryNetwork) -> list[int]:
    """Return which of 300 tells are lost."""
    async with trio.open_nursery() as nursery:
        first, second = await start(nursery, network, 1, 2)
        heard = heard_by(second)
        for number in range(300):
            first.tell(2, b"%d" % number)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    return sorted({*range(300)} - {int(message) for _, message in heard})


async def test_what_is_lost_depends_on_the_seed_alone(autojump_clock: MockClock) -> None:
    lost = [await lost_numbers(MemoryNetwork(Random(seed), loss=0.3)) for seed in (1, 1, 2)]
    assert lost[0] == lost[1] != lost[2]
    assert 50 < len(lost[0]) < 130


async def test_a_lost_ask_ends_after_its_time(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    first, second = await start(nursery, MemoryNetwork(Random(SEED), loss=1.0), 1, 2)
    with pytest.raises(TooSlow):
        await first.ask(2, b"", seconds_max=5)
    assert second.statistics.answered == 0


async def test_a_cut_has_a_direction(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    network = MemoryNetwork(Random(SEED))
    first, second, third = await start(nursery, network, 1, 2, 3)
    heard = heard_by(second)
    network.cut(2, 1)
    first.tell(2, b"still heard")
    with pytest.raises(TooSlow):
        await first.ask(2, b"carried out", seconds_max=1)
    assert heard == [(1, b"still heard")]
    assert second.statistics.answered == 1
    assert await first.ask(3, b"elsewhere", seconds_max=1) == b"elsewhere"
    with pytest.raises(TooSlow):
        await second.ask(1, b"", seconds_max=1)
    assert await third.ask(2, b"elsewhere", seconds_max=1) == b"elsewhere"

    network.mend(2, 1)
    assert await first.ask(2, b"mended", seconds_max=1) == b"mended"


async def test_nothing_enters_or_leaves_a_node_that_is_paused(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    network = MemoryNetwork(Random(SEED))
    first, second = await start(nursery, network, 1, 2)
    heard, heard_by_first = heard_by(second), heard_by(first)
    network.pause(2)
    first.tell(2, b"a")
    second.tell(1, b"b")
    with pytest.raises(TooSlow):
        await first.ask(2, b"late", seconds_max=5)
    assert not heard
    assert not heard_by_first
    assert first.statistics.bytes_unsent > 0

    network.resume(2)
    assert await first.ask(2, b"again", seconds_max=5) == b"again"
    assert heard == [(1, b"a")]
    assert heard_by_first == [(2, b"b")]
    assert first.statistics.answers_late == 1
    assert first.statistics.bytes_unsent == second.statistics.bytes_unsent == 0


async def test_a_node_that_has_lost_its_connection_knows_it(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    network = MemoryNetwork(Random(SEED))
    first, second = await start(nursery, network, 1, 2)
    heard = heard_by(first)
    second.answer_with(Gate())
    nursery.start_soon(expect_loss, first)
    await trio.sleep(1)
    network.disconnect(1)
    await trio.sleep(1)
    assert [first.connected_since, second.connected_since] == [None, 0.0]
    assert first.statistics.asks_failed == first.statistics.connections_lost == 1
    for asker, asked in ((first, 2), (second, 1)):
        with pytest.raises(NobodyThere):
            await asker.ask(asked, b"", seconds_max=5)
    second.tell(1, b"lost")
    first.tell(2, b"dropped")
    assert first.statistics.tells_dropped == 1

    network.reconnect(1)
    assert first.connected_since == trio.current_time()
    assert await second.ask(1, b"again", seconds_max=5) == b"again"
    assert not heard


async def test_a_node_that_is_killed_leaves_what_it_had_sent_on_its_way(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    network = MemoryNetwork(Random(SEED), latency_seconds=(1.0, 1.0))
    [first] = await start(nursery, network, 1)
    heard = heard_by(first)
    gate = Gate()
    async with trio.open_nursery() as others:
        [second] = await start(others, network, 2)
        second.answer_with(gate)
        second.tell(1, b"last words")
        nursery.start_soon(expect_loss, first)
        await trio.sleep(1.5)
        second.tell(1, b"very last words")
        others.cancel_scope.cancel()
    await trio.sleep(5)
    assert heard == [(2, b"last words"), (2, b"very last words")]
    assert first.statistics.connections_lost == 1
    assert first.statistics.asks_failed == 1


async def expect_loss(bus: MemoryBus) -> None:
    with pytest.raises(BusLost):
        await bus.ask(2, b"", seconds_max=60)


async def test_a_node_cannot_run_twice(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    network = MemoryNetwork(Random(SEED))
    await start(nursery, network, 1)
    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="runs twice")):
        await network.join(1).run()
