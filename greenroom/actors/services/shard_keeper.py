"""Brings shards up and lets them go: at the start, when a node takes over, when one hands over.

A server without other nodes brings all up at once, when it starts. Whatever belongs to a shard is
then in memory as if it had always been there. When a shard is let go, nothing of it is left.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import trio

from greenroom.actors.flows.presence import watch_silent_members
from greenroom.actors.flows.spread.copies import drop_own_copies
from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.journal import StoreSnapshot
from greenroom.actors.kernel.shard_ownership import TenureGuard
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.player.messages import SavePresence
from greenroom.actors.services.behaviours import BehaviourService
from greenroom.actors.services.drafts import ShardDrafts
from greenroom.actors.services.read_ahead import read_together
from greenroom.actors.services.residency import check_residency
from greenroom.actors.services.snapshots import SnapshotService
from greenroom.actors.services.sweep import restore_online, save_presence_of
from greenroom.actors.services.usage import UsageService
from greenroom.actors.world.rooms_and_lobbies import Journalled
from greenroom.actors.world.world import World

_logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.02
"""How long to wait between two looks whether a shard is idle."""
CLEARED_SLICE: Final = 50
"""Actors of a shard that has gone that are cleared away before other tasks get their turn."""
CLEAR_AFTER_SECONDS: Final = 0.1
"""How long to wait before that. Calls wait meanwhile until the next owner has the shard."""


class ShardKeeper:
    """The shards of this node; a service, one per world.

    Attributes:
        places: writes snapshots of rooms and lobbies, and deletes what ended long ago.
        usage: counts what games use.
        drafts: what was read of shards that are about to come here.
    """

    def __init__(
        self,
        world: World,
        usage: UsageService,
        places: SnapshotService,
        studio: BehaviourService,
        *,
        undisturbed: Callable[[], AbstractContextManager[None]] = nullcontext,
        brought_up: Callable[[], None] | None = None,
    ) -> None:
        """Prepare; nothing is read before `run` or `bring_up`.

        Args:
            world: where.
            usage: counts what games use.
            places: writes snapshots.
            studio: does what rooms set off.
            undisturbed: makes a context in which much is brought to memory.
            brought_up: called when anything has been brought to memory, which stays for long.
        """
        self._undisturbed = undisturbed
        self._brought_up = brought_up or _nothing
        self.usage = usage
        self.places = places
        self.drafts = ShardDrafts(world)
        self._world = world
        self._studio = studio
        self._partings = deque[Iterator[None]]()
        """The rest of shards that have gone, to be cleared away; each yields between slices."""
        self._clearer = trio.lowlevel.ParkingLot()
        """The task that clears it away, while there is nothing to clear."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Bring up what this node owns, report started, and keep rooms and lobbies.

        What is left in memory of shards that have gone is cleared away meanwhile.

        That is everything where there are no other nodes.

        Raises:
            StorageUnavailable: the database does not answer at the start.
        """
        ownership = self._world.ownership
        own = range(SHARDS) if ownership is None else filter(ownership.owns, range(SHARDS))
        await self.bring_up(list(own))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._clear_for_ever)
            await self.places.run(task_status=task_status)

    async def bring_up(self, shards: Collection[int]) -> None:
        """Bring the rooms, lobbies, online players and usage of these shards to memory.

        What this node loses meanwhile is left out. What is in memory already stays.

        Args:
            shards: which this node owns; their changes must be durable, if it owned them before.

        Raises:
            StorageUnavailable: the database does not answer. Try again, or let them go.

        Cancellation: some may be there.
        """
        with self._undisturbed():
            restored = await self._restore(shards)
            if any(restored):
                _logger.info("restored %d rooms and lobbies, %d online players", *restored)
                self._brought_up()

    async def _restore(self, shards: Collection[int]) -> list[int]:
        """Do what `bring_up` says; return how many rooms and lobbies, and players, have come."""
        self.finish()  # what is cleared away later must not be what comes now
        drop_own_copies(self._world, shards)
        for game_id, partitions in self._world.ledger.spread.items():
            if not set(shards).isdisjoint(partitions):
                self._world.leaderboards.forget_ranks(game_id)  # it must rank these, too
        ownership = self._world.ownership
        guard = TenureGuard(ownership, None if ownership is None else shards)
        drafts = self.drafts.take(shards)
        counts, homes = [0, 0], dict[int, int]()
        games, is_counted = 0, trio.Event()

        async def restore_usage() -> None:
            nonlocal games
            games = await self.usage.restore(guard)
            is_counted.set()

        async def restore_places() -> None:
            await drafts.compare_places(self._world.rooms, self._world.lobbies)
            await is_counted.wait()
            # Without games, too: rooms of games that were deleted may yet have to be forgotten.
            counts[0] = await self.places.restore(guard, drafts)

        async def restore_players() -> None:
            await drafts.compare_players(self._world.accounts)
            await is_counted.wait()
            if games:
                counts[1] = await restore_online(self._world, guard, drafts, homes)

        await read_together(restore_usage, restore_places, restore_players)
        if games:
            await check_residency(self._world, guard, homes)
            await watch_silent_members(self._world, guard)
        return counts

    async def save(self, shards: Collection[int]) -> None:
        """Write what may be written before shards are handed over, so that less is left for then.

        Cancellation: some may be written.
        """
        for shard in shards:
            await self.places.save(shard)
        await self.usage.save(shards)  # once: it writes all games with several partitions
        for shard in shards:
            await save_presence_of(self._world, shard)

    async def wait_idle(self, shard: int, seconds_max: float) -> bool:
        """Wait until all jobs, results and sign-ins are over that are under way in a shard now.

        What begins meanwhile is not waited for: rooms that keep score always have a result under
        way. Return whether all are over.

        Cancellation ends the wait.
        """
        left = self._list_under_way(shard)
        for _ in range(math.ceil(seconds_max / LOOK_SECONDS)):
            if not left:
                return True
            await trio.sleep(LOOK_SECONDS)
            left &= self._list_under_way(shard)
        return not left

    def _list_under_way(self, shard: int) -> set[object]:
        world = self._world
        found = set[object]()
        for game_id in world.ledger.list_games_of(shard):
            found.update((game_id, user) for user in world.platforms.list_signing_in(game_id))
        for room_id in world.rooms.directory.list_keys_of(shard):
            found.update(self._studio.list_under_way(room_id))
        return found

    def set_aside(self, shard: int) -> None:
        """Queue what is in memory alone: signs of life, what ticks have made of rooms, and polls.

        Call it in the step that hands the shard over, before it is handed over. Hold
        `places.writing`: what is on its way to the database counts as written.
        """
        world = self._world
        for player_id in world.player_index.take_unsaved_of(world.players.list_keys_of(shard)):
            world.players.run_now(player_id, SavePresence())
        for room_id in world.rooms.directory.list_keys_of(shard):
            world.rooms.directory.run_now(room_id, StoreSnapshot())

    def let_go(self, shard: int) -> None:
        """Forget a shard that is another node's now, in one step; nothing is written."""
        self.part_with(shard)
        self.finish()

    def part_with(self, shard: int) -> None:
        """Put a shard out of reach that is another node's now, in one step; nothing is written.

        Whoever waits for one of its actors gets `Moved`. Whoever waits until a change is durable
        gets their answer. What its actors have entered in indexes, and count for, is cleared away
        later, by `run` or `finish`. Whoever finds somebody there asks the actor, and gets `Moved`.
        """
        world = self._world
        game_ids = world.ledger.list_games_of(shard)
        gone = [game_id for game_id in game_ids if not self._has_others(game_id, shard)]
        player_ids = set[int](world.players.list_keys_of(shard))
        for directory in self._directories:
            directory.part_with(shard)
        for place in (world.rooms, world.lobbies):
            player_ids |= self._forget_seats(place, shard, game_ids)
        boards = world.leaderboards
        for game_id in game_ids:
            (boards.forget_game if game_id in gone else boards.forget_ranks)(game_id)
        self.places.forget(shard)
        self.usage.let_go(gone)
        self._partings.append(self._clear(player_ids))
        self._clearer.unpark_all()

    def finish(self) -> None:
        """Clear away at once what is left in memory of shards that have gone."""
        while self._partings:
            deque(self._partings[0], maxlen=0)
            self._partings.popleft()

    async def _clear_for_ever(self) -> None:
        """Clear away, in slices, what is left in memory of shards that have gone.

        It waits a little: this machine may be busy with bringing them up in another process.
        """
        while True:
            await trio.sleep(CLEAR_AFTER_SECONDS)
            while self._partings:
                clearing = self._partings[0]
                for _ in clearing:
                    await trio.lowlevel.checkpoint()
                if self._partings and self._partings[0] is clearing:
                    self._partings.popleft()
            await self._clearer.park()

    def _forget_seats(
        self, place: Journalled[Any, Any], shard: int, game_ids: Collection[int]
    ) -> set[int]:
        """Forget the rooms, or the lobbies, of a shard; return who sits there."""
        player_ids = set[int]()
        for key in place.seats.list_keys_of(game_ids):
            if self._world.ledger.get_shard(place.seats.find_game(key) or 0, key) != shard:
                continue  # in another partition of its game
            player_ids |= place.seats.get_members(key)
            place.seats.forget(key)
            self._studio.let_go(key)
        return player_ids

    def _clear(self, player_ids: Collection[int]) -> Iterator[None]:
        """Clear away what actors of a shard that has gone have entered in indexes."""
        world = self._world
        for directory in self._directories:
            while directory.stop_parted(CLEARED_SLICE):
                yield
        departed = [i for i in player_ids if world.players.find_active(i) is None]
        world.player_index.forget_departures(departed)

    @property
    def _directories(self) -> tuple[Directory[Any], ...]:
        world = self._world
        return (
            *(world.rooms.directory, world.lobbies.directory, world.players),
            *(world.friendships.directory, world.games),
        )

    def _has_others(self, game_id: int, shard: int) -> bool:
        """Return whether this node owns a partition of a game besides a shard that goes."""
        ownership, shards = self._world.ownership, self._world.ledger.find_shards(game_id)
        return ownership is not None and any(
            ownership.owns(other) for other in shards if other != shard
        )


def _nothing() -> None:
    """Do nothing."""
