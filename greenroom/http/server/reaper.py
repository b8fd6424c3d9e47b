"""The one task that ends connections which take too long, in place of a timer for each.

It also keeps the time that connections read. A clock that stands still between two ticks costs
nothing to read, and a second more or less makes no difference to these limits.
"""

from __future__ import annotations

import time
from enum import IntEnum
from typing import Final, Protocol

import trio

from greenroom.actors.kernel.clock import sleep_until_tick
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.writer import AnswerWriter

TICK_SECONDS_MAX = 1.0
_TICKS_A_LIMIT = 4


class Phase(IntEnum):
    """The activities of a connection; each has its limit of time."""

    IDLE = 0
    """Waiting for the first byte of a request."""
    READING = 1
    """A request has begun and is not complete."""
    ANSWERING = 2
    """In the handler, or sending its answer."""
    CLOSING = 3
    """Reading what the peer still sends, so that it sees the last answer."""
    HANDED = 4
    """Another server has it, with timers of its own."""


IDLE: Final = Phase.IDLE
READING: Final = Phase.READING
ANSWERING: Final = Phase.ANSWERING
CLOSING: Final = Phase.CLOSING
HANDED: Final = Phase.HANDED


class Perishable(Protocol):
    """A connection, as the reaper sees it."""

    phase: Phase
    since: float
    """When the phase began, by `Reaper.now`."""

    def expire(self) -> None:
        """End it: it has been in its phase for too long."""
        ...


class Reaper:
    """Watches the connections that were added, until they are discarded."""

    def __init__(self, options: HttpOptions, writer: AnswerWriter) -> None:
        """Apply the limits of `options`; keep the Date header of `writer` going."""
        self._limits = {
            IDLE: options.idle_seconds_max,
            READING: options.request_seconds_max,
            ANSWERING: options.answer_seconds_max,
            CLOSING: options.linger_seconds_max,
        }
        self.tick_seconds = min(TICK_SECONDS_MAX, min(self._limits.values()) / _TICKS_A_LIMIT)
        self.connections: set[Perishable] = set()
        self.now = 0.0
        """Trio's time at the last tick, in seconds."""
        self._writer = writer

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            self.tick()
            await sleep_until_tick(self.tick_seconds)

    def tick(self) -> None:
        """Move the time on and end what is overdue.

        A phase is given one tick more than its limit, since it may have begun that much later
        than its `since` says.
        """
        now = self.now = trio.current_time()
        self._writer.set_time(time.time())
        latest = {phase: now - limit - self.tick_seconds for phase, limit in self._limits.items()}
        for connection in tuple(self.connections):
            if connection.phase is not HANDED and connection.since < latest[connection.phase]:
                connection.expire()
