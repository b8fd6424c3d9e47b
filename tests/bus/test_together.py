"""Asks of one pass that leave together: each is one of its own in all but the frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import trio
from bus_kit import SECONDS_MAX, BusHub, Gate, UnixHub, echo, heard_by
from trio.testing import wait_all_tasks_blocked
from waiting import until

from greenroom.bus import frames
from greenroom.bus.asks import Ask
from greenroom.bus.bus import ANSWER_BYTES_MAX, ANSWERING_MAX, ASKS_MAX, Begun, Bus, BusError
from greenroom.bus.exchange import Exchange
from greenroom.bus.together import TOGETHER_BYTES_MAX, encode
from greenroom.bus.unix import UnixBus

MESSAGES = [b"one", b"two", b"three"]


def begin_all(
    bus: Bus, messages: Sequence[bytes] = MESSAGES, node_id: int = 2, seconds: float = SECONDS_MAX
) -> list[Begun]:
    """Begin asks in one pass."""
    return [
        bus.begin_together(node_id, message, seconds_max=seconds, wait_seconds_max=seconds)
        for message in messages
    ]


async def outcomes_of(begun: Sequence[Begun]) -> list[bytes | str]:
    """Return the answer to each ask, or the class of its error."""
    return [await outcome_of(each) for each in begun]


async def outcome_of(begun: Begun) -> bytes | str:
    try:
        return await begun.wait()
    except BusError as error:
        return type(error).__name__


def frames_of(bus: Exchange, node_id: int) -> list[tuple[int, int]]:
    """Return a list of the kind and size of all frames that a bus sends to a node from now on."""
    sent: list[tuple[int, int]] = []
    link = bus._find_link(node_id)

    class Seen:
        is_open = True
        bytes_unsent = 0

        def send(self, receiver: int, frame: bytes, ask: Ask | None = None) -> bool:
            sent.append((frames.read_head(frame)[0], len(frame)))
            return link.send(receiver, frame, ask)

    seen = Seen()
    bus._find_link = lambda _: seen  # type: ignore[method-assign, assignment]
    return sent


async def start_two(hub: BusHub) -> tuple[Exchange, Bus]:
    first = hub.make(1)
    first.answer_with(echo)
    await hub.run(first)
    return first, await hub.start(2)


async def test_asks_of_a_pass_leave_in_one_frame_and_so_do_their_answers(hub: BusHub) -> None:
    first, second = await start_two(hub)
    sent = frames_of(first, 2)
    for _ in range(2):
        assert await outcomes_of(begin_all(first)) == MESSAGES
    assert [kind for kind, _ in sent] == [frames.ASKS] * 2
    assert first.statistics.asks == second.statistics.answered == 6


async def test_one_alone_is_an_ask_like_any(hub: BusHub) -> None:
    first, _ = await start_two(hub)
    sent = frames_of(first, 2)
    assert await outcomes_of(begin_all(first, [b"alone"])) == [b"alone"]
    assert [kind for kind, _ in sent] == [frames.ASK]


async def test_each_is_answered_when_its_answer_is_there(hub: BusHub) -> None:
    first, second = await start_two(hub)
    gate = Gate()

    async def answer(sender: int, message: bytes) -> bytes:
        return await gate(sender, message) if message == b"two" else message

    second.answer_with(answer)
    one, two, three = begin_all(first)
    assert await outcomes_of([three, one]) == [b"three", b"one"]
    assert not two.is_over
    gate.opened.set()
    assert await outcome_of(two) == b"two"


async def answer_in_one_pass(
    hub: BusHub, messages: Sequence[bytes], bytes_unsent: int = 0
) -> tuple[list[int], list[bytes | str]]:
    """Return the kinds of the frames in which a pass's answers leave, and the outcomes."""
    first, second = await start_two(hub)
    gate = Gate()
    second.answer_with(gate)
    begun = begin_all(first, messages)
    await until(partial(gate.holds, len(messages)), SECONDS_MAX)
    assert isinstance(second, Exchange)
    way = second._askers[1].way
    assert way is not None
    sent: list[int] = []
    link = way.link

    class Seen:
        is_open = True

        def __init__(self) -> None:
            self.bytes_unsent = bytes_unsent

        def send(self, receiver: int, frame: bytes, ask: Ask | None = None) -> bool:
            sent.append(frames.read_head(frame)[0])
            return link.send(receiver, frame, ask)

    way.gathered._link = Seen()
    gate.opened.set()
    return sent, await outcomes_of(begun)


async def test_the_answers_of_a_pass_leave_in_one_frame(hub: BusHub) -> None:
    assert await answer_in_one_pass(hub, [b""] * 3) == ([frames.ANSWERS], [b""] * 3)


