"""The keeper of rooms: brings them back at the start, writes snapshots, lets go of what has ended.

What is acknowledged is durable without him, in the journal; snapshots only make restarts quick. A
room that has ended stays in memory as long as its realtime tokens would have been good (whoever
brings one, or wants to join, is told so), and in the database until its history is no longer kept.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

import trio

from greenroom.actors.flows.world import World
from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.journal import Snapshot
from greenroom.actors.room import codec
from greenroom.actors.room.messages import TakeSnapshot
from greenroom.actors.room.tokens import TOKEN_SECONDS

_logger = logging.getLogger(__name__)

STOP_SECONDS_MAX: Final = 10.0
"""How long the last snapshots may take when the server stops."""
SLICE: Final = 50
"""So many rooms are dealt with before other tasks get their turn."""


class RoomKeeper:
    """A service; one per world."""

    def __init__(self, world: World) -> None:
        """Prepare; nothing is read before `run`."""
        self._world = world
        self._past: deque[tuple[int, str]] = deque()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bring the rooms back, report started, and keep them until cancelled.

        Raises:
            StorageUnavailable: the database does not answer at the start.
        """
        restored = await self.restore()
        if restored:
            _logger.info("restored %d rooms", restored)
        task_status.started()
        try:
            while True:
                await trio.sleep(self._world.settings.snapshot_seconds)
                await self.save()
                await self.let_go()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_SECONDS_MAX):
                await self.save()

    async def restore(self) -> int:
        """Bring every active room to memory; return how many. One that cannot be read is left.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        rooms, restored, now = self._world.rooms, 0, self._world.clock.now()
        loaded = await rooms.journals.load(codec.KIND)
        for count, (room_id, recovered) in enumerate(loaded.items(), 1):
            try:
                room = codec.restore(recovered)
            except codec.UnreadableRoom:
                _logger.exception("room %s is not restored", room_id)
                continue
            if room is None:
                continue
            if room.ended_at is None or room.ended_at >= now - TOKEN_SECONDS:
                rooms.directory.adopt(room_id, rooms.actor(room))
                restored += room.is_active
            else:
                self._past.append((room.ended_at, room_id))
            if count % SLICE == 0:
                await trio.lowlevel.checkpoint()
        self._past = deque(sorted(self._past))
        return restored

    async def save(self) -> None:
        """Write a snapshot of every room that changed since this was last called.

        What cannot be written now is tried again the next time.
        """
        rooms = self._world.rooms
        changed = rooms.index.take_changed()
        snapshots: list[Snapshot] = []
        try:
            for count, room_id in enumerate(changed, 1):
                room = rooms.directory.active(room_id)
                if room is not None:
                    snapshots.append(await room.ask(TakeSnapshot()))
                if count % SLICE == 0:
                    await rooms.journals.save(snapshots)
                    snapshots.clear()
            await rooms.journals.save(snapshots)
        except ActorUnavailable as error:
            _logger.warning("snapshots of rooms are late: %s", error)
            rooms.index.note_changed(changed)
        except BaseException:
            rooms.index.note_changed(changed)
            raise

    async def let_go(self) -> None:
        """Take ended rooms out of memory, and out of the database when they are history."""
        rooms, now = self._world.rooms, self._world.clock.now()
        for room_id in rooms.index.ended(now - TOKEN_SECONDS):
            if rooms.directory.passivate(room_id):
                rooms.index.forget(room_id)
                self._past.append((now, room_id))
        retention_seconds = self._world.settings.journal_retention_seconds
        while self._past and now - self._past[0][0] >= retention_seconds:
            try:
                await rooms.journals.forget(codec.KIND, self._past[0][1])
            except ActorUnavailable:
                return
            self._past.popleft()
