"""Long work in one go, one piece of each address at a time, with other tasks in between.

A pass of the scheduler runs everything that is ready, and a request that arrives waits for its end.
So an address that sends many large bodies at once would make a pass as long as all of them take.
Instead each body waits for its turn, and an address has one turn in a pass, in the order of asking.
So do TLS handshakes, each of which takes a millisecond or more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

LARGE_BYTES: Final = 16 << 10
"""A piece of so many bytes takes a turn. Smaller ones take less time than to wait for one."""


class Pieces:
    """Gives turns. Its memory is an entry for each address that somebody waits for a turn of."""

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        """Begin with nobody waiting."""
        self._locks: dict[str, trio.Lock] = {}

    def __len__(self) -> int:
        """Return how many addresses are waited for."""
        return len(self._locks)

    async def turn(self, key: str) -> None:
        """Return when a large piece may be dealt with; always a checkpoint.

        Args:
            key: the address that it comes from; see `address_key`.

        Cancellation: it had no turn, and is in nobody's way.
        """
        async with self.hold(key):
            pass  # a pass at least: it is handed on only to the next

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncGenerator[None]:
        """Have the turn of an address while this lasts; its beginning is a checkpoint.

        Args:
            key: as of `turn`.

        Cancellation: as for `turn`.
        """
        lock = self._locks.setdefault(key, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._locks.pop(key, None)
