"""Delayed refusals, so that a client that calls endlessly calls less often.

A refusal costs a third of an answer, so as many as a connection can take would fill the core.
Nothing is read from a connection while a refusal of it is held up. An HTTP/1.1 connection waits for
its answer in any case. An HTTP/2 connection would go on to open streams, so its refusals are
counted here. They also end by turns: those of hundreds of streams that end together made passes of
tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType

import trio

HOLD_UP_SECONDS = 1.0
"""Seconds that a refusal is held up."""


class HeldUp:
    """The refusals of one connection that are held up at the moment."""

    __slots__ = ("_count", "_readers", "take_turn")

    def __init__(self, take_turn: Callable[[], Awaitable[None]]) -> None:
        """Start with no refusal held up.

        Args:
            take_turn: waits until one of these refusals may be sent.
        """
        self.take_turn = take_turn
        self._count = 0
        self._readers = trio.lowlevel.ParkingLot()

    def __enter__(self) -> None:
        """Count one more refusal."""
        self._count += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Count one refusal less; after the last, waiters go on."""
        self._count -= 1
        if not self._count:
            self._readers.unpark_all()

    async def wait(self) -> None:
        """Wait until no refusal is held up; return at once if there is none.

        Cancellation just ends the wait.
        """
        while self._count:
            await self._readers.park()


HELD_UP: ContextVar[HeldUp] = ContextVar("greenroom_held_up")
"""The refusals of the connection that a task works for, where it may bring many requests at once.
Tasks inherit it."""


async def hold_up() -> None:
    """Wait before a refusal.

    Cancellation just ends the wait.
    """
    held_up = HELD_UP.get(None)
    if held_up is None:
        await trio.sleep(HOLD_UP_SECONDS)
        return
    with held_up:
        await trio.sleep(HOLD_UP_SECONDS)
        await held_up.take_turn()
