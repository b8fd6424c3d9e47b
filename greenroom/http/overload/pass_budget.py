"""Bounds how much a pass of the scheduler takes up, once passes have been long for a while.

A pass of the scheduler takes up whatever has arrived since the last. So under overload nothing
queues anywhere but in the sockets, and the wait there is about as long as a pass. The remedy is
that of CoDel (Nichols and Jacobson, RFC 8289): act upon a standing delay, not a burst, and measure
the delay, not the length of a queue. When passes have been long for a while, each takes up only as
many requests as make a pass of the length aimed at. The others are refused at once, which costs a
fraction of answering them. The number follows from the length of the passes before, without their
refusals: else the more requests came, the fewer were answered. Nobody has to know what a request
costs. It takes constant memory, and two looks at the clocks a pass.

The requests of addresses that use more of the processor than others (`cpu_shares.py`) are refused
first. The others are refused only when there are too many of them alone. None of these takes all
the places that are left for them: what it has of a pass is less than what is free.

Latency is then the number of passes that a call takes, times their length. So what arrives is taken
up as a pass begins, and answers leave as it ends (`PassSender`). Done by tasks of their own, that
would be two passes more.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import trio

from greenroom.http.overload.concurrency import ConcurrencyLimit
from greenroom.http.overload.cpu_shares import CpuShares
from greenroom.http.overload.turns import AddressTurns
from greenroom.network.addresses import address_key

_log = logging.getLogger(__name__)

PASS_SECONDS_MAX: Final = 0.025
"""Seconds beyond which a pass is a long one."""
PASS_SECONDS_AIM: Final = 0.008
"""Seconds of processor time of a pass while requests are refused, without the refusals.

A call takes some passes, and waits for one before it is taken up, so its latency under overload is
some times this. Longer passes answer hardly more (see "Tried and dropped" in `bench/RESULTS.md`).
"""
STANDING_SECONDS: Final = 0.5
"""Seconds of long passes that are still a burst, or somebody else's use of the machine."""
COUNTED_SECONDS: Final = 0.2
"""Seconds of long passes after which addresses' use is counted, so that it is known who is heavy
when the first request is refused."""
HOLD_SECONDS: Final = 1.0
"""Seconds after the last refusal in which passes are still bounded: a short pass is no recovery."""
SLOW_PASS_SECONDS: Final = 0.006
"""Seconds beyond which a pass is a slow one: a call takes several."""
SLOW_WINDOW_SECONDS: Final = 0.25
SLOW_SECONDS_MAX: Final = 0.05
"""Seconds of a window in slow passes, beyond which addresses take turns."""
TURNS_HOLD_SECONDS: Final = 2.0
"""Seconds for which they go on to, after the last such window."""
IDLE_SECONDS_MAX: Final = 0.1
"""Seconds that a pass may use besides, at most, of the time that was idle before it."""
REFUSAL_SECONDS: Final = 50e-6
"""Seconds that a refusal takes, roughly, where it is not measured: what came over TLS, or had to be
parsed to be understood."""
TAKEN_MIN: Final = 64
"""Requests of a pass that are never refused: whatever else a pass does, some are taken up."""
HEAVY_TAKEN_MIN: Final = 16
"""The same, where it is known which addresses are heavy: one request may take milliseconds."""
LIGHT_FACTOR: Final = 3
"""Requests of light addresses that are taken up besides, as a multiple of those of a pass."""
TAKEN_FIRST: Final = 192.0
"""Requests of the first pass of an overload."""
STEP_MAX: Final = 1.25
"""How much more, or less, a pass takes up than the one before, at most."""


PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that tell operators how the server is: then most of all, so they are never shed."""


def do_nothing() -> None:
    """Do nothing: the default of the hook."""


class PassBudget(trio.abc.Instrument):
    """Watches the passes of the trio run that it was added to; without one, all is well."""

    def __init__(
        self,
        refused: Counter[str] | None = None,
        in_flight: ConcurrencyLimit | None = None,
        cpu_shares: CpuShares | None = None,
        turns: AddressTurns | None = None,
        *,
        addresses: Callable[[], int] = lambda: 0,
        monotonic: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        """Begin without any pass.

        Args:
            refused: counts refusals by reason.
            in_flight: the limit of requests under way; beyond it, requests are refused, too.
            cpu_shares: tells whose requests are refused first; without it all are alike.
            turns: what addresses take while passes are slow.
            addresses: returns how many addresses are connected.
            monotonic: seconds.
            cpu: seconds that this thread has had a processor: what other programs take of the
                machine is no reason to take up less.
        """
        self._refused = Counter[str]() if refused is None else refused
        self._in_flight = in_flight or ConcurrencyLimit(sys.maxsize)
        self._cpu_shares = cpu_shares
        self._turns = AddressTurns() if turns is None else turns
        self._addresses = addresses
        self._window_began = -math.inf
        self._look_at = -math.inf
        """When a pass looks at the windows next, unless there is a reason to look in each."""
        self._slow_seconds = 0.0
        """Seconds of this window in slow passes."""
        self._slow_at = -math.inf
        """When the last window ended that had too many of them."""
        self._monotonic = monotonic
        self.cpu = cpu
        """The clock for `note_refusing`."""
        self._began = math.inf
        self._began_cpu = math.inf
        self._long_since = math.inf
        self._refused_at = -math.inf
        self.is_behind = False
        """True if requests may be refused."""
        self._ended = math.inf
        self._idle = 0.0
        """Seconds between the pass before and this one."""
        self._refusing = 0.0
        """Seconds of this pass that went into refusals."""
        self._taken = 0
        self._spared = Counter[str]()
        """Requests of light addresses that this pass has taken up beyond its number."""
        self._spared_sum = 0
        self._taken_max = TAKEN_FIRST
        """How many requests a pass takes up while the server is behind."""
        self.take_up: Callable[[], None] = do_nothing
        """Called at the beginning of a pass while the server is behind: wakes tasks for what has
        arrived, so that this pass runs them, not the next. Must not block or raise."""

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio's signature
        """Note the beginning of a pass."""
        now = self._began = self._monotonic()
        is_holding = now - self._refused_at < HOLD_SECONDS
        self._in_flight.look(now)
        idle = now - self._ended
        if idle >= PASS_SECONDS_MAX:
            self._long_since = math.inf  # a burst: nothing stands where there is time to wait
        is_late = is_holding or now - self._long_since >= STANDING_SECONDS
        is_behind = is_late or self._in_flight.is_cut
        if is_behind:
            idle = self._idle = min(max(idle, 0.0), IDLE_SECONDS_MAX)
            self._began_cpu = self.cpu()
            self._refusing = 0.0
            if not self.is_behind:
                self._taken_max = TAKEN_FIRST
            self._taken = -int(idle / PASS_SECONDS_AIM * self._taken_max)
            self._spared.clear()
            self._spared_sum = 0
        self.is_behind = is_behind
        shares = self._cpu_shares
        if shares is not None and (is_behind or now >= self._look_at or shares.is_counting):
            self._look(shares, now)
        if is_behind:
            self._call_hook()

    def _look(self, shares: CpuShares, now: float) -> None:
        """Begin or cease to count what addresses use, and to let them take turns."""
        is_due = now - self._window_began >= SLOW_WINDOW_SECONDS
        takes_turns = (is_due or self._turns.is_on) and self._take_turns(now, is_due=is_due)
        if takes_turns or self.is_behind or now - self._long_since >= COUNTED_SECONDS:
            shares.start(now)
            shares.begin_pass(now)
        elif shares.is_counting:
            shares.stop()
        self._look_at = self._window_began + SLOW_WINDOW_SECONDS

    def _take_turns(self, now: float, *, is_due: bool) -> bool:
        """Let addresses take turns while passes are slow; return whether they do.

        Args:
            now: seconds.
            is_due: whether a window has ended.
        """
        turns = self._turns
        if is_due:
            if self._slow_seconds >= SLOW_SECONDS_MAX and self._addresses() > 1:
                self._slow_at = now
                turns.start()
            elif turns.is_on and now - self._slow_at >= TURNS_HOLD_SECONDS:
                if turns.is_waited_for:
                    self._slow_at = now
                else:
                    turns.stop()
            self._window_began, self._slow_seconds = now, 0.0
        if turns.is_on:
            turns.begin_pass(now)
        return turns.is_on

    def rest(self) -> None:
        """Refuse nothing any more, until passes are long again."""
        self.is_behind = False
        self._turns.stop()
        if self._cpu_shares is not None:
            self._cpu_shares.stop()

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - trio's signature
        """Note the end of a pass."""
        now = self._monotonic()
        seconds = now - self._began
        if seconds < SLOW_PASS_SECONDS:
            self._long_since = math.inf
        else:
            self._note_slow(seconds, now)
        if self.is_behind:
            self._aim(self.cpu() - self._began_cpu - self._refusing - self._idle)
        self._ended = now

    def _note_slow(self, seconds: float, now: float) -> None:
        self._slow_seconds += seconds
        if seconds < PASS_SECONDS_MAX:
            self._long_since = math.inf
            return
        self._look_at = -math.inf
        if self._long_since == math.inf:
            self._long_since = now  # one pass alone is no reason, however long

    def _call_hook(self) -> None:
        """Call the hook; stop calling it after a bug in it.

        Trio would drop the whole instrument, and the server would stay behind for ever.
        """
        try:
            self.take_up()
        except Exception:  # noqa: BLE001 - whatever it is, it must not take the instrument along
            _log.exception("what arrives is taken up more slowly from now on")
            self.take_up = do_nothing

    def _aim(self, seconds: float) -> None:
        """Let the next pass take up more or less than this one, which took `seconds`."""
        step = PASS_SECONDS_AIM / max(seconds, 1e-6)
        if step > 1.0 and self._taken <= self._taken_max:
            return  # it had nothing more to take up
        step = min(max(step, 1.0 / STEP_MAX), STEP_MAX)
        least = HEAVY_TAKEN_MIN if self._knows_heavy else TAKEN_MIN
        self._taken_max = max(self._taken_max * step, least)

    @property
    def _knows_heavy(self) -> bool:
        return self._cpu_shares is not None and self._cpu_shares.has_heavy

    def note_late(self) -> None:
        """Note that a request is refused that has waited too long for its turn."""
        self._refused["overload"] += 1

    def note_refusing(self, seconds: float = REFUSAL_SECONDS) -> None:
        """Note that `seconds` of this pass, by `cpu`, went into refusals, and so do not count."""
        self._refusing += seconds

    def must_refuse(self, address: str) -> bool:
        """Return whether a request that is taken up now must be refused; it counts as refused.

        Args:
            address: where it comes from, as far as that is known.
        """
        if not self.is_behind:
            return False
        if self._in_flight.must_refuse(self._began, address_key(address)):
            self._refused["requests in flight"] += 1
            return True
        self._taken += 1
        if self._taken <= self._taken_max or self._is_spared(address_key(address)):
            return False
        self._refused_at = self._began
        self._refused["overload"] += 1
        return True

    def _is_spared(self, key: str) -> bool:
        """Return whether a request beyond the number of this pass is taken up all the same."""
        shares = self._cpu_shares
        if shares is None:
            return False
        if shares.has_heavy and not shares.is_heavy(key):
            free = max(LIGHT_FACTOR * self._taken_max, TAKEN_MIN) - self._spared_sum
            if self._spared[key] < free:
                self._spared[key] += 1
                self._spared_sum += 1
                return True
            shares.note_light_refused()
        shares.charge(key, PASS_SECONDS_AIM / self._taken_max)
        return False
