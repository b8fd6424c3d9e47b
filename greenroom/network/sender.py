"""Send the answers of many connections together, at the end of the pass that made them.

A `send` to a client that sleeps costs several times one to a client that runs, because it wakes the
client. Measured, that is a fifth of all the work of a short request. When one pass of the scheduler
answers many requests and sends afterwards, the first answers wake the clients' machine. The rest
find it awake.
"""

from __future__ import annotations

from typing import Any, Protocol

import trio


class Flushable(Protocol):
    """A connection with bytes to send."""

    def flush(self) -> bool:
        """Send what the kernel takes now, and return whether that was everything. Never raises."""
        ...

    async def send_rest(self) -> None:
        """Send what `flush` left over. Raises nothing but `trio.Cancelled`."""
        ...


class Sender:
    """Flushes wires once a pass. A server has one; a wire is added while it has bytes to send.

    It is bounded by the number of connections. Each wire is in here once, with the answers of one
    turn of its task.
    """

    def __init__(self) -> None:
        """Start with nothing to send."""
        self._wires: list[Flushable] = []
        self._slow: list[Flushable] = []
        """The wires whose clients did not take everything."""
        self._task: trio.lowlevel.Task | None = None
        self.is_held = False
        """The task sleeps on, for who adds wires now will call `flush` before they wait."""

    def add(self, wire: Flushable) -> None:
        """Flush a wire in the next pass in which `run` runs."""
        self._wires.append(wire)
        if not self.is_held:
            self._wake()

    def flush(self) -> None:
        """Flush all wires now, those included that are added meanwhile."""
        while self._wires:
            wires, self._wires = self._wires, []
            for wire in wires:
                if not wire.flush():
                    self._slow.append(wire)
        if self._slow:
            self._wake()

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def run(self) -> None:
        """Flush until cancelled. A task of its own sends what a slow client leaves over."""
        async with trio.open_nursery() as nursery:
            while True:
                self.flush()
                slow, self._slow = self._slow, []
                for wire in slow:
                    nursery.start_soon(wire.send_rest)
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._forget)

    def _forget(self, _: Any) -> trio.lowlevel.Abort:
        """Stop waiting for something to send, because the task is cancelled."""
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
