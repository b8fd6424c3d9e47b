"""Time limits by the thousand: one task for all, where a cancel scope for each would cost more."""

from __future__ import annotations

import heapq
import itertools
from typing import Any, Final, NoReturn, Protocol

import trio

_KEPT_MIN: Final = 64


class Limited(Protocol):
    """Something with a time limit."""

    @property
    def is_over(self) -> bool:
        """Return whether it has ended, so that its limit no longer matters."""
        ...

    def expire(self) -> None:
        """End it, because its time has passed. It must not raise."""
        ...


class Timeouts:
    """Ends what takes too long. It holds at most twice as much as is under way, and 64 more."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._heap: list[tuple[float, int, Limited]] = []
        self._numbers = itertools.count()
        self._sorted_max = _KEPT_MIN
        self._task: trio.lowlevel.Task | None = None
        self._wakes_at = float("inf")

    def add(self, at: float, limited: Limited) -> None:
        """End something at a time of trio's clock, unless it is over by then."""
        if len(self._heap) >= self._sorted_max:
            self._forget_what_is_over()
        heapq.heappush(self._heap, (at, next(self._numbers), limited))
        if at < self._wakes_at and self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)

    async def run(self) -> NoReturn:
        """End what takes too long, until cancelled."""
        while True:
            now = trio.current_time()
            while self._heap and (self._heap[0][0] <= now or self._heap[0][2].is_over):
                limited = heapq.heappop(self._heap)[2]
                if not limited.is_over:
                    limited.expire()
            self._wakes_at = self._heap[0][0] if self._heap else float("inf")
            with trio.move_on_at(self._wakes_at):
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._forget)

    def _forget_what_is_over(self) -> None:
        self._heap = [entry for entry in self._heap if not entry[2].is_over]
        heapq.heapify(self._heap)
        self._sorted_max = _KEPT_MIN + 2 * len(self._heap)

    def _forget(self, _: Any) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
