"""Ids drawn from a sequence in blocks, so that a new account needs no round trip of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

import trio

from greenroom.actors.kernel.errors import StorageUnavailable


class IdBlocks:
    """Gives out ids. The next block is drawn while some of the last are left."""

    def __init__(self, draw: Callable[[], Awaitable[int]], block_size: int) -> None:
        """Take the function that draws the first id of a new block of `block_size`."""
        self._draw = draw
        self._block_size = block_size
        self._left_min = block_size // 4
        self._ids: deque[int] = deque()
        self._lock = trio.Lock()
        self._failures = 0

    async def take(self) -> int:
        """Return an id that was never given out before.

        Raises:
            StorageUnavailable: none are left and the database is away.

        Cancellation loses at most one id.
        """
        if len(self._ids) <= self._left_min and not self._lock.locked():
            try:
                await self._refill(self._left_min)
            except StorageUnavailable:
                if not self._ids:
                    raise
        while not self._ids:
            await self._refill(0)
        return self._ids.popleft()

    async def _refill(self, left_max: int) -> None:
        """Draw a block, unless another task has meanwhile; if that task failed, fail with it.

        So no task waits for the attempts of many others, one after the other.
        """
        failures = self._failures
        async with self._lock:
            if self._failures != failures:
                raise StorageUnavailable("no ids could be drawn")
            if len(self._ids) <= left_max:
                try:
                    first = await self._draw()
                except StorageUnavailable:
                    self._failures += 1
                    raise
                self._ids.extend(range(first, first + self._block_size))
