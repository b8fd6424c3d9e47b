"""A trio run that synchronous code takes further step by step: for hypothesis' state machines.

The run is a guest of the code that drives it, on a clock that jumps over every wait within a step
and stands still between steps. So one machine's steps are one run, and the same draws give the
same run: trio's scheduler draws from a random generator that hypothesis seeds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

import outcome
import trio
from trio.testing import MockClock

Result = TypeVar("Result")


class SteppedRun:
    """A trio run under way; `nursery` holds what goes on between the steps."""

    nursery: trio.Nursery

    def __init__(self) -> None:
        """Begin; `close` must be called."""
        self._turns: deque[Callable[[], object]] = deque()
        self._step: Callable[[], Awaitable[None]] | None = None
        self._is_closing = False
        self._ended: outcome.Outcome[None] | None = None
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._turns.append,
            done_callback=self._end,
            clock=MockClock(autojump_threshold=0),
        )

    def run(self, act: Callable[[], Awaitable[Result]]) -> Result:
        """Run one asynchronous step to its end, and everything else meanwhile."""
        results: list[outcome.Outcome[Result]] = []

        async def step() -> None:
            results.append(await outcome.acapture(act))

        self._step = step
        while not results:
            self._turn()
            if self._ended is not None:
                self._ended.unwrap()
                raise AssertionError("the run ended in the middle of a step")
        return results[0].unwrap()

    def close(self) -> None:
        """End the run, whatever goes on in it; raises what it ended with."""
        self._is_closing = True
        while self._ended is None:
            self._turn()
        self._ended.unwrap()

    async def _main(self) -> None:
        async with trio.open_nursery() as self.nursery:
            while not self._is_closing:
                step, self._step = self._step, None
                if step is not None:
                    await step()
                await trio.lowlevel.checkpoint()  # never idle between steps: the clock would jump
            self.nursery.cancel_scope.cancel()

    def _end(self, ended: outcome.Outcome[None]) -> None:
        self._ended = ended

    def _turn(self) -> None:
        """Take the run one turn further; there always is one, for nothing real is waited for."""
        self._turns.popleft()()
