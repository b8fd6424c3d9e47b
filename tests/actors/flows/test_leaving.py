"""Players who sit down in a partition of another node: they leave memory here, and live there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest
import trio
from furnished_kit import NOTHING, plain_room
from msgspec import structs
from shard_kit import Node, open_node
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import Arena, Memory, register

from greenroom.actors.flows.identify import (
    GameIdentity,
    PlayerIdentity,
    bring_in,
    identify_player,
)
from greenroom.actors.flows.register import NewPlayer
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.kernel.errors import ActorCrashed, MailboxFull, Moved
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.player.messages import (
    DescribePlayer,
    Heartbeat,
    ReadPlayerDocument,
    ReplacePlayerDocument,
)
from greenroom.actors.world.departures import REST_SECONDS
from greenroom.supervisors.dynamic import DynamicSupervisor


class Pair(NamedTuple):
    """Two nodes with a partition each of one game, and a room on the second."""

    memory: Memory
    here: Node
    there: Node
    arena: Arena
    """The game, at the first node."""
    room_id: str

    def game_at(self, node: Node) -> GameIdentity:
        game_id = self.arena.game.game_id
        return GameIdentity(node.world.games.get_ref(game_id), game_id)

    async def identify(self, node: Node, player: NewPlayer) -> PlayerIdentity:
        """Authenticate a player at a node."""
        return await identify_player(node.world, self.game_at(node), player.token)

    async def join(self, node: Node, player: NewPlayer) -> bool:
        """Let a player join the room by a call that reaches a node."""
        caller = await self.identify(node, player)
        game_id = self.arena.game.game_id
        return await join_room(node.world, game_id, caller.player, self.room_id, NOTHING)


@pytest.fixture
async def pair(autojump_clock: MockClock) -> AsyncIterator[Pair]:
    memory = Memory()
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(open_node(memory, partitions=2))
        arena = await here.add()
        home, other = memory.all_games[arena.game.game_id].shards
        here.give(other)
        there = await stack.enter_async_context(open_node(memory, owns_all=False, partitions=2))
        await there.take(other)
        assert not here.owned.owns(other)
        assert here.owned.owns(home)
        assert sum(map(here.owned.owns, range(SHARDS))) == SHARDS - 1
        there_game = GameIdentity(there.world.games.get_ref(arena.game.game_id), arena.game.game_id)
        there_arena = Arena(there.world, memory, there_game, arena.keys)
        pair = Pair(memory, here, there, arena, "")
        guest = await register(arena)
        player = memory.players[guest.player_id]
        player.shard = other  # as if they had moved there before
        here.world.players.discard(guest.player_id)
        host = await pair.identify(there, guest)
        assert there_arena.world is there.world
        room_id = await open_room(there, pair, host)
        yield pair._replace(room_id=room_id)


async def open_room(node: Node, pair: Pair, host: PlayerIdentity) -> str:
    """Open a room on a node that does not have the game's home, and so no titles to check."""
    game = pair.game_at(node).game
    return (await create_room(node.world, game, host.player, plain_room())).room_id


async def test_a_player_moves_first_and_joins_by_the_same_call_at_the_next_node(
    pair: Pair, autojump_clock: MockClock
):
    guest = await register(pair.arena)
    before = pair.memory.players[guest.player_id]
    assert before.shard in {None, pair.memory.all_games[before.game_id].shards[0]}
    with pytest.raises(Moved):
        await pair.join(pair.here, guest)
    row = pair.memory.players[guest.player_id]
    assert pair.there.owned.owns(row.shard or 0)
    assert row.is_online
    assert pair.here.world.players.find_active(guest.player_id) is None
    assert await pair.join(pair.there, guest) is False
    assert pair.there.world.seats.find_room(guest.player_id) == pair.room_id
    await trio.sleep(2 * REST_SECONDS)  # whoever tells the other node of them has done so
    residue = pair.here.residue([guest.player_id])
    assert [place.rpartition(".")[0][-8:] for place in residue] == ["departed"], residue
    with pytest.raises(Moved):
        await pair.identify(pair.here, guest)


