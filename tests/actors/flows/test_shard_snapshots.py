"""Snapshots and results that are on their way to the database while their shard is handed over."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import pytest
import trio
from furnished_kit import NOTHING
from shard_kit import Node, come, open_node, room
from studio_kit import act, at_work, open_room
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import KitStudio, Memory

from greenroom.actors.flows.realtime import Admission
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.kernel.errors import ActorUnavailable
from greenroom.actors.kernel.journal import Recovered, Snapshot
from greenroom.actors.player.messages import ReadPlayerDocument, WriteStats
from greenroom.actors.room.messages import PollUpdates, ReadCurrent, SendUpdates
from greenroom.actors.room.rules.groups import read_sources, read_targets
from greenroom.actors.room.studio_messages import NoteConnection, NoteDelivered
from greenroom.behaviour import JsonObject, Member, Room, RoomBehaviour, action
from greenroom.behaviour.effects import ResultOrder, UpdatePlayer


class Marking(RoomBehaviour[dict[str, int]]):
    """Writes three results with every action, each into a field of its own."""

    def initial_state(self, rules: JsonObject) -> dict[str, int]:
        return {"written": 0}

    @action("mark")
    def mark(self, room: Room[dict[str, int]], by: Member) -> None:
        for _ in range(3):
            room.state["written"] += 1
            room.update_player(by.player_id, {f"n{room.state['written']}": True})


async def test_results_that_become_durable_as_their_shard_goes_are_not_written_before_others(
    autojump_clock: MockClock,
):
    """Those of the second action would be: the room has gone before its turn is durable."""
    async with open_node(behaviour=f"{__name__}:Marking") as node:
        arena, memory = await node.add(), node.memory
        host, shard = await open_room(arena), node.shard_of(arena)
        memory.automatic = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_mark, host)
            await wait_all_tasks_blocked()
            memory.commit()
            await wait_all_tasks_blocked()  # its first result is on its way, the others wait
            nursery.start_soon(send_mark, host)
            await wait_all_tasks_blocked()
            node.part_with(shard)
            memory.automatic = True
            memory.commit()
            await node.take(shard)
        await trio.sleep(10)
        written = await node.world.players.get_ref(host.player_id).ask(ReadPlayerDocument())
        assert set(msgspec.json.decode(written.player_data)) == {f"n{n}" for n in range(1, 7)}


async def send_mark(host: Admission) -> None:
    """Have a room mark its host; the answer may be lost."""
    with suppress(ActorUnavailable):
        await act(host, "mark")


async def test_what_is_on_its_way_to_the_database_is_waited_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
):
    async with open_node() as node:
        await poll_while_snapshots_are_written(node, monkeypatch)


async def poll_while_snapshots_are_written(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    arena = await node.add()
    host, guest = await come(arena), await come(arena)
    game, rooms = arena.game, node.world.rooms.directory
    room_id = (await create_room(node.world, game.game, host.player, room())).room_id
    await join_room(node.world, game.game_id, guest.player, room_id, NOTHING)
    there, shard = rooms.get_ref(room_id), node.shard_of(arena)
    await there.ask(SendUpdates(host.player_id, read_targets("others", None), "n", b"{}"))
    await node.keeper.save([shard])
    await there.ask(PollUpdates(guest.player_id, read_sources("all", None), None))
    write = arena.memory.journals.save

    async def write_slowly(snapshots: Sequence[Snapshot]) -> set[tuple[str, str]]:
        await trio.sleep(1.0)
        return await write(snapshots if node.owned.owns(shard) else ())

    monkeypatch.setattr(arena.memory.journals, "save", write_slowly)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.keeper.places.save)
        await wait_all_tasks_blocked()
        async with node.keeper.places.writing:
            node.give(shard)
    await node.take(shard)
    current = await there.ask(ReadCurrent(guest.player_id))
    assert current is not None
    assert current.pending_updates == ()


async def test_a_room_that_is_just_being_loaded_is_there_once_its_shard_has_been_brought_up(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
):
    """A result that was on its way when the shard was lost is confirmed while it comes back."""
    async with open_node() as node:
        arena = await node.add()
        host = await come(arena)
        world, shard = node.world, node.shard_of(arena)
        room_id = (await create_room(world, arena.game.game, host.player, room())).room_id
        node.give(shard)
        recover, kinds = node.memory.journals.recover, []

        async def recover_slowly(kind: str, key: str) -> Recovered | None:
            kinds.append(kind)
            if len(kinds) == 1:
                await trio.sleep(1)
            return await recover(kind, key)

        monkeypatch.setattr(node.memory.journals, "recover", recover_slowly)
        world.rooms.directory.get_ref(room_id).tell(NoteDelivered(1))
        await wait_all_tasks_blocked()
        await node.take(shard)
        assert world.seats.find_room(host.player_id) == room_id


async def test_a_room_that_has_left_is_not_in_memory_while_somebody_has_it_loaded(
    autojump_clock: MockClock,
):
    """Or else who connects is served here, where nobody knows their token any more."""
    async with open_node() as node:
        arena = await node.add()
        host = await come(arena)
        rooms = node.world.rooms
        room_id = (await create_room(node.world, arena.game.game, host.player, room())).room_id
        assert rooms.is_in_memory(room_id)
        node.give(node.shard_of(arena))
        rooms.directory.get_ref(room_id).notify(NoteConnection(host.player_id, False))
        assert rooms.directory.find_active(room_id) is not None
        assert not rooms.is_in_memory(room_id)
        await node.take(node.shard_of(arena))
        assert rooms.is_in_memory(room_id)


async def test_a_player_who_is_just_being_loaded_is_online_once_their_shard_has_been_brought_up(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
):
    async with open_node() as node:
        arena = await node.add()
        player = await come(arena)
        node.give(node.shard_of(arena))
        monkeypatch.setattr(node.memory, "read_seconds", 1.0)
        player.player.tell(WriteStats(()))
        await wait_all_tasks_blocked()
        monkeypatch.setattr(node.memory, "read_seconds", 0.0)
        await node.take(node.shard_of(arena))
        assert node.world.player_index.is_online(player.player_id)


async def test_a_room_that_goes_before_its_results_are_begun_with_harms_no_other(
    autojump_clock: MockClock,
):
    studio = KitStudio()
    async with at_work(Memory(), studio):
        studio.deliver("a room", 1, UpdatePlayer(1, {"wins": b"1"}))
        studio.let_go("a room")
        await wait_all_tasks_blocked()
        assert not studio.list_under_way("a room")


async def test_what_begins_meanwhile_is_not_waited_for(
    nursery: trio.Nursery, autojump_clock: MockClock
):
    """Drains took six seconds for each group of shards with a room that always writes results."""
    async with open_node() as node:
        arena = await node.add()
        host = await come(arena)
        await create_room(node.world, arena.game.game, host.player, room())
        shard = node.shard_of(arena)
        room_id = node.world.rooms.directory.list_keys_of(shard)[0]
        orders: dict[int, ResultOrder] = {0: UpdatePlayer(1, {})}
        node.studio._results[room_id] = orders

        async def play_on() -> None:
            for number in itertools.count(1):
                await trio.sleep(0.015)
                orders[number] = UpdatePlayer(1, {})
                del orders[number - 1]

        nursery.start_soon(play_on)
        began = trio.current_time()
        assert await node.keeper.wait_idle(shard, 1.0)
        assert 0 not in orders, "it was under way when the wait began"
        assert trio.current_time() - began < 0.1
        del node.studio._results[room_id]


async def test_no_garbage_is_collected_while_a_shard_is_brought_up(autojump_clock: MockClock):
    """A collection would look at all that has come so far, again and again."""
    async with open_node() as node:
        arena, memory = await node.add(), node.memory
        host, shard = await come(arena), node.shard_of(arena)
        node.give(shard)
        memory.read_seconds = 1.0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.take, shard)
            await trio.sleep(0.5)
            assert not gc.isenabled()
        assert gc.isenabled()
        assert host.player_id in node.world.players.list_keys_of(shard)
