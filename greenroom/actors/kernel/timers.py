"""Timers: commands that an actor sends itself later, by name.

Their turns come before users' commands.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from greenroom.actors.kernel.message import Command

if TYPE_CHECKING:
    from greenroom.actors.kernel.cell import Cell

_Entry = tuple[float, int]
BeforeTimer = Callable[[Any, Command[Any, Any]], None]
"""A function to call with an actor's key and command right before the timer's turn.

It is called outside of any turn, so commands that it posts to the actor have their turns first. If
the mailbox is not empty, they are queued as any others, and the timer's turn overtakes them. It
must not raise.
"""

STEP_SECONDS = 0.002
"""Timers are due in steps of this length.

So many rooms that tick wake the server 500 times a second at most, and each timer is late by at
most one step.
"""
RETRY_SECONDS = 5.0
"""Seconds until a timer's command is repeated that was refused because the database is away."""

PASS_SECONDS = 0.001
"""Seconds for which timers' turns run before other tasks and sockets are served.

Switching after each turn would cost as much as the turn.
"""

_STALE_MIN = 64
"""Stale timers are not looked for while there are fewer than this."""


class TimerQueue:
    """All timers of one supervisor in one heap, served by one task; an idle actor costs none.

    A stopped or replaced timer stays in the heap until it is due, or until the heap has doubled and
    all stale entries are dropped. So the heap holds at most about twice as many entries as timers
    run. An actor has one timer for each name, and the names are constants of the actor's code.
    """

    def __init__(self, before_timer: BeforeTimer | None = None) -> None:
        """Start empty.

        Args:
            before_timer: called before each timer's turn; nothing is called if it is None.
        """
        self._before_timer = before_timer
        self._heap: list[tuple[float, int, Cell[Any], str, Command[Any, Any]]] = []
        self._count = 0
        self._tidy_at = _STALE_MIN
        self._changed = trio.Event()

    def add(self, cell: Cell[Any], name: str, due: float, command: Command[Any, Any]) -> _Entry:
        """Queue a command for a cell at trio time `due`; the entry returned identifies it."""
        if len(self._heap) >= self._tidy_at:
            self.tidy()
        self._count += 1
        entry = (due, self._count)
        heapq.heappush(self._heap, (due, self._count, cell, name, command))
        if self._heap[0][1] == self._count:
            self._changed.set()
        return entry

    def __len__(self) -> int:
        """Return how many timers are held, stale ones among them."""
        return len(self._heap)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Deliver timers when they are due, until cancelled. The rest is never delivered."""
        task_status.started()
        while True:
            self._changed = trio.Event()
            due = self._heap[0][0] if self._heap else math.inf
            if trio.current_time() < due < math.inf:
                due = in_step(due)
            with trio.move_on_at(due):
                await self._changed.wait()
            self._deliver(trio.current_time())

    def _deliver(self, now: float) -> None:
        """Wake every actor that has a timer due at `now`, for at most `PASS_SECONDS`."""
        until = time.perf_counter() + PASS_SECONDS
        while self._heap and self._heap[0][0] <= now and time.perf_counter() < until:
            due, count, cell, name, command = heapq.heappop(self._heap)
            if not _is_running(cell, name, (due, count)):
                continue
            if self._before_timer is not None:
                self._before_timer(cell.key, command)
                if not _is_running(cell, name, (due, count)):
                    continue
            assert cell.timers is not None
            del cell.timers[name]
            cell.wake(command, name)

    def tidy(self) -> None:
        """Drop the stale timers."""
        self._heap = [entry for entry in self._heap if _is_running(entry[2], entry[3], entry[:2])]
        heapq.heapify(self._heap)
        self._tidy_at = 2 * len(self._heap) + _STALE_MIN


def in_step(due: float) -> float:
    """Return the step at which a timer is delivered; never before it is due, for floats round."""
    return max(due, math.ceil(due / STEP_SECONDS) * STEP_SECONDS)


def _is_running(cell: Cell[Any], name: str, entry: _Entry) -> bool:
    """Return whether a timer has been neither stopped nor replaced."""
    return cell.timers is not None and cell.timers.get(name) == entry


class ActorTimers:
    """One actor's timers; a crash or a stop ends them, and `on_start` sets them anew."""

    __slots__ = ("_cell", "_now", "_queue")

    def __init__(
        self, queue: TimerQueue, cell: Cell[Any], now: Callable[[], float] = trio.current_time
    ) -> None:
        """Serve one cell from a supervisor's queue."""
        self._queue = queue
        self._cell = cell
        self._now = now

    def start(self, name: str, seconds: float, command: Command[Any, Any]) -> None:
        """Have `command` delivered to this actor in `seconds`; replaces the timer of that name."""
        if self._cell.timers is None:
            self._cell.timers = {}
        due = self._now() + seconds
        self._cell.timers[name] = self._queue.add(self._cell, name, due, command)

    def try_again(self, name: str, command: Command[Any, Any]) -> None:
        """Repeat a refused timer, unless another of its name has been started since."""
        if name not in (self._cell.timers or {}):
            self.start(name, RETRY_SECONDS, command)

    def stop(self, name: str) -> None:
        """Forget the timer of that name, if there is one."""
        if self._cell.timers:
            self._cell.timers.pop(name, None)
