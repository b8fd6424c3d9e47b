"""Games that live in several partitions: everybody lives where they sit, on one node or on two."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import trio
from furnished_kit import NOTHING
from shard_kit import (
    LIMITED,
    Node,
    come,
    come_to,
    furnish,
    home_of,
    lobby,
    observe,
    open_node,
    room,
    shards_of,
)
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.actors.flows.lobbies import (
    answer_request,
    create_lobby,
    join_lobby,
    request_to_join,
    start_lobby,
)
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.kernel.errors import ActorCrashed, Moved
from greenroom.actors.kernel.shards import home_shard, partitions_of, shard_of
from greenroom.actors.player.messages import (
    DescribePlayer,
    PlayerMoved,
)
from greenroom.actors.room.rules.refusals import AlreadyInRoom

PARTITIONS = 4


@pytest.fixture
async def node(autojump_clock: MockClock) -> AsyncIterator[Node]:
    async with open_node(partitions=PARTITIONS) as node:
        yield node


async def test_a_game_gets_partitions_and_its_new_players_are_spread_over_them(node: Node):
    arena = await node.add()
    shards = shards_of(arena)
    assert len(set(shards)) == PARTITIONS
    assert shards[0] == home_shard(arena.game.game_id)
    players = [await come(arena) for _ in range(3 * PARTITIONS)]
    assert sorted(home_of(arena, one) for one in players) == sorted(3 * shards)
    for one in players:
        assert one.player_id in node.world.players.list_keys_of(home_of(arena, one))


async def test_all_games_of_an_owner_with_limits_have_the_same_partitions(node: Node):
    arena = await node.add(LIMITED)
    assert shards_of(arena) == partitions_of(home_shard(LIMITED.owner_id), PARTITIONS)
    assert shards_of(await node.add(LIMITED)) == shards_of(arena)
    await node.keeper.usage.shares.refresh()
    players = [await come(arena) for _ in range(PARTITIONS)]
    assert sorted(home_of(arena, one) for one in players) == sorted(shards_of(arena))


async def test_what_a_player_makes_is_in_their_partition(node: Node):
    arena = await node.add()
    world, game = node.world, arena.game
    shard = shards_of(arena)[2]
    host, owner, seeker = [await come_to(arena, shard) for _ in range(3)]
    room_id = (await create_room(world, game.game, host.player, room())).room_id
    wanted = lobby(join_by_requests=True)
    lobby_id = (await create_lobby(world, game.game, owner.player, wanted)).lobby_id
    request_id = await request_to_join(world, game.game_id, seeker.player, lobby_id, b"{}")
    started = (await start_lobby(world, owner.player_id)).room_id
    assert {shard_of(key) for key in (room_id, lobby_id, request_id, started)} == {shard}
    assert set(world.rooms.directory.list_keys_of(shard)) == {room_id, started}
    assert world.lobbies.directory.list_keys_of(shard) == [lobby_id]


async def test_who_joins_in_another_partition_lives_there_from_then_on(node: Node):
    arena = await node.add()
    world, game = node.world, arena.game
    home, other = shards_of(arena)[:2]
    host, guest, member = [await come_to(arena, shard) for shard in (other, home, home)]
    room_id = (await create_room(world, game.game, host.player, room())).room_id
    await join_room(world, game.game_id, guest.player, room_id, NOTHING)
    owner = await come_to(arena, other)
    lobby_id = (await create_lobby(world, game.game, owner.player, lobby())).lobby_id
    await join_lobby(world, game.game_id, member.player, lobby_id, NOTHING)
    for one in (guest, member):
        assert home_of(arena, one) == other
        assert one.player_id in world.players.list_keys_of(other)
        assert one.player_id not in world.players.list_keys_of(home)
        assert world.seats.is_seated(one.player_id)


async def test_who_joins_in_their_own_partition_does_not_move(node: Node):
    arena = await node.add()
    world, game = node.world, arena.game
    host, guest = [await come_to(arena, shards_of(arena)[1]) for _ in range(2)]
    room_id = (await create_room(world, game.game, host.player, room())).room_id
    await join_room(world, game.game_id, guest.player, room_id, NOTHING)
    assert not any(isinstance(event, PlayerMoved) for event in arena.memory.committed)


async def test_nobody_who_has_a_seat_moves(node: Node):
    arena = await node.add()
    world, game = node.world, arena.game
    home, other = shards_of(arena)[:2]
    host, guest = await come_to(arena, other), await come_to(arena, home)
    room_id = (await create_room(world, game.game, host.player, room())).room_id
    await create_room(world, game.game, guest.player, room())
    with pytest.raises(AlreadyInRoom):
        await join_room(world, game.game_id, guest.player, room_id, NOTHING)
    assert home_of(arena, guest) == home


async def test_whose_request_is_approved_lives_where_the_lobby_is(node: Node):
    arena = await node.add()
    world, game = node.world, arena.game
    home, other = shards_of(arena)[:2]
    host, seeker = await come_to(arena, other), await come_to(arena, home)
    wanted = lobby(join_by_requests=True)
    lobby_id = (await create_lobby(world, game.game, host.player, wanted)).lobby_id
    request_id = await request_to_join(world, game.game_id, seeker.player, lobby_id, b"{}")
    world.players.discard(seeker.player_id)  # and is loaded for it
    await answer_request(world, game.game_id, host.player_id, request_id, is_approved=True)
    assert home_of(arena, seeker) == other
    assert world.seats.find_lobby(seeker.player_id) == lobby_id


async def test_who_is_just_joining_has_no_room_yet_and_is_refused_a_second_time(node: Node):
    """A caller whose first answer was lost sees both: no room, and then this refusal."""
    arena = await node.add()
    world, game = node.world, arena.game
    home, other = shards_of(arena)[:2]
    host, guest = await come_to(arena, other), await come_to(arena, home)
    room_id = (await create_room(world, game.game, host.player, room())).room_id
    join = partial(join_room, world, game.game_id, guest.player, room_id, NOTHING)
    arena.memory.automatic = False  # the move is not durable yet
    async with trio.open_nursery() as nursery:
        nursery.start_soon(join)
        await wait_all_tasks_blocked()
        assert world.seats.find_room(guest.player_id) is None
        with pytest.raises(AlreadyInRoom):
            await join()
        arena.memory.automatic = True
        arena.memory.commit()
    assert world.seats.find_room(guest.player_id) == room_id


async def test_who_leaves_with_their_shard_as_they_sign_in_is_to_ask_elsewhere(node: Node):
    """The other partitions say nothing about them: they would be told that they have no seat."""
    arena = await node.add()
    world, game_id = node.world, arena.game.game_id
    guest = await come_to(arena, shards_of(arena)[1])
    world.find_tenure(game_id, guest.player_id, lives_here=True)
    node.give(shards_of(arena)[1])
    with pytest.raises(Moved):
        world.find_tenure(game_id, guest.player_id, lives_here=True)
    world.find_tenure(game_id, guest.player_id)  # who lives elsewhere may ask here, too


async def test_a_move_that_the_database_refuses_did_not_happen(node: Node):
    arena = await node.add()
    world, game = node.world, arena.game
    home, other = shards_of(arena)[:2]
    host, guest = await come_to(arena, other), await come_to(arena, home)
    room_id = (await create_room(world, game.game, host.player, room())).room_id
    arena.memory.automatic = False
    async with trio.open_nursery() as nursery:

        async def join() -> None:
            with pytest.raises(ActorCrashed):
                await join_room(world, game.game_id, guest.player, room_id, NOTHING)

        nursery.start_soon(join)
        await wait_all_tasks_blocked()
        arena.memory.refuse_first()
    arena.memory.automatic = True
    assert home_of(arena, guest) == home
    assert (await guest.player.ask(DescribePlayer())).shard in {None, home}
    assert guest.player_id in world.players.list_keys_of(home)
    assert guest.player_id not in world.players.list_keys_of(other)
    await join_room(world, game.game_id, guest.player, room_id, NOTHING)
    assert guest.player_id in world.players.list_keys_of(other)


async def test_partitions_come_and_go_one_by_one(node: Node):
    arena = await node.add()
    for _ in range(PARTITIONS):
        await furnish(node, arena)
    before = await observe(node, [arena])
    world, shards = node.world, shards_of(arena)
    directories: list[Any] = [world.players, world.rooms.directory, world.lobbies.directory]
    for shard in shards[1:]:
        await node.keeper.save([shard])
        others = [
            directory.list_keys_of(s) for directory in directories for s in shards if s != shard
        ]
        node.give(shard)
        assert not any(directory.has_any(shard) for directory in directories)
        assert others == [d.list_keys_of(s) for d in directories for s in shards if s != shard]
        await node.take(shard)
        assert await observe(node, [arena]) == before


async def test_nothing_is_left_of_a_game_whose_last_partition_goes(node: Node):
    arena = await node.add()
    await furnish(node, arena)
    for shard in shards_of(arena):
        await node.keeper.save([shard])
        node.give(shard)
    assert node.world.ledger.list_games() == []
    await node.keeper.usage.save()  # until then it is known what was counted last
    assert node.residue(node.names_of(arena)) == []
