"""Flushes wires as a pass of the scheduler ends, right before the process waits.

`network.sender.Sender` does so by a task. That costs a switch of tasks in each pass, and an answer
leaves a pass later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NoReturn

import trio

from greenroom.network.sender import Flushable

_logger = logging.getLogger(__name__)


class PassSender(trio.abc.Instrument):
    """Flushes each wire once a pass. It is bounded by the number of wires; each is in here once.

    A wire's `flush` must wake no task: how long the pass waits is decided before.
    """

    def __init__(self) -> None:
        """Begin with nothing to send."""
        self._wires: list[Flushable] = []
        self._first: list[Callable[[], None]] = []
        self._nursery: trio.Nursery | None = None
        self._token: trio.lowlevel.TrioToken | None = None

    def add(self, wire: Flushable) -> None:
        """Flush a wire at the end of this pass, if `run` runs."""
        self._wires.append(wire)

    def run_first(self, put: Callable[[], None]) -> None:
        """Have something put into wires before they are flushed at the end of this pass."""
        self._first.append(put)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Flush until cancelled. A task of its own sends what a slow receiver leaves over."""
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            trio.lowlevel.add_instrument(self)
            try:
                task_status.started()
                await trio.sleep_forever()
            finally:
                trio.lowlevel.remove_instrument(self)
                self._nursery = None
        raise AssertionError("nobody ends it but a cancellation")

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - the protocol's
        """Flush all wires; called by trio in each pass. It must not raise."""
        if self._wires or self._first:
            self.flush()

    def flush(self) -> None:
        """Flush all wires now. Never raises: trio would drop the instrument."""
        first, self._first = self._first, []
        for put in first:
            try:
                put()
            except Exception:
                _logger.exception("what was gathered in a pass could not be sent")
        wires, self._wires = self._wires, []
        for wire in wires:
            try:
                is_done = wire.flush()
            except Exception:
                _logger.exception("what was posted to a connection could not be sent")
                continue
            if not is_done and self._token is not None:
                # a task that is woken here would wait as long as the pass does
                self._token.run_sync_soon(self._send_rest, wire)

    def _send_rest(self, wire: Flushable) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(wire.send_rest)
