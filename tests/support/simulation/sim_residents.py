"""The actors of a simulated node by shard: the real ones, over a storage that is simulated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sim_storage import NodeStore

from greenroom.actors.services.shard_keeper import ShardKeeper
from greenroom.actors.world.world import World
from greenroom.cluster.residents import PartedShards, WorldResidents
from greenroom.transport.hub import Hub


class SimResidents(WorldResidents):
    """Calls `at_step` at each step of a hand-over."""

    def __init__(self, world: World, keeper: ShardKeeper, store: NodeStore, hub: Hub) -> None:
        super().__init__(world, keeper, store.storage, hub)
        self.at_step: Callable[[str], None] = lambda _: None

    async def prepare(self, shards: Sequence[int]) -> None:
        self.at_step("prepare")
        await super().prepare(shards)

    async def say_goodbye(self, shards: Sequence[int]) -> None:
        self.at_step("goodbye")
        await super().say_goodbye(shards)

    def hand_over(self, epochs: Mapping[int, int], to_node: int) -> PartedShards:
        parted = super().hand_over(epochs, to_node)
        self.at_step("queued")
        return SteppedParting(parted, self)


class SteppedParting(PartedShards):
    """Shards on their way to another node, which tell when that is durable."""

    def __init__(self, parted: PartedShards, residents: SimResidents) -> None:
        super().__init__(parted._waits, parted.audiences)
        self._residents = residents

    async def settle(self) -> Collection[int]:
        gone = await super().settle()
        self._residents.at_step("durable")
        return gone
