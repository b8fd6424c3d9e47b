"""Restores rooms and lobbies, writes snapshots, and deletes what ended long ago.

What is acknowledged is durable in the journal without this service; snapshots only make restarts
quick. A room that has ended stays in memory as long as its realtime tokens would have been good. So
clients that use one, or want to join, are told that it has ended. In the database it stays until
its history is no longer kept.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import trio

from greenroom.actors.kernel.errors import ActorUnavailable, Moved
from greenroom.actors.kernel.journal import Recovered, Snapshot, TakeSnapshot
from greenroom.actors.kernel.journal_codec import UnreadableJournal
from greenroom.actors.kernel.shard_ownership import ALONE, TenureGuard
from greenroom.actors.lobby.messages import EndLobby
from greenroom.actors.room.messages import LookAtClock
from greenroom.actors.services.drafts import NO_DRAFTS, TakenDrafts
from greenroom.actors.services.expiry import EndedPlaces
from greenroom.actors.services.read_ahead import read_places, split_keys
from greenroom.actors.world.loaders import JournalLoader
from greenroom.actors.world.rooms_and_lobbies import Journalled
from greenroom.actors.world.world import World

_logger = logging.getLogger(__name__)

STOP_SECONDS_MAX: Final = 10.0
"""How long the last snapshots may take when the server stops."""
SLICE: Final = 50
"""Rooms and lobbies that are dealt with before other tasks get their turn."""
SLICE_BYTES: Final = 512 << 10
"""Snapshots of so many bytes likewise."""


class SnapshotService:
    """A service; one per world."""

    def __init__(self, world: World) -> None:
        """Prepare; nothing is read before `restore`."""
        self._world = world
        self._ended = EndedPlaces()
        self.writing = trio.Lock()
        """Held while snapshots are on their way to the database. Whoever holds it knows that all
        that counts as unchanged is durable."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep rooms and lobbies until cancelled."""
        task_status.started()
        try:
            while True:
                await trio.sleep(self._world.settings.snapshot_seconds)
                await self.save()
                await self.let_go()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_SECONDS_MAX):
                await self.save()

    @property
    def _places(self) -> tuple[Journalled[Any, Any], ...]:
        """Return rooms, and lobbies, which may have become one of them."""
        return (self._world.rooms, self._world.lobbies)

    async def restore(self, guard: TenureGuard = ALONE, drafts: TakenDrafts = NO_DRAFTS) -> int:
        """Bring all that is active to memory; return how many. What cannot be read is left.

        Args:
            guard: of which shards.
            drafts: what was read of them ahead, and compared.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        returning = _Returning(guard, self._world.clock.now())
        self._ended.forget(guard.shards)
        for place in self._places:
            await self._restore(place, returning, drafts)
        for at, shard, kind, key in sorted(returning.past):
            if guard.holds(shard):
                self._ended.add(shard, at, kind, key)
        return returning.restored

    @staticmethod
    async def _restore(
        place: Journalled[Any, Any], returning: _Returning, drafts: TakenDrafts
    ) -> None:
        loader = place.loader
        ready, keys = drafts.find_places(loader.kind)
        for count, draft in enumerate(ready, 1):
            returning.take(place, *draft)
            if count % SLICE == 0:
                await trio.lowlevel.checkpoint()
        rest = drafts.find_rest(returning.guard.shards)
        if rest is None or rest:
            keys = [*keys, *await loader.journals.list_keys(loader.kind, rest)]

        def take(loaded: Mapping[str, Recovered]) -> None:
            for state in _states(loader, loaded):
                returning.take(place, *state)

        await read_places(loader.journals, loader.kind, split_keys(keys), take)

    async def save(self, shard: int | None = None) -> None:
        """Write a snapshot of all that changed since this was last called.

        What cannot be written now is tried again the next time.

        Args:
            shard: only of what lives there; None for everything.
        """
        for place in self._places:
            left = deque(place.seats.list_changed(self._list_keys(place, shard)))
            while left and await self._save_slice(place, left):
                pass

    @staticmethod
    def _list_keys(place: Journalled[Any, Any], shard: int | None) -> list[str] | None:
        return None if shard is None else place.directory.list_keys_of(shard)

    async def _save_slice(self, place: Journalled[Any, Any], left: deque[str]) -> bool:
        """Write snapshots of the first ones of a queue; return whether the database takes more."""
        taken: list[str] = []
        async with self.writing:
            try:
                await place.loader.journals.save(await self._take_slice(place, left, taken))
            except ActorUnavailable as error:
                _logger.warning("snapshots of a %s are late: %s", place.loader.kind, error)
                place.seats.note_changed(taken)
                return False
            except BaseException:
                place.seats.note_changed(taken)
                raise
        return True

    async def _take_slice(
        self, place: Journalled[Any, Any], left: deque[str], taken: list[str]
    ) -> list[Snapshot]:
        """Return snapshots of the first ones of a queue; add their keys to `taken` before each."""
        snapshots: list[Snapshot] = []
        size = 0
        while left and len(taken) < SLICE and size < SLICE_BYTES:
            key = left.popleft()
            taken += place.seats.take_changed((key,))
            snapshot = await self._take_snapshot(place, key)
            if snapshot is not None:
                snapshots.append(snapshot)
                size += len(snapshot.payload)
        return snapshots

    @staticmethod
    async def _take_snapshot(place: Journalled[Any, Any], key: str) -> Snapshot | None:
        """Return the snapshot of one that is in memory, None for others."""
        actor = place.directory.find_active(key)
        if actor is None:
            return None
        try:
            snapshot: Snapshot = await actor.ask(TakeSnapshot())
        except Moved:
            return None
        return snapshot

    def forget(self, shard: int) -> None:
        """Forget what has ended in a shard that is another node's now."""
        self._ended.forget((shard,))

    async def let_go(self) -> None:
        """Take what has ended out of memory, and out of the database when it is history."""
        world, now = self._world, self._world.clock.now()
        for lobby_id, room_id in world.lobbies.index.list_started():
            game_id = world.lobbies.index.find_game(lobby_id) or 0
            if not world.is_here(game_id, lobby_id):
                continue  # its room may just be on its way to memory
            if not world.rooms.index.is_active(room_id):
                world.lobbies.directory.get_ref(lobby_id).notify(EndLobby("room_ended"))
        for room_id in world.rooms.index.list_expected():
            world.rooms.directory.get_ref(room_id).notify(LookAtClock())  # which has it loaded
        for place in self._places:
            for key in place.seats.list_ended_before(now - place.loader.linger_seconds):
                shard = self._find_shard(place, key)
                if place.directory.passivate(key):
                    place.seats.forget(key)
                    self._ended.add(shard, now, place.loader.kind, key)
        until = now - world.settings.journal_retention_seconds
        while (oldest := self._ended.find_first(until)) is not None:
            shard, kind, key = oldest
            try:
                await world.rooms.loader.journals.forget(kind, key)
            except ActorUnavailable:
                return
            self._ended.drop(shard, key)

    def _find_shard(self, place: Journalled[Any, Any], key: str) -> int:
        """Return where one in memory lives."""
        game_id = place.seats.find_game(key)
        return 0 if game_id is None else self._world.ledger.get_shard(game_id, key)


