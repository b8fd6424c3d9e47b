"""Lobbies whose rooms have a behaviour: what a start sets off, and rooms of earlier versions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from furnished_kit import NOTHING, plain_lobby
from world_kit import Arena, KitStudio, Memory, add_game, identify, open_world, register

from greenroom.actors.flows.identify import PlayerIdentity
from greenroom.actors.flows.lobbies import create_lobby, join_lobby, start_lobby
from greenroom.actors.kernel.errors import Refused as KernelRefused
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.player.messages import PlayerDocumentReplaced, ReadPlayerDocument
from greenroom.actors.room.messages import LeaveRoom, ReadPending, ReadResults, SendActions
from greenroom.actors.room.rules import codec
from greenroom.actors.room.rules.events import RoomCreated
from greenroom.actors.room.rules.groups import read_targets
from greenroom.actors.room.studio_messages import ReloadBehaviour
from greenroom.actors.services.snapshots import SnapshotService
from greenroom.actors.studio_room.refusals import BehaviourFailed
from greenroom.behaviour import Joining, Member, Refused, Room, RoomBehaviour, action

WANTED = plain_lobby(max_players=4)


class Diary(RoomBehaviour[list[str]]):
    """Writes down who comes, rewards them, and works in the background."""

    seats = 2

    def on_create(self, room: Room[list[str]]) -> None:
        room.state.append(f"created for {len(room.members)}")
        room.run(one, self.on_one)

    def can_join(self, room: Room[list[str]], joining: Joining) -> None:
        if len(room.members) >= self.seats:
            raise Refused("Full")

    def on_join(self, room: Room[list[str]], member: Member) -> None:
        room.state.append(f"{len(room.members)} here")
        room.update_player(member.player_id, {"joined": len(room.members)})

    def on_one(self, room: Room[list[str]], result: object) -> None:
        room.state.append(f"done: {result}")

    @action("read")
    def read(self, room: Room[list[str]], by: Member) -> list[str]:
        return room.state


async def one() -> int:
    await trio.sleep(1)
    return 1


@asynccontextmanager
async def at_work(memory: Memory, *behaviours: str) -> AsyncGenerator[Arena]:
    """A world whose rooms have `Diary`; leaving it is the end of the server."""
    studio = KitStudio(*behaviours)
    async with open_world(memory, studio=studio) as world, trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: studio.run_service(task_status=task_status))
        await SnapshotService(world).restore()
        if memory.all_games:
            yield Arena(world, memory, None, None)  # type: ignore[arg-type]  # known already
        else:
            game, keys = await add_game(world)
            yield Arena(world, memory, game, keys)
        nursery.cancel_scope.cancel()


DIARY = f"{__name__}:Diary"


async def open_lobby(arena: Arena, guests: int) -> list[PlayerIdentity]:
    """Open a lobby; return its members, the host first."""
    players = [await identify(arena, (await register(arena)).token) for _ in range(1 + guests)]
    host, *others = players
    opened = await create_lobby(arena.world, arena.game.game, host.player, WANTED)
    for guest in others:
        game_id = arena.game.game_id
        await join_lobby(arena.world, game_id, guest.player, opened.lobby_id, NOTHING)
    return players


async def act(arena: Arena, player_id: int, room_id: str) -> Any:
    """Have a member send `read` to the host; return what the behaviour answers."""
    room = arena.world.rooms.directory.get_ref(room_id)
    command = SendActions(
        player_id=player_id,
        targets=read_targets("host", None),
        action_type="read",
        request_data=b"{}",
        seed=bytes(16),
    )
    await room.ask(command)
    newest, *_ = await room.ask(ReadResults(player_id))
    return msgspec.json.decode(newest.response_data or b"null")


async def document(arena: Arena, player_id: int) -> object:
    read = await arena.world.players.get_ref(player_id).ask(ReadPlayerDocument())
    return msgspec.json.decode(read.player_data)


async def test_what_a_start_sets_off_happens_once(autojump_clock):
    memory = Memory()
    written: list[int] = []
    memory.observers.append(
        lambda events: written.extend(
            event.player_id for event in events if isinstance(event, PlayerDocumentReplaced)
        )
    )
    async with at_work(memory, DIARY) as arena:
        host, guest = await open_lobby(arena, 1)
        await trio.sleep(5)
        assert written == [], "a lobby only asks"
        room_id = (await start_lobby(arena.world, host.player_id)).room_id
        await trio.sleep(5)
        told = ["created for 1", "1 here", "2 here"]
        assert await act(arena, guest.player_id, room_id) == [*told, "done: 1"]
        assert await document(arena, host.player_id) == {"joined": 1}
        assert await document(arena, guest.player_id) == {"joined": 2}
        assert sorted(written) == sorted([host.player_id, guest.player_id])
    async with at_work(memory, DIARY) as arena:
        assert await act(arena, guest.player_id, room_id) == [*told, "done: 1"]


async def test_a_start_that_cannot_be_written_down_has_not_happened(autojump_clock):
    memory = Memory()
    async with at_work(memory, DIARY) as arena:
        host, guest = await open_lobby(arena, 1)
        memory.away = True
        with pytest.raises(StorageUnavailable):
            await start_lobby(arena.world, host.player_id)
        memory.away = False
        await trio.sleep(60)
        assert arena.world.seats.find_room(guest.player_id) is None
        room_id = (await start_lobby(arena.world, host.player_id)).room_id
        await trio.sleep(5)
        assert (await act(arena, guest.player_id, room_id)).count("done: 1") == 1


async def room_without_state(memory: Memory, members: int) -> tuple[str, int, int]:
    """Make a room as an earlier version made it of a lobby: no behaviour was asked."""
    async with at_work(memory) as arena:
        host, *others = await open_lobby(arena, members - 1)
        room_id = (await start_lobby(arena.world, host.player_id)).room_id
    created, *_ = memory.journals.entries[room_id]
    event = codec.event_of(created)
    assert isinstance(event, RoomCreated)
    entry = codec.entry(room_id, 1, msgspec.structs.replace(event, behaviour=DIARY))
    memory.journals.entries[room_id] = [entry]
    memory.journals.snapshots.pop(room_id, None)
    return room_id, host.player_id, others[0].player_id


async def test_a_room_of_an_earlier_version_begins_late(autojump_clock):
    memory = Memory()
    room_id, host_id, guest_id = await room_without_state(memory, 2)
    async with at_work(memory, DIARY) as arena:
        await trio.sleep(1)
        assert (await act(arena, guest_id, room_id))[:3] == ["created for 1", "1 here", "2 here"]
        await trio.sleep(5)
        assert await document(arena, host_id) == {"joined": 1}


async def test_a_room_of_an_earlier_version_that_is_not_taken_passes_nothing_on(
    autojump_clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    memory = Memory()
    room_id, host_id, guest_id = await room_without_state(memory, 4)
    async with at_work(memory, DIARY) as arena:
        room = arena.world.rooms.directory.get_ref(room_id)
        await trio.sleep(1)
        assert f"behaviour of room {room_id}: Full" in caplog.text
        assert f"greenroom room stop {room_id}" in caplog.text
        with pytest.raises(BehaviourFailed):
            await act(arena, guest_id, room_id)
        assert await room.ask(ReadPending(host_id)) == (), "the host's client is not asked"
        await room.ask(LeaveRoom(guest_id))
        assert await room.ask(ReloadBehaviour()) == "old code"
        monkeypatch.setattr(Diary, "seats", 3)
        assert await room.ask(ReloadBehaviour()) == "new code"
        assert "3 here" in await act(arena, host_id, room_id)
        with pytest.raises(KernelRefused):
            await act(arena, guest_id, room_id)
