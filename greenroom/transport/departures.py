"""The lanes that have something to send, in a queue: each sends in its turn.

A packet costs most of what a message costs, and takes many messages. So lanes take turns, first
come, first served, a few in each pass of the scheduler; packets that come in are read before the
next few. While there is time, all that a pass has put leaves in the next one. While there is not,
a lane waits for as long as the queue is, and its packet takes all that has been put meanwhile: the
more there is to do, the less each message costs. No timer, and no time to wait, has to be chosen.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Protocol

import trio

LANES_A_PASS_MAX: Final = 64
"""Then other tasks have their turn, and what has come meanwhile is read."""


class Departing(Protocol):
    """A lane with something to send."""

    def depart(self) -> None:
        """Send it. Does not block or raise."""
        ...


class Departures:
    """Gives lanes their turns. Bounded by them: a lane is in here once."""

    def __init__(self) -> None:
        """Start with nothing to send."""
        self._queue: deque[Departing] = deque()
        self._task: trio.lowlevel.Task | None = None

    def add(self, lane: Departing) -> None:
        """Give a lane a turn behind those of all others, when `run` runs, or once it does."""
        self._queue.append(lane)
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def run(self) -> None:
        """Give turns until cancelled; who has not had his then has it when this is run again."""
        queue = self._queue
        while True:
            for _ in range(min(LANES_A_PASS_MAX, len(queue))):
                queue.popleft().depart()
            if queue:
                await trio.lowlevel.checkpoint()
            else:
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._forget)

    def _forget(self, _: Any) -> trio.lowlevel.Abort:
        """Be cancelled while nothing is to be sent."""
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
