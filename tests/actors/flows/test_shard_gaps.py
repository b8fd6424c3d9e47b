"""How much is written and read while the players of a shard wait for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

import pytest
import trio
from furnished_kit import NOTHING
from shard_kit import Node, come, open_node, room
from trio.testing import MockClock

from greenroom import actor_settings
from greenroom.actors.flows.presence import log_out
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.player.messages import Heartbeat, Player, PlayerPresenceSaved
from greenroom.actors.services.sweep import RESTORE_PAGE, sweep


@pytest.fixture
async def node(autojump_clock: MockClock) -> AsyncIterator[Node]:
    async with open_node() as node:
        yield node


async def test_signs_of_life_are_written_ahead_and_the_deciding_step_has_the_rest(
    node: Node, autojump_clock: MockClock
) -> None:
    arena = await node.add()
    early, late = await come(arena), await come(arena)
    await trio.sleep(60)
    for player in (early, late):
        await player.player.ask(Heartbeat())
    await node.keeper.save([node.shard_of(arena)])
    assert arena.memory.players[early.player_id].last_heartbeat == node.world.clock.now()
    await trio.sleep(1)
    now = await late.player.ask(Heartbeat())
    written = len(arena.memory.committed)
    node.give(node.shard_of(arena))
    saved = [e for e in arena.memory.committed[written:] if isinstance(e, PlayerPresenceSaved)]
    assert [(event.player_id, event.last_heartbeat) for event in saved] == [(late.player_id, now)]


async def test_who_cannot_be_heard_while_no_node_has_their_shard_keeps_their_seat(
    node: Node, autojump_clock: MockClock
) -> None:
    """Neither silence nor grace goes on meanwhile: both begin anew when the shard is back."""
    arena, world, limits = await node.add(), node.world, actor_settings.room_limits()
    host, guest = await come(arena), await come(arena)
    room_id = (await create_room(world, arena.game.game, host.player, room())).room_id
    await join_room(world, arena.game.game_id, guest.player, room_id, NOTHING)
    await log_out(world, arena.game.game_id, guest.player)
    assert world.rooms.index.is_offline(guest.player_id)
    node.give(node.shard_of(arena))
    await trio.sleep(10 * limits.idle_seconds_max)
    await node.take(node.shard_of(arena))
    await sweep(world)
    assert world.player_index.is_online(host.player_id)
    await trio.sleep(limits.seat_grace_seconds - 2)
    assert world.rooms.index.get_members(room_id) == {host.player_id, guest.player_id}
    await trio.sleep(4)
    assert world.rooms.index.get_members(room_id) == {host.player_id}


async def test_how_often_a_shard_is_read_depends_on_pages_alone(
    node: Node, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena, pages, load = await node.add(), 0, node.memory.load_online_players

    async def count(after_id: int, limit: int, shards: Collection[int] | None) -> list[Player]:
        nonlocal pages
        pages += 1
        return await load(after_id, limit, shards)

    monkeypatch.setattr(node.memory, "load_online_players", count)
    for _ in range(2 * RESTORE_PAGE + 1):
        await come(arena)
    shard = node.shard_of(arena)
    await node.keeper.save([shard])
    node.give(shard)
    node.memory.reads.clear()
    await node.take(shard)
    assert len(node.world.players) == 2 * RESTORE_PAGE + 1
    assert pages == 4  # the last one is empty
    assert len(node.memory.reads) == 1
    await node.take((shard + 1) % SHARDS)
    assert pages == 4, "no game lives there, so nobody can be online"
