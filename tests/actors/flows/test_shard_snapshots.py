"""Snapshots and results that are on their way to the database while their shard is handed over."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from shard_kit import Node, come, open_node, room
from studio_kit import at_work
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import KitStudio, Memory

from greenroom.actors.flows.rooms import Entrance, create_room, join_room
from greenroom.actors.kernel.journal import Snapshot
from greenroom.actors.room.messages import PollUpdates, ReadCurrent, SendUpdates
from greenroom.actors.room.rules.groups import read_sources, read_targets
from greenroom.behaviour.effects import UpdatePlayer


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
    entrance = Entrance(password=None, join_token=None, player_data=b"{}")
    await join_room(node.world, game.game_id, guest.player, room_id, entrance)
    there, shard = rooms.ref(room_id), node.shard_of(arena)
    await there.ask(SendUpdates(host.player_id, read_targets("others", None), "n", b"{}"))
    await node.keeper.save(shard)
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


async def test_a_room_that_goes_before_its_results_are_begun_with_harms_no_other(
    autojump_clock: MockClock,
):
    studio = KitStudio()
    async with at_work(Memory(), studio):
        studio.deliver("a room", 1, UpdatePlayer(1, {"wins": b"1"}))
        studio.let_go("a room")
        await wait_all_tasks_blocked()
        assert not studio.is_busy("a room")
