"""The actors and connections of a node by shard: let go, handed over, brought up elsewhere."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import cast

import msgspec
import pytest
import trio
from hub_kit import FakeLink, said
from shard_kit import Node, come, furnish, observe, open_node, room, shards_of
from trio.testing import MockClock, wait_all_tasks_blocked
from waiting import until
from world_kit import Arena

from greenroom.actors.flows.realtime import admit, mint_token
from greenroom.actors.flows.rooms import create_room
from greenroom.actors.kernel.errors import ActorCrashed, ActorStopped, Moved, StorageUnavailable
from greenroom.actors.kernel.shard_ownership import OwnedShards
from greenroom.actors.kernel.shards import SHARDS
from greenroom.actors.room.messages import DescribeRoom
from greenroom.actors.room.rules.refusals import TokenUnknown
from greenroom.cluster.residents import WorldResidents
from greenroom.persistence.storage import Storage
from greenroom.transport.hub import Hub


class Queue:
    """The committer, as far as hand-overs concern it: what is handed over, in order."""

    def __init__(self, owned: OwnedShards) -> None:
        self._owned = owned
        self.is_open = True
        self.handed: list[tuple[int, int, int]] = []
        self.refused: set[int] = set()
        self.flushed = 0

    def hand_over(self, shard: int, epoch: int, to: int) -> Callable[[float], Awaitable[None]]:
        self._owned.lose(shard)
        self.handed.append((shard, epoch, to))

        async def wait(seconds_max: float) -> None:
            assert seconds_max == math.inf
            if shard in self.refused:
                raise ActorCrashed("the database refused the change")

        return wait

    async def flush(self) -> None:
        self.flushed += 1


class Session:
    """The right to write: the shards that are this node's."""

    def __init__(self, owned: OwnedShards) -> None:
        self.shards = owned

    def gain(self, epochs: Mapping[int, int]) -> None:
        for shard, epoch in epochs.items():
            self.shards.gain(shard, epoch)


class Household:
    """A node in memory with its residents."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.committer, self.session = Queue(node.owned), Session(node.owned)
        self.hub = Hub()
        storage = cast("Storage", self)
        self.residents = WorldResidents(node.world, node.keeper, storage, self.hub)


@pytest.fixture
async def here(autojump_clock: MockClock) -> AsyncIterator[Household]:
    async with open_node() as node:
        yield Household(node)


async def furnished(here: Household) -> tuple[Arena, int]:
    arena = await here.node.add()
    await furnish(here.node, arena)
    return arena, here.node.shard_of(arena)


async def test_a_shard_is_at_the_next_owner_as_it_was_here(here: Household) -> None:
    arena, shard = await furnished(here)
    before = await observe(here.node, [arena])
    names = here.node.names_of(arena)
    await here.residents.prepare([shard])
    await here.residents.say_goodbye([shard])
    parted = here.residents.hand_over({shard: 5_000}, 2)
    assert here.committer.handed == [(shard, 5_000, 2)]
    assert await parted.settle() == [shard]
    assert here.residents.is_empty(shard)
    here.node.keeper.finish()
    await wait_all_tasks_blocked()  # what dropped leaderboards held is freed piece by piece
    assert not here.node.residue(names)
    async with open_node(here.node.memory, owns_all=False) as node:
        there = Household(node)
        await there.residents.bring_up({shard: 5_000})
        assert there.committer.flushed == 1
        assert await observe(node, [arena_at(node, arena)]) == before
        assert not there.residents.is_empty(shard)


async def test_what_games_in_partitions_use_is_written_once_for_a_group_of_shards(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written once for each shard: a drain of 300 shards took a minute."""
    async with open_node(partitions=4) as node:
        here = Household(node)
        await node.add()
        parts, saved = node.keeper.usage._parts, 0
        save = parts.save

        async def count_and_save() -> None:
            nonlocal saved
            saved += 1
            await save()

        monkeypatch.setattr(parts, "save", count_and_save)
        await here.residents.prepare(range(64))
        assert saved == 1


