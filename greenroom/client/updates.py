"""Poll for a room's updates as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from greenroom.contract.room_exchange import PollReply
from greenroom.contract.rooms import UpdateEntry

POLL_SECONDS: Final = 0.25


class Updates:
    """An endless iterator: every update once, in the order sent.

    A step that fails or is cancelled loses nothing; the next one goes on where it was.

    Attributes:
        cursor: the position behind the last update given out. `Room.updates` takes it to go on,
            after a restart of either side, too.
        missed: how many updates the server had dropped before they could be read.
    """

    def __init__(
        self,
        poll: Callable[[str | None], Awaitable[PollReply]],
        cursor: str | None,
        poll_seconds: float,
    ) -> None:
        """Start behind a cursor; see `Room.updates`."""
        self._poll = poll
        self._poll_seconds = poll_seconds
        self._fetched: deque[UpdateEntry] = deque()
        self._is_behind = True
        """True if there may be more updates now."""
        self._missed_before = 0
        """Updates missed up to the page behind which the next poll begins; an empty page is asked
        for again."""
        self.cursor = cursor
        self.missed = 0

    def __aiter__(self) -> Updates:
        """Return itself."""
        return self

    async def __anext__(self) -> UpdateEntry:
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
