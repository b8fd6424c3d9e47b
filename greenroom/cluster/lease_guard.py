"""Stops a node whose lease has run out, before a single task runs on what may be old by then.

A lease is trusted for less time than it lasts, counted from the moment before its renewal was sent.
Time is `CLOCK_BOOTTIME`, which goes on while the machine sleeps and which nobody can set. An
instrument of trio looks at it at the beginning of each pass. So a process that was stopped, and
goes on after its shards were taken over, runs no turn: its actors are gone before any task runs.

A process that is stopped in the middle of a pass goes on where it was, and may send an answer that
was right when it stopped. No write gets through: the fence in Postgres refuses it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

import trio

from greenroom.persistence.nodes.session import boot_seconds

_logger = logging.getLogger(__name__)

TRUST_SHARE: Final = 0.8
"""The share of its lease that a node trusts: its clock may run a fifth slower than Postgres'."""

Clock = Callable[[], float]
Stop = Callable[[], None]


class Guard(trio.abc.Instrument):
    """Trusts the lease for a while, and then stops everything at once. One for each node.

    There is none in a server that is alone.
    """

    def __init__(self, lease_seconds: float, clock: Clock = boot_seconds) -> None:
        """Begin without trust: it comes with the first renewal.

        Args:
            lease_seconds: how long a lease is good in Postgres after it was renewed.
            clock: returns seconds that go on while the process, or the machine, stands still.
        """
        self._seconds = lease_seconds * TRUST_SHARE
        self._clock = clock
        self._stops: list[Stop] = []
        self._until = -math.inf
        """When trust ends, by the clock; infinite while there is nothing to be stopped."""
        self._look_at = math.inf
        self._lost = trio.Event()
        self.losses = 0
        """How often the lease has run out."""

    # What is stopped.

    def stop_with(self, stop: Stop) -> None:
        """Add a function to call when the lease has run out, in the order of these calls.

        It is called outside of any task, must not wait, and should not raise.
        """
        self._stops.append(stop)

    # The lease.

    def read_clock(self) -> float:
        """Return the clock's time. Take it before a renewal is sent, for `note_renewed`."""
        return self._clock()

    @property
    def is_trusted(self) -> bool:
        """Return whether this node may serve what it owns."""
        return self._clock() < self._until

    @property
    def seconds_left(self) -> float:
        """Return for how long the lease will be trusted; 0 if it is not."""
        return max(self._until - self._clock(), 0.0)

    def note_renewed(self, sent_at: float) -> bool:
        """Trust the lease on; return whether it is trusted now.

        Args:
            sent_at: what `read_clock` said before the renewal was sent that has succeeded.
        """
        return self._trust(sent_at + self._seconds)

    def note_unreachable_for_all(self, heard_at: float, seconds: float) -> bool:
        """Trust on although the lease was not renewed: nobody can reach Postgres to take over.

        Args:
            heard_at: what `read_clock` said when the last of the other nodes was found to say so.
            seconds: how long after that no node can have judged this one.

        Returns:
            Whether the lease is trusted now. One that is not trusted any more stays so.
        """
        return self.is_trusted and self._trust(heard_at + seconds)

    def _trust(self, until: float) -> bool:
        if until <= self._clock():
            return False
        if until > self._until:
            self._until = self._look_at = until
            if self._lost.is_set():
                self._lost = trio.Event()
        return True

    def distrust(self, reason: str) -> None:
        """Stop everything now: there is no reason to believe that this node owns its shards."""
        if self._look_at != math.inf:
            self._stop(reason)

    async def wait_lost(self) -> None:
        """Wait until the lease has run out; it may have been renewed since. Cancellation as usual.

        Returns at once while it is not trusted.
        """
        await self._lost.wait()

    # The instrument.

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - the protocol's
        """Look at the clock, after the process has waited and before any task runs."""
        if self._clock() >= self._look_at:
            self._stop("its lease has run out")

    def _stop(self, reason: str) -> None:
        """Stop everything, whatever one of the parts raises: trio would take the guard away."""
        self._until, self._look_at = -math.inf, math.inf
        self.losses += 1
        self._lost.set()
        _logger.error("this node serves nothing until it knows what it owns: %s", reason)
        for stop in self._stops:
            try:
                stop()
            except Exception:
                _logger.exception("a part of the server could not be stopped")
