"""A room's updates as they come, by polling."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from greenroom.client.room_replies import Update, UpdatePage

POLL_SECONDS: Final = 0.25


class Updates:
    """Iterate over it with `async for`: every update once, in the order sent; it never ends.

    A step that fails or is cancelled loses nothing: the next one goes on where it was.

    Attributes:
        cursor: behind the last update that was given out; `Room.updates` takes it to go on, after
            a restart of either side, too.
        missed: how many updates fell off the server's end before they could be read.
    """

    def __init__(
        self,
        poll: Callable[[str | None], Awaitable[UpdatePage]],
        cursor: str | None,
        poll_seconds: float,
    ) -> None:
        """Begin behind a cursor; see `Room.updates`."""
        self._poll = poll
        self._poll_seconds = poll_seconds
        self._fetched: deque[Update] = deque()
        self._is_behind = True
        """Whether there may be more at once."""
        self._missed_before = 0
        """Up to the page behind which the next poll begins: an empty one is asked for again."""
        self.cursor = cursor
        self.missed = 0

    def __aiter__(self) -> Updates:
        """Return itself."""
        return self

    async def __anext__(self) -> Update:
        """Wait for the next update.

        Raises:
            GreenroomError: a poll has failed for good; ApiError when the seat is gone.

        Cancellation: nothing is lost.
        """
        while not self._fetched:
            if not self._is_behind:
                await trio.sleep(self._poll_seconds)
            page = await self._poll(self.cursor)
            self._fetched.extend(page.updates)
            self._is_behind = bool(page.updates)
            self.missed = self._missed_before + page.missed
            if page.updates:
                self._missed_before = self.missed
        update = self._fetched.popleft()
        self.cursor = update.update_id
        return update
