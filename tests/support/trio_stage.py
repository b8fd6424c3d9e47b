"""A trio run that synchronous code takes further step by step: for hypothesis' state machines.

The run is a guest of the code that drives it, on a clock that jumps over every wait within a step
and stands still between steps. So one machine's steps are one run, and the same draws give the
same run: trio's scheduler draws from a random generator that hypothesis seeds.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Awaitable, Callable
from typing import TypeVar

import outcome
import trio
from trio.testing import MockClock

Result = TypeVar("Result")

STUCK_SECONDS = 20.0
"""So much real time may a step take to bring forth anything at all."""


class Stage:
    """A trio run under way; `nursery` holds what goes on between the steps."""

    nursery: trio.Nursery

    def __init__(self) -> None:
        """Begin; `close` must be called."""
        self._clock = MockClock()
        self._soon: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._ended: outcome.Outcome[None] | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._soon.put,
            done_callback=self._end,
            clock=self._clock,
        )
        while self._token is None:
            self._turn()

    def run(self, act: Callable[[], Awaitable[Result]]) -> Result:
        """Run one asynchronous step to its end, and everything else meanwhile."""
        assert self._token is not None
        results: list[outcome.Outcome[Result]] = []

        async def step() -> None:
            self._clock.autojump_threshold = 0
            results.append(await outcome.acapture(act))
            self._clock.autojump_threshold = math.inf

        self._token.run_sync_soon(self.nursery.start_soon, step)
        while not results:
            self._turn()
            if self._ended is not None:
                self._ended.unwrap()
                raise AssertionError("the run ended in the middle of a step")
        return results[0].unwrap()

    def close(self) -> None:
        """End the run, whatever goes on in it; raises what it ended with."""
        if self._ended is None:
            assert self._token is not None
            self._token.run_sync_soon(self._cancel)
        while self._ended is None:
            self._turn()
        self._ended.unwrap()

    def _cancel(self) -> None:
        self._clock.autojump_threshold = 0
        self.nursery.cancel_scope.cancel()

    async def _main(self) -> None:
        async with trio.open_nursery() as self.nursery:
            self._token = trio.lowlevel.current_trio_token()
            await trio.sleep_forever()

    def _end(self, ended: outcome.Outcome[None]) -> None:
        self._ended = ended

    def _turn(self) -> None:
        self._soon.get(timeout=STUCK_SECONDS)()
