"""Limits the bytes of each address that wait to be written to the database.

All changes become durable in the order in which they came, so everybody waits for the bytes before
theirs. An address that brings many large ones would delay all the others. So it has a share of what
may be on its way. What is beyond it waits before it is taken up, or is refused. Small changes are
not counted: the limits of an address bound how many of them it makes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import trio

from greenroom.config import DEFAULTS
from greenroom.network.shares import Shares

BYTES_MAX: Final = 256 << 10
"""The bound for all addresses together: as much as is durable in some ten milliseconds.

Everybody's change waits for the commit before its own, and for its own: with four times as many,
the slowest took twice as long under a flood. Besides, an address that has nothing on its way may
always have one change there.
"""
COUNTED_BYTES: Final = 4 << 10
"""Changes of fewer bytes are small."""
COUNTED_BYTES_MAX: Final = BYTES_MAX // 2
"""A larger change counts as one of so many. So one leaves room for those of others."""
WAIT_SECONDS_MAX: Final = 2.0
LOOK_SECONDS: Final = 0.01
"""How often those look who wait; one of each address does, and the others wait for that one."""


class Progress(NamedTuple):
    """How far the disk is."""

    taken: int
    """Bytes that have been handed over to be written since the start."""
    waiting: int
    """How many of these are not durable."""


class _Posted(NamedTuple):
    """Something whose sender does not wait for it."""

    end: int
    """It is durable once so many bytes are."""
    key: str
    size: int


def nothing_waits() -> Progress:
    """Say that everything is durable, where nothing is written."""
    return Progress(0, 0)


class WriteShares:
    """Counts what is on its way to the disk. Its memory is bounded by that."""

    def __init__(
        self,
        address_share_max: float = DEFAULTS.address_share_max,
        progress: Callable[[], Progress] = nothing_waits,
    ) -> None:
        """Begin with nothing on its way.

        Args:
            address_share_max: an address may have so many times what is left of `BYTES_MAX`.
            progress: asked how far the disk is.
        """
        self._shares = Shares(BYTES_MAX, address_share_max)
        self._progress = progress
        self._posted: deque[_Posted] = deque()
        self._locks: dict[str, trio.Lock] = {}

    @property
    def held(self) -> int:
        """Return how many bytes are on their way, as far as they are counted."""
        return self._shares.held

    async def enter(self, key: str, size: int) -> bool:
        """Wait until a change may be taken up; those of an address are taken up in their order.

        Args:
            key: the address that it comes from; see `address_key`.
            size: in bytes.

        Returns:
            Whether it may be; then `leave` must be called once it is durable. False: its address
            has brought too much for `WAIT_SECONDS_MAX`, and it is to be refused.

        Cancellation: nothing is on its way.
        """
        size = min(size, COUNTED_BYTES_MAX)
        if key not in self._locks and self._take(key, size):
            return True
        lock = self._locks.setdefault(key, trio.Lock())
        try:
            with trio.move_on_after(WAIT_SECONDS_MAX):
                async with lock:
                    while not self._take(key, size):  # noqa: ASYNC110  the disk has no event
                        await trio.sleep(LOOK_SECONDS)
                    return True
        finally:
            if not lock.locked():
                self._locks.pop(key, None)
        return False

    def leave(self, key: str, size: int) -> None:
        """Note that a change is durable, or that it came to nothing; arguments as of `enter`."""
        self._shares.give_back(key, min(size, COUNTED_BYTES_MAX))

    def post(self, key: str, size: int) -> bool:
        """Take up a change that nobody waits for, or refuse it; arguments as of `enter`.

        It must be handed over to be written at once, or not at all.
        """
        if not self._take(key, size):
            return False
        self._posted.append(_Posted(self._progress().taken + size, key, size))
        return True

    def _take(self, key: str, size: int) -> bool:
        """Count a change in if there is room for it."""
        taken, waiting = self._progress()
        while self._posted and (not waiting or self._posted[0].end <= taken - waiting):
            _, of, durable = self._posted.popleft()
            self._shares.give_back(of, durable)
        if self._shares.count_held(key) and not self._shares.may_take(key, size):
            return False
        self._shares.hold(key, size)
        return True
