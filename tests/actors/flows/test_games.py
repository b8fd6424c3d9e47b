"""Games: created, known by their keys, given plans, deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from furnished_kit import plain_room
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import (
    Arena,
    Memory,
    add_game,
    identify,
    open_arena,
    open_world,
    register,
)

from greenroom.actors.flows.games import (
    create_game,
    delete_game,
    make_game_keys,
    rotate_game_keys,
    set_plan,
)
from greenroom.actors.flows.identify import (
    identify_admin,
    identify_game,
)
from greenroom.actors.flows.rooms import create_room
from greenroom.actors.game.messages import DescribeGame, ReadGameDocument
from greenroom.actors.game.refusals import GameNameRefused, GameNotFound
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.room.rules import codec
from greenroom.actors.room.rules.events import RoomEnded


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


async def test_a_game_is_known_by_its_keys_active_or_not(autojump_clock: MockClock):
    memory = Memory()
    async with open_world(memory) as world:
        game, keys = await add_game(world)
    async with open_world(memory) as world:
        for _ in range(2):  # from the database, then from memory
            found = await identify_game(world, keys.api_token)
            assert found is not None
            assert found.game_id == game.game_id
            assert await identify_admin(found, keys.api_private_token)
            assert not await identify_admin(found, keys.api_token)
            assert not await identify_admin(found, make_game_keys().api_private_token)
        assert memory.reads == ["find_game_by_api_key", "game"]
        assert await identify_game(world, keys.api_private_token) is None


async def test_rotated_keys_are_dead_at_once(autojump_clock: MockClock, arena: Arena):
    keys = make_game_keys()
    await rotate_game_keys(arena.world, arena.game.game_id, keys)
    assert await identify_game(arena.world, arena.keys.api_token) is None
    assert not await identify_admin(arena.game, arena.keys.api_private_token)
    found = await identify_game(arena.world, keys.api_token)
    assert found is not None
    assert found.game_id == arena.game.game_id
    assert await identify_admin(found, keys.api_private_token)
    with pytest.raises(GameNotFound):
        await rotate_game_keys(arena.world, 999, keys)


async def test_an_old_key_that_the_database_still_knows_opens_nothing(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rotate_game_keys, arena.world, arena.game.game_id, make_game_keys())
        await wait_all_tasks_blocked()

        async def try_the_old() -> None:
            assert await identify_game(arena.world, arena.keys.api_token) is None

        nursery.start_soon(try_the_old)
        await wait_all_tasks_blocked()
        arena.memory.commit()


async def test_a_bad_name_creates_no_game(autojump_clock: MockClock, arena: Arena):
    with pytest.raises(GameNameRefused):
        await create_game(arena.world, arena.memory.all_owners[1], "", make_game_keys())
    assert list(arena.world.games.iterate_keys()) == [arena.game.game_id]


async def test_a_new_plan_reaches_the_owners_active_games_alone(
    autojump_clock: MockClock, arena: Arena
):
    owner = await arena.memory.create_owner("Eve", "free")
    other_id = await create_game(arena.world, owner, "Eve's", make_game_keys())
    await set_plan(arena.world, owner.owner_id, "pro")
    await wait_all_tasks_blocked()
    assert (await arena.world.games.get_ref(other_id).ask(DescribeGame())).plan == "pro"
    assert (await arena.game.game.ask(DescribeGame())).plan == "unlimited"


async def test_a_deleted_game_is_gone_with_its_keys_and_players(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    deleted: list[int] = []
    await delete_game(arena.world, arena.game.game_id, deleted.append)
    assert deleted == [1]
    assert await identify_game(arena.world, arena.keys.api_token) is None
    assert not await identify_admin(arena.game, arena.keys.api_private_token)
    with pytest.raises(GameNotFound):
        await delete_game(arena.world, arena.game.game_id)
    assert arena.world.players.find_active(new.player_id) is None
    assert len(arena.world.players) == 0


async def test_a_deleted_games_rooms_end_and_another_games_go_on(
    autojump_clock: MockClock, arena: Arena
):
    other, keys = await add_game(arena.world, "Other")
    neighbours = Arena(arena.world, arena.memory, other, keys)
    rooms = [await _open_room(playing) for playing in (arena, neighbours)]
    await delete_game(arena.world, arena.game.game_id)
    index = arena.world.rooms.index
    assert [index.find_listing(room_id) is None for room_id in rooms] == [True, False]
    last = codec.event_of(arena.memory.journals.entries[rooms[0]][-1])
    assert last == RoomEnded("game_deleted", arena.world.clock.now())


async def _open_room(arena: Arena) -> str:
    player = await identify(arena, (await register(arena)).token)
    wanted = plain_room(max_players=2, host_switch=False)
    return (await create_room(arena.world, arena.game.game, player.player, wanted)).room_id


async def test_a_game_that_could_not_be_deleted_is_there_still(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.away = True
    with pytest.raises(StorageUnavailable):
        await delete_game(arena.world, arena.game.game_id)
    arena.memory.away = False
    found = await identify_game(arena.world, arena.keys.api_token)
    assert found is not None
    assert (await found.game.ask(ReadGameDocument())).data == b"{}"