async def test_a_shard_that_was_read_ahead_is_at_the_next_owner_as_it_is_now(
    here: Household,
) -> None:
    arena, shard = await furnished(here)
    async with open_node(here.node.memory, owns_all=False) as node:
        there = Household(node)
        await here.node.keeper.save([shard])
        await there.residents.read_ahead([shard])
        assert there.node.keeper.drafts.size
        there.residents.tidy()
        assert there.residents.is_empty(shard), "it is not there before it is handed over"
        newcomer = await come(arena)
        await create_room(arena.world, arena.game.game, newcomer.player, room())
        await here.node.keeper.save([shard])
        before = await observe(here.node, [arena])
        count = here.residents.count_actors(shard)
        await here.residents.hand_over({shard: 5_000}, 2).settle()
        await there.residents.bring_up({shard: 5_000})
        assert await observe(node, [arena_at(node, arena)]) == before
        assert 0 < there.residents.count_actors(shard) <= count


async def test_all_partitions_of_a_game_are_handed_over_together_and_nothing_is_left(
    autojump_clock: MockClock,
) -> None:
    """A game goes with its last partition, not with its first: the others still have rooms."""
    async with open_node(partitions=4) as node:
        here = Household(node)
        arena = await node.add()
        hosts = [await come(arena) for _ in range(4)]
        for host in hosts:
            await create_room(node.world, arena.game.game, host.player, room())
        shards = shards_of(arena)
        parted = here.residents.hand_over(dict.fromkeys(shards, 5_000), 2)
        assert sorted(await parted.settle()) == sorted(shards)
        here.node.keeper.finish()
        assert not [host for host in hosts if node.world.rooms.index.find_seat(host.player_id)]


async def test_what_leaves_is_out_of_reach_at_once_and_cleared_away_later(
    here: Household,
) -> None:
    """All of it took 23 of 125 ms of a pause, before the change of owner was written."""
    arena, shard = await furnished(here)
    world, names = here.node.world, here.node.names_of(arena)
    room_ids = world.rooms.directory.list_keys_of(shard)
    rooms = [world.rooms.directory.get_ref(room_id) for room_id in room_ids]
    here.residents.hand_over({shard: 5_000}, 2)
    assert here.residents.is_empty(shard)
    assert here.node.residue(names), "it is still to be cleared away"
    for ref in rooms:
        with pytest.raises((Moved, ActorStopped)):  # it is read: of those, one has ended
            await ref.ask(DescribeRoom())
    async with trio.open_nursery() as nursery:
        await nursery.start(here.node.keeper.run)
        await until(lambda: not here.node.residue(names))
        nursery.cancel_scope.cancel()


async def test_what_comes_back_before_it_was_cleared_away_stays(here: Household) -> None:
    arena, shard = await furnished(here)
    await here.residents.prepare([shard])
    before = await observe(here.node, [arena])
    here.residents.hand_over({shard: 5_000}, 2)
    await here.residents.bring_up({shard: 5_001})
    here.node.keeper.finish()
    assert await observe(here.node, [arena]) == before


async def test_the_rest_of_a_game_is_listed_without_a_partition_that_has_just_left(
    autojump_clock: MockClock,
) -> None:
    async with open_node(partitions=4) as node:
        here = Household(node)
        arena = await node.add()
        for _ in range(12):
            await create_room(node.world, arena.game.game, (await come(arena)).player, room())
        index, ledger = node.world.rooms.index, node.world.ledger
        game_id = arena.game.game_id
        shards = [ledger.get_shard(game_id, key) for key in index.list_keys()]
        leaves = shards[0]
        here.residents.hand_over({leaves: 5_000}, 2)
        listed = [ledger.get_shard(game_id, p.key) for p in index.iterate_open_places(game_id)]
        assert sorted(listed) == sorted(shard for shard in shards if shard != leaves) != []


def arena_at(node: Node, arena: Arena) -> Arena:
    return Arena(node.world, node.memory, arena.game, arena.keys)


