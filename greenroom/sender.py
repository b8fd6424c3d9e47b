"""Answers of many connections that leave together, at the end of the pass that made them.

A `send` to a client that sleeps costs several times one to a client that runs, for it has to be
woken (measured: a fifth of all the work of a short request). When one pass of the scheduler answers
many requests and sends afterwards, the first answers wake whoever waits, the rest find them awake.
"""

from __future__ import annotations

from typing import Any, Protocol

import trio


class Flushable(Protocol):
    """A wire with bytes to send."""

    def flush(self) -> bool:
        """Send what the kernel takes now; return whether that was everything. Does not raise."""
        ...

    async def send_rest(self) -> None:
        """Send what `flush` left over. Does not raise but for a cancellation."""
        ...


class Sender:
    """Flushes wires once a pass. One for a server; a wire is added while it has bytes to send.

    Bounded by the connections: a wire is in here once, with the answers of one turn of its task.
    """

    def __init__(self) -> None:
        """Start with nothing to send."""
        self._wires: list[Flushable] = []
        self._slow: list[Flushable] = []
        """Whose clients did not take everything."""
        self._task: trio.lowlevel.Task | None = None

    def add(self, wire: Flushable) -> None:
        """Have a wire flushed in the next pass, when `run` runs; before that, once it does."""
        self._wires.append(wire)
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def flush(self) -> None:
        """Flush what has been added so far, and is added by that, without waiting for the pass."""
        while self._wires:
            wires, self._wires = self._wires, []
            for wire in wires:
                if not wire.flush():
                    self._slow.append(wire)

    async def run(self) -> None:
        """Flush until cancelled. What a slow client leaves over waits in a task of its own."""
        async with trio.open_nursery() as nursery:
            while True:
                self.flush()
                slow, self._slow = self._slow, []
                for wire in slow:
                    nursery.start_soon(wire.send_rest)
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._forget)

    def _forget(self, _: Any) -> trio.lowlevel.Abort:
        """Be cancelled while nothing is to be sent."""
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
