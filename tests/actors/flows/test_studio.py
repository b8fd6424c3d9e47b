"""Effects of behaviours outside their rooms' turns: results for players, in order and once."""

from __future__ import annotations

import msgspec
import trio
from studio_kit import act, at_work, join, open_room
from world_kit import Arena, KitStudio, Memory, add_game, open_world

from greenroom.actors.flows.realtime import note_connection
from greenroom.actors.kernel.errors import Moved
from greenroom.actors.kernel.timers import RETRY_SECONDS as AGAIN_SECONDS
from greenroom.actors.player.messages import (
    PlayerDocumentReplaced,
    ReadPlayerDocument,
    ReplacePlayerDocument,
)
from greenroom.actors.room.messages import LeaveRoom
from greenroom.actors.room.studio_messages import connection_timer
from greenroom.behaviour import Member, Room, RoomBehaviour, action
from greenroom.behaviour.effects import UpdatePlayer
from greenroom.behaviour.errors import HookCrashed, HookTooSlow
from greenroom.supervisors.dynamic import DynamicSupervisor

RESULTS = 50


class Counting(RoomBehaviour[None]):
    """Writes many results for one player in one turn."""

    @action("count")
    def count(self, room: Room[None], by: Member) -> None:
        for number in range(1, RESULTS + 1):
            room.update_player(by.player_id, {"n": number})


class Diary(RoomBehaviour[list[str]]):
    """Writes down what it is told."""

    def on_drop(self, room: Room[list[str]], member: Member) -> None:
        room.state.append("drop")

    def on_reconnect(self, room: Room[list[str]], member: Member) -> None:
        room.state.append("reconnect")

    def on_done(self, room: Room[list[str]], result: object) -> None:
        room.state.append(f"done: {result}")

    @action("work")
    def work(self, room: Room[list[str]], by: Member) -> None:
        room.run(one, self.on_done)

    @action("read")
    def read(self, room: Room[list[str]], by: Member) -> list[str]:
        return room.state


async def one() -> int:
    await trio.sleep(1)
    return 1


def the_studio(behaviour: str = "Counting") -> KitStudio:
    return KitStudio(f"{__name__}:{behaviour}")


async def count(arena: Arena) -> tuple[str, int]:
    """Have a room of one player write its results; return room and player."""
    host = await open_room(arena)
    await act(host, "count")
    return host.room_id, host.player_id


async def document(arena: Arena, player_id: int) -> object:
    read = await arena.world.players.get_ref(player_id).ask(ReadPlayerDocument())
    return msgspec.json.decode(read.player_data)


async def test_results_are_written_in_their_order(autojump_clock):
    memory = Memory()
    seen: list[bytes] = []
    memory.observers.append(
        lambda events: seen.extend(
            e.player_data for e in events if isinstance(e, PlayerDocumentReplaced)
        )
    )
    async with at_work(memory, the_studio()) as arena:
        _, player_id = await count(arena)
        await trio.sleep(1)
        assert await document(arena, player_id) == {"n": RESULTS}
    assert [msgspec.json.decode(data)["n"] for data in seen] == list(range(1, RESULTS + 1))


async def test_a_result_that_is_handed_over_again_is_not_written_again(autojump_clock):
    memory = Memory()
    async with at_work(memory, the_studio()) as arena:
        room_id, player_id = await count(arena)
        await trio.sleep(1)
    studio = the_studio()
    async with at_work(memory, studio) as arena:
        player = arena.world.players.get_ref(player_id)
        await player.ask(ReplacePlayerDocument(b'{"n":0}'))
        studio.deliver(room_id, RESULTS, UpdatePlayer(player_id, {"n": b"50"}))
        await trio.sleep(1)
        assert await document(arena, player_id) == {"n": 0}
        studio.deliver(room_id, RESULTS + 1, UpdatePlayer(player_id, {"n": b"51"}))
        await trio.sleep(1)
        assert await document(arena, player_id) == {"n": RESULTS + 1}


