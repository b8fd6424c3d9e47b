"""Shards that are read ahead: only what was written since is read again, and nothing is missed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from furnished_kit import NOTHING
from shard_kit import Node, come, furnish, observe, open_node, read_players, room
from trio.testing import MockClock
from world_kit import Arena, Memory

from greenroom.actors.flows.presence import log_out
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.journal import Recovered
from greenroom.actors.player.messages import Heartbeat, ReplacePlayerDocument
from greenroom.actors.room.messages import PollUpdates, SendUpdates, StopRoom
from greenroom.actors.room.rules.groups import read_sources, read_targets
from greenroom.actors.services import drafts
from greenroom.actors.services.drafts import DRAFT_SECONDS


class Pair:
    """Two nodes on one database: a game lives on the first, and goes to the next."""

    def __init__(self, first: Node, following: Node, arena: Arena) -> None:
        self.first = first
        self.following = following
        self.arena = arena
        self.shard = first.shard_of(arena)
        self.reads: list[tuple[str, list[str]]] = []
        """The journals that the next node has read: the kind and the keys besides shards."""

    @property
    def there(self) -> Arena:
        """The game as it is seen at the next node."""
        return Arena(self.following.world, self.arena.memory, self.arena.game, self.arena.keys)

    async def read_ahead(self) -> bool:
        await self.first.keeper.save([self.shard])
        is_done = await self.following.keeper.drafts.read([self.shard])
        self.reads.clear()
        return is_done

    async def hand_over(self) -> None:
        self.first.give(self.shard)
        self.arena.memory.reads.clear()
        await self.following.take(self.shard)

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        journals = self.arena.memory.journals
        load, list_keys = journals.load, journals.list_keys

        async def note(kind: str, keys: Sequence[str]) -> dict[str, Recovered]:
            self.reads.append((kind, list(keys)))
            return await load(kind, keys)

        async def note_list(kind: str, shards: Collection[int] | None = None) -> list[str]:
            self.reads.append((kind, list(map(str, shards or ()))))
            return await list_keys(kind, shards)

        monkeypatch.setattr(journals, "load", note)
        monkeypatch.setattr(journals, "list_keys", note_list)


@pytest.fixture
async def pair(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        memory = Memory()
        first = await stack.enter_async_context(open_node(memory))
        following = await stack.enter_async_context(open_node(memory, owns_all=False))
        pair = Pair(first, following, await first.add())
        pair.watch(monkeypatch)
        yield pair


async def look(pair: Pair, arena: Arena, node: Node) -> tuple[dict[str, Any], dict[int, Any]]:
    return await observe(node, [arena]), await read_players(arena)


async def test_what_was_read_ahead_is_not_read_again(pair: Pair, autojump_clock: MockClock):
    await furnish(pair.first, pair.arena)
    assert await pair.read_ahead()
    before = await look(pair, pair.arena, pair.first)
    assert await pair.read_ahead(), "the later draft counts"
    await pair.hand_over()
    assert pair.reads == []
    assert "load_players_by_id" not in pair.arena.memory.reads
    assert await look(pair, pair.there, pair.following) == before
    assert not pair.following.keeper.drafts.size


async def test_what_is_asked_when_a_shard_comes_was_asked_before(
    pair: Pair, autojump_clock: MockClock
):
    """Opening connections for it took 5 to 10 ms of the pause."""
    await furnish(pair.first, pair.arena)
    pair.arena.memory.reads.clear()
    assert await pair.read_ahead()
    assert "compare_online_players" in pair.arena.memory.reads


async def test_the_last_of_those_who_were_written_ends_the_reading(
    pair: Pair, autojump_clock: MockClock
):
    player = await come(pair.arena)
    assert await pair.read_ahead()
    await player.player.ask(ReplacePlayerDocument(b'{"new":1}'))
    await pair.hand_over()
    assert pair.arena.memory.reads.count("load_players_by_id") == 1


async def test_what_was_written_since_is_read_again(pair: Pair, autojump_clock: MockClock):
    world, game = pair.arena.world, pair.arena.game
    host, guest, other, leaver = [await come(pair.arena) for _ in range(4)]
    quiet, left, ended, polled = [
        (await create_room(world, game.game, player.player, room())).room_id
        for player in (host, leaver, other, await come(pair.arena))
    ]
    (polling,) = world.rooms.index.get_members(polled)
    targets = read_targets("all", None)
    await world.rooms.directory.get_ref(polled).ask(SendUpdates(polling, targets, "n", b"{}"))
    assert await pair.read_ahead()
    await join_room(world, game.game_id, guest.player, left, NOTHING)
    await world.rooms.directory.get_ref(ended).ask(StopRoom(other.player_id))
    poll = PollUpdates(polling, read_sources("all", None), None)
    await world.rooms.directory.get_ref(polled).ask(poll)
    await guest.player.ask(ReplacePlayerDocument(b'{"new":1}'))
    await log_out(world, game.game_id, leaver.player)
    newcomer = await come(pair.arena)
    made = (await create_room(world, game.game, newcomer.player, room())).room_id
    await pair.first.keeper.usage.save([pair.shard])
    before = await look(pair, pair.arena, pair.first)
    await pair.hand_over()
    (rooms,) = [keys for kind, keys in pair.reads if kind == "room"]
    assert quiet not in rooms
    assert {left, ended, polled, made} == set(rooms)
    assert await look(pair, pair.there, pair.following) == before


async def test_a_snapshot_that_is_written_since_counts(pair: Pair, autojump_clock: MockClock):
    """It has what polls have delivered, of which no entry tells."""
    world, game = pair.arena.world, pair.arena.game
    host = await come(pair.arena)
    room_id = (await create_room(world, game.game, host.player, room())).room_id
    ref = world.rooms.directory.get_ref(room_id)
    await ref.ask(SendUpdates(host.player_id, read_targets("all", None), "n", b"{}"))
    assert await pair.read_ahead()
    await ref.ask(PollUpdates(host.player_id, read_sources("all", None), None))
    await pair.first.keeper.save([pair.shard])
    before = await look(pair, pair.arena, pair.first)
    await pair.hand_over()
    assert ("room", [room_id]) in pair.reads
    assert await look(pair, pair.there, pair.following) == before


async def test_a_sign_of_life_since_counts(pair: Pair, autojump_clock: MockClock):
    player = await come(pair.arena)
    assert await pair.read_ahead()
    await trio.sleep(5)
    now = await player.player.ask(Heartbeat())
    await pair.hand_over()
    assert pair.following.world.player_index.find_last_heartbeat(player.player_id) == now


async def test_who_went_offline_is_not_brought_up(pair: Pair, autojump_clock: MockClock):
    stays, leaves = await come(pair.arena), await come(pair.arena)
    assert await pair.read_ahead()
    await log_out(pair.arena.world, pair.arena.game.game_id, leaves.player)
    await pair.hand_over()
    index = pair.following.world.player_index
    assert index.is_online(stays.player_id)
    assert not index.is_online(leaves.player_id)
    assert pair.following.world.players.find_active(leaves.player_id) is None


async def test_a_draft_that_is_not_needed_in_time_is_forgotten(
    pair: Pair, autojump_clock: MockClock
):
    await furnish(pair.first, pair.arena)
    assert await pair.read_ahead()
    found = pair.following.keeper.drafts
    assert found.size > 0
    await trio.sleep(DRAFT_SECONDS + 1)
    found.forget_old()
    assert found.size == 0
    assert not pair.following.residue(pair.following.names_of(pair.arena))
    await pair.hand_over()
    assert ("room", [str(pair.shard)]) in pair.reads


async def test_an_old_draft_is_not_used_even_if_nobody_has_tidied(
    pair: Pair, autojump_clock: MockClock
):
    await come(pair.arena)
    assert await pair.read_ahead()
    await trio.sleep(DRAFT_SECONDS + 1)
    await pair.hand_over()
    assert ("room", [str(pair.shard)]) in pair.reads


async def test_what_is_too_large_is_not_read_ahead(
    pair: Pair, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
):
    await furnish(pair.first, pair.arena)
    before = await look(pair, pair.arena, pair.first)
    monkeypatch.setattr(drafts, "DRAFTS_BYTES_MAX", 10_000)
    assert not await pair.read_ahead(), "it holds too much"
    assert pair.following.keeper.drafts.size == 0
    await pair.hand_over()
    assert await look(pair, pair.there, pair.following) == before


async def test_drafts_together_have_one_bound(
    pair: Pair, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
):
    second = await pair.first.add()
    for arena in (pair.arena, second):
        for _ in range(10):
            await come(arena)
    await pair.first.keeper.save([pair.first.shard_of(second)])
    assert await pair.read_ahead()
    found = pair.following.keeper.drafts
    size = found.size
    monkeypatch.setattr(drafts, "DRAFTS_BYTES_MAX", 2 * size - 1)
    assert not await found.read([pair.first.shard_of(second)])
    assert found.size == size


@pytest.mark.parametrize("fault", ["away", "cancelled"])
async def test_a_reading_that_fails_leaves_nothing(
    pair: Pair, autojump_clock: MockClock, fault: str, monkeypatch: pytest.MonkeyPatch
):
    await furnish(pair.first, pair.arena)
    memory, found = pair.arena.memory, pair.following.keeper.drafts
    with trio.CancelScope() as scope:

        async def fail(after_id: int, limit: int, shards: Collection[int] | None) -> list[Any]:
            if fault == "away":
                raise StorageUnavailable("the database is away")
            scope.cancel()
            await trio.lowlevel.checkpoint()
            return []

        monkeypatch.setattr(memory, "load_online_players", fail)
        if fault == "away":
            with pytest.raises(StorageUnavailable):
                await found.read([pair.shard])
        else:
            await found.read([pair.shard])
    assert found.size == 0
    monkeypatch.undo()
    await pair.first.keeper.save([pair.shard])
    before = await look(pair, pair.arena, pair.first)
    await pair.hand_over()
    assert await look(pair, pair.there, pair.following) == before


async def test_a_draft_serves_shards_that_come_one_after_the_other(
    pair: Pair, autojump_clock: MockClock
):
    second = await pair.first.add()
    await furnish(pair.first, pair.arena)
    await furnish(pair.first, second)
    shards = [pair.shard, pair.first.shard_of(second)]
    assert shards[0] != shards[1]
    for shard in shards:
        await pair.first.keeper.save([shard])
    assert await pair.following.keeper.drafts.read(shards)
    before = await look(pair, pair.arena, pair.first), await look(pair, second, pair.first)
    pair.reads.clear()
    for shard in shards:
        pair.first.give(shard)
        await pair.following.take(shard)
    assert pair.reads == []
    there = Arena(pair.following.world, second.memory, second.game, second.keys)
    after = await look(pair, pair.there, pair.following), await look(pair, there, pair.following)
    assert after == before


async def test_shards_without_a_draft_come_beside_one_that_has(
    pair: Pair, autojump_clock: MockClock
):
    second = await pair.first.add()
    await furnish(pair.first, pair.arena)
    await furnish(pair.first, second)
    assert await pair.read_ahead()
    before = await look(pair, second, pair.first)
    other = pair.first.shard_of(second)
    await pair.first.keeper.save([other])
    for shard in (pair.shard, other):
        pair.first.give(shard)
    await pair.following.take(pair.shard, other)
    assert ("room", [str(other)]) in pair.reads
    there = Arena(pair.following.world, second.memory, second.game, second.keys)
    assert await look(pair, there, pair.following) == before


async def test_a_draft_that_cannot_be_compared_is_not_used_again(
    pair: Pair, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
):
    await furnish(pair.first, pair.arena)
    assert await pair.read_ahead()
    before = await look(pair, pair.arena, pair.first)

    async def fail(*_: object) -> Mapping[str, bool]:
        raise StorageUnavailable("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(pair.arena.memory.journals, "list_stored", fail)
        with pytest.raises(StorageUnavailable):
            await pair.hand_over()
    pair.following.keeper.let_go(pair.shard)
    await pair.following.keeper.bring_up([pair.shard])
    assert ("room", [str(pair.shard)]) in pair.reads
    assert await look(pair, pair.there, pair.following) == before
