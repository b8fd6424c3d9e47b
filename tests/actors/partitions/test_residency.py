"""Rows that were changed by hand, and actors left behind: a bring-up finds them, and mends them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import trio
from furnished_kit import NOTHING
from shard_kit import Node, come_to, lobby, open_node, room, shards_of
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import Arena

from greenroom.actors.flows.identify import PlayerIdentity
from greenroom.actors.flows.lobbies import create_lobby, join_lobby
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.player.messages import DescribePlayer, LogOut

PARTITIONS = 4


class Stage(NamedTuple):
    """A game, and two of its partitions, both of one node."""

    node: Node
    arena: Arena
    here: int
    there: int

    def rewrite(self, player: PlayerIdentity, shard: int) -> None:
        """Change by hand where the row of a player says that they live."""
        self.arena.memory.players[player.player_id].shard = shard

    async def bring_up(self, shard: int) -> None:
        """Hand a shard over, and have it back."""
        await self.node.keeper.save([shard])
        self.node.give(shard)
        await self.node.take(shard)

    @property
    def found(self) -> dict[tuple[str, str], int]:
        return dict(self.node.world.misplaced)

    async def seat_two(self) -> tuple[PlayerIdentity, PlayerIdentity, str]:
        """Seat a host and a guest in a room."""
        world, game = self.node.world, self.arena.game
        host, guest = [await come_to(self.arena, self.here) for _ in range(2)]
        room_id = (await create_room(world, game.game, host.player, room())).room_id
        await join_room(world, game.game_id, guest.player, room_id, NOTHING)
        return host, guest, room_id


@pytest.fixture
async def stage(autojump_clock: MockClock) -> AsyncIterator[Stage]:
    async with open_node(partitions=PARTITIONS) as node:
        arena = await node.add()
        here, there = shards_of(arena)[1:3]
        yield Stage(node, arena, here, there)


async def test_nothing_is_found_where_all_is_well(stage: Stage):
    await stage.seat_two()
    for shard in (stage.here, stage.there):
        await stage.bring_up(shard)
    assert stage.found == {}


@pytest.mark.parametrize("is_online", [True, False])
async def test_a_member_whose_row_is_in_another_partition_loses_their_seat(
    stage: Stage, caplog: pytest.LogCaptureFixture, is_online: bool
):
    host, guest, room_id = await stage.seat_two()
    if not is_online:
        await guest.player.ask(LogOut())
    stage.rewrite(guest, stage.there)
    with caplog.at_level(logging.ERROR):
        await stage.bring_up(stage.here)
    seats = stage.node.world.seats
    assert not seats.is_seated(guest.player_id)
    assert seats.find_room(host.player_id) == room_id
    assert stage.found == {("seat", "mended"): 1}
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"player {guest.player_id} sat in room {room_id}" in line
    await stage.bring_up(stage.here)  # that they have left is durable
    assert stage.found == {("seat", "mended"): 1}


async def test_whoever_was_put_out_plays_on_where_they_live(stage: Stage):
    _, guest, _ = await stage.seat_two()
    stage.rewrite(guest, stage.there)
    await stage.bring_up(stage.here)
    world = stage.node.world
    await world.players.get_ref(guest.player_id).ask(DescribePlayer())
    assert world.players.find_shard(guest.player_id) == stage.there
    await create_room(world, stage.arena.game.game, world.players.get_ref(guest.player_id), room())


async def test_a_member_of_a_lobby_is_put_out_likewise(stage: Stage):
    world, game = stage.node.world, stage.arena.game
    host, guest = [await come_to(stage.arena, stage.here) for _ in range(2)]
    lobby_id = (await create_lobby(world, game.game, host.player, lobby())).lobby_id
    await join_lobby(world, game.game_id, guest.player, lobby_id, NOTHING)
    stage.rewrite(guest, stage.there)
    await stage.bring_up(stage.here)
    assert not world.seats.is_seated(guest.player_id)
    assert world.seats.find_lobby(host.player_id) == lobby_id
    assert stage.found == {("seat", "mended"): 1}


async def test_a_member_without_a_row_is_put_out(stage: Stage):
    host, guest, _ = await stage.seat_two()
    del stage.arena.memory.players[guest.player_id]
    await stage.bring_up(stage.here)
    assert not stage.node.world.seats.is_seated(guest.player_id)
    assert stage.node.world.seats.is_seated(host.player_id)
    assert stage.found == {("seat", "mended"): 1}


async def test_a_seat_that_cannot_be_freed_is_told_and_harms_nobody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    host, guest, room_id = await stage.seat_two()
    stage.rewrite(guest, stage.there)
    memory = stage.arena.memory
    stage.node.give(stage.here)
    with monkeypatch.context() as patching:
        patching.setattr(type(memory), "is_open", False)  # it takes no changes, and can be read
        await stage.node.take(stage.here)
    assert stage.found == {("seat", "refused"): 1}
    assert stage.node.world.seats.find_room(host.player_id) == room_id
    await stage.bring_up(stage.here)
    assert stage.found == {("seat", "refused"): 1, ("seat", "mended"): 1}
    assert not stage.node.world.seats.is_seated(guest.player_id)


async def test_a_player_in_memory_elsewhere_than_their_row_says_is_loaded_anew(stage: Stage):
    player = await come_to(stage.arena, stage.here)
    stage.rewrite(player, stage.there)
    await stage.bring_up(stage.there)
    players = stage.node.world.players
    assert players.find_shard(player.player_id) == stage.there
    assert (await players.get_ref(player.player_id).ask(DescribePlayer())).shard == stage.there
    assert stage.found == {("memory", "mended"): 1}


async def test_several_are_loaded_anew_at_the_same_time(stage: Stage):
    for _ in range(12):
        stage.rewrite(await come_to(stage.arena, stage.here), stage.there)
    memory = stage.arena.memory
    await stage.node.keeper.save([stage.there])
    stage.node.give(stage.there)
    memory.read_seconds, before, began = 1.0, len(memory.reads), trio.current_time()
    await stage.node.take(stage.there)
    assert stage.found == {("memory", "mended"): 12}
    others = len(memory.reads) - before - 12
    assert trio.current_time() - began < others + 12 / 2


async def test_they_lose_a_seat_in_the_partition_where_they_do_not_live(stage: Stage):
    host, guest, room_id = await stage.seat_two()
    stage.rewrite(guest, stage.there)
    await stage.bring_up(stage.there)
    world = stage.node.world
    assert world.players.find_shard(guest.player_id) == stage.there
    assert not world.seats.is_seated(guest.player_id)
    assert world.seats.find_room(host.player_id) == room_id
    assert stage.found == {("memory", "mended"): 1, ("seat", "mended"): 1}


async def test_a_player_of_a_shard_that_is_not_ours_is_dropped(stage: Stage):
    player, other = await come_to(stage.arena, stage.here), await come_to(stage.arena, stage.there)
    stage.node.owned.lose(stage.here)  # and nobody lets go of it
    await stage.bring_up(stage.there)
    players = stage.node.world.players
    assert players.find_active(player.player_id) is None
    assert players.find_active(other.player_id) is not None
    assert stage.found == {("memory", "mended"): 1}


async def test_who_is_dropped_is_read_only_once_their_changes_are_durable(stage: Stage):
    player = await come_to(stage.arena, stage.here)
    players, memory = stage.node.world.players, stage.arena.memory
    memory.automatic = False
    players.run_now(player.player_id, LogOut())
    players.drop(player.player_id)
    found: list[bool] = []

    async def look() -> None:
        found.append((await players.get_ref(player.player_id).ask(DescribePlayer())).is_online)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await wait_all_tasks_blocked()
        assert found == []
        memory.commit()
        memory.automatic = True
    assert found == [False]


async def test_no_row_is_read_of_a_game_with_one_partition(autojump_clock: MockClock):
    async with open_node() as node:
        arena = await node.add()
        stage = Stage(node, arena, node.shard_of(arena), 0)
        _, guest, _ = await stage.seat_two()
        await guest.player.ask(LogOut())
        arena.memory.reads.clear()
        await stage.bring_up(stage.here)
        assert "load_outlines_by_id" not in arena.memory.reads
        assert stage.node.world.seats.is_seated(guest.player_id)
