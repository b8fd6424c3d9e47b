"""Lobbies in a world: seats and claims, silence, the start and what may interrupt it, restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext, suppress

import pytest
import trio
import trio.lowlevel
from furnished_kit import NOTHING, plain_lobby, plain_room
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import Arena, Memory, add_game, identify, open_arena, open_world, register

from greenroom.actors.flows.bans import ban_player
from greenroom.actors.flows.games import delete_game
from greenroom.actors.flows.identify import PlayerIdentity
from greenroom.actors.flows.lobbies import (
    NewLobby,
    answer_request,
    create_lobby,
    join_lobby,
    leave_lobby,
    read_lobby,
    read_lobby_roster,
    read_request,
    remove_lobby,
    request_to_join,
    start_lobby,
)
from greenroom.actors.flows.presence import watch_silent_members
from greenroom.actors.flows.rooms import create_room
from greenroom.actors.kernel.errors import ActorUnavailable, CommitUnsettled, Refused
from greenroom.actors.lobby import refusals
from greenroom.actors.player.messages import Heartbeat, LogOut
from greenroom.actors.room.messages import ReadCurrent, StopRoom
from greenroom.actors.room.rules.refusals import AlreadyInRoom
from greenroom.actors.services.snapshots import SnapshotService
from greenroom.actors.services.sweep import restore_online, sweep

ROOM = plain_room()


def wanted(*, max_players: int = 16, join_by_requests: bool = False) -> NewLobby:
    return plain_lobby(lobby_name="Den", max_players=max_players, join_by_requests=join_by_requests)


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


async def come(arena: Arena) -> tuple[PlayerIdentity, str]:
    """Register a player; return them with their token."""
    new = await register(arena)
    return await identify(arena, new.token), new.token


async def open_lobby(arena: Arena, player: PlayerIdentity, wants: NewLobby | None = None) -> str:
    opened = await create_lobby(arena.world, arena.game.game, player.player, wants or wanted())
    return opened.lobby_id


async def join(arena: Arena, player: PlayerIdentity, lobby_id: str) -> None:
    await join_lobby(arena.world, arena.game.game_id, player.player, lobby_id, NOTHING)


async def ask(arena: Arena, player: PlayerIdentity, lobby_id: str) -> str:
    return await request_to_join(
        arena.world, arena.game.game_id, player.player, lobby_id, b'{"a":1}'
    )


async def pair(arena: Arena) -> tuple[str, PlayerIdentity, PlayerIdentity]:
    """A lobby with a host and a guest."""
    (host, _), (guest, _) = await come(arena), await come(arena)
    lobby_id = await open_lobby(arena, host)
    await join(arena, guest, lobby_id)
    return lobby_id, host, guest


async def room_seen_by(arena: Arena, player: PlayerIdentity) -> str | None:
    """The room that answers a player as its member."""
    room_id = arena.world.seats.find_room(player.player_id)
    if room_id is None:
        return None
    status = await arena.world.rooms.directory.get_ref(room_id).ask(ReadCurrent(player.player_id))
    return None if status is None else status.room.room_id


# Seats.


async def answer(arena: Arena, host: PlayerIdentity, request_id: str, *, is_approved: bool) -> None:
    world, game_id = arena.world, arena.game.game_id
    await answer_request(world, game_id, host.player_id, request_id, is_approved=is_approved)


async def test_of_two_hundred_who_race_for_the_last_seat_one_gets_it(
    arena: Arena, autojump_clock: MockClock
):
    host, _ = await come(arena)
    lobby_id = await open_lobby(arena, host, wanted(max_players=2))
    crowd = [(await come(arena))[0] for _ in range(200)]
    arena.memory.automatic = False
    outcomes: list[str] = []

    async def attempt(player: PlayerIdentity) -> None:
        try:
            await join(arena, player, lobby_id)
            outcomes.append("in")
        except Refused as refused:
            outcomes.append(str(refused))

    async with trio.open_nursery() as nursery:
        for player in crowd:
            nursery.start_soon(attempt, player)
        await wait_all_tasks_blocked()
        arena.memory.commit()
    assert outcomes.count("in") == 1
    assert outcomes.count(refusals.LobbyFull.text) == 199
    assert sum(arena.world.seats.is_seated(p.player_id) for p in crowd) == 1


async def test_of_claims_to_a_room_and_a_lobby_at_once_one_is_refused(
    arena: Arena, autojump_clock: MockClock
):
    player, _ = await come(arena)
    lobby_id = await open_lobby(arena, (await come(arena))[0])
    arena.memory.automatic = False
    refused: list[str] = []

    async def attempt(where: str) -> None:
        try:
            if where == "lobby":
                await join(arena, player, lobby_id)
            else:
                await create_room(arena.world, arena.game.game, player.player, ROOM)
        except Refused as error:
            refused.append(str(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attempt, "lobby")
        nursery.start_soon(attempt, "room")
        await wait_all_tasks_blocked()
        arena.memory.commit()
    assert len(refused) == 1
    seats = arena.world.seats
    is_in_room = seats.find_room(player.player_id) is not None
    assert is_in_room == (seats.find_lobby(player.player_id) is None)


async def test_a_claim_ends_with_its_flow_however_that_ends(
    arena: Arena, autojump_clock: MockClock
):
    player, _ = await come(arena)
    with pytest.raises(refusals.LobbyNotFound):
        await join(arena, player, "0" * 32)
    arena.memory.away = True
    with pytest.raises(ActorUnavailable):
        await open_lobby(arena, player)
    assert len(arena.world.lobbies.directory) == 0
    arena.memory.away = False
    with trio.CancelScope() as scope:
        scope.cancel()
        await trio.lowlevel.checkpoint()
        await open_lobby(arena, player)
    assert not arena.world.seats.is_claimed(player.player_id)
    assert await open_lobby(arena, player)


async def test_a_crashed_lobby_keeps_its_seats_and_comes_back(
    arena: Arena, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
):
    lobby_id, host, guest = await pair(arena)

    def crash(*_: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr("greenroom.actors.lobby.views.view_roster", crash)
        with pytest.raises(ActorUnavailable):
            await read_lobby_roster(arena.world, host.player_id)
    for member in (host, guest):
        assert arena.world.seats.find_lobby(member.player_id) == lobby_id
        with pytest.raises(refusals.AlreadyInLobby):
            await join(arena, member, lobby_id)
    assert len(await read_lobby_roster(arena.world, guest.player_id)) == 2


async def test_a_player_who_is_banned_while_seated_is_put_out(
    arena: Arena, autojump_clock: MockClock
):
    player, _ = await come(arena)
    lobby_id = await open_lobby(arena, (await come(arena))[0])
    arena.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(join, arena, player, lobby_id)
        await wait_all_tasks_blocked()
        nursery.start_soon(
            ban_player, arena.world, arena.game.game_id, player.player_id, "day", None
        )
        await wait_all_tasks_blocked()
        arena.memory.automatic = True
        arena.memory.commit()
    assert not arena.world.seats.is_seated(player.player_id)


# Requests.


@pytest.mark.parametrize("is_banned", [False, True])
async def test_a_requester_who_left_memory_is_approved_from_the_database(
    arena: Arena, autojump_clock: MockClock, *, is_banned: bool
):
    (host, _), (asker, _) = await come(arena), await come(arena)
    lobby_id = await open_lobby(arena, host, wanted(join_by_requests=True))
    request_id = await ask(arena, asker, lobby_id)
    if is_banned:
        await ban_player(arena.world, arena.game.game_id, asker.player_id, "day", None)
    arena.world.players.discard(asker.player_id)
    with pytest.raises(refusals.PlayerIsSeated) if is_banned else nullcontext():
        await answer(arena, host, request_id, is_approved=True)
    assert arena.world.players.find_active(asker.player_id) is None
    assert arena.world.seats.is_seated(asker.player_id) is not is_banned


async def test_approval_takes_the_requesters_seat_or_none(arena: Arena, autojump_clock: MockClock):
    (host, _), (asker, _) = await come(arena), await come(arena)
    lobby_id = await open_lobby(arena, host, wanted(join_by_requests=True))
    request_id = await ask(arena, asker, lobby_id)
    arena.memory.automatic = False
    outcomes: list[object] = []

    async def approve() -> None:
        try:
            await answer(arena, host, request_id, is_approved=True)
            outcomes.append("approved")
        except Refused as refused:
            outcomes.append(type(refused))

    async def open_room() -> None:
        try:
            await create_room(arena.world, arena.game.game, asker.player, ROOM)
            outcomes.append("room")
        except Refused as refused:
            outcomes.append(type(refused))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(approve)
        nursery.start_soon(open_room)
        await wait_all_tasks_blocked()
        arena.memory.automatic = True
        arena.memory.commit()
    assert sum(isinstance(outcome, str) for outcome in outcomes) == 1
    request, _ = await read_request(arena.world, arena.game.game_id, asker.player_id, request_id)
    is_in_lobby = arena.world.seats.find_lobby(asker.player_id) is not None
    assert request.status == ("approved" if is_in_lobby else "rejected")


async def test_a_deleted_requester_is_rejected(arena: Arena, autojump_clock: MockClock):
    (host, _), (asker, _) = await come(arena), await come(arena)
    lobby_id = await open_lobby(arena, host, wanted(join_by_requests=True))
    request_id = await ask(arena, asker, lobby_id)
    del arena.memory.players[asker.player_id]
    arena.world.players.discard(asker.player_id)
    with pytest.raises(refusals.PlayerIsSeated):
        await answer(arena, host, request_id, is_approved=True)
    with pytest.raises(refusals.RequestNotFound):
        await answer(arena, host, request_id, is_approved=False)


async def test_an_approved_requester_who_is_not_there_leaves_when_stale(
    arena: Arena, autojump_clock: MockClock
):
    (host, token), (asker, _) = await come(arena), await come(arena)
    lobby_id = await open_lobby(arena, host, wanted(join_by_requests=True))
    request_id = await ask(arena, asker, lobby_id)
    await asker.player.ask(LogOut())
    for _ in range(3):
        await sweep(arena.world)
    await answer(arena, host, request_id, is_approved=True)
    for _ in range(12):
        assert arena.world.seats.find_lobby(asker.player_id) == lobby_id
        await trio.sleep(10)
        await identify(arena, token)
        await sweep(arena.world)
        await wait_all_tasks_blocked()
    assert arena.world.seats.find_lobby(asker.player_id) is None


# Silence.


@pytest.mark.parametrize("logs_out", [True, False])
async def test_a_member_gone_stale_has_left_and_one_who_logged_out_has_as_long_to_come_back(
    arena: Arena, autojump_clock: MockClock, logs_out: bool
):
    (host, _), (guest, token) = await come(arena), await come(arena)
    lobby_id = await open_lobby(arena, host)
    await join(arena, guest, lobby_id)
    if logs_out:
        await host.player.ask(LogOut())
    for second in range(0, 120, 10):
        assert arena.world.seats.find_lobby(host.player_id) == lobby_id, second
        await trio.sleep(10)
        await identify(arena, token)
        for _ in range(2):
            await sweep(arena.world)
            await wait_all_tasks_blocked()
    assert arena.world.seats.find_lobby(host.player_id) is None
    found = await read_lobby(arena.world, guest.player_id)
    assert found is not None
    assert found[0].is_host
    await sweep(arena.world)
    assert arena.world.player_index.list_watched_departures() == []


async def test_after_a_restart_whoever_does_not_come_back_leaves(autojump_clock: MockClock):
    memory = Memory()
    async with open_world(memory) as world:
        game, keys = await add_game(world)
        arena = Arena(world, memory, game, keys)
        lobby_id, host, guest = await pair(arena)
        await guest.player.ask(LogOut())
    async with open_world(memory) as world:
        await SnapshotService(world).restore()
        await restore_online(world)
        await watch_silent_members(world)
        assert world.seats.find_lobby(guest.player_id) == lobby_id
        await trio.sleep(119)
        await world.players.get_ref(host.player_id).ask(Heartbeat())
        await world.players.get_ref(host.player_id).ask(LogOut())
        await trio.sleep(1)
        await sweep(world)
        await wait_all_tasks_blocked()
        assert world.seats.find_lobby(guest.player_id) is None
        assert world.seats.find_lobby(host.player_id) == lobby_id


# The start.


async def test_while_a_start_is_not_durable_every_seat_is_the_rooms_and_nobody_is_told(
    arena: Arena, autojump_clock: MockClock
):
    lobby_id, host, guest = await pair(arena)
    arena.memory.automatic = False
    seen: list[object] = []

    async def look(player: PlayerIdentity) -> None:
        seen.append(await room_seen_by(arena, player))
        found = await read_lobby(arena.world, player.player_id)
        assert found is not None
        seen.append(found[0].room_id)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start_lobby, arena.world, host.player_id)
        await wait_all_tasks_blocked()
        for player in (host, guest):
            assert arena.world.seats.find_lobby(player.player_id) == lobby_id
            assert arena.world.seats.find_room(player.player_id) is not None
            with pytest.raises(AlreadyInRoom):
                await create_room(arena.world, arena.game.game, player.player, ROOM)
            nursery.start_soon(look, player)
        await wait_all_tasks_blocked()
        await trio.sleep(1)
        assert seen == []
        arena.memory.automatic = True
        arena.memory.commit()
    assert len(seen) == 4
    assert len(set(seen)) == 1


async def test_a_start_that_nobody_waits_for_any_more_is_brought_to_its_end(
    arena: Arena, autojump_clock: MockClock
):
    lobby_id, host, guest = await pair(arena)
    arena.memory.automatic = False
    with pytest.raises(CommitUnsettled):
        await start_lobby(arena.world, host.player_id)
    arena.memory.automatic = True
    arena.memory.commit()
    assert len(arena.world.rooms.index.list_expected()) == 1
    await SnapshotService(arena.world).let_go()
    await wait_all_tasks_blocked()
    await trio.sleep(2)
    assert arena.world.rooms.index.list_expected() == []
    room_id = await room_seen_by(arena, guest)
    assert room_id == await room_seen_by(arena, host)
    assert arena.world.seats.find_lobby(guest.player_id) == lobby_id


async def test_a_start_that_the_database_refuses_has_not_happened(
    arena: Arena, autojump_clock: MockClock
):
    lobby_id, host, guest = await pair(arena)
    arena.memory.automatic = False
    failed: list[Exception] = []

    async def start() -> None:
        try:
            await start_lobby(arena.world, host.player_id)
        except ActorUnavailable as error:
            failed.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start)
        await wait_all_tasks_blocked()
        arena.memory.refuse_first()
    arena.memory.automatic = True
    assert len(failed) == 1
    await trio.sleep(1)
    for player in (host, guest):
        found = await read_lobby(arena.world, player.player_id)
        assert found is not None
        assert (found[0].room_id, found[0].lobby.current_players) == (None, 2)
        assert arena.world.seats.find_room(player.player_id) is None
    room = await start_lobby(arena.world, host.player_id)
    assert await room_seen_by(arena, guest) == room.room_id
    assert arena.world.seats.find_lobby(guest.player_id) == lobby_id


async def test_a_lobby_refused_with_its_start_leaves_nobody_in_a_room(
    arena: Arena, autojump_clock: MockClock
):
    host, _ = await come(arena)
    arena.memory.automatic = False
    failed: list[Exception] = []

    async def attempt(act: Callable[[], Awaitable[object]]) -> None:
        try:
            await act()
        except ActorUnavailable as error:
            failed.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attempt, lambda: open_lobby(arena, host))
        await wait_all_tasks_blocked()
        nursery.start_soon(attempt, lambda: start_lobby(arena.world, host.player_id))
        await wait_all_tasks_blocked()
        arena.memory.refuse_first()
        arena.memory.automatic = True
        arena.memory.commit()
    assert len(failed) == 2
    await trio.sleep(1)
    assert not arena.world.seats.is_seated(host.player_id)
    assert arena.world.rooms.index.list_expected() == []
    await open_lobby(arena, host)


async def test_a_lobby_whose_end_the_database_refuses_is_not_let_go(
    arena: Arena, autojump_clock: MockClock
):
    lobby_id, host, guest = await pair(arena)
    arena.memory.automatic = False

    async def end_in_vain() -> None:
        with pytest.raises(ActorUnavailable):
            await remove_lobby(arena.world, host.player_id)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_in_vain)
        await wait_all_tasks_blocked()
        arena.memory.refuse_first()
    arena.memory.automatic = True
    for _ in range(3):
        await trio.sleep(31)
        await SnapshotService(arena.world).let_go()
    assert arena.world.seats.find_lobby(guest.player_id) == lobby_id


@pytest.mark.parametrize("is_durable", [True, False])
async def test_a_server_killed_in_the_middle_of_a_start_has_both_or_neither(
    is_durable: bool, autojump_clock: MockClock
):
    memory = Memory()
    async with open_world(memory) as world:
        game, keys = await add_game(world)
        arena = Arena(world, memory, game, keys)
        lobby_id, host, guest = await pair(arena)
        memory.automatic = False

        async def start() -> None:
            with suppress(CommitUnsettled):
                await start_lobby(world, host.player_id)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            await wait_all_tasks_blocked()
            if is_durable:
                memory.commit()
            memory.pending.clear()
    memory.automatic = True
    async with open_world(memory) as world:
        await SnapshotService(world).restore()
        arena = Arena(world, memory, game, keys)
        for player in (host, guest):
            assert world.seats.find_lobby(player.player_id) == lobby_id
            assert (await room_seen_by(arena, player) is not None) == is_durable
            found = await read_lobby(world, player.player_id)
            assert found is not None
            assert (found[0].room_id is not None) == is_durable


async def test_a_start_that_is_cancelled_once_it_has_run_has_happened(
    arena: Arena, autojump_clock: MockClock
):
    _, host, guest = await pair(arena)
    arena.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(start_lobby, arena.world, host.player_id)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        arena.memory.automatic = True
        arena.memory.commit()
    assert await room_seen_by(arena, guest) is not None


async def test_a_started_lobby_is_let_go_with_its_room(arena: Arena, autojump_clock: MockClock):
    lobby_id, host, guest = await pair(arena)
    room = await start_lobby(arena.world, host.player_id)
    keeper = SnapshotService(arena.world)
    await keeper.let_go()
    await wait_all_tasks_blocked()
    assert arena.world.lobbies.index.is_active(lobby_id)
    await arena.world.rooms.directory.get_ref(room.room_id).ask(StopRoom(host.player_id))
    assert arena.world.seats.find_lobby(guest.player_id) is None
    for _ in range(5):
        await keeper.let_go()
        await wait_all_tasks_blocked()
        await trio.sleep(31)
    assert len(arena.world.lobbies.directory) == 0
    assert lobby_id in arena.memory.journals.entries, "its history is kept"
    await trio.sleep(24 * 3_600)
    await keeper.let_go()
    assert lobby_id not in arena.memory.journals.entries


async def test_a_started_lobby_whose_room_ended_with_the_server_ends_after_the_restart(
    autojump_clock: MockClock,
):
    memory = Memory()
    async with open_world(memory) as world:
        game, keys = await add_game(world)
        arena = Arena(world, memory, game, keys)
        lobby_id, host, _ = await pair(arena)
        room = await start_lobby(world, host.player_id)
        await world.rooms.directory.get_ref(room.room_id).ask(StopRoom(host.player_id))
    await trio.sleep(1_000)
    async with open_world(memory) as world:
        keeper = SnapshotService(world)
        await keeper.restore()
        assert world.seats.find_lobby(host.player_id) is None
        await keeper.let_go()
        await wait_all_tasks_blocked()
        assert not world.lobbies.index.is_active(lobby_id)


async def test_whoever_leaves_or_removes_a_started_lobby_is_out_of_both(
    arena: Arena, autojump_clock: MockClock
):
    lobby_id, host, guest = await pair(arena)
    await start_lobby(arena.world, host.player_id)
    await leave_lobby(arena.world, guest.player_id)
    assert arena.world.seats.find_lobby(guest.player_id) is None
    await remove_lobby(arena.world, host.player_id)
    assert await read_lobby(arena.world, host.player_id) is None
    with pytest.raises(refusals.NotInAnyLobby):
        await leave_lobby(arena.world, host.player_id)
    with pytest.raises(refusals.LobbyNotFound):
        await join(arena, guest, lobby_id)


async def test_the_lobbies_of_a_deleted_game_end(arena: Arena, autojump_clock: MockClock):
    lobby_id, host, guest = await pair(arena)
    await delete_game(arena.world, arena.game.game_id)
    assert not arena.world.lobbies.index.is_active(lobby_id)
    assert not arena.world.seats.is_seated(host.player_id)
    assert not arena.world.seats.is_seated(guest.player_id)
