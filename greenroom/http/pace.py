"""Whether the server keeps pace with what is asked of it, found by how long its passes take.

A pass of the scheduler takes up whatever has arrived since the last, so under overload nothing
queues anywhere but in the sockets, and the wait there is about as long as a pass. The remedy is
that of CoDel (Nichols and Jacobson, RFC 8289): a delay that stands, not a burst, is what is acted
upon, and it is the delay that is measured, not the length of a queue. When passes have been long
for a while, each has a budget of time; requests taken up after it is spent are refused at once,
which costs a fraction of answering them. Constant memory, two looks at the clock a pass.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import trio

PASS_SECONDS_MAX: Final = 0.025
"""A pass that takes longer is a long one."""
BUDGET_SECONDS: Final = 0.010
"""Of processor time, for the requests of a pass. A call takes some passes, and waits for one before
it is taken up, so its latency under overload is some times this."""
STANDING_SECONDS: Final = 0.5
"""Passes that have been long for less are a burst, or somebody else's use of the machine."""
HOLD_SECONDS: Final = 1.0
"""After the last refusal, budgets stay in force for so long: a short pass is no recovery."""


class Pace(trio.abc.Instrument):
    """Watches the passes of the trio run that it was added to; without one, all is well."""

    def __init__(
        self,
        refused: Counter[str] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        """Begin with nothing seen.

        Args:
            refused: where refusals are counted, by reason.
            monotonic: seconds.
            cpu: seconds that this thread has had a processor. Budgets are of those: what other
                programs take of the machine must not leave a pass without a single answer.
        """
        self._refused = Counter[str]() if refused is None else refused
        self._monotonic = monotonic
        self._cpu = cpu
        self._began = math.inf
        self._long_since = math.inf
        self._refused_at = -math.inf
        self._is_behind = False
        self._spent_at = math.inf
        """When the budget of this pass is spent; it counts from the first request."""

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio's signature
        """Note that a pass begins."""
        now = self._began = self._monotonic()
        is_holding = now - self._refused_at < HOLD_SECONDS
        self._is_behind = is_holding or now - self._long_since >= STANDING_SECONDS
        self._spent_at = math.inf

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio's signature
        """Note that a pass is over."""
        if self._monotonic() - self._began < PASS_SECONDS_MAX:
            self._long_since = math.inf
        elif self._long_since == math.inf:
            self._long_since = self._began

    def must_refuse(self) -> bool:
        """Return whether a request that is taken up now must be refused; it counts as refused."""
        if not self._is_behind:
            return False
        now = self._cpu()
        if self._spent_at == math.inf:  # the first: whatever else a pass does, some are taken up
            self._spent_at = now + BUDGET_SECONDS
        if now <= self._spent_at:
            return False
        self._refused_at = self._began
        self._refused["overload"] += 1
        return True
