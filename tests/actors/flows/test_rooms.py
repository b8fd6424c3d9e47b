"""Rooms in a world: seats and claims, silence and return, restarts, and the keeper of rooms."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
import trio
from furnished_kit import NOTHING, plain_room
from world_kit import Arena, Memory, add_game, identify, open_arena, open_world, register

from greenroom.actors.flows.bans import ban_player
from greenroom.actors.flows.identify import PlayerIdentity
from greenroom.actors.flows.rooms import create_room, join_room
from greenroom.actors.kernel.errors import Refused, StorageUnavailable
from greenroom.actors.kernel.timers import RETRY_SECONDS
from greenroom.actors.player.messages import LogOut
from greenroom.actors.room.messages import (
    PollUpdates,
    PutOut,
    ReadCurrent,
    RoomStatus,
    SendUpdates,
    StopRoom,
)
from greenroom.actors.room.rules import refusals
from greenroom.actors.room.rules.groups import read_sources, read_targets
from greenroom.actors.services import journal_cutter
from greenroom.actors.services import snapshots as keeper
from greenroom.actors.services.journal_cutter import JournalCutter
from greenroom.actors.services.snapshots import SnapshotService
from greenroom.actors.services.sweep import sweep
from greenroom.actors.world import rooms_and_lobbies
from greenroom.actors.world.rooms_and_lobbies import find_open

WANTED = plain_room(room_name="Den")


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


async def come(arena: Arena) -> tuple[PlayerIdentity, str]:
    """Register a player; return them with their token."""
    new = await register(arena)
    return await identify(arena, new.token), new.token


async def open_room(arena: Arena, player: PlayerIdentity) -> str:
    opened = await create_room(arena.world, arena.game.game, player.player, WANTED)
    return opened.room_id


async def join(arena: Arena, player: PlayerIdentity, room_id: str) -> bool:
    return await join_room(arena.world, arena.game.game_id, player.player, room_id, NOTHING)


async def status(arena: Arena, player: PlayerIdentity) -> RoomStatus | None:
    room = arena.world.rooms.get_by_player(player.player_id, refusals.NotInAnyRoom)
    return await room.ask(ReadCurrent(player.player_id))


async def test_of_two_claims_at_once_one_is_refused(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    player, _ = await come(arena)
    room_id = await open_room(arena, (await come(arena))[0])
    arena.memory.automatic = False
    outcomes: list[str] = []

    async def attempt(seat: str) -> None:
        try:
            await (join(arena, player, room_id) if seat == "join" else open_room(arena, player))
            outcomes.append(seat)
        except Refused as refused:
            outcomes.append(str(refused))

    async with trio.open_nursery() as nursery:
        for seat in ("join", "create", "join"):
            nursery.start_soon(attempt, seat)
        await trio.testing.wait_all_tasks_blocked()
        arena.memory.commit()

    taken = refusals.AlreadyInRoom.text
    assert sorted(outcomes, key=len)[1:] == [taken, taken]


async def test_a_claim_ends_when_the_seat_is_refused_or_the_caller_leaves(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    player, _ = await come(arena)
    for _ in range(2):
        with pytest.raises(refusals.RoomNotFound):
            await join(arena, player, "0" * 32)
    arena.memory.away = True
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            await open_room(arena, player)
    assert len(arena.world.rooms.directory) == 0
    arena.memory.away = False
    with trio.CancelScope() as scope:
        scope.cancel()
        await trio.lowlevel.checkpoint()
        await open_room(arena, player)
    assert await open_room(arena, player)


async def test_a_member_who_falls_silent_is_offline_until_their_next_call(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    host, _ = await come(arena)
    guest, token = await come(arena)
    room_id = await open_room(arena, host)
    await join(arena, guest, room_id)
    await guest.player.ask(LogOut())
    await sweep(arena.world)
    await trio.testing.wait_all_tasks_blocked()
    assert arena.world.rooms.index.is_offline(guest.player_id)

    await identify(arena, token)
    found = await status(arena, guest)
    assert found is not None
    assert found.is_online
    assert not arena.world.rooms.index.is_offline(guest.player_id)


async def test_a_silent_member_loses_their_seat_at_last(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    host, host_token = await come(arena)
    guest, _ = await come(arena)
    room_id = await open_room(arena, host)
    await join(arena, guest, room_id)
    for _ in range(50):
        await trio.sleep(10)
        await identify(arena, host_token)
        await sweep(arena.world)
    assert arena.world.rooms.index.find_seat(guest.player_id) is None
    assert arena.world.rooms.index.find_seat(host.player_id) == room_id


async def test_a_banned_member_is_put_out(arena: Arena, autojump_clock: trio.testing.MockClock):
    host, _ = await come(arena)
    await open_room(arena, host)
    await ban_player(arena.world, arena.game.game_id, host.player_id, "day", None)
    assert arena.world.rooms.index.find_seat(host.player_id) is None


async def test_a_room_that_ended_is_known_for_a_while(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    host, _ = await come(arena)
    guest, _ = await come(arena)
    room_id = await open_room(arena, host)
    await arena.world.rooms.directory.get_ref(room_id).ask(StopRoom(host.player_id))
    rooms = SnapshotService(arena.world)
    await rooms.let_go()
    with pytest.raises(refusals.RoomInactive):
        await join(arena, guest, room_id)
    for _ in range(2):  # for as long as its realtime tokens would have been good
        await trio.sleep(151)
        with pytest.raises(refusals.RoomInactive):
            await join(arena, guest, room_id)
        await rooms.let_go()
    for _ in range(2):
        await rooms.let_go()
        await trio.sleep(31)
    await rooms.let_go()
    with pytest.raises(refusals.RoomNotFound):
        await join(arena, guest, room_id)
    assert room_id in arena.memory.journals.entries, "its history is kept"

    await trio.sleep(24 * 3_600)
    arena.memory.journals.away = True
    await rooms.let_go()
    arena.memory.journals.away = False
    await rooms.let_go()
    assert room_id not in arena.memory.journals.entries


# The keeper, and the cutter of journals.


@pytest.mark.parametrize("stopped_in_order", [True, False])
async def test_rooms_come_back_with_their_members(
    stopped_in_order: bool, autojump_clock: trio.testing.MockClock
):
    memory = Memory()
    async with open_world(memory) as world:
        game, keys = await add_game(world)
        arena = Arena(world, memory, game, keys)
        host, _ = await come(arena)
        guest, _ = await come(arena)
        room_id = await open_room(arena, host)
        ended_id = await open_room(arena, guest)
        await world.rooms.directory.get_ref(ended_id).ask(StopRoom(guest.player_id))
        await join(arena, guest, room_id)
        if stopped_in_order:
            async with trio.open_nursery() as nursery:
                await nursery.start(SnapshotService(world).run)
                nursery.cancel_scope.cancel()
            assert memory.journals.snapshots[room_id].version == 2
    async with open_world(memory) as world:
        assert await SnapshotService(world).restore() == 1
        assert world.rooms.index.find_seat(host.player_id) == room_id
        assert world.rooms.index.find_seat(guest.player_id) == room_id
        assert world.rooms.index.find_game(ended_id) == game.game_id, "it ended just now"
        assert world.rooms.index.find_listing(ended_id) is None


async def test_a_room_that_cannot_be_read_keeps_no_other_from_coming_back(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
):
    memory = Memory()
    async with open_world(memory) as world:
        game, keys = await add_game(world)
        arena = Arena(world, memory, game, keys)
        bad_id = await open_room(arena, (await come(arena))[0])
        await open_room(arena, (await come(arena))[0])
    (created,) = memory.journals.entries[bad_id]
    memory.journals.entries[bad_id] = [msgspec.structs.replace(created, format=99)]
    async with open_world(memory) as world:
        assert await SnapshotService(world).restore() == 1
    assert "has format 99, not 1" in caplog.text


async def test_snapshots_that_cannot_be_written_are_written_later(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    host, _ = await come(arena)
    room_id = await open_room(arena, host)
    rooms = SnapshotService(arena.world)
    arena.memory.journals.away = True
    await rooms.save()
    arena.memory.journals.away = False
    assert arena.memory.journals.snapshots == {}
    await rooms.save()
    assert list(arena.memory.journals.snapshots) == [room_id]
    arena.memory.journals.snapshots.clear()
    await rooms.save()
    assert arena.memory.journals.snapshots == {}, "nothing has changed since"


@pytest.mark.parametrize("stopped_in_order", [True, False])
async def test_what_a_poll_has_delivered_stays_delivered_after_a_stop(
    stopped_in_order: bool, autojump_clock: trio.testing.MockClock
):
    memory = Memory()
    async with open_world(memory) as world, trio.open_nursery() as nursery:
        arena = Arena(world, memory, *await add_game(world))
        (host, _), (guest, _) = await come(arena), await come(arena)
        room_id = await open_room(arena, host)
        await join(arena, guest, room_id)
        room = world.rooms.directory.get_ref(room_id)
        tell = SendUpdates(host.player_id, read_targets("all", None), "n", b"{}")
        poll = PollUpdates(guest.player_id, read_sources("all", None), None)
        await room.ask(tell)
        await nursery.start(SnapshotService(world).run)
        await room.ask(poll)
        await trio.sleep(world.settings.snapshot_seconds + 1)
        await room.ask(tell)
        await room.ask(poll)
        await trio.sleep(world.settings.snapshot_seconds + 1)
        if not stopped_in_order:
            memory.journals.away = True  # the last snapshot is not written
        await room.ask(tell)
        await trio.sleep(world.settings.snapshot_seconds + 1)
        await room.ask(poll)
        nursery.cancel_scope.cancel()
    memory.journals.away = False
    async with open_world(memory) as world:
        await SnapshotService(world).restore()
        found = await world.rooms.directory.get_ref(room_id).ask(ReadCurrent(guest.player_id))
        assert found is not None
        assert len(found.pending_updates) == (0 if stopped_in_order else 1)


async def test_many_rooms_are_saved_in_parts(arena: Arena, autojump_clock: trio.testing.MockClock):
    for _ in range(keeper.SLICE + 3):
        await open_room(arena, (await come(arena))[0])
    await SnapshotService(arena.world).save()
    assert len(arena.memory.journals.snapshots) == keeper.SLICE + 3


async def test_the_journals_of_all_rooms_are_cut_in_slices_again_and_again(
    arena: Arena, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
):
    journals = arena.memory.journals
    opened = [await open_room(arena, (await come(arena))[0]) for _ in range(60)]
    journals.to_cut = {opened[0]: 3}
    async with trio.open_nursery() as nursery:
        await nursery.start(JournalCutter(arena.world).run)
        await trio.sleep(journal_cutter.CUT_SECONDS * 1.5)
        assert [len(keys) for keys in journals.cuts] == [50, 11, 1]
        assert {key for keys in journals.cuts for key in keys} == set(opened)
        journals.away = True
        await trio.sleep(journal_cutter.CUT_SECONDS)
        assert "cut later" in caplog.text
        journals.away = False
        await trio.sleep(journal_cutter.CUT_SECONDS)
        assert len(journals.cuts) == 5
        nursery.cancel_scope.cancel()


async def test_rooms_are_found_by_their_names_however_many_there_are(
    arena: Arena, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
):
    game_id = arena.game.game_id
    for name in ("Bravo", "alpha", "Straße", "Delta"):
        wanted = msgspec.structs.replace(WANTED, room_name=name)
        host, _ = await come(arena)
        await create_room(arena.world, arena.game.game, host.player, wanted)

    index = arena.world.rooms.index

    async def names(search: str, limit: int = 20, game_id: int = game_id) -> list[str]:
        return [r.room_name for r in await find_open(index, game_id, search, limit)]

    for slice_ in (1, 2, 3, 4, 1_000):
        monkeypatch.setattr(rooms_and_lobbies, "SLICE", slice_)
        assert await names("") == ["Bravo", "Delta", "Straße", "alpha"]
        assert await names("", limit=2) == ["Bravo", "Delta"]
        assert await names("ALPH") == ["alpha"]
        assert await names("STRASSE") == ["Straße"]
        assert await names("zulu") == []
        assert await names("", game_id=game_id + 1) == []


async def test_rooms_of_large_rules_are_listed_up_to_a_bound_and_the_first_always(
    arena: Arena, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
):
    wanted = msgspec.structs.replace(WANTED, rules=b'{"a":"%b"}' % (b"x" * 92))
    for _ in range(4):
        host, _ = await come(arena)
        await create_room(arena.world, arena.game.game, host.player, wanted)
    index = arena.world.rooms.index
    for bytes_max, count in ((0, 1), (199, 1), (200, 2), (1_000, 4)):
        monkeypatch.setattr(rooms_and_lobbies, "DOCUMENTS_BYTES_MAX", bytes_max)
        assert len(await find_open(index, arena.game.game_id, "", 20)) == count


async def test_a_seat_to_be_freed_is_freed_once_the_database_is_back(
    arena: Arena, autojump_clock: trio.testing.MockClock
):
    """`put out` is a timer: refused by the closed gate, it comes again."""
    host, _ = await come(arena)
    guest, _ = await come(arena)
    room_id = await open_room(arena, host)
    await join(arena, guest, room_id)
    actor = arena.world.rooms.directory.get_cell(room_id).actor  # type: ignore[attr-defined]
    arena.memory.away = True
    actor.timers.start("put out", 1.0, PutOut(guest.player_id, "left"))
    await trio.sleep(60)
    assert arena.world.rooms.index.find_seat(guest.player_id) == room_id
    arena.memory.away = False
    await trio.sleep(RETRY_SECONDS)
    assert arena.world.rooms.index.find_seat(guest.player_id) is None
