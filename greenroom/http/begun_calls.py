"""Calls that another node is answering, while no task waits for them here."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

from greenroom.http.ports import BegunElsewhere
from greenroom.http.request import Answer, Request
from greenroom.http.router import Route

T = TypeVar("T")


class Finisher(Protocol):
    """The dispatcher, as calls see it that it has begun."""

    def finish(self, call: BegunCall) -> Coroutine[Any, Any, Answer]:
        """Return the answer to a call, once it is there."""
        ...


class BegunCall(msgspec.Struct, eq=False, gc=False):
    """A call that the dispatcher has sent on like one before; `BegunAnswer`."""

    request: Request
    route: Route
    arguments: tuple[str, ...]
    """The variable parts of its path."""
    started: float
    """Monotonic seconds."""
    retry_seconds: int
    """After how many its address may call again, 0 if it is not refused."""
    sent: BegunElsewhere | None
    """None if it is refused."""
    is_refused: bool
    """See `BegunAnswer`."""
    dispatcher: Finisher

    def read(self) -> Answer | None:
        """See `BegunAnswer`."""
        answer = None if self.sent is None else self.sent.read()
        if answer is not None:
            self.route.meter.count(answer.status, time.monotonic() - self.started)
        return answer

    def finish(self) -> Coroutine[Any, Any, Answer]:
        """See `BegunAnswer`."""
        return self.dispatcher.finish(self)

    def drop(self) -> None:
        """See `BegunAnswer`."""
        if self.sent is not None:
            self.sent.drop()


async def give(answer: T) -> T:
    """Return an answer to whoever awaits one: there is nothing to wait for."""
    return answer
