"""A line that loses some of what is sent, and has many chunks on their way at once."""

from __future__ import annotations

import contextlib
from random import Random

import trio
from line_kit import CHUNK_BYTES, Line

CHUNKS_MAX = 1_000
"""Chunks on their way at a time, in each direction of a connection."""
SENT_AGAIN_SECONDS = 0.2
"""How long TCP waits at least before it sends a lost segment again (Linux)."""


class LossyLine(Line):
    """A line as a radio link is: delays are the same for all chunks, and add up to nothing.

    Attributes:
        loss: the share of chunks that are lost at first. TCP sends them again, and holds back what
            comes after them.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__(target)
        self.loss = 0.0
        self._losses = Random(20)

    async def _pass_on(
        self,
        here: trio.SocketStream,
        there: trio.SocketStream,
        scope: trio.CancelScope,
        bytes_max: int,
    ) -> None:
        """Put what one side sends on its way. (Nothing here limits its bytes.)"""
        assert not bytes_max
        way, arrivals = trio.open_memory_channel[tuple[float, bytes]](CHUNKS_MAX)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._deliver, arrivals, there)
            due = 0.0
            async with way:
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    while data := await here.receive_some(CHUNK_BYTES):
                        due = max(due, trio.current_time() + self._draw_seconds())
                        await way.send((due, data))
        scope.cancel()

    def _draw_seconds(self) -> float:
        """Return how long the next chunk takes."""
        is_lost = self._losses.random() < self.loss
        return self.delay_seconds + (SENT_AGAIN_SECONDS if is_lost else 0.0)

    @staticmethod
    async def _deliver(
        arrivals: trio.MemoryReceiveChannel[tuple[float, bytes]], there: trio.SocketStream
    ) -> None:
        """Give the other side what arrives, when it does; a side that has gone gets nothing."""
        async with arrivals:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                async for due, data in arrivals:
                    await trio.sleep(max(0.0, due - trio.current_time()))
                    await there.send_all(data)
