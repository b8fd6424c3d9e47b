"""Behaviours reloaded while rooms play: `greenroom serve --reload`, for development."""

from __future__ import annotations

import logging

import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.room.studio_messages import ReloadBehaviour, Reloaded
from greenroom.actors.services.behaviours import BehaviourService
from greenroom.behaviour import BehaviourBug
from greenroom.behaviour.errors import shown

LOOK_SECONDS = 1.0
SETTLE_SECONDS = 0.1
"""Files that are being written are left alone until they have not changed for so long."""
SETTLE_LOOKS_MAX = 50

_logger = logging.getLogger(__name__)


class Reloader:
    """Looks for changed files of behaviours, and has rooms go on with what is in them.

    All of a studio's modules are imported anew together, so that they fit each other; if one of
    them is broken, nothing changes, and the error is logged.
    """

    def __init__(self, studio: BehaviourService) -> None:
        """Take note of how the files are now.

        Args:
            studio: whose behaviours; they have just been loaded.
        """
        self._studio = studio
        self._seen = studio.sources.read_stamps()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look once a second, until cancelled."""
        task_status.started()
        while True:
            await trio.sleep(LOOK_SECONDS)
            if await self._has_changed():
                await self._reload()

    async def _has_changed(self) -> bool:
        """Return whether any file has since this was last asked, and is written to the end."""
        before, self._seen = self._seen, await self._look()
        if self._seen == before:
            return False
        for _ in range(SETTLE_LOOKS_MAX):
            await trio.sleep(SETTLE_SECONDS)
            last, self._seen = self._seen, await self._look()
            if self._seen == last:
                break
        return True

    async def _look(self) -> dict[str, tuple[int, int]]:
        return await trio.to_thread.run_sync(self._studio.sources.read_stamps)

    async def _reload(self) -> None:
        try:
            self._studio.reload()
        except BehaviourBug as error:
            why = shown(error, str)  # the line itself says it, not only the end of a long stack
            _logger.exception("behaviours stay as they were: %s", why)
            return
        room_ids = list(self._studio.rooms.iterate_keys())
        replies = [await self._hand_over(room_id) for room_id in room_ids]
        new, old = replies.count("new code"), replies.count("old code")
        stuck = f", with the old code: {old}" if old else ""
        _logger.info("behaviours reloaded; rooms that go on with them: %d%s", new, stuck)

    async def _hand_over(self, room_id: str) -> Reloaded | None:
        """Have a room go on with other code; return what it says, None if it says nothing."""
        room = self._studio.rooms.get_ref(room_id)
        try:
            return await room.ask(ReloadBehaviour())
        except ActorUnavailable as error:
            _logger.warning("room %s goes on with old code: %s", room_id, error)
            return None
