"""Typed messages over a bus."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from cluster_kit import Asked

from greenroom.cluster.messenger import BusMessage, Messenger, UnreadableMessage


class Question(BusMessage, frozen=True):
    number: int


class Reply(BusMessage, frozen=True):
    number: int
    by: str = ""


class News(BusMessage, frozen=True):
    text: str


class Line:
    """A bus of two ends, each of which is node 1 to the other."""

    def __init__(self) -> None:
        self.other: Line | None = None
        self.sent: list[bytes] = []

    def begin(
        self,
        node_id: int,
        message: bytes,
        *,
        seconds_max: float,
        wait_seconds_max: float = math.inf,
    ) -> Asked:
        assert self.other is not None
        return Asked(partial(self.other.answers, 1, message))

    begin_together = begin

    def tell(self, node_id: int, message: bytes) -> None:
        assert self.other is not None
        self.sent.append(message)
        self.other.hears(1, message)

    def tell_all(self, message: bytes) -> None:
        self.tell(1, message)

    def give_up(self, node_id: int) -> None:
        self.given_up = node_id

    def answer_with(
        self, handler: Callable[[int, bytes], Awaitable[Any]], pack: Callable[[Any], bytes]
    ) -> None:
        async def answer(sender: int, packed: bytes) -> bytes:
            return pack(await handler(sender, packed))

        self.answers = answer

    def hear_with(self, handler: Callable[[int, bytes], None]) -> None:
        self.hears = handler


def two() -> tuple[Messenger, Messenger, Line]:
    one, other = Line(), Line()
    one.other, other.other = other, one
    return Messenger(one), Messenger(other), one


async def test_an_ask_is_answered_by_the_handler_of_its_type() -> None:
    here, there, _ = two()

    async def double(sender: int, question: Question) -> BusMessage:
        return Reply(question.number * 2, str(sender))

    there.answer(Question, double)
    here.know(Reply)
    assert await here.ask(1, Question(21), seconds_max=1.0) == Reply(42, "1")


async def test_what_the_other_cannot_read_is_an_error_that_says_so() -> None:
    here, _, _ = two()
    with pytest.raises(UnreadableMessage, match="node 1 cannot read Question"):
        await here.ask(1, Question(1), seconds_max=1.0)


async def test_an_answer_of_an_unknown_type_is_an_error() -> None:
    here, there, _ = two()

    async def answer(sender: int, question: Question) -> BusMessage:
        return Reply(1)

    there.answer(Question, answer)
    with pytest.raises(UnreadableMessage, match="answered what cannot be read"):
        await here.ask(1, Question(1), seconds_max=1.0)


async def test_news_are_heard_and_garbage_is_not(caplog: pytest.LogCaptureFixture) -> None:
    here, there, line = two()
    heard: list[str] = []
    there.hear(News, lambda _, news: heard.append(news.text))
    here.tell_all(News("a"))
    here.tell(1, Question(5))
    line.tell(1, b"\xc1 no message")
    line.tell(1, b"")
    here.tell(1, News("b"))
    assert heard == ["a", "b"]
    assert len([r for r in caplog.records if "cannot be read" in r.message]) == 1


async def test_a_later_version_may_send_more_fields() -> None:
    _here, there, line = two()
    heard: list[int] = []
    there.hear(News, lambda _, news: heard.append(len(news.text)))
    line.tell(1, b"\x01\x93\xa4News\xa3abc\x05")  # one field more than we know
    assert heard == [3]
