"""The actors of this node by shard, and the connections of their players: `Residents`."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import trio

from greenroom.actors.kernel.directory import Directory
from greenroom.actors.kernel.errors import ActorCrashed, CommitUnsettled, Moved, StorageUnavailable
from greenroom.actors.services.shard_keeper import ShardKeeper
from greenroom.actors.world.world import World
from greenroom.cluster.news import AUDIENCES_BYTES_MAX
from greenroom.persistence.storage import Storage
from greenroom.transport.connection import OVERLOAD
from greenroom.transport.hub import Hub

_logger = logging.getLogger(__name__)

JOBS_SECONDS_MAX: Final = 6.0
"""How long a hand-over waits for jobs and sign-ins. What is not done by then begins anew there."""
COUNTED_AT_ONCE: Final = 32
"""Shards whose turns are counted before other tasks run."""
GOODBYE_SECONDS_MAX: Final = 0.05
"""How long members are still served after they were asked to come back."""


class PartedShards:
    """Shards that have left memory; see `Parted`."""

    def __init__(
        self, waits: Mapping[int, Callable[[float], Awaitable[None]]], audiences: Sequence[bytes]
    ) -> None:
        """Hold what waits until each shard is durably another's, and the audiences."""
        self._waits = waits
        self.audiences = audiences

    async def settle(self) -> Collection[int]:
        """See `Parted`."""
        gone: list[int] = []
        for shard, wait in self._waits.items():
            try:
                await wait(math.inf)
            except (ActorCrashed, CommitUnsettled) as error:
                _logger.warning("shard %d could not be handed over: %s", shard, error)
            else:
                gone.append(shard)
        return gone


class WorldResidents:
    """A world, its storage and its hub, by shard."""

    def __init__(self, world: World, keeper: ShardKeeper, storage: Storage, hub: Hub) -> None:
        """Prepare.

        Args:
            world: where the actors are.
            keeper: brings shards up and lets them go.
            storage: makes their changes durable; its session knows what this node owns.
            hub: the connections of rooms' members.
        """
        self._world = world
        self._keeper = keeper
        self._storage = storage
        self._hub = hub

    async def bring_up(self, epochs: Mapping[int, int]) -> None:
        """See `Residents`."""
        self._keeper.finish()  # before one of them, or another of their games', is here again
        self._storage.session.gain(dict(epochs))
        await self._storage.committer.flush()  # we may have owned them a moment ago
        await self._keeper.bring_up(list(epochs))

    async def read_ahead(self, shards: Sequence[int]) -> None:
        """See `Residents`."""
        await self._keeper.drafts.read(shards)

    def tidy(self) -> None:
        """See `Residents`."""
        self._keeper.drafts.forget_old()

    def suspend(self, shards: Sequence[int]) -> None:
        """See `Residents`."""
        self.let_go(shards)
        self._hub.close_all(OVERLOAD, "Overload")

    def let_go(self, shards: Sequence[int]) -> None:
        """See `Residents`."""
        for shard in shards:
            self._storage.session.shards.lose(shard)
            self._keeper.let_go(shard)

    def is_empty(self, shard: int) -> bool:
        """See `Residents`."""
        return not any(directory.has_any(shard) for directory in self._directories)

    def count_actors(self, shard: int) -> int:
        """See `Residents`."""
        return sum(len(directory.list_keys_of(shard)) for directory in self._directories)

    @property
    def _directories(self) -> tuple[Directory[Any], ...]:
        """Return who can be in a shard, so that it is not empty."""
        world = self._world
        return (world.rooms.directory, world.lobbies.directory, world.players)

    def count_rooms(self) -> dict[int, int]:
        """See `Residents`."""
        ledger = self._world.ledger
        if not ledger.spread:
            return {}
        return {shard: rooms for shard, rooms in ledger.rooms_in.items() if rooms}

    async def count_turns(self, shards: Iterable[int]) -> dict[int, int]:
        """Return how many turns the actors of each shard have had here, by shard.

        It reads what actors count anyway, some shards at a time, and other tasks run in between.
        """
        world = self._world
        directories: tuple[Directory[Any], ...] = (
            *(world.rooms.directory, world.lobbies.directory, world.players, world.games),
            world.friendships.directory,
        )
        turns: dict[int, int] = {}
        for number, shard in enumerate(shards, 1):
            turns[shard] = sum(directory.count_turns(shard) for directory in directories)
            if number % COUNTED_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        return turns

    async def prepare(self, shards: Sequence[int]) -> None:
        """See `Residents`."""
        await self._keeper.save(shards)
        await self._storage.committer.flush()  # so that little is written while everybody waits
        async with trio.open_nursery() as nursery:
            for shard in shards:
                nursery.start_soon(self._keeper.wait_idle, shard, JOBS_SECONDS_MAX)

    async def say_goodbye(self, shards: Sequence[int]) -> None:
        """See `Residents`."""
        self._hub.ask_to_come_back(self._list_rooms(shards))
        await self._hub.wait_parted(GOODBYE_SECONDS_MAX)

    @property
    def writing(self) -> trio.Lock:
        """See `Residents`."""
        return self._keeper.places.writing

    def hand_over(self, epochs: Mapping[int, int], to_node: int) -> PartedShards:
        """See `Residents`."""
        committer, session = self._storage.committer, self._storage.session
        if not committer.is_open:
            raise StorageUnavailable("the database is away")
        if not all(map(session.shards.owns, epochs)):
            raise Moved("a shard is another node's already")
        room_ids = list(self._list_rooms(epochs))
        for shard in epochs:
            self._keeper.set_aside(shard)
        waits: dict[int, Callable[[float], Awaitable[None]]] = {}
        for shard, epoch in epochs.items():  # one by one: a game goes with its last partition
            waits[shard] = committer.hand_over(shard, epoch, to_node)
            self._keeper.part_with(shard)
        return PartedShards(waits, self._hub.export(room_ids, AUDIENCES_BYTES_MAX))

    def adopt(self, audiences: bytes) -> None:
        """See `Residents`; what cannot be read is left out, and its members are told of a gap."""
        try:
            self._hub.adopt(audiences)
        except msgspec.DecodeError as error:
            _logger.warning("audiences of another node cannot be read: %s", error)

    def _list_rooms(self, shards: Iterable[int]) -> Iterable[str]:
        for shard in shards:
            yield from self._world.rooms.directory.list_keys_of(shard)
