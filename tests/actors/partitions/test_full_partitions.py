"""A partition with many rooms and lobbies: whoever makes one more moves to an emptier one first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
from shard_kit import Node, come_to, home_of, lobby, open_node, room, shards_of
from trio.testing import MockClock
from world_kit import Arena

from greenroom.actors.flows import partitions
from greenroom.actors.flows.identify import PlayerIdentity
from greenroom.actors.flows.lobbies import create_lobby, leave_lobby, start_lobby
from greenroom.actors.flows.partitions import FEWER_ROOMS_MIN, ROOMS_MAX
from greenroom.actors.flows.rooms import create_room, end_room
from greenroom.actors.kernel.shards import shard_of
from greenroom.actors.player.messages import PlayerMoved
from greenroom.actors.room.rules.refusals import AlreadyInRoom

PARTITIONS = 3


class Stage(NamedTuple):
    """A game of one node, with three partitions."""

    node: Node
    arena: Arena
    shards: tuple[int, ...]

    async def open_room(self, player: PlayerIdentity) -> str:
        world, game = self.node.world, self.arena.game
        return (await create_room(world, game.game, player.player, room())).room_id

    async def open_lobby(self, player: PlayerIdentity) -> str:
        world, game = self.node.world, self.arena.game
        return (await create_lobby(world, game.game, player.player, lobby())).lobby_id

    async def fill(self, shard: int, count: int) -> list[str]:
        """Open so many rooms in a partition that is not full before."""
        return [await self.open_room(await come_to(self.arena, shard)) for _ in range(count)]

    @property
    def rooms_in(self) -> list[int]:
        return [self.node.world.ledger.rooms_in[shard] for shard in self.shards]

    @property
    def moves(self) -> list[PlayerMoved]:
        return [one for one in self.arena.memory.committed if isinstance(one, PlayerMoved)]


@pytest.fixture
async def stage(autojump_clock: MockClock) -> AsyncIterator[Stage]:
    async with open_node(partitions=PARTITIONS) as node:
        arena = await node.add()
        yield Stage(node, arena, shards_of(arena))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have partitions be full with four rooms."""
    monkeypatch.setattr(partitions, "ROOMS_MAX", 4)
    monkeypatch.setattr(partitions, "FEWER_ROOMS_MIN", 2)


async def test_the_301st_room_of_a_partition_is_made_elsewhere(stage: Stage):
    await stage.fill(stage.shards[0], ROOMS_MAX)
    assert stage.rooms_in == [ROOMS_MAX, 0, 0]
    assert stage.moves == []
    host = await come_to(stage.arena, stage.shards[0])
    room_id = await stage.open_room(host)
    assert shard_of(room_id) == stage.shards[1]
    assert home_of(stage.arena, host) == stage.shards[1]
    assert stage.node.world.players.find_shard(host.player_id) == stage.shards[1]
    assert stage.rooms_in == [ROOMS_MAX, 1, 0]


@pytest.mark.usefixtures("small")
async def test_the_emptiest_partition_is_taken_and_lobbies_count_as_rooms_do(stage: Stage):
    full, other, emptiest = stage.shards
    await stage.fill(full, 3)
    await stage.open_lobby(await come_to(stage.arena, full))
    await stage.fill(other, 1)
    assert stage.rooms_in == [4, 1, 0]
    host = await come_to(stage.arena, full)
    assert shard_of(await stage.open_lobby(host)) == emptiest
    assert home_of(stage.arena, host) == emptiest


@pytest.mark.usefixtures("small")
async def test_a_room_that_was_a_lobby_counts_once_and_one_that_has_ended_not_at_all(stage: Stage):
    shard = stage.shards[0]
    host, leaver = await come_to(stage.arena, shard), await come_to(stage.arena, shard)
    await stage.open_lobby(host)
    await start_lobby(stage.node.world, host.player_id)
    await stage.open_lobby(leaver)
    (room_id,) = await stage.fill(shard, 1)
    assert stage.rooms_in == [3, 0, 0]
    await leave_lobby(stage.node.world, leaver.player_id)
    await end_room(stage.node.world, room_id, "stopped")
    assert stage.rooms_in == [1, 0, 0]


@pytest.mark.usefixtures("small")
async def test_nobody_moves_to_a_partition_that_is_hardly_emptier(stage: Stage):
    one, *others = stage.shards
    for shard in others:
        await stage.fill(shard, 3)
    await stage.fill(one, 4)
    host = await come_to(stage.arena, one)
    assert shard_of(await stage.open_room(host)) == one
    assert stage.moves == []
    await stage.open_room(await come_to(stage.arena, one))
    assert stage.rooms_in[0] == 5
    assert len(stage.moves) == 1


@pytest.mark.usefixtures("small")
async def test_nobody_who_has_a_seat_moves(stage: Stage):
    full = stage.shards[0]
    host = await come_to(stage.arena, full)
    await stage.open_room(host)
    await stage.fill(full, 3)
    with pytest.raises(AlreadyInRoom):
        await stage.open_room(host)
    assert stage.moves == []


@pytest.mark.usefixtures("small")
async def test_a_game_with_one_partition_has_no_bound(autojump_clock: MockClock):
    async with open_node() as node:
        arena = await node.add()
        stage = Stage(node, arena, (node.shard_of(arena),))
        await stage.fill(stage.shards[0], 6)
        assert stage.rooms_in == [6]


async def test_a_shard_that_goes_takes_its_count_with_it(stage: Stage):
    shard = stage.shards[0]
    await stage.fill(shard, 2)
    await stage.node.keeper.save([shard])
    stage.node.give(shard)
    assert stage.rooms_in == [0, 0, 0]
    await stage.node.take(shard)
    assert stage.rooms_in == [2, 0, 0]


def test_what_is_emptier_is_so_by_less_than_the_bound():
    assert 0 < FEWER_ROOMS_MIN < ROOMS_MAX
