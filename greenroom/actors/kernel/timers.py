"""Timers: commands to oneself, later, by name; turns like any other, before what users sent."""

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
First = Callable[[], None] | None
"""What to do right before a timer's turn, outside of any. It must not raise."""

STEP_SECONDS = 0.002
"""Timers come in steps: those of one step together, so that many rooms that tick wake the server
500 times a second at most, and each is late by a step at most."""
RETRY_SECONDS = 5.0
"""When a timer comes again whose command could not be carried out, the database being away."""

PASS_SECONDS = 0.001
"""So long actors are given turns before everything else is: tasks, sockets. Going around for each
actor would cost as much as his turn."""

_STALE_MIN = 64
"""So few stale timers are not worth looking for."""


class TimerQueue:
    """All timers of one supervisor in one heap, served by one task; an idle actor costs none.

    A stopped or replaced timer stays in the heap until it is due, and is then found to be no longer
    its cell's, or until the heap has doubled and all such are dropped: so it holds about twice as
    many as are running, at most. An actor has one timer a name, and names are the actor's code's.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[tuple[float, int, Cell[Any], str, Command[Any, Any], First]] = []
        self._count = 0
        self._tidy_at = _STALE_MIN
        self._changed = trio.Event()

    def add(
        self,
        cell: Cell[Any],
        name: str,
        due: float,
        command: Command[Any, Any],
        first: First = None,
    ) -> _Entry:
        """Queue a command for a cell at trio time `due`; the entry returned identifies it."""
        if len(self._heap) >= self._tidy_at:
            self._tidy()
        self._count += 1
        entry = (due, self._count)
        heapq.heappush(self._heap, (due, self._count, cell, name, command, first))
        if self._heap[0][1] == self._count:
            self._changed.set()
        return entry

    def __len__(self) -> int:
        """Return how many timers are held, stale ones among them."""
        return len(self._heap)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Deliver what is due, until cancelled; what is left then is never delivered."""
        task_status.started()
        while True:
            self._changed = trio.Event()
            due = self._heap[0][0] if self._heap else math.inf
            if trio.current_time() < due < math.inf:
                due = math.ceil(due / STEP_SECONDS) * STEP_SECONDS
            with trio.move_on_at(due):
                await self._changed.wait()
            self._deliver(trio.current_time())

    def _deliver(self, now: float) -> None:
        """Wake every actor with a timer that is due at `now`; at most for `PASS_SECONDS`."""
        until = time.perf_counter() + PASS_SECONDS
        while self._heap and self._heap[0][0] <= now and time.perf_counter() < until:
            due, count, cell, name, command, first = heapq.heappop(self._heap)
            if not _is_running(cell, name, (due, count)):
                continue
            if first is not None:
                first()
                if not _is_running(cell, name, (due, count)):
                    continue
            assert cell.timers is not None
            del cell.timers[name]
            cell.wake(command, name)

    def _tidy(self) -> None:
        """Drop what is stale."""
        self._heap = [entry for entry in self._heap if _is_running(entry[2], entry[3], entry[:2])]
        heapq.heapify(self._heap)
        self._tidy_at = 2 * len(self._heap) + _STALE_MIN


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

    def start(
        self, name: str, seconds: float, command: Command[Any, Any], first: First = None
    ) -> None:
        """Have `command` delivered to oneself in `seconds`; replaces the timer of that name.

        `first` is called right before, so the turns that it brings about come first; where the
        mailbox is not empty they are queued as any, and the timer overtakes them.
        """
        if self._cell.timers is None:
            self._cell.timers = {}
        due = self._now() + seconds
        self._cell.timers[name] = self._queue.add(self._cell, name, due, command, first)

    def try_again(self, name: str, command: Command[Any, Any]) -> None:
        """Have a refused timer come again, unless one of its name has been started since."""
        if name not in (self._cell.timers or {}):
            self.start(name, RETRY_SECONDS, command)

    def stop(self, name: str) -> None:
        """Forget the timer of that name, if there is one."""
        if self._cell.timers:
            self._cell.timers.pop(name, None)