async def test_of_shards_that_are_handed_over_together_one_may_be_refused(
    here: Household,
) -> None:
    here.committer.refused = {4}
    parted = here.residents.hand_over({3: 5_000, 4: 5_001}, 2)
    assert await parted.settle() == [3]
    assert parted.audiences == []
    await here.residents.bring_up({4: 1})
    assert here.node.owned.owns(4)
    assert not here.node.owned.owns(3)


async def test_while_the_database_is_away_nothing_is_handed_over(here: Household) -> None:
    arena, shard = await furnished(here)
    before = await observe(here.node, [arena])
    here.committer.is_open = False
    with pytest.raises(StorageUnavailable):
        here.residents.hand_over({shard: 5_000}, 2)
    assert here.committer.handed == []
    assert await observe(here.node, [arena]) == before


async def test_what_is_another_nodes_already_is_not_handed_over(here: Household) -> None:
    here.node.owned.lose(4)
    with pytest.raises(Moved):
        here.residents.hand_over({3: 5_000, 4: 5_001}, 2)
    assert here.committer.handed == []
    assert here.node.owned.owns(3)


async def test_without_a_lease_no_turn_runs_and_every_connection_is_closed(
    here: Household,
) -> None:
    arena, shard = await furnished(here)
    host = await come(arena)
    room_id = (await create_room(here.node.world, arena.game.game, host.player, room())).room_id
    here.hub.attach(room_id, host.player_id, link := FakeLink("one"), None)
    ref = here.node.world.rooms.directory.get_ref(room_id)
    here.residents.suspend(list(range(SHARDS)))
    assert link.closed == (1013, "Overload")
    with pytest.raises(Moved):
        await ref.ask(DescribeRoom())
    assert here.residents.is_empty(shard)
    await here.residents.bring_up(dict.fromkeys(range(SHARDS), 1))  # nobody took them
    await ref.ask(DescribeRoom())


async def test_a_good_token_is_not_refused_because_the_lease_ran_out_just_now(
    here: Household,
) -> None:
    world, (arena, _) = here.node.world, await furnished(here)
    host = await come(arena)
    realtime = msgspec.structs.replace(room(), realtime=True)
    await create_room(world, arena.game.game, host.player, realtime)
    token_hash = arena.memory.players[host.player_id].token_hash
    token = (await mint_token(world, host.player_id, token_hash)).token
    as_of = world.as_of
    assert (await admit(world, token, as_of=as_of)).player_id == host.player_id
    wrong = token[:-32] + "0" * 32
    with pytest.raises(TokenUnknown):
        await admit(world, wrong, as_of=as_of)
    here.residents.suspend(list(range(SHARDS)))
    with pytest.raises(Moved):
        await admit(world, token, as_of=as_of)
    await here.residents.bring_up(dict.fromkeys(range(SHARDS), 1))
    assert (await admit(world, token, as_of=world.as_of)).player_id == host.player_id
    with pytest.raises(TokenUnknown):
        await admit(world, wrong, as_of=world.as_of)


async def test_who_was_connected_goes_along(here: Household) -> None:
    arena, shard = await furnished(here)
    host = await come(arena)
    room_id = (await create_room(here.node.world, arena.game.game, host.player, room())).room_id
    here.hub.attach(room_id, host.player_id, link := FakeLink("one"), None)
    await here.residents.say_goodbye([shard])
    assert link.closed == (1001, "Room has moved")
    here.hub.push(room_id, [host.player_id], said(b"missed"))
    parted = here.residents.hand_over({shard: 5_000}, 2)
    async with open_node(here.node.memory, owns_all=False) as node:
        there = Household(node)
        await there.residents.bring_up({shard: 5_000})
        for piece in parted.audiences:
            there.residents.adopt(piece)
        replay = there.hub.attach(room_id, host.player_id, FakeLink("two"), ("one", 1))
        assert replay is not None
        assert replay.messages == (said(b"missed"),)


async def test_audiences_that_cannot_be_read_are_left_out(
    here: Household, caplog: pytest.LogCaptureFixture
) -> None:
    here.residents.adopt(b"nonsense")
    assert "cannot be read" in caplog.text
