"""Calls like those before: some answers can be read at once, a task must see to the others."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
import trio
import trio.testing

from greenroom.bus.asks import Ask, AskBook
from greenroom.bus.bus import BusError, BusLost, BusStatistics
from greenroom.cluster.calls.like_calls import KnownWay, LikeCall
from greenroom.cluster.calls.messages import Forwarded, NotKnown, NotOwner
from greenroom.cluster.messenger import BusMessage, Unreadable, pack, reader
from greenroom.http.limits import ANSWER_BYTES_PER_UNIT
from greenroom.http.request import Answer, Request

WAY = KnownWay(map_version=1, node_id=2, shard=3, like=4)
REQUEST = Request("GET", "/api/x", "", {}, b"", "198.51.100.1")
WHOLE = Forwarded(200, b"{}", (("A", "b"),), "text/x", like=4)


class Sender:
    """Has sent a call."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.read_packed = reader((Unreadable, Forwarded, NotKnown, NotOwner))

    async def finish_like(self, like: LikeCall, make_call: object) -> Answer:
        raise AssertionError("nobody waits here")


def ask() -> Ask:
    return Ask(AskBook(BusStatistics()), WAY.node_id, 1, None, 0.0)


def read(packed: bytes = b"", error: BusError | None = None) -> tuple[Answer | None, int]:
    """Return what can be read of an answer, and how many answers were counted."""
    begun, sender = ask(), Sender()
    begun.end(packed, error)
    like = LikeCall(begun, WAY, REQUEST, 0, False, sender)
    return like.read(), sender.counts["answered"]


def test_a_whole_answer_is_read() -> None:
    answer, counted = read(pack(WHOLE))
    assert answer == Answer(200, b"{}", (("A", "b"),), None, "text/x", WAY.node_id)
    assert counted == 1


REPLACE = msgspec.structs.replace


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(REPLACE(WHOLE, parts=7), id="a part"),
        pytest.param(REPLACE(WHOLE, has_failed_token=True), id="a wrong token, to be charged"),
        pytest.param(REPLACE(WHOLE, status=429), id="a refusal, which may be delayed"),
        pytest.param(REPLACE(WHOLE, body=b"x" * ANSWER_BYTES_PER_UNIT), id="to be charged"),
        pytest.param(NotKnown(), id="forgotten"),
        pytest.param(NotOwner(3, 1, 2), id="of another node"),
        pytest.param(Unreadable(), id="another version"),
    ],
)
def test_whatever_takes_another_step_is_left_to_a_task(reply: BusMessage) -> None:
    assert read(pack(reply)) == (None, 0)


@pytest.mark.parametrize("packed", [b"", b"\x01", b"\x02\x90", pack(WHOLE)[:-1]])
def test_what_cannot_be_read_is_no_answer(packed: bytes) -> None:
    assert read(packed) == (None, 0)


def test_an_error_is_no_answer() -> None:
    assert read(error=BusLost("node 2 is gone")) == (None, 0)


# The ask behind it.


def test_whoever_does_not_wait_is_called_once() -> None:
    begun, calls = ask(), list[bytes]()
    begun.then = lambda: calls.append(begun.answer)
    begun.end(b"yes")
    begun.end(b"no")
    assert calls == [b"yes"]


def test_an_ask_that_was_dropped_calls_nobody() -> None:
    begun, calls = ask(), list[bytes]()
    begun.then = lambda: calls.append(begun.answer)
    begun.drop()
    begun.end(b"late")
    assert begun.is_over
    assert not calls


def test_an_error_of_whoever_is_called_reaches_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    begun = ask()
    begun.then = fail
    begun.end(b"yes")
    assert "an answer of node 2 could not be taken" in caplog.text


async def test_a_task_may_wait_for_what_was_begun(autojump_clock: trio.testing.MockClock) -> None:
    begun, calls = ask(), list[bytes]()
    begun.then = lambda: calls.append(begun.answer)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(begun.wait)
        await trio.testing.wait_all_tasks_blocked()
        begun.end(b"yes")
    assert not calls  # the task has it
    assert await begun.wait() == b"yes"


def test_a_call_that_is_dropped_ends_its_ask() -> None:
    begun = ask()
    LikeCall(begun, WAY, REQUEST, 0, False, Sender()).drop()
    assert begun.is_over
