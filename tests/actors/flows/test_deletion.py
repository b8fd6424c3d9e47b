"""Deleting players: gone at once, in every order of events, and whole whatever happens half-way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from furnished_kit import plain_room
from world_kit import (
    Arena,
    Memory,
    add_game,
    describe,
    identify,
    open_arena,
    open_world,
    register,
)

from greenroom.actors.flows.deletion import delete_player
from greenroom.actors.flows.friends import (
    Addressee,
    Friends,
    accept_friendship,
    end_friendship,
    list_friends,
    relationship_of,
    request_friendship,
)
from greenroom.actors.flows.identify import identify_player
from greenroom.actors.flows.rooms import create_room
from greenroom.actors.friendship.refusals import FriendRequestNotFound, NoSuchPlayer, NotFriends
from greenroom.actors.kernel.errors import ActorStopped, CommitUnsettled, StorageUnavailable
from greenroom.actors.player.refusals import InvalidPlayerToken, PlayerNotFound
from greenroom.actors.services.sweep import sweep


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    """Tests in which time passes name `autojump_clock` themselves."""
    async with open_arena() as arena:
        yield arena


async def test_whoever_is_deleted_leaves_their_room(arena: Arena):
    made = await register(arena)
    player = await identify(arena, made.token)
    wanted = plain_room(max_players=2, host_switch=False)
    await create_room(arena.world, arena.game.game, player.player, wanted)

    await delete_player(arena.world, made.player_id)

    assert arena.world.rooms.index.find_seat(made.player_id) is None


async def test_a_deleted_player_is_gone_at_once_and_for_good(arena: Arena):
    made = await register(arena)
    await identify(arena, made.token)

    await delete_player(arena.world, made.player_id)

    assert arena.memory.players == {}
    with pytest.raises(InvalidPlayerToken):
        await identify(arena, made.token)
    with pytest.raises(PlayerNotFound):
        await describe(arena, made.player_id)
    for player_id in (made.player_id, 99, 0, -1, 2**63):
        with pytest.raises(PlayerNotFound):
            await delete_player(arena.world, player_id)
    assert (await register(arena)).player_id != made.player_id


async def test_a_token_looked_up_before_the_deletion_opens_nothing_after_it(
    arena: Arena, autojump_clock: object
):
    made = await register(arena)
    arena.world.players.discard(made.player_id)
    arena.memory.read_seconds = 1.0
    refused: list[Exception] = []

    async def look_up() -> None:
        try:
            await identify_player(arena.world, arena.game, made.token)
        except InvalidPlayerToken as error:
            refused.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_up)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(delete_player, arena.world, made.player_id)

    assert len(refused) == 1
    assert arena.memory.players == {}


async def test_whoever_is_deleted_leaves_memory(arena: Arena, autojump_clock: object):
    made = await register(arena)
    await delete_player(arena.world, made.player_id)

    for _ in range(3):
        await sweep(arena.world)
        await trio.sleep(31)

    assert arena.world.players.find_active(made.player_id) is None
    with pytest.raises(ActorStopped):
        await describe(arena, made.player_id)


async def test_a_database_that_is_away_leaves_the_player_as_before(arena: Arena):
    made = await register(arena)
    arena.memory.away = True
    with pytest.raises(StorageUnavailable):
        await delete_player(arena.world, made.player_id)
    arena.memory.away = False

    assert (await identify(arena, made.token)).player_id == made.player_id
    await delete_player(arena.world, made.player_id)
    assert arena.memory.players == {}


async def test_a_crash_half_way_leaves_the_player_whole_and_deletable(autojump_clock: object):
    memory = Memory()
    async with open_world(memory) as world:
        game, keys = await add_game(world)
        made = await register(Arena(world, memory, game, keys))
        memory.automatic = False
        with pytest.raises(CommitUnsettled):
            await delete_player(world, made.player_id)
        memory.pending.clear()
    memory.automatic = True
    async with open_world(memory) as world:
        player = await identify_player(world, game, made.token)
        assert player.player_id == made.player_id
        await delete_player(world, made.player_id)
    assert memory.players == {}


async def test_nothing_is_left_between_a_deleted_player_and_others(arena: Arena):
    one, asker, friend, asked = [(await register(arena)).player_id for _ in range(4)]
    game = arena.game.game
    for sender, receiver in ((asker, one), (friend, one), (one, friend), (one, asked)):
        await request_friendship(arena.world, game, sender, Addressee(None, receiver))

    for gone in (asker, friend, asked):
        await delete_player(arena.world, gone)

    for gone in (asker, friend, asked):
        assert await relationship_of(arena.world, game.key, one, gone) is None
        with pytest.raises(FriendRequestNotFound):
            await accept_friendship(arena.world, game.key, one, gone)
        with pytest.raises(NotFriends):
            await end_friendship(arena.world, game.key, one, gone)
    assert await list_friends(arena.world, one) == Friends([], [], [])


async def test_a_player_who_is_deleted_meanwhile_is_nobody_to_ask(
    arena: Arena, autojump_clock: object
):
    one, other = [(await register(arena)).player_id for _ in range(2)]
    arena.memory.read_seconds = 1.0
    refused: list[Exception] = []

    async def ask() -> None:
        try:
            await request_friendship(arena.world, arena.game.game, one, Addressee(None, other))
        except NoSuchPlayer as error:
            refused.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(delete_player, arena.world, other)

    assert len(refused) == 1
    assert arena.memory.friendships.rows == {}


async def test_whoever_could_not_be_deleted_can_be_asked_again(arena: Arena):
    one, other = [(await register(arena)).player_id for _ in range(2)]
    arena.memory.away = True
    with pytest.raises(StorageUnavailable):
        await delete_player(arena.world, other)
    arena.memory.away = False

    asked = await request_friendship(arena.world, arena.game.game, one, Addressee(None, other))
    assert asked == (other, "pending")


async def test_whoever_may_still_have_their_seat_is_open_and_can_be_deleted_again(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
):
    """The deletion has not begun.

    Closed, they would be nobody to themselves and a friend to others.
    """

    async def put_out(*_: object) -> None:
        raise CommitUnsettled("his room's change was not durable in time")

    made = await register(arena)
    with monkeypatch.context() as patch:
        patch.setattr("greenroom.actors.flows.deletion.put_out", put_out)
        with pytest.raises(CommitUnsettled):
            await delete_player(arena.world, made.player_id)
    assert (await identify(arena, made.token)).player_id == made.player_id
    await delete_player(arena.world, made.player_id)
    with pytest.raises(InvalidPlayerToken):
        await identify(arena, made.token)
