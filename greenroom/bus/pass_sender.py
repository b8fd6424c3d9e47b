"""Flushes wires as a pass of the scheduler ends, right before the process waits.

`network.sender.Sender` does so by a task, which runs a pass later. Each hop of a call would take
two such passes more.
"""

from __future__ import annotations

from typing import NoReturn

import trio

from greenroom.network.sender import Flushable


class PassSender(trio.abc.Instrument):
    """Flushes each wire once a pass. It is bounded by the number of wires; each is in here once."""

    def __init__(self) -> None:
        """Begin with nothing to send."""
        self._wires: list[Flushable] = []
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    def add(self, wire: Flushable) -> None:
        """Flush a wire at the end of this pass, if `run` runs."""
        self._wires.append(wire)

    async def run(self) -> NoReturn:
        """Flush until cancelled. A task of its own sends what a slow receiver leaves over."""
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            trio.lowlevel.add_instrument(self)
            try:
                await trio.sleep_forever()
            finally:
                trio.lowlevel.remove_instrument(self)
                self._nursery = None
        raise AssertionError("nobody ends it but a cancellation")

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - the protocol's
        """Flush all wires; called by trio in each pass. It must not raise."""
        if not self._wires:
            return
        wires, self._wires = self._wires, []
        for wire in wires:
            if not wire.flush() and self._token is not None:
                # how long this pass waits is decided: a task that is woken here would wait, too
                self._token.run_sync_soon(self._send_rest, wire)

    def _send_rest(self, wire: Flushable) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(wire.send_rest)
