"""Accounts of the processor time that each address uses while there is too much to do.

Nothing is measured while the server keeps pace. Once it does not, each step of a task is charged to
the address that the task works for. Heavy are the addresses that would have to be cut to one level
to free a part of what all use: a tenth, and more while others are refused, too. Their requests are
refused before any other. A refused request counts as if it had been answered. Otherwise an address
would be light as soon as it is refused.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Final

import trio

from greenroom.http.overload.turns import AddressTurns

ADDRESS: ContextVar[str] = ContextVar("greenroom_address")
"""The address that a task works for; see `address_key`. Tasks inherit it."""

WINDOW_SECONDS: Final = 0.25
"""Addresses are judged so often."""
KEPT: Final = 0.5
"""A part of what was used before counts at the next judgement, too."""
FREED_MIN: Final = 0.1
"""The part of all use that cutting the heavy addresses would free."""
FREED_MAX: Final = 0.8
"""The same, at most, where many addresses use too much together."""
FREED_GROWS, FREED_SHRINKS = 2.0, 0.95
"""The factor of that part at a judgement, after a refusal of a light address and without."""
HEAVY_FACTOR: Final = 1.25
"""A heavy address uses so many times an even part of all, at least."""
FORGOTTEN_SECONDS: Final = 1e-4
"""An address that has used less is forgotten."""
KEYS_MAX: Final = 4096
"""The addresses that are counted; further ones are light."""


class CpuShares(trio.abc.Instrument):
    """Accounts of the processor time that addresses use, while they are asked for."""

    def __init__(
        self, turns: AddressTurns | None = None, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        """Begin without accounts.

        Args:
            turns: are charged with what is measured.
            cpu: seconds that this thread has had a processor.
        """
        self._turns = AddressTurns() if turns is None else turns
        self._cpu = cpu
        self.is_counting = False
        """There are accounts. A plain attribute, for each pass of the scheduler asks."""
        self._stepped = 0.0
        """When the step before ended, by `cpu`."""
        self._judged_at = 0.0
        self._used: dict[str, float] = {}
        """Since the last judgement."""
        self._rated: dict[str, float] = {}
        """Before it; what is older counts less."""
        self._heavy: frozenset[str] = frozenset()
        self._freed = FREED_MIN
        self._is_short = False
        """A light address has been refused since the last judgement."""

    @property
    def has_heavy(self) -> bool:
        """Return whether some addresses use more than others."""
        return bool(self._heavy)

    def start(self, now: float) -> None:
        """Begin to count, in the trio run that this is called in; `now` in monotonic seconds."""
        if not self.is_counting:
            self.is_counting = True
            self._judged_at = now
            trio.lowlevel.add_instrument(self)

    def stop(self) -> None:
        """Cease to count, and forget."""
        if self.is_counting:
            self.is_counting = False
            with contextlib.suppress(KeyError):  # trio drops one that has raised
                trio.lowlevel.remove_instrument(self)
        self._used.clear()
        self._rated.clear()
        self._heavy = frozenset()
        self._freed, self._is_short = FREED_MIN, False

    def begin_pass(self, now: float) -> None:
        """Note that a pass begins, and judge the addresses from time to time."""
        self._stepped = self._cpu()
        if now - self._judged_at >= WINDOW_SECONDS:
            self._judged_at = now
            self._judge()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Charge a step to the address that it was for."""
        now = self._cpu()
        key = task.context.get(ADDRESS)
        if key is not None:
            self.charge(key, now - self._stepped)
            if self._turns.is_on:
                self._turns.charge(key, now - self._stepped)
        self._stepped = now

    def charge(self, key: str, seconds: float) -> None:
        """Charge an address for so much of the processor, or for a refusal in place of it."""
        used = self._used
        if key in used or len(used) < KEYS_MAX:
            used[key] = used.get(key, 0.0) + seconds

    def note_light_refused(self) -> None:
        """Note that a light address was refused: too few are heavy."""
        self._is_short = True

    def is_heavy(self, key: str) -> bool:
        """Return whether requests of an address are to be refused before others'."""
        return key in self._heavy

    def _judge(self) -> None:
        used, self._used = self._used, {}
        for key, seconds in self._rated.items():
            if key in used or len(used) < KEYS_MAX:
                used[key] = used.get(key, 0.0) + seconds * KEPT
        self._rated = {key: sum_ for key, sum_ in used.items() if sum_ >= FORGOTTEN_SECONDS}
        freed = self._freed * (FREED_GROWS if self._is_short else FREED_SHRINKS)
        self._freed, self._is_short = min(max(freed, FREED_MIN), FREED_MAX), False
        level = level_of(self._rated.values(), self._freed)
        self._heavy = frozenset(key for key, sum_ in self._rated.items() if sum_ > level)


def level_of(amounts: Iterable[float], freed: float = FREED_MIN) -> float:
    """Return the level above which an amount is heavy; none is where there is only one.

    Args:
        amounts: what each uses.
        freed: the part of their sum that is freed if none is above the level.
    """
    falling = sorted(amounts, reverse=True)
    if len(falling) < 2:
        return float("inf")
    total = rest = sum(falling)
    level = 0.0
    for count, amount in enumerate(falling, 1):
        rest -= amount
        level = ((1.0 - freed) * total - rest) / count
        if count == len(falling) or level >= falling[count]:
            break
    return max(level, HEAVY_FACTOR * total / len(falling))
