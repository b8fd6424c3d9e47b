"""Rooms as actors: journalled, restarted, timed, and known to the index of rooms."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import trio
from room_actor_kit import Journal, Rooms, open_rooms
from room_kit import GUEST, HOST, NOW, ROOM_ID, THIRD, create

from greenroom.actors.kernel.errors import ActorCrashed, StorageUnavailable
from greenroom.actors.kernel.journal import TakeSnapshot
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.room.actor import RoomActor
from greenroom.actors.room.messages import (
    CompleteAction,
    DescribeRoom,
    JoinRoom,
    KeepSeat,
    KickMember,
    LeaveRoom,
    NoteSignOfLife,
    NoteSilence,
    PollUpdates,
    PutOut,
    ReadCurrent,
    ReadPending,
    ReadResults,
    ReadRoster,
    RenameMember,
    RoomRole,
    RoomStatus,
    SendActions,
    SendUpdates,
    Sent,
    SetRoomPassword,
    StopRoom,
    UpdatesPage,
)
from greenroom.actors.room.rules import refusals, updates
from greenroom.actors.room.rules.events import NewMember
from greenroom.actors.room.rules.groups import read_sources, read_targets

OTHER_ID = "f" * 32


def hosted_by(player_id: int) -> dict[str, Any]:
    return {"host_id": player_id, "members": (NewMember(player_id, "Host", b"{}", NOW),)}


async def tell(room: Ref[RoomRole], data: bytes = b"{}") -> Sent:
    return await room.ask(SendUpdates(HOST, read_targets("all", None), "move", data))


async def poll(room: Ref[RoomRole], player_id: int, cursor: str | None = None) -> UpdatesPage:
    return await room.ask(PollUpdates(player_id, read_sources("all", None), cursor))


async def status(room: Ref[RoomRole], player_id: int) -> RoomStatus:
    found = await room.ask(ReadCurrent(player_id))
    assert found is not None
    return found


async def crash(room: Ref[RoomRole]) -> None:
    bug = patch.object(updates, "decide_send", side_effect=RuntimeError("a bug"))
    with bug, pytest.raises(ActorCrashed):
        await tell(room)


async def test_an_evening_in_a_room(autojump_clock: trio.testing.MockClock):
    async with open_rooms() as rooms:
        room = await rooms.create()
        await rooms.join(room, GUEST, THIRD)
        asked = await room.ask(
            SendActions(
                player_id=GUEST,
                targets=read_targets("host", None),
                action_type="place",
                request_data=b"{}",
                seed=b"s" * 16,
            )
        )
        (pending,) = await room.ask(ReadPending(HOST))
        await room.ask(CompleteAction(HOST, pending.action_id, "completed", b'{"ok":1}'))
        (result,) = await room.ask(ReadResults(GUEST))
        told = await tell(room)
        page = await poll(room, GUEST)
        await room.ask(SetRoomPassword(HOST, b"h" * 48))
        await room.ask(RenameMember(GUEST, "Gwen"))
        await room.ask(KickMember(HOST, THIRD))

        assert (result.action_id, result.response_data) == (asked.ids[0], b'{"ok":1}')
        assert [u.update_id for u in page.updates] == [told.ids[1]]
        assert [e.player_name for e in await room.ask(ReadRoster(HOST))] == ["Player 1", "Gwen"]
        assert (await room.ask(DescribeRoom())).has_password
        assert (await status(room, HOST)).pending_updates[0].update_id == told.ids[0]
        assert await room.ask(ReadCurrent(THIRD)) is None
        await room.ask(StopRoom(HOST))
        with pytest.raises(refusals.RoomInactive):
            await rooms.join(room, GUEST)
        assert rooms.index.list_ended_before(rooms.clock.now() + 1) == [ROOM_ID]


@pytest.mark.parametrize("with_snapshot", [False, True])
async def test_a_crashed_room_comes_back_with_its_members_and_updates(
    with_snapshot: bool, autojump_clock: trio.testing.MockClock
):
    async with open_rooms() as rooms:
        room = await rooms.create()
        await rooms.join(room, GUEST)
        first = (await tell(room, b"1")).ids[1]
        if with_snapshot:
            rooms.journal.snapshots[ROOM_ID] = await room.ask(TakeSnapshot())
        await tell(room, b"2")
        await crash(room)

        assert rooms.index.find_seat(GUEST) == ROOM_ID, "his seat was never free"
        assert [u.data for u in (await poll(room, GUEST, first)).updates] == [b"2"]
        await tell(room, b"3")
        assert [u.data for u in (await poll(room, GUEST)).updates] == [b"1", b"2", b"3"]


async def test_a_server_comes_back_with_its_rooms(autojump_clock: trio.testing.MockClock):
    journal = Journal()
    async with open_rooms(journal) as rooms:
        room = await rooms.create()
        await rooms.join(room, GUEST)
        cursor = (await tell(room, b"1")).ids[1]
        await tell(room, b"2")
    async with open_rooms(journal) as rooms:
        room = rooms.directory.get_ref(ROOM_ID)
        assert [u.data for u in (await poll(room, GUEST, cursor)).updates] == [b"2"]
        assert rooms.index.find_seat(HOST) == rooms.index.find_seat(GUEST) == ROOM_ID


async def test_commands_to_a_room_that_is_not_are_refused(autojump_clock: trio.testing.MockClock):
    async with open_rooms() as rooms:
        room = await rooms.create()
        with pytest.raises(ActorCrashed):
            await room.ask(create())
        with pytest.raises(refusals.PlayerNotInAnyRoom):
            await room.ask(KeepSeat(7))
        nothing = RoomActor(None, rooms.index, rooms.clock, rooms.limits, rooms.connections)
        assert not nothing.is_created
        from_nothing = rooms.directory.adopt(OTHER_ID, nothing)
        with pytest.raises(refusals.RoomNotFound):
            await from_nothing.ask(LeaveRoom(HOST))


# Time.


async def test_an_idle_room_ends_by_itself(autojump_clock: trio.testing.MockClock):
    async with open_rooms() as rooms:
        room = await rooms.create()
        await rooms.join(room, GUEST)
        await room.ask(NoteSilence(GUEST))
        await room.ask(NoteSilence(HOST))
        assert rooms.index.is_offline(HOST)
        await trio.sleep(299)
        assert rooms.index.find_seat(HOST) == ROOM_ID
        await trio.sleep(2)
        assert rooms.index.find_seat(HOST) is None
        assert not rooms.index.is_offline(HOST)
        assert rooms.index.list_ended_before(rooms.clock.now() + 1) == [ROOM_ID]


async def test_a_seat_runs_out_unless_its_owner_is_heard(autojump_clock: trio.testing.MockClock):
    async with open_rooms() as rooms:
        room = await rooms.create()
        await rooms.join(room, GUEST, THIRD)
        await room.ask(NoteSilence(GUEST))
        await room.ask(NoteSilence(THIRD))
        await trio.sleep(200)
        await room.ask(NoteSignOfLife(THIRD))
        await trio.sleep(102)

        assert [rooms.index.find_seat(i) for i in (GUEST, THIRD)] == [None, ROOM_ID]
        await trio.sleep(1_000)
        assert rooms.index.find_seat(THIRD) == ROOM_ID


async def test_what_time_brings_waits_for_the_database(autojump_clock: trio.testing.MockClock):
    async with open_rooms() as rooms:
        room = await rooms.create()
        await room.ask(NoteSilence(HOST))
        rooms.journal.is_open = False
        await trio.sleep(400)
        assert rooms.index.find_seat(HOST) == ROOM_ID
        with pytest.raises(StorageUnavailable):
            await room.ask(LeaveRoom(HOST))
        rooms.journal.is_open = True
        await trio.sleep(6)
        assert rooms.index.find_seat(HOST) is None


async def test_after_a_restart_every_grace_begins_anew(autojump_clock: trio.testing.MockClock):
    async with open_rooms() as rooms:
        room = await rooms.create()
        await rooms.join(room, GUEST)
        await room.ask(NoteSilence(GUEST))
        await trio.sleep(200)
        await crash(room)
        await room.ask(DescribeRoom())
        await trio.sleep(200)
        assert rooms.index.find_seat(GUEST) == ROOM_ID
        await trio.sleep(102)
        assert rooms.index.find_seat(GUEST) is None


async def test_a_sign_of_life_shows_in_the_roster(autojump_clock: trio.testing.MockClock):
    async with open_rooms() as rooms:
        room = await rooms.create()
        before = (await status(room, HOST)).last_heartbeat
        await trio.sleep(60)
        await room.ask(KeepSeat(HOST))
        (entry,) = await room.ask(ReadRoster(HOST))
        assert entry.last_heartbeat == before + 60


# The index.


async def names(rooms: Rooms, game_id: int = 9) -> list[str]:
    return [place.name for place in rooms.index.iterate_open_places(game_id)]


async def test_open_rooms_are_listed_fullest_first_then_by_name(
    autojump_clock: trio.testing.MockClock,
):
    async with open_rooms() as rooms:
        opened = [
            await rooms.create(f"{n}" * 32, room_name=name, max_players=3, **hosted_by(n))
            for n, name in enumerate(["Bravo", "alpha", "Straße", "Delta"], 1)
        ]
        await rooms.join(opened[2], 11)
        await rooms.join(opened[3], 12, 13)

        assert await names(rooms) == ["Straße", "Bravo", "alpha"]
        assert await names(rooms, game_id=8) == []
        await opened[0].ask(StopRoom(1))
        await opened[3].ask(LeaveRoom(13))
        assert await names(rooms) == ["Delta", "Straße", "alpha"]
        assert rooms.index.find_game("1" * 32) == rooms.index.find_game("2" * 32) == 9
        for n in range(1, 5):
            rooms.index.forget(f"{n}" * 32)
        rooms.index.forget("5" * 32)
        assert await names(rooms) == []
        assert rooms.index.find_game("1" * 32) is None
        assert not rooms.index._table._seats


async def test_of_two_seats_the_later_room_gives_one_up(autojump_clock: trio.testing.MockClock):
    async with open_rooms() as rooms:
        room = await rooms.create()
        await rooms.join(room, GUEST)
        other = await rooms.create(OTHER_ID, **hosted_by(5))
        await rooms.join(other, GUEST)
        await trio.testing.wait_all_tasks_blocked()

        assert rooms.index.find_seat(GUEST) == ROOM_ID
        assert await other.ask(ReadCurrent(GUEST)) is None
        assert await room.ask(ReadCurrent(GUEST)) is not None


async def test_who_is_put_out_has_no_seat(autojump_clock: trio.testing.MockClock):
    async with open_rooms() as rooms:
        room = await rooms.create(can_leave=False)
        await rooms.join(room, GUEST)
        assert await room.ask(PutOut(GUEST, "banned"))
        assert not await room.ask(PutOut(GUEST, "banned"))
        assert rooms.index.find_seat(GUEST) is None


async def test_a_player_who_joins_a_silent_room_is_told_that_they_are_host(
    autojump_clock: trio.testing.MockClock,
):
    async with open_rooms() as rooms:
        room = await rooms.create()
        await room.ask(NoteSilence(HOST))
        joined = JoinRoom(player_id=GUEST, player_name="Eve", player_data=b"{}")
        assert await room.ask(joined) is True
