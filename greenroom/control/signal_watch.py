"""Watches the signals of a server, and stops, drains or reloads it."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator
from typing import Protocol

import trio

from greenroom.control.service_manager import ServiceManager
from greenroom.control.signals import Terminal, stop_signals

_logger = logging.getLogger(__name__)


class Served(Protocol):
    """A server, as far as signals concern it."""

    async def drain(self) -> bool:
        """Say that the server is about to stop, and go on; return whether anybody is served.

        Cancellation: some may have been told.
        """
        ...

    async def hand_over(self) -> None:
        """Hand over to other machines what they go on with; bounded in time, often at once.

        Cancellation: what has been handed over so far stays so.
        """
        ...

    async def reload(self) -> None:
        """Read again what can be read while the server runs.

        Cancellation: some may have been told.
        """
        ...


class SignalWatch:
    """Signals that the server gets, and what they do."""

    def __init__(self, scope: trio.CancelScope, served: Served, manager: ServiceManager) -> None:
        """Prepare; nothing is watched before `watch`.

        Args:
            scope: is cancelled to stop the server.
            served: what drains and reloads.
            manager: is told what happens.
        """
        self._scope = scope
        self._served = served
        self._manager = manager
        self._terminal = Terminal()

    async def watch(self, drain_seconds: float, *, task_status: trio.TaskStatus[None]) -> None:
        """Stop in order at the first signal that asks for it. Another ends what comes before that.

        SIGHUP asks for it if it comes because a terminal was closed. Otherwise it reloads.
        """
        with trio.open_signal_receiver(*stop_signals()) as signals:
            task_status.started()
            name = await self._wait_for_stop(signals)
            self._manager.tell_stopping()
            if drain_seconds and await self._served.drain():
                _logger.info("stopping at %s in %g s", name, drain_seconds)
                with trio.move_on_after(drain_seconds):
                    name = await self._wait_for_stop(signals)
            await self._hand_over(signals)
            _logger.info("stopping at %s", name)
            self._scope.cancel()
            async for _ in signals:  # where it may watch on, none cuts the stop short
                pass

    async def _hand_over(self, signals: AsyncIterator[int]) -> None:
        """Hand over to other machines, unless a signal cuts that short."""

        async def cut_short(handing_over: trio.CancelScope) -> None:
            await self._wait_for_stop(signals)
            handing_over.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut_short, nursery.cancel_scope)
            await self._served.hand_over()
            nursery.cancel_scope.cancel()

    async def _wait_for_stop(self, signals: AsyncIterator[int]) -> str:
        """Wait for a signal that asks for a stop, and reload meanwhile; return its name."""
        async for number in signals:
            if number != signal.SIGHUP or self._terminal.is_lost():
                return signal.Signals(number).name
            self._manager.tell_reloading()
            await self._served.reload()
            self._manager.tell_ready()
        raise AssertionError("signals do not end")
