"""Answers that are too long for one message: the owner holds the rest until it is asked for."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import trio

from greenroom.cluster.calls.messages import Part
from greenroom.network.shares import Shares

PART_BYTES: Final = 1 << 20
"""Bytes of a part; half of what a bus takes, so that a page of a stream fits in any case."""
OPEN_MAX: Final = 256
"""Answers that are open at a node."""
IDLE_SECONDS_MAX: Final = 30.0
"""An answer is dropped if nobody has asked for its next part for so long."""


class TooManyOpen(Exception):
    """Too many long answers are open, or too many of this address."""


class _Open:
    """An answer, from its second part on."""

    __slots__ = ("is_busy", "key", "parts", "used_at")

    def __init__(self, key: str, parts: Slices) -> None:
        self.key = key
        self.parts = parts
        self.used_at = trio.current_time()
        self.is_busy = False

    async def read(self) -> bytes:
        """Return the next part, empty at the end; errors are those of the parts."""
        self.is_busy = True
        try:
            return await anext(self.parts, b"")
        finally:
            self.is_busy = False
            self.used_at = trio.current_time()

    def expire(self) -> None:
        """Mark it to be dropped with those that nobody reads."""
        self.used_at = -math.inf


class OpenAnswers:
    """The long answers of a node, by the node that reads them and a number."""

    def __init__(self, address_share_max: float) -> None:
        """Begin with none; an address has at most so many times what is free."""
        self._open: dict[tuple[int, int], _Open] = {}
        self._shares = Shares(OPEN_MAX, address_share_max)
        self._number = 0

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    def add(self, reader: int, key: str, parts: Slices) -> int:
        """Hold the rest of an answer; return its number.

        Args:
            reader: the node that will ask for it.
            key: the client's address; see `address_key`.
            parts: closed here in the end.

        Raises:
            TooManyOpen: there is no room; the parts are the caller's to close.
        """
        if not self._shares.take(key):
            raise TooManyOpen
        self._number += 1
        self._open[reader, self._number] = _Open(key, parts)
        return self._number

    async def read_next(self, reader: int, number: int) -> Part:
        """Return the next part; one that is broken if there is no such answer, or it fails.

        Cancellation: the answer is dropped.
        """
        found = self._open.get((reader, number))
        if found is None or found.is_busy:
            return Part(b"", is_broken=True)
        is_over = True
        try:
            body = await found.read()
            is_over = not body
        except Exception:  # noqa: BLE001 - a cut list must not look whole
            return Part(b"", is_broken=True)
        finally:
            if is_over:
                await self.drop(reader, number)
        return Part(body)

    def note_dropped(self, reader: int, number: int) -> None:
        """Leave an answer that its reader does not want any more to `drop_idle`."""
        found = self._open.get((reader, number))
        if found is not None:
            found.expire()

    async def drop(self, reader: int, number: int) -> None:
        """Drop an answer, if it is still there and not being read."""
        found = self._open.get((reader, number))
        if found is not None and not found.is_busy:
            del self._open[reader, number]
            self._shares.give_back(found.key)
            await found.parts.aclose()

    async def drop_idle(self, now: float) -> None:
        """Drop answers that nobody reads any more; `now` is trio's time."""
        for (reader, number), found in list(self._open.items()):
            if found.used_at + IDLE_SECONDS_MAX <= now:
                await self.drop(reader, number)


class Slices:
    """An answer in parts of at most `PART_BYTES`, made from a stream or a whole body."""

    def __init__(self, body: bytes, stream: AsyncIterator[bytes] | None) -> None:
        """Cut what there is of a body, then the stream behind it."""
        self._rest = memoryview(body)
        self._stream = stream

    def __aiter__(self) -> Slices:
        return self

    async def __anext__(self) -> bytes:
        """Return the next part, never an empty one.

        Raises:
            StopAsyncIteration: that was all.
            Exception: whatever the stream raises.
        """
        while not self._rest:
            if self._stream is None:
                raise StopAsyncIteration
            self._rest = memoryview(await anext(self._stream))
        part, self._rest = self._rest[:PART_BYTES], self._rest[PART_BYTES:]
        return bytes(part)

    async def aclose(self) -> None:
        """Close the stream."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()


class RemoteParts:
    """The parts of another node's answer, as an answer's stream."""

    def __init__(
        self,
        first: bytes,
        fetch: Callable[[], Awaitable[Part]],
        drop: Callable[[], None],
        charge: Callable[[int], None],
    ) -> None:
        """Begin with the first part.

        Args:
            first: it has come already.
            fetch: asks for the next one.
            drop: tells the other node that no more is wanted.
            charge: called with the size of each part.
        """
        self._first = first
        self._fetch = fetch
        self._drop = drop
        self._charge = charge
        self._is_over = False

    def __aiter__(self) -> RemoteParts:
        return self

    async def __anext__(self) -> bytes:
        """Return the next part, never an empty one.

        Raises:
            StopAsyncIteration: the answer is complete.
            BusError: the other node cannot be asked.
            PartsLost: the other node has no more of it.
        """
        part, self._first = self._first, b""
        if not part and not self._is_over:
            part = await self._fetch_next()
        if not part:
            self._is_over = True
            raise StopAsyncIteration
        self._charge(len(part))
        return part

    async def aclose(self) -> None:
        """Tell the other node to drop what was not asked for."""
        if not self._is_over:
            self._is_over = True
            self._drop()

    async def _fetch_next(self) -> bytes:
        part = await self._fetch()
        if part.is_broken:
            self._is_over = True
            raise PartsLost
        return part.body


class PartsLost(Exception):
    """The rest of an answer is lost, so what has been sent of it is not whole."""
