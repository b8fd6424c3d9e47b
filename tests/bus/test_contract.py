"""The promises of every bus, on each of the three (`greenroom/bus/bus.py` has the words)."""

from __future__ import annotations

import sys
from functools import partial

import pytest
import trio
from bus_kit import SECONDS_MAX, BusHub, Gate, echo, heard_by
from waiting import until

from greenroom.bus import exchange
from greenroom.bus.bus import (
    ANSWERING_MAX,
    ASKS_MAX,
    MESSAGE_BYTES_MAX,
    UNSENT_BYTES_MAX,
    AnswerFailed,
    Bus,
    BusError,
    BusLost,
    MessageTooLong,
    NobodyThere,
    TooBusy,
    TooSlow,
)
from greenroom.bus.frames import ANSWER, encode


async def outcome_of(bus: Bus, node_id: int, message: bytes = b"", seconds_max: float = 20) -> str:
    """Return the class of the error that an ask ends with, or its answer."""
    try:
        return (await bus.ask(node_id, message, seconds_max=seconds_max)).decode()
    except BusError as error:
        return type(error).__name__


async def test_an_ask_is_answered_in_both_directions(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)

    async def tell_who(sender: int, message: bytes) -> bytes:
        return b"%d: %b" % (sender, message)

    first.answer_with(tell_who)
    second.answer_with(tell_who)

    assert await first.ask(2, b"hello", seconds_max=SECONDS_MAX) == b"1: hello"
    assert await second.ask(1, b"", seconds_max=SECONDS_MAX) == b"2: "
    assert first.connected_since is not None