async def test_long_answers_leave_in_several_frames(hub: BusHub) -> None:
    long = [bytes(TOGETHER_BYTES_MAX // 2)] * 4
    assert await answer_in_one_pass(hub, long) == ([frames.ANSWERS] * 2, long)


async def test_answers_without_room_are_dropped(hub: BusHub) -> None:
    dropped = await answer_in_one_pass(hub, MESSAGES, ANSWER_BYTES_MAX)
    assert dropped == ([frames.DROPPED] * 3, ["BusLost"] * 3)


async def test_one_that_fails_or_is_dropped_harms_no_other(
    hub: BusHub, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = await start_two(hub)

    async def fail(_: int, message: bytes) -> bytes:
        if message == b"two":
            raise RuntimeError("a bug")
        return message

    second.answer_with(fail)
    assert await outcomes_of(begin_all(first)) == [b"one", "AnswerFailed", b"three"]
    assert "a bug" in caplog.text

    second.answer_with(echo)
    one, two, three = begin_all(first)
    one.drop()
    assert await outcomes_of([two, three]) == MESSAGES[1:]
    await until(lambda: first.statistics.answers_late == 1, SECONDS_MAX)


async def test_each_ends_after_its_time_at_both_ends(hub: BusHub) -> None:
    first, second = await start_two(hub)
    gate = Gate()
    second.answer_with(gate)
    assert await outcomes_of(begin_all(first, seconds=0.1)) == ["TooSlow"] * 3
    await until(lambda: gate.ended == 3, SECONDS_MAX)
    await until(lambda: second.statistics.answering == 0, SECONDS_MAX)
    assert first.statistics.asks_under_way == 0


async def test_asks_of_other_limits_leave_in_another_frame(hub: BusHub) -> None:
    first, _ = await start_two(hub)
    sent = frames_of(first, 2)
    begun = [*begin_all(first), *begin_all(first, seconds=SECONDS_MAX / 2)]
    assert await outcomes_of(begun) == MESSAGES * 2
    assert [kind for kind, _ in sent] == [frames.ASKS] * 2


async def test_none_arrives_where_nobody_is(hub: BusHub) -> None:
    first, _ = await start_two(hub)
    assert await outcomes_of(begin_all(first, node_id=7)) == ["NobodyThere"] * 3
    deaf = hub.make(3)
    await hub.run(deaf)
    assert await outcomes_of(begin_all(first, node_id=3)) == ["NobodyThere"] * 3
    assert first.statistics.asks_under_way == 0


async def test_none_is_sent_by_a_bus_that_does_not_run(hub: BusHub) -> None:
    first, _ = await start_two(hub)
    begun = begin_all(first)
    await hub.kill(1)
    assert await outcomes_of(begun) == ["BusLost"] * 3
    assert await outcomes_of(begin_all(first)) == ["OffBus"] * 3
    for node_id in (0, 1):
        with pytest.raises(ValueError, match="cannot send"):
            begin_all(first, node_id=node_id)
    assert await outcomes_of(begin_all(first, seconds=0.0)) == ["NobodyThere"] * 3


async def test_so_many_may_be_under_way_and_no_more(hub: BusHub) -> None:
    first, second = await start_two(hub)
    gate = Gate()
    second.answer_with(gate)
    begun = begin_all(first, [b""] * (ASKS_MAX + 1))
    assert await outcome_of(begun.pop()) == "TooBusy"
    await until(lambda: gate.inside == ASKS_MAX, SECONDS_MAX)
    gate.opened.set()
    assert await outcomes_of(begun) == [b""] * ASKS_MAX
    assert first.statistics.asks_refused == 1


async def test_a_node_answers_so_many_at_a_time(hub: BusHub) -> None:
    first, second = await start_two(hub)
    gate = Gate()
    second.answer_with(gate)
    for batch in range(1, ANSWERING_MAX // ASKS_MAX + 1):
        begun = begin_all(first, [b""] * ASKS_MAX)
        await until(partial(gate.holds, batch * ASKS_MAX), SECONDS_MAX)
        for each in begun:
            each.drop()
    assert await outcomes_of(begin_all(first)) == ["TooBusy"] * 3
    gate.opened.set()


async def test_long_ones_leave_in_several_frames_and_are_bounded(hub: BusHub) -> None:
    first, _ = await start_two(hub)
    sent = frames_of(first, 2)
    long = [bytes([number]) * (TOGETHER_BYTES_MAX // 2) for number in range(5)]
    longer = bytes(TOGETHER_BYTES_MAX + 1)
    assert await outcomes_of(begin_all(first, [*long, longer])) == [*long, longer]
    assert [kind for kind, _ in sent] == [frames.ASKS, frames.ASKS, frames.ASK, frames.ASK]
    assert all(size < TOGETHER_BYTES_MAX + 100 for _, size in sent[:3])


async def test_those_under_way_end_when_their_node_is_gone(hub: BusHub) -> None:
    first, second = await start_two(hub)
    gate = Gate()
    second.answer_with(gate)
    begun = begin_all(first)
    begun[0].drop()
    first.give_up(2)  # before they have left
    assert await outcomes_of(begun[1:]) == ["NobodyThere"] * 2
    begun = begin_all(first)
    await until(lambda: gate.inside >= 3, SECONDS_MAX)
    await hub.kill(2)
    if not hub.tells_of_death:
        first.give_up(2)
    assert await outcomes_of(begun) == ["BusLost"] * 3
    assert first.statistics.asks_under_way == 0


async def test_those_of_the_pass_in_which_their_connection_breaks_were_never_sent(
    hub: BusHub,
) -> None:
    first, second = await start_two(hub)
    gate = Gate()
    second.answer_with(gate)
    left = begin_all(first)
    await until(partial(gate.holds, 3), SECONDS_MAX)
    begun = begin_all(first)
    first._lose(first._find_link(2))
    assert await outcomes_of(left) == ["BusLost"] * 3
    assert await outcomes_of(begun) == ["OffBus"] * 3
    assert first.statistics.asks_under_way == 0
    gate.opened.set()
    assert await outcomes_of(begin_all(first)) == MESSAGES
    assert gate.ended == 6


@pytest.mark.parametrize("when", ["before", "between", "gathered"])
async def test_none_is_lost_over_a_wire_that_is_known_to_be_broken(
    nursery: trio.Nursery, data_dir: Path, when: str
) -> None:
    first, _ = await start_two(UnixHub(nursery, data_dir))
    assert isinstance(first, UnixBus)
    assert await outcomes_of(begin_all(first)) == MESSAGES
    link, begun = first._ways[2][0], list[Begun]()
    if when == "gathered":
        begun = begin_all(first)
    link._break()
    if when == "before":
        begun = [first.begin(2, message, seconds_max=SECONDS_MAX) for message in MESSAGES]
    elif when == "between":
        begun = begin_all(first)
    assert await outcomes_of(begun) == ["OffBus"] * 3
    assert first.statistics.asks_under_way == 0
    await until(lambda: not first.statistics.connections, SECONDS_MAX)
    assert await outcomes_of(begin_all(first)) == MESSAGES


async def test_answers_go_back_over_the_connection_that_asks_have_come_over(
    nursery: trio.Nursery, data_dir: Path
) -> None:
    first, _ = await start_two(UnixHub(nursery, data_dir))
    assert isinstance(first, UnixBus)
    for _ in range(2):
        assert await outcomes_of(begin_all(first)) == MESSAGES
        first._ways[2][0].close()
        await until(lambda: not first.statistics.connections, SECONDS_MAX)


async def test_what_is_told_in_a_pass_is_heard_before(hub: BusHub) -> None:
    first, second = await start_two(hub)
    heard, asked = heard_by(second), list[int]()

    async def note(_: int, message: bytes) -> bytes:
        asked.append(len(heard))
        return message

    second.answer_with(note)
    begun = begin_all(first)
    first.tell(2, b"told")
    await outcomes_of(begun)
    assert asked == [1] * 3


async def test_what_cannot_be_read_is_counted(hub: BusHub) -> None:
    first, second = await start_two(hub)
    link = first._find_link(2)
    for kind in (frames.ASKS, frames.ANSWERS, 99, 0):
        for junk in (b"", b"\xff", encode([(1, "text")])):
            link.send(2, frames.encode(kind, 1, message=junk))
    link.send(2, frames.encode(frames.ANSWERS, 1, message=encode([(1, b"late")])))
    await until(lambda: second.statistics.truncated == 12, SECONDS_MAX)
    await until(lambda: second.statistics.answers_late == 1, SECONDS_MAX)
    assert await outcomes_of(begin_all(first)) == MESSAGES


async def test_one_that_begins_after_the_limit_of_its_pass_was_kept_still_ends(
    nursery: trio.Nursery, data_dir: Path
) -> None:
    hub = UnixHub(nursery, data_dir)
    first = hub.make(1)
    await hub.run(first)
    hub.start_stalled(2)  # nothing wakes this process but the limits of the first
    put = list[Callable[[], None]]()
    first._run_first = put.append  # the pass ends below
    (before,) = begin_all(first, seconds=0.1, messages=[b"before"])
    before.drop()
    first._timeouts.find(trio.current_time())
    await wait_all_tasks_blocked()
    began = trio.current_time()
    (after,) = begin_all(first, seconds=0.1, messages=[b"after"])
    first._sender.run_first(put[0])
    with trio.fail_after(SECONDS_MAX):
        assert await outcome_of(after) == "TooSlow"
    assert trio.current_time() - began < SECONDS_MAX / 2
    hub.end_stalled(2)
