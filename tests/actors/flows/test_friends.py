"""Friends in a whole world in memory: both sides agree, whatever goes wrong in between."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trio
from world_kit import Arena, Memory, add_game, leave_memory, open_arena, open_world
from world_kit import register as register_player

from greenroom.actors.flows import friends
from greenroom.actors.flows.friends import Addressee, Friends, list_friends
from greenroom.actors.friendship import refusals
from greenroom.actors.friendship.messages import FriendLimits
from greenroom.actors.kernel.errors import (
    ActorCrashed,
    CommitUnsettled,
    Refused,
    StorageUnavailable,
)
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import RegisterPlayer
from greenroom.actors.services.sweep import sweep
from greenroom.contract.allowed_values import Relationship


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


async def come(arena: Arena, count: int) -> list[int]:
    """New players."""
    return [(await register_player(arena)).player_id for _ in range(count)]


async def request(arena: Arena, one: int, other: int) -> str:
    addressee = Addressee(None, other)
    _, status = await friends.request_friendship(arena.world, arena.game.game, one, addressee)
    return status


async def accept(arena: Arena, one: int, other: int) -> None:
    await friends.accept_friendship(arena.world, arena.game.game_id, one, other)


async def decline(arena: Arena, one: int, other: int) -> None:
    await friends.decline_friendship(arena.world, arena.game.game_id, one, other)


async def remove(arena: Arena, one: int, other: int) -> None:
    await friends.end_friendship(arena.world, arena.game.game_id, one, other)


async def between(arena: Arena, one: int, other: int) -> Relationship | None:
    """Return what the second is to the first, by every way of looking, from both sides."""
    mine = await _relationship(arena, one, other)
    theirs = await _relationship(arena, other, one)
    other_way = {"incoming": "outgoing", "outgoing": "incoming"}
    assert theirs == other_way.get(str(mine), mine)
    return mine


async def _relationship(arena: Arena, one: int, other: int) -> Relationship | None:
    found = await friends.relationship_of(arena.world, arena.game.game_id, one, other)
    listed = await list_friends(arena.world, one)
    entries = [*listed.friends, *listed.incoming, *listed.outgoing]
    assert [e.relationship for e in entries if e.player_id == other] == [found] * bool(found)
    return found


async def test_friends_are_made_listed_and_lost(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    one, other = await come(arena, 2)
    assert await request(arena, one, other) == "pending"
    assert await between(arena, one, other) == "outgoing"
    await decline(arena, other, one)
    assert await between(arena, one, other) is None
    assert await request(arena, other, one) == "pending"
    await accept(arena, one, other)
    assert await between(arena, one, other) == "friend"
    await remove(arena, other, one)
    assert await between(arena, one, other) is None
    assert await list_friends(arena.world, one) == Friends([], [], [])


async def test_players_out_of_memory_are_asked_and_shown_offline(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    one = (await come(arena, 1))[0]
    other = await leave_memory(arena, (await register_player(arena)).token)
    await request(arena, one, other)
    await accept(arena, other, one)

    (friend,) = (await list_friends(arena.world, one)).friends
    assert (friend.player_id, friend.is_online) == (other, False)
    (friend,) = (await list_friends(arena.world, other)).friends
    assert (friend.player_id, friend.is_online) == (one, True)


@pytest.mark.parametrize("other", [0, -1, 2**63, 2**80])
async def test_ids_that_nobody_can_have_are_nobodys(
    arena: Arena, autojump_clock: trio.testing.MockClock, other: int
):
    (one,) = await come(arena, 1)
    for act, refusal in (
        (request, refusals.NoSuchPlayer),
        (accept, refusals.FriendRequestNotFound),
        (decline, refusals.FriendRequestNotFound),
        (remove, refusals.NotFriends),
    ):
        with pytest.raises(refusal):
            await act(arena, one, other)
    assert await friends.relationship_of(arena.world, 1, one, other) is None
    assert len(arena.world.friendships.directory) == 0


async def test_whoever_looks_up_players_brings_no_pairs_to_memory(arena: Arena):
    """There is a bound for all of them together, which one address could fill by looking."""
    one, *others = await come(arena, 5)
    await request(arena, one, others[0])
    for other in others[1:]:
        assert await between(arena, one, other) is None
    assert await between(arena, one, others[0]) == "outgoing"
    assert len(arena.world.friendships.directory) == 1


async def test_pairs_leave_memory_and_come_back_as_they_were(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    one, other = await come(arena, 2)
    await request(arena, one, other)
    for _ in range(3):
        await sweep(arena.world)
        await trio.sleep(31)
    assert len(arena.world.friendships.directory) == 0
    assert await between(arena, other, one) == "incoming"


Act = Callable[[Arena, int, int], Awaitable[object]]
STEPS: list[tuple[Act, Relationship | None]] = [
    (request, "outgoing"),
    (accept, "friend"),
    (remove, None),
    (request, "outgoing"),
    (decline, None),
]


@pytest.mark.parametrize("broken", range(len(STEPS)))
async def test_a_change_that_cannot_be_stored_changed_nothing_for_either(
    arena: Arena, autojump_clock: trio.testing.MockClock, broken: int
):
    one, other = await come(arena, 2)
    expected: Relationship | None = None
    for number, (act, after) in enumerate(STEPS):
        who = (one, other) if act in {request, remove} else (other, one)
        if number == broken:
            arena.memory.automatic = False
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_crashes, act, arena, *who)
                await trio.testing.wait_all_tasks_blocked()
                arena.memory.refuse_first()
            arena.memory.automatic = True
            assert await between(arena, one, other) == expected
        await act(arena, *who)
        expected = after
        assert await between(arena, one, other) == expected


async def _crashes(act: Act, arena: Arena, one: int, other: int) -> None:
    with pytest.raises(ActorCrashed):
        await act(arena, one, other)


@pytest.mark.parametrize("last", range(len(STEPS)))
async def test_a_server_that_dies_leaves_what_was_stored_to_both(
    autojump_clock: trio.testing.MockClock, last: int
):
    memory = Memory()
    async with open_world(memory) as world:
        arena = Arena(world, memory, *await add_game(world))
        one, other = await come(arena, 2)
        for act, _ in STEPS[:last]:
            await act(arena, *((one, other) if act in {request, remove} else (other, one)))
        memory.automatic = False
        act, _ = STEPS[last]
        with pytest.raises(CommitUnsettled):
            await act(arena, *((one, other) if act in {request, remove} else (other, one)))
        memory.pending.clear()
        expected = None if last == 0 else STEPS[last - 1][1]
    memory.automatic = True
    async with open_world(memory) as world:
        again = Arena(world, memory, arena.game, arena.keys)
        assert await between(again, one, other) == expected


async def test_nothing_changes_while_the_database_is_away(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    one, other = await come(arena, 2)
    await request(arena, one, other)
    arena.memory.away = True
    for act in (request, accept, decline):
        with pytest.raises(StorageUnavailable):
            await act(arena, other, one)
    arena.memory.away = False
    assert await between(arena, one, other) == "outgoing"


async def test_a_caller_who_gives_up_in_time_has_changed_nothing(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    one, other = await come(arena, 2)
    arena.memory.read_seconds = 5
    with trio.move_on_after(1):
        await request(arena, one, other)
    arena.memory.read_seconds = 0
    assert arena.memory.friendships.rows == {}
    assert await request(arena, one, other) == "pending"


# Limits.


async def _outcomes(acts: list[Awaitable[object]]) -> list[str]:
    outcomes: list[str] = []

    async def attempt(act: Awaitable[object]) -> None:
        try:
            outcomes.append(str(await act))
        except Refused as refused:
            outcomes.append(str(refused))

    async with trio.open_nursery() as nursery:
        for act in acts:
            nursery.start_soon(attempt, act)
    return sorted(outcomes)


async def test_no_crowd_gets_past_a_limit(autojump_clock: trio.testing.MockClock):
    limits = FriendLimits(friends_max=2, friend_requests_max=3)
    memory = Memory()
    async with open_world(memory, limits=limits) as world:
        arena = Arena(world, memory, *await add_game(world))
        one, *others = await come(arena, 9)
        memory.read_seconds = 0.1

        sent = await _outcomes([request(arena, one, other) for other in others])
        listed = await list_friends(world, one)
        assert len(listed.outgoing) == sent.count("pending") <= 3
        assert set(sent) == {"pending", refusals.FriendRequestsFull.text}

        sent = await _outcomes([request(arena, other, one) for other in others])
        listed = await list_friends(world, one)
        assert len(listed.incoming) <= 3
        assert len(listed.friends) <= 2

        memory.read_seconds = 0
        for friend in listed.outgoing:
            await decline(arena, friend.player_id, one)
        for other in others:
            for act, *who in ((request, other, one), (accept, one, other)):
                with contextlib.suppress(Refused):
                    await act(arena, *who)
        listed = await list_friends(world, one)
        assert len(listed.friends) == 2
        assert world.friendships._under_way == {}


async def test_each_limit_is_refused_with_its_own_text(autojump_clock: trio.testing.MockClock):
    memory = Memory()
    limits = FriendLimits(friends_max=1, friend_requests_max=1)
    async with open_world(memory, limits=limits) as world:
        arena = Arena(world, memory, *await add_game(world))
        one, two, three, four = await come(arena, 4)
        await request(arena, one, two)
        with pytest.raises(refusals.FriendRequestsFull):
            await request(arena, one, three)
        with pytest.raises(refusals.OtherFriendRequestsFull):
            await request(arena, three, two)
        await accept(arena, two, one)
        await request(arena, three, one)
        with pytest.raises(refusals.FriendsFull):
            await accept(arena, one, three)
        with pytest.raises(refusals.FriendsFull):
            await request(arena, one, three)
        await request(arena, two, four)
        with pytest.raises(refusals.OtherFriendsFull):
            await accept(arena, four, two)


# Platform.


async def test_users_of_a_platform_are_found_in_the_order_of_their_ids(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    (me, plain) = await come(arena, 2)
    found = {}
    for platform_id in ("b", "a", "c"):
        player_id = await arena.world.accounts.take_player_id()
        actor = PlayerActor(None, arena.world.player_index, arena.world.clock)
        ref = arena.world.players.adopt(player_id, actor)
        await ref.ask(
            RegisterPlayer(
                *(
                    player_id,
                    arena.game.game_id,
                    "Ada",
                    f"TAG{player_id}",
                    b"%d" % player_id,
                    b"{}",
                ),
                platform="steam",
                platform_id=platform_id,
            )
        )
        found[platform_id] = player_id
    await request(arena, me, found["a"])
    await request(arena, me, plain)

    async def look(player_id: int, *ids: str) -> list[tuple[int, str | None, str | None]]:
        listed = await friends.find_platform_friends(
            arena.world, arena.game.game_id, player_id, ids
        )
        return [(f.player_id, f.platform_id, f.relationship) for f in listed]

    assert await look(me, "c", "x", "a", "c", "") == [
        (found["c"], "c", None),
        (found["a"], "a", "outgoing"),
    ]
    assert await look(found["a"], "a", "b") == [(found["b"], "b", None)]
    assert await look(me) == []
