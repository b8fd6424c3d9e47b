"""Time limits by the thousand: one task for all, where a cancel scope for each would cost more.

Limits of nearly the same time share a slot. So to set one, and to forget it, takes no more than to
add something to a set and to take it out. A heap has the times of the slots alone.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, Final, NoReturn, Protocol

import trio

SLOTS_A_SECOND: Final = 64
"""Limits are rounded up to a slot: what takes too long ends up to so much later."""


class Limited(Protocol):
    """Something with a time limit."""

    def expire(self) -> None:
        """End it, because its time has passed. It must not raise."""
        ...


Slot = set[Limited]
"""All that ends at one time. Whatever is over before takes itself out, and is held no longer."""


class Timeouts:
    """Ends what takes too long.

    It holds what is under way, and an empty slot for each time that it was given. These are at most
    `SLOTS_A_SECOND` for each second of the longest limit.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._slots: dict[int, Slot] = {}
        self._heap: list[int] = []
        """The numbers of the slots: each is a time of trio's clock, in parts of a second."""
        self._task: trio.lowlevel.Task | None = None
        self._wakes_at = float("inf")

    def add(self, at: float, limited: Limited) -> Slot:
        """End something at a time of trio's clock, unless it has been discarded by then.

        Args:
            at: the time.
            limited: what to end.

        Returns:
            What it is to be discarded from once it is over.
        """
        slot = self.find(at)
        slot.add(limited)
        return slot

    def find(self, at: float) -> Slot:
        """Return what ends all that is added to it before the next pass, at a time; see `add`."""
        number = math.ceil(at * SLOTS_A_SECOND)
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = set()
            heapq.heappush(self._heap, number)
            if number / SLOTS_A_SECOND < self._wakes_at and self._task is not None:
                task, self._task = self._task, None
                trio.lowlevel.reschedule(task)
        return slot

    async def run(self) -> NoReturn:
        """End what takes too long, until cancelled."""
        while True:
            now = trio.current_time() * SLOTS_A_SECOND
            while self._heap and (self._heap[0] <= now or not self._slots[self._heap[0]]):
                slot = self._slots.pop(heapq.heappop(self._heap))
                for limited in tuple(slot):
                    limited.expire()
            self._wakes_at = self._heap[0] / SLOTS_A_SECOND if self._heap else float("inf")
            with trio.move_on_at(self._wakes_at):
                self._task = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._forget)

    def _forget(self, _: Any) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