async def test_what_was_asked_and_answered_is_held_no_longer(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    heard: list[bytes] = []

    async def hear(_: int, message: bytes) -> bytes:
        heard.append(message)
        return bytes(100_000)

    second.answer_with(hear)
    answers = [await first.ask(2, bytes(100_001), seconds_max=SECONDS_MAX)]

    for kept in (heard, answers):
        await until(partial(is_held_by_its_list_alone, kept), SECONDS_MAX)


def is_held_by_its_list_alone(kept: list[bytes]) -> bool:
    return sys.getrefcount(kept[0]) == ALONE


KEPT = [bytes(2)]
ALONE = sys.getrefcount(KEPT[0])


async def test_whoever_waits_again_gets_the_same(hub: BusHub) -> None:
    first, _ = await hub.start(1), await hub.start(2)
    begun = first.begin(2, b"hello", seconds_max=SECONDS_MAX)
    assert [await begun.wait() for _ in range(2)] == [b"hello"] * 2

    refused = first.begin(2, bytes(MESSAGE_BYTES_MAX + 1), seconds_max=SECONDS_MAX)
    for _ in range(2):
        with pytest.raises(MessageTooLong):
            await refused.wait()
    assert first.statistics.asks_failed == 1


async def test_an_ask_that_nobody_waits_for_ends_by_itself(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    second.answer_with(Gate())
    begun = first.begin(2, b"", seconds_max=0.1)
    assert first.statistics.asks_under_way == 1
    await until(lambda: first.statistics.asks_under_way == 0)
    with pytest.raises(TooSlow):
        await begun.wait()


async def test_what_a_node_sends_to_another_arrives_in_order(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    heard = heard_by(second)
    heard_before: dict[int, int] = {}

    async def note(_: int, message: bytes) -> bytes:
        heard_before[int(message)] = int(heard[-1][1]) if heard else 0
        return b""

    second.answer_with(note)
    async with trio.open_nursery() as nursery:
        for number in range(600):
            if number % 3:
                first.tell(2, b"%d" % number)
            else:
                nursery.start_soon(outcome_of, first, 2, b"%d" % number)
                await trio.lowlevel.checkpoint()
                await trio.lowlevel.checkpoint()

    assert [int(message) for _, message in heard] == [n for n in range(600) if n % 3]
    assert sorted(heard_before) == [*range(0, 600, 3)]
    assert all(before >= number - 1 for number, before in heard_before.items())


async def test_all_other_nodes_hear_what_all_are_told(hub: BusHub) -> None:
    buses = [await hub.start(node_id) for node_id in (1, 2, 3)]
    heard = [heard_by(bus) for bus in buses]

    buses[0].tell_all(b"a")
    buses[0].tell_all(b"b")
    buses[2].tell_all(b"c")

    await until(lambda: [len(each) for each in heard] == [1, 3, 2])
    assert heard[0] == [(3, b"c")]
    assert heard[2] == [(1, b"a"), (1, b"b")]
    assert [each for each in heard[1] if each[0] == 1] == [(1, b"a"), (1, b"b")]


async def test_an_ask_of_a_node_that_is_not_there_did_not_arrive(hub: BusHub) -> None:
    first = await hub.start(1)
    with pytest.raises(NobodyThere):
        await first.ask(2, b"", seconds_max=SECONDS_MAX)

    await hub.start(2)
    assert await first.ask(2, b"now", seconds_max=SECONDS_MAX) == b"now"

    await hub.kill(2)
    await until(lambda: nobody_is_there(first))
    assert first.statistics.asks_under_way == 0


async def nobody_is_there(bus: Bus) -> bool:
    """Return whether node 2 is known to be gone; its end may take a moment to be seen."""
    return await outcome_of(bus, 2) == "NobodyThere"


async def test_a_node_without_a_handler_takes_no_asks(hub: BusHub) -> None:
    first, second = await hub.start(1), hub.make(2)
    await hub.run(second)
    with pytest.raises(NobodyThere):
        await first.ask(2, b"", seconds_max=SECONDS_MAX)


async def test_a_bus_that_does_not_run_sends_nothing(hub: BusHub) -> None:
    await hub.start(2)
    first = hub.make(1)
    with pytest.raises(NobodyThere):
        await first.ask(2, b"", seconds_max=SECONDS_MAX)
    first.tell(2, b"")
    first.tell_all(b"")


async def test_an_ask_without_any_time_left_is_not_sent(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(NobodyThere):
            await first.ask(2, b"", seconds_max=seconds)
    assert first.statistics.asks == second.statistics.answered == 0


@pytest.mark.parametrize("node_id", [0, -1, 1])
async def test_a_node_sends_to_other_nodes_alone(hub: BusHub, node_id: int) -> None:
    first = await hub.start(1)
    with pytest.raises(ValueError, match="cannot send"):
        await first.ask(node_id, b"", seconds_max=1)
    with pytest.raises(ValueError, match="cannot send"):
        first.tell(node_id, b"")


async def test_a_message_of_the_longest_kind_arrives_and_a_longer_one_is_refused(
    hub: BusHub,
) -> None:
    first, second = await hub.start(1), await hub.start(2)
    heard = heard_by(second)
    longest = bytes(range(256)) * (MESSAGE_BYTES_MAX // 256)
    assert len(longest) == MESSAGE_BYTES_MAX

    assert await first.ask(2, longest, seconds_max=SECONDS_MAX) == longest
    first.tell(2, longest)
    await until(lambda: heard == [(1, longest)])

    for send in (first.tell_all, lambda message: first.tell(2, message)):
        with pytest.raises(MessageTooLong):
            send(longest + b".")
    with pytest.raises(MessageTooLong):
        await first.ask(2, longest + b".", seconds_max=1)
    assert first.statistics.asks == 1


async def test_a_handler_that_fails_harms_its_own_ask_alone(
    hub: BusHub, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await hub.start(1), await hub.start(2)

    async def fail(_: int, message: bytes) -> bytes:
        if message == b"raise":
            raise RuntimeError("a bug")
        return bytes(MESSAGE_BYTES_MAX + 1) if message == b"too long" else message

    second.answer_with(fail)
    for message in (b"raise", b"too long"):
        with pytest.raises(AnswerFailed):
            await first.ask(2, message, seconds_max=SECONDS_MAX)
    assert "a bug" in caplog.text
    assert await first.ask(2, b"fine", seconds_max=SECONDS_MAX) == b"fine"


async def test_an_answer_is_packed_and_one_that_cannot_be_harms_its_own_ask_alone(
    hub: BusHub, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await hub.start(1), await hub.start(2)

    async def measure(_: int, message: bytes) -> int:
        return len(message)

    def pack(size: int) -> bytes:
        if size > 4:
            raise RuntimeError("a bug")
        return b"%d" % size

    second.answer_with(measure, pack)
    with pytest.raises(AnswerFailed):
        await first.ask(2, b"raise", seconds_max=SECONDS_MAX)
    assert "a bug" in caplog.text
    assert await first.ask(2, b"fine", seconds_max=SECONDS_MAX) == b"4"


async def test_a_listener_that_fails_hears_the_next_tell(
    hub: BusHub, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await hub.start(1), await hub.start(2)
    heard: list[bytes] = []

    def hear(_: int, message: bytes) -> None:
        heard.append(message)
        if message == b"raise":
            raise RuntimeError("a bug")

    second.hear_with(hear)
    first.tell(2, b"raise")
    first.tell(2, b"fine")
    await until(lambda: heard == [b"raise", b"fine"])
    assert "a bug" in caplog.text


async def test_an_ask_ends_after_its_time_at_both_ends(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    with pytest.raises(TooSlow):
        await first.ask(2, b"", seconds_max=0.1)
    await until(lambda: gate.ended == 1)
    assert gate.inside == 0
    await until(lambda: second.statistics.answering == 0)

    second.answer_with(echo)
    assert await first.ask(2, b"next", seconds_max=SECONDS_MAX) == b"next"


async def test_an_asker_may_wait_less_long_than_the_other_node_takes(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    with pytest.raises(TooSlow):
        await first.ask(2, b"", seconds_max=SECONDS_MAX, wait_seconds_max=0.1)
    assert (first.statistics.asks_under_way, gate.inside, gate.ended) == (0, 1, 0)

    gate.opened.set()
    await until(lambda: first.statistics.answers_late == 1)


async def test_a_late_answer_is_thrown_away(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outcome_of, first, 2, b"cancelled")
        await until(lambda: gate.inside == 1)
        nursery.cancel_scope.cancel()
    assert first.statistics.asks_under_way == 0

    gate.opened.set()
    await until(lambda: first.statistics.answers_late == 1)
    assert await first.ask(2, b"own", seconds_max=SECONDS_MAX) == b"own"


async def test_no_other_node_can_answer(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    third = hub.make(3)
    await hub.run(third)
    gate = Gate()
    second.answer_with(gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_answer, first, b"true")
        await until(lambda: gate.inside == 1)
        for number in range(5):
            third._find_link(1).send(1, encode(ANSWER, number, message=b"false"))
        await until(lambda: first.statistics.answers_late == 5)
        gate.opened.set()


async def expect_answer(bus: Bus, message: bytes) -> None:
    assert await bus.ask(2, message, seconds_max=SECONDS_MAX) == message


async def test_so_many_asks_may_be_under_way_to_a_node_and_no_more(hub: BusHub) -> None:
    first = await hub.start(1)
    second, _ = await hub.start(2), await hub.start(3)
    gate = Gate()
    second.answer_with(gate)
    outcomes: list[str] = []

    async def ask() -> None:
        outcomes.append(await outcome_of(first, 2, b"answered"))

    async with trio.open_nursery() as nursery:
        for _ in range(ASKS_MAX):
            nursery.start_soon(ask)
        await until(lambda: gate.inside == ASKS_MAX)
        with pytest.raises(TooBusy):
            await first.ask(2, b"one more", seconds_max=SECONDS_MAX)
        assert await first.ask(3, b"another node", seconds_max=SECONDS_MAX) == b"another node"
        gate.opened.set()

    assert outcomes == ["answered"] * ASKS_MAX
    assert first.statistics.asks_refused == 1
    assert await first.ask(2, b"again", seconds_max=SECONDS_MAX) == b"again"


async def test_a_node_answers_so_many_asks_of_another_at_a_time(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    for round_ in range(1, ANSWERING_MAX // ASKS_MAX + 1):
        async with trio.open_nursery() as nursery:
            for _ in range(ASKS_MAX):
                nursery.start_soon(outcome_of, first, 2)
            await until(partial(gate.holds, round_ * ASKS_MAX))
            nursery.cancel_scope.cancel()
    assert second.statistics.answering == ANSWERING_MAX

    with pytest.raises(TooBusy):
        await first.ask(2, b"", seconds_max=SECONDS_MAX)
    gate.opened.set()
    await until(lambda: second.statistics.answering == 0)
    assert await first.ask(2, b"again", seconds_max=SECONDS_MAX) == b"again"


async def test_a_node_answers_so_many_bytes_of_another_at_a_time(
    hub: BusHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "ANSWERING_BYTES_MAX", 1000)
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    for _ in range(2):
        gate.opened = trio.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(expect_answer, first, bytes(100))
            await until(partial(gate.holds, 10))
            with pytest.raises(TooBusy):
                await first.ask(2, b".", seconds_max=SECONDS_MAX)
            nursery.start_soon(expect_answer, first, b"")
            await until(partial(gate.holds, 11))
            gate.opened.set()
    assert await first.ask(2, bytes(1000), seconds_max=SECONDS_MAX) == bytes(1000)


async def test_bytes_that_nobody_reads_are_bounded(hub: BusHub) -> None:
    first = await hub.start(1)
    hub.start_stalled(2)
    await trio.lowlevel.checkpoint()
    message = bytes(1 << 20)
    outcomes: list[str] = []

    async def ask() -> None:
        outcomes.append(await outcome_of(first, 2, message))

    async with trio.open_nursery() as nursery:
        while not outcomes:
            assert first.statistics.asks < 100, "the kernel cannot hold so much"
            nursery.start_soon(ask)
            for _ in range(5):
                await trio.lowlevel.checkpoint()
        assert outcomes == ["TooBusy"]
        assert first.statistics.bytes_unsent <= UNSENT_BYTES_MAX + (1 << 16)
        dropped = first.statistics.tells_dropped
        first.tell(2, message)
        assert first.statistics.tells_dropped == dropped + 1
        hub.end_stalled(2)
        nursery.cancel_scope.cancel()


async def test_asks_under_way_end_when_their_node_dies(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(expect_loss, first, hub.tells_of_death)
        await until(lambda: gate.inside == 10)
        await hub.kill(2)
    assert gate.ended == 10
    assert first.statistics.asks_failed == 10


async def test_asks_to_a_node_that_is_given_up_end_at_once(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_loss, first, True)
        await until(lambda: gate.inside == 1)
        first.give_up(3)
        assert first.statistics.asks_under_way == 1
        first.give_up(2)
        await until(lambda: not first.statistics.asks_under_way)
    gate.opened.set()


async def expect_loss(bus: Bus, is_told: bool) -> None:
    """Ask node 2 while somebody dies: the link says so, or the time runs out."""
    with pytest.raises(BusLost if is_told else TooSlow):
        await bus.ask(2, b"", seconds_max=SECONDS_MAX if is_told else 1)


async def test_asks_under_way_end_when_their_own_bus_stops(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    gate = Gate()
    second.answer_with(gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_loss, first, True)
        await until(lambda: gate.inside == 1)
        await hub.kill(1)
    assert first.connected_since is None


async def test_a_bus_runs_again_after_it_has_stopped(hub: BusHub) -> None:
    first, second = await hub.start(1), await hub.start(2)
    assert await first.ask(2, b"before", seconds_max=SECONDS_MAX) == b"before"
    await hub.kill(1)
    await hub.run(first)
    assert await first.ask(2, b"after", seconds_max=SECONDS_MAX) == b"after"
    await until(lambda: outcome_of(second, 1, b"back", 5))
    assert await second.ask(1, b"back", seconds_max=SECONDS_MAX) == b"back"


async def test_the_next_node_is_found_after_one_has_died(hub: BusHub) -> None:
    first = await hub.start(1)
    for node_id in range(2, 8):
        await hub.start(node_id)
        assert await first.ask(node_id, b"hello", seconds_max=SECONDS_MAX) == b"hello"
        await hub.kill(node_id)


async def test_each_of_thousands_of_asks_gets_its_own_answer(hub: BusHub) -> None:
    buses = [await hub.start(node_id) for node_id in (1, 2, 3)]
    answered = 0

    async def ask_many(asker: Bus, task: int) -> None:
        nonlocal answered
        for number in range(25):
            node_id = asker.node_id % 3 + 1
            message = b"%d %d %d " % (asker.node_id, task, number) + bytes(number * 40)
            assert await asker.ask(node_id, message, seconds_max=SECONDS_MAX) == message
            answered += 1

    async with trio.open_nursery() as nursery:
        for bus in buses:
            for task in range(64):
                nursery.start_soon(ask_many, bus, task)

    assert answered == 3 * 64 * 25
    counts = [bus.statistics for bus in buses]
    assert [each.asks for each in counts] == [each.answered for each in counts] == [64 * 25] * 3
    assert not any(each.forged + each.replayed + each.truncated for each in counts)
