"""A log-out while its shard goes to another node."""

from __future__ import annotations

import pytest
import trio
from shard_kit import come, open_node, room
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.actors.flows.presence import log_out
from greenroom.actors.flows.rooms import create_room
from greenroom.actors.kernel.errors import Moved


async def test_a_log_out_whose_shard_goes_meanwhile_is_to_be_done_by_the_next_owner(
    autojump_clock: MockClock,
):
    async with open_node() as node:
        arena = await node.add()
        host = await come(arena)
        await create_room(arena.world, arena.game.game, host.player, room())
        node.memory.automatic = False
        refused: list[bool] = []

        async def leave() -> None:
            with pytest.raises(Moved) as moved:
                await log_out(arena.world, arena.game.game_id, host.player)
            refused.append(moved.value.has_begun)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            await wait_all_tasks_blocked()
            assert node.memory.pending
            node.give(node.shard_of(arena))
            node.memory.commit()
        assert refused == [True], "the next owner tells the room; who gives up says: perhaps"
