"""Cuts journals: deletes what rooms and lobbies in memory no longer need.

Those that have ended are not its business: the snapshot service deletes them whole.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Final

import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.world.rooms_and_lobbies import Journalled
from greenroom.actors.world.world import World

_logger = logging.getLogger(__name__)

CUT_SECONDS: Final = 600.0
"""Seconds between two looks at all journals."""
PAUSE_SECONDS: Final = 0.1
"""Between two transactions, so that the committer is never held up for long."""
KEYS_MAX: Final = 50
ROWS_MAX: Final = 1_000
"""Rooms or lobbies, and entries, of one transaction."""


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
                _logger.warning("journals are cut later: %s", error)

    async def cut(self) -> None:
        """Cut the journals of all that are in memory, some and some entries at a time.

        Raises:
            StorageUnavailable: the database does not answer; what is cut by then stays so.
        """
        await self._cut(self._world.rooms)
        await self._cut(self._world.lobbies)

    async def _cut(self, place: Journalled[Any, Any]) -> None:
        clock = self._world.clock
        retention_seconds = self._world.settings.journal_retention_seconds
        left = deque[str](place.directory.iterate_keys())
        while left:
            keys = [left.popleft() for _ in range(min(KEYS_MAX, len(left)))]
            more = await place.loader.journals.cut(
                place.loader.kind, keys, clock.now(), retention_seconds, ROWS_MAX
            )
            left.extend(key for key in keys if key in more)
            await trio.sleep(PAUSE_SECONDS)
