"""A bound on what reading documents may take of a pass, so that others have their turns."""

from __future__ import annotations

import trio

TURN_BYTES, TURN_SECONDS = 1 << 20, 0.002
"""The bytes and the time after which others have their turns. What documents cost for their size
differs by a factor of 20."""


class ReadingTurn:
    """The part of a pass that reading may take."""

    __slots__ = ("_began", "_done_bytes")

    def __init__(self) -> None:
        """Begin one."""
        self.begin()

    def begin(self) -> None:
        """Begin one more, after a checkpoint."""
        self._began = trio.current_time()
        self._done_bytes = 0

    async def end_if_long(self, done_bytes: int) -> None:
        """Count what has been read, and let others have their turns if it is much."""
        self._done_bytes += done_bytes
        seconds = trio.current_time() - self._began
        if self._done_bytes >= TURN_BYTES or seconds >= TURN_SECONDS:
            await trio.lowlevel.checkpoint()
            self.begin()