async def test_no_result_is_passed_over_because_its_player_has_just_moved(
    autojump_clock, monkeypatch
):
    memory, studio = Memory(), the_studio()
    persist, moves = studio._persist, [Moved("gone"), Moved("gone")]

    async def persist_later(ask):
        return moves.pop() if moves else await persist(ask)

    monkeypatch.setattr(studio, "_persist", persist_later)
    async with at_work(memory, studio) as arena:
        room_id, player_id = await count(arena)
        await trio.sleep(5)
        assert await document(arena, player_id) == {"n": RESULTS}
        assert not studio.list_under_way(room_id)
    writes = [e for e in memory.committed if isinstance(e, PlayerDocumentReplaced)]
    assert len(writes) == RESULTS


async def test_results_that_wait_when_the_studio_stops_are_written_when_it_is_back(autojump_clock):
    memory, studio = Memory(), the_studio()
    async with open_world(memory, studio=studio) as world:
        game, keys = await add_game(world)
        arena = Arena(world, memory, game, keys)
        _, player_id = await count(arena)
        await trio.sleep(1)
        assert await document(arena, player_id) == {}
    async with at_work(memory, studio) as arena:
        await trio.sleep(1)
        assert await document(arena, player_id) == {"n": RESULTS}


async def test_connections_and_results_of_jobs_are_told_once_the_database_is_back(autojump_clock):
    memory = Memory()
    async with at_work(memory, the_studio("Diary")) as arena:
        host = await open_room(arena)
        await act(host, "work")
        memory.away = True
        note_connection(host, is_connected=False)
        await trio.sleep(60)
        memory.away = False
        await trio.sleep(AGAIN_SECONDS * 1.1)
        told = await act(host, "read")
        assert sorted(told) == ["done: 1", "drop"], "in whatever order"
        note_connection(host, is_connected=True)
        assert await act(host, "read") == [*told, "reconnect"]


async def test_a_connection_that_was_lost_only_while_the_database_was_away_is_none(autojump_clock):
    memory = Memory()
    async with at_work(memory, the_studio("Diary")) as arena:
        host = await open_room(arena)
        memory.away = True
        note_connection(host, is_connected=False)
        await trio.sleep(1)
        memory.away = False
        note_connection(host, is_connected=True)
        await trio.sleep(60)
        assert await act(host, "read") == []


async def test_of_who_has_left_nothing_waits_to_be_told(autojump_clock):
    memory = Memory()
    async with at_work(memory, the_studio("Diary")) as arena:
        host = await open_room(arena)
        guest = await join(arena, host)
        directory = arena.world.rooms.directory
        assert isinstance(directory, DynamicSupervisor)
        cell = directory.get_cell(host.room_id)
        memory.away = True
        note_connection(guest, is_connected=False)
        await trio.sleep(1)
        waiting = connection_timer(guest.player_id)
        assert waiting in (cell.timers or {})
        memory.away = False
        await guest.room.ask(LeaveRoom(guest.player_id))
        assert waiting not in (cell.timers or {})
        await trio.sleep(AGAIN_SECONDS * 2)
        assert await act(host, "read") == []


async def test_what_fails_again_and_again_is_told_once_a_second(autojump_clock, caplog):
    studio = the_studio()
    for _ in range(30):
        studio.report("a" * 32, HookCrashed("on_tick", "a" * 32), None)
        await trio.sleep(0.05)
    studio.report("b" * 32, HookCrashed("on_tick", "b" * 32), "x" * 1_000)
    told = [record.getMessage() for record in caplog.records]
    assert [text[:20] for text in told] == ["behaviour of room aa"] * 2 + ["behaviour of room bb"]
    assert told[1].endswith("; 19 failures before it were not told")
    assert told[2].endswith("xxx…")
    studio.report("b" * 32, HookTooSlow("on_tick was interrupted"), None, "the room does without")
    assert caplog.records[-1].getMessage().endswith("; the room does without")
