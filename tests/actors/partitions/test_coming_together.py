"""Actors that come to memory together, and those that are back before others were cleared away."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
import trio
from shard_kit import Node, come, open_node
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.actors.kernel.errors import Moved
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.index import PlayerIndex
from greenroom.actors.player.messages import ReadPlayerDocument, ReplacePlayerDocument


@pytest.fixture
async def node(autojump_clock: MockClock) -> AsyncIterator[Node]:
    async with open_node() as node:
        yield node


async def test_who_is_in_memory_stays_as_they_are_when_others_come_together(
    node: Node, autojump_clock: MockClock
):
    arena = await node.add()
    world, shard = node.world, node.shard_of(arena)
    present, newcomer = await come(arena), await come(arena)
    players = [arena.memory.players[one.player_id] for one in (present, newcomer)]
    world.players.drop(newcomer.player_id)
    await present.player.ask(ReplacePlayerDocument(b'{"newer":1}'))
    online = world.ledger.get_game_usage(arena.game.game_id).players_online
    old = [msgspec.structs.replace(player, player_data=b"{}") for player in players]
    index, clock = world.player_index, world.clock
    world.players.adopt_together({p.player_id: PlayerActor(p, index, clock) for p in old}, shard)
    assert (await present.player.ask(ReadPlayerDocument())).player_data == b'{"newer":1}'
    assert index.find(players[1].token_hash) == newcomer.player_id
    assert world.ledger.get_game_usage(arena.game.game_id).players_online == online + 1
    world.players.drop(newcomer.player_id)
    node.owned.lose(shard)
    actor = PlayerActor(old[1], index, clock)
    with pytest.raises(Moved):
        world.players.adopt_together({newcomer.player_id: actor}, shard)
    assert index.find(players[1].token_hash) is None


async def test_an_actor_that_is_back_before_it_was_cleared_away_stays_in_the_index(
    node: Node, autojump_clock: MockClock
):
    """A player may have come to another partition of this node meanwhile."""
    arena = await node.add()
    world, shard = node.world, node.shard_of(arena)
    player = arena.memory.players[(await come(arena)).player_id]
    world.players.part_with(shard)
    actor = PlayerActor(player, world.player_index, world.clock)
    world.players.adopt(player.player_id, actor, shard=shard)
    while world.players.stop_parted(10):
        pass
    assert world.player_index.find(player.token_hash) == player.player_id
    assert world.player_index.is_online(player.player_id)


async def test_an_actor_that_is_back_before_its_last_change_is_durable_waits_for_that(
    node: Node, autojump_clock: MockClock
):
    arena = await node.add()
    player, shard = await come(arena), node.shard_of(arena)
    index, clock = node.world.player_index, node.world.clock
    read = msgspec.structs.replace(arena.memory.players[player.player_id])
    old = PlayerActor(read, index, clock)
    arena.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(player.player.ask, ReplacePlayerDocument(b'{"newer":1}'))
        await wait_all_tasks_blocked()
        node.part_with(shard)
        node.owned.gain(shard, 5_000)
        node.world.players.adopt_together({player.player_id: old}, shard)
        arena.memory.automatic = True
        arena.memory.commit()
    await node.keeper.bring_up([shard])
    assert (await player.player.ask(ReadPlayerDocument())).player_data == b'{"newer":1}'


async def test_players_whom_a_bug_keeps_from_coming_together_come_one_by_one(
    node: Node, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
):
    arena = await node.add()
    player, shard = await come(arena), node.shard_of(arena)
    token_hash = arena.memory.players[player.player_id].token_hash
    node.part_with(shard)
    node.owned.gain(shard, 5_000)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(PlayerIndex, "enter_together", fail)
        await node.keeper.bring_up([shard])
    assert node.world.player_index.find(token_hash) == player.player_id
    assert (await player.player.ask(ReadPlayerDocument())).player_data == b'{"score":3}'
