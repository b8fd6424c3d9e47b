"""The cutter of journals: what rooms in memory no longer need leaves the database, by and by.

Rooms that have ended are not his: their keeper forgets them whole.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

import trio

from greenroom.actors.flows.world import World
from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.room import codec

_logger = logging.getLogger(__name__)

CUT_SECONDS: Final = 600.0
"""How often every room is looked at."""
PAUSE_SECONDS: Final = 0.1
"""Between two transactions, so that the committer is never held up for long."""
ROOMS_MAX: Final = 50
ROWS_MAX: Final = 1_000
"""Rooms and entries of one transaction."""


class JournalCutter:
    """A service; one per world."""

    def __init__(self, world: World) -> None:
        """Prepare; nothing is cut before `run`."""
        self._world = world

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Cut every `CUT_SECONDS`, until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(CUT_SECONDS)
            try:
                await self.cut()
            except ActorUnavailable as error:
                _logger.warning("the journal of rooms is cut later: %s", error)

    async def cut(self) -> None:
        """Cut the journals of all rooms in memory, some rooms and entries at a time.

        Raises:
            StorageUnavailable: the database does not answer; what is cut by then stays so.
        """
        rooms, clock = self._world.rooms, self._world.clock
        retention_seconds = self._world.settings.journal_retention_seconds
        left = deque[str](rooms.directory.keys())
        while left:
            keys = [left.popleft() for _ in range(min(ROOMS_MAX, len(left)))]
            more = await rooms.journals.cut(
                codec.KIND, keys, clock.now(), retention_seconds, ROWS_MAX
            )
            left.extend(key for key in keys if key in more)
            await trio.sleep(PAUSE_SECONDS)
