"""Players who had moved here from a node that ended before it could tell: they are found again."""

from __future__ import annotations

import logging

import trio

from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.shard_ownership import TenureGuard
from greenroom.actors.services.sweep import restore_online
from greenroom.actors.world.world import World

_logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class Strays:
    """Looks for players of this node who are not in memory, whenever another node has ended."""

    def __init__(self, world: World) -> None:
        """Prepare for a world."""
        self._world = world
        self._ended = trio.Event()

    def note_gone(self, _node_id: int) -> None:
        """Take note that a node has ended: what it wrote is there, and it writes no more."""
        self._ended.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Look after each end of a node, until cancelled."""
        task_status.started()
        while True:
            await self._ended.wait()
            self._ended = trio.Event()
            while True:
                try:
                    await find_strays(self._world)
                    break
                except ActorUnavailable as error:
                    _logger.debug("players who came cannot be read: %s", error)
                await trio.sleep(RETRY_SECONDS)


async def find_strays(world: World) -> None:
    """Load online players of this node's partitions, and have leaderboards made anew.

    Nothing is done about games that have one partition.

    Raises:
        StorageUnavailable: the database does not answer.

    Cancellation: some are loaded.
    """
    ownership = world.ownership
    if ownership is None:
        return
    own = {
        game_id: [*filter(ownership.owns, shards)]
        for game_id, shards in world.ledger.spread.items()
    }
    for game_id in [game_id for game_id, shards in own.items() if shards]:
        world.leaderboards.forget_ranks(game_id)
    shards = {shard for some in own.values() for shard in some}
    if shards:
        await restore_online(world, TenureGuard(ownership, shards))