class _Returning:
    """The rooms and lobbies that are being brought to memory."""

    def __init__(self, guard: TenureGuard, now: int) -> None:
        """Begin with none.

        Args:
            guard: of which shards they are.
            now: Unix seconds.
        """
        self.guard = guard
        self.restored = 0
        """How many have come that have not ended."""
        self.past: list[tuple[int, int, str, str]] = []
        """When, and in which shard, those ended that need not come; and their kinds and keys."""
        self._now = now

    def take(self, place: Journalled[Any, Any], key: str, shard: int, state: Any) -> None:
        """Bring one to memory that has not ended long ago, if its shard is still this node's."""
        loader = place.loader
        if state.ended_at is not None and state.ended_at < self._now - loader.linger_seconds:
            self.past.append((state.ended_at, shard, loader.kind, key))
        elif self.guard.holds(shard):
            with suppress(Moved):  # its game is being deleted
                place.directory.adopt(key, loader.make_actor(state))
                self.restored += state.is_active


def _states(
    loader: JournalLoader[Any, Any], loaded: Mapping[str, Recovered]
) -> Iterator[tuple[str, int, Any]]:
    """Give the key, the shard and the state of each that can be read and that there is."""
    for key, recovered in loaded.items():
        try:
            state = loader.restore(recovered)
        except UnreadableJournal:
            _logger.exception("%s %s is not restored", loader.kind, key)
            continue
        if state is not None:
            yield key, recovered.shard, state