async def test_the_other_node_has_all_that_a_player_did_here(pair: Pair):
    guest = await register(pair.arena)
    caller = await pair.identify(pair.here, guest)
    await caller.player.ask(ReplacePlayerDocument(b'{"late":1}'))
    with pytest.raises(Moved):
        await pair.join(pair.here, guest)
    there = await pair.identify(pair.there, guest)
    assert (await there.player.ask(ReadPlayerDocument())).player_data == b'{"late":1}'


async def test_whoever_asks_for_a_player_while_they_leave_is_told_that_they_moved(pair: Pair):
    guest = await register(pair.arena)
    caller = await pair.identify(pair.here, guest)
    told: list[str] = []

    async def expect_moved(what: str, call: object) -> None:
        with pytest.raises(Moved):
            await call  # type: ignore[misc]  # a coroutine
        told.append(what)

    pair.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_moved, "join", pair.join(pair.here, guest))
        await wait_all_tasks_blocked()
        nursery.start_soon(expect_moved, "heartbeat", caller.player.ask(Heartbeat()))
        document = ReplacePlayerDocument(b'{"lost":1}')
        nursery.start_soon(expect_moved, "change", caller.player.ask(document))
        await wait_all_tasks_blocked()
        assert told == []  # nobody knows yet whether they have moved
        pair.memory.commit()
        pair.memory.automatic = True
    assert sorted(told) == ["change", "heartbeat", "join"]
    assert pair.memory.players[guest.player_id].player_data == b"{}"


async def test_a_player_whose_leaving_is_refused_is_still_here(pair: Pair):
    guest = await register(pair.arena)

    async def join() -> None:
        with pytest.raises(ActorCrashed):
            await pair.join(pair.here, guest)

    pair.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(join)
        await wait_all_tasks_blocked()
        pair.memory.refuse_first()
        pair.memory.automatic = True
    caller = await pair.identify(pair.here, guest)
    assert (await caller.player.ask(DescribePlayer())).is_online
    with pytest.raises(Moved):
        await pair.identify(pair.there, guest)
    with pytest.raises(Moved):
        await pair.join(pair.here, guest)


async def test_a_record_that_was_read_before_a_player_left_is_never_adopted(pair: Pair):
    guest = await register(pair.arena)
    world = pair.here.world
    as_of, old = world.as_of, await pair.memory.load_player(guest.player_id)
    assert old is not None
    with pytest.raises(Moved):
        await pair.join(pair.here, guest)
    player = bring_in(world, old, "", as_of)
    with pytest.raises(Moved):
        await player.ask(Heartbeat())
    assert world.players.find_active(guest.player_id) is None


async def test_so_many_leave_at_a_time_and_others_stay_until_some_are_forgotten(
    pair: Pair,
    autojump_clock: MockClock,
):
    players = pair.here.world.players
    assert isinstance(players, DynamicSupervisor)
    players.bounds = structs.replace(players.bounds, departed_max=1)
    first, second = await register(pair.arena), await register(pair.arena)
    with pytest.raises(Moved):
        await pair.join(pair.here, first)
    with pytest.raises(MailboxFull):
        await pair.join(pair.here, second)
    assert (await pair.identify(pair.here, second)).player_id == second.player_id
    await trio.sleep(players.bounds.passivate_seconds_min + 1)
    with pytest.raises(Moved):
        await pair.join(pair.here, second)
    assert await pair.join(pair.there, second) is False


async def test_a_cancelled_join_leaves_a_player_on_one_of_the_nodes(pair: Pair):
    guest = await register(pair.arena)
    pair.memory.automatic = False

    async def join() -> None:
        with pytest.raises(Moved):
            await pair.join(pair.here, guest)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        pair.memory.commit()
        pair.memory.automatic = True
    homes = [node.owned.owns(pair.memory.players[guest.player_id].shard or 0) for node in pair[1:3]]
    assert sum(homes) == 1
    node = pair.here if homes[0] else pair.there
    assert (await pair.identify(node, guest)).player_id == guest.player_id
