"""Housekeeping: who goes stale, who leaves memory, what is saved, what the list shows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import (
    START,
    Arena,
    Memory,
    add_game,
    describe,
    identify,
    open_arena,
    open_world,
    register,
)

from greenroom.actors.flows.bans import ban_player
from greenroom.actors.flows.identify import (
    identify_player,
)
from greenroom.actors.flows.listing import list_players
from greenroom.actors.flows.realtime import note_sign_of_life
from greenroom.actors.flows.register import (
    register_player,
)
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.player.messages import (
    DescribePlayer,
    Heartbeat,
    LogIn,
    LogOut,
    PlayerPresenceSaved,
    ReadPlayerDocument,
    ReplacePlayerDocument,
)
from greenroom.actors.player.refusals import PlayerIsBanned, PlayerOfAnotherGame
from greenroom.actors.services.sweep import restore_online, save_presence, sweep, sweep_for_ever
from greenroom.actors.world.world import World


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


async def test_a_silent_player_goes_offline_when_stale_and_no_sooner(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    await trio.sleep(119)
    await sweep(arena.world)
    assert (await describe(arena, new.player_id)).is_online
    await trio.sleep(1)
    await sweep(arena.world)
    shown = await describe(arena, new.player_id)
    assert (shown.is_online, shown.last_logout, shown.last_heartbeat) == (
        False,
        START + 120,
        START,
    )
    assert not arena.memory.players[new.player_id].is_online


async def test_who_comes_back_counts_for_the_address_that_was_told_last(arena: Arena):
    shares = arena.world.ledger.get_game_usage(arena.game.game_id).owner.online_from
    new = await register(arena)
    player = arena.world.players.get_ref(new.player_id)
    await player.ask(LogOut())
    await identify_player(arena.world, arena.game, new.token, "192.0.2.1")
    assert shares.get_count("192.0.2.1") == 1
    await player.ask(LogOut())
    assert shares.get_count("192.0.2.1") == 0
    note_sign_of_life(arena.world, new.player_id)  # over a connection made before
    assert shares.get_count("192.0.2.1") == 1


async def test_any_good_call_is_a_sign_of_life_and_bad_ones_are_none(
    autojump_clock: MockClock, arena: Arena
):
    quiet, banned, lively = [await register(arena, name) for name in ("Ann", "Bob", "Eve")]
    await ban_player(arena.world, arena.game.game_id, banned.player_id, "day", None)
    other, _ = await add_game(arena.world, "Other")
    await trio.sleep(100)
    await identify(arena, lively.token)
    with pytest.raises(PlayerIsBanned):
        await identify(arena, banned.token)
    with pytest.raises(PlayerOfAnotherGame):
        await identify_player(arena.world, other, quiet.token)
    await trio.sleep(50)
    await sweep(arena.world)
    online = [
        (await describe(arena, player.player_id)).is_online for player in (quiet, banned, lively)
    ]
    assert online == [False, False, True]


async def test_a_banned_player_is_offline_at_once_and_stays_so(arena: Arena):
    new, game_id = await register(arena), arena.game.game_id
    player = (await identify_player(arena.world, arena.game, new.token, "192.0.2.1")).player
    usage = arena.world.ledger.get_game_usage(game_id)
    assert (usage.players_online, usage.owner.online_from.get_count("192.0.2.1")) == (1, 1)
    await ban_player(arena.world, game_id, new.player_id, "day", None)
    note_sign_of_life(arena.world, new.player_id)  # over a connection made before
    for late in (Heartbeat(), LogIn()):  # let in before the ban
        with pytest.raises(PlayerIsBanned):
            await player.ask(late)
    assert not (await describe(arena, new.player_id)).is_online
    assert not arena.world.player_index.is_online(new.player_id)
    assert not arena.memory.players[new.player_id].is_online
    assert (usage.players_online, usage.owner.players_online) == (0, 0)
    assert usage.owner.online_from.get_count("192.0.2.1") == 0


async def test_a_sign_of_life_between_the_sweeps_look_and_its_word_counts(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    await trio.sleep(150)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sweep, arena.world)
        nursery.start_soon(identify, arena, new.token)
    shown = await describe(arena, new.player_id)
    assert shown.is_online


async def test_offline_players_leave_memory_and_online_ones_never_do(
    autojump_clock: MockClock, arena: Arena
):
    away, here = await register(arena, "Ann"), await register(arena, "Bob")
    await (await identify(arena, away.token)).player.ask(LogOut())
    for _ in range(20):
        await identify(arena, here.token)
        await sweep(arena.world)
        await trio.sleep(30)
    assert list(arena.world.players.iterate_keys()) == [here.player_id]
    assert arena.world.player_index.list_offline() == []


async def test_presence_is_saved_in_the_background_and_once(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    await trio.sleep(60)
    await identify(arena, new.token)
    await save_presence(arena.world)
    await save_presence(arena.world)
    await wait_all_tasks_blocked()
    saved = [e for e in arena.memory.committed if isinstance(e, PlayerPresenceSaved)]
    assert saved == [PlayerPresenceSaved(new.player_id, True, START + 60)]


async def test_a_sign_of_life_that_is_not_kept_is_shown_and_not_written(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    await trio.sleep(60)
    note_sign_of_life(arena.world, new.player_id, is_kept=False)
    await save_presence(arena.world)
    await wait_all_tasks_blocked()
    shown = await describe(arena, new.player_id)
    assert (shown.is_online, shown.last_heartbeat) == (True, START + 60)
    assert not [e for e in arena.memory.committed if isinstance(e, PlayerPresenceSaved)]


async def test_who_comes_online_by_a_sign_of_life_is_always_written(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    player = (await identify(arena, new.token)).player
    await player.ask(LogOut())
    note_sign_of_life(arena.world, new.player_id, is_kept=False)
    await save_presence(arena.world)
    await wait_all_tasks_blocked()
    saved = [e for e in arena.memory.committed if isinstance(e, PlayerPresenceSaved)]
    assert saved[-1] == PlayerPresenceSaved(new.player_id, True, START)


async def test_a_player_just_registered_or_restored_is_not_written_again(
    autojump_clock: MockClock, arena: Arena
):
    await register(arena)
    await save_presence(arena.world)
    await wait_all_tasks_blocked()
    assert not [e for e in arena.memory.committed if isinstance(e, PlayerPresenceSaved)]


async def test_saving_presence_hides_no_change_that_is_in_flight(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    player = (await identify(arena, new.token)).player
    arena.memory.automatic = False
    seen: list[bytes] = []

    async def read() -> None:
        seen.append((await player.ask(ReadPlayerDocument())).player_data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(player.ask, ReplacePlayerDocument(b'{"new":1}'))
        await wait_all_tasks_blocked()
        await save_presence(arena.world)
        await wait_all_tasks_blocked()
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        assert seen == []
        arena.memory.commit()
    assert seen == [b'{"new":1}']


async def test_the_sweeper_does_it_all_by_itself(autojump_clock: MockClock, arena: Arena):
    stale, lively = await register(arena, "Ann"), await register(arena, "Bob")
    async with trio.open_nursery() as nursery:
        await nursery.start(sweep_for_ever, arena.world)
        for _ in range(10):
            await trio.sleep(30)
            await identify(arena, lively.token)
        nursery.cancel_scope.cancel()
    assert not arena.memory.players[stale.player_id].is_online
    assert (arena.memory.players[lively.player_id].last_heartbeat or 0) >= START + 250


async def test_what_the_sweep_could_not_do_it_does_later(autojump_clock: MockClock, arena: Arena):
    new = await register(arena)
    await trio.sleep(150)
    arena.memory.away = True
    await sweep(arena.world)
    await wait_all_tasks_blocked()
    arena.memory.away = False
    assert (await describe(arena, new.player_id)).is_online
    await sweep(arena.world)
    assert not (await describe(arena, new.player_id)).is_online


async def test_after_a_restart_every_online_players_clock_begins_anew(autojump_clock: MockClock):
    memory = Memory()
    async with open_world(memory) as world:
        game, _ = await add_game(world)
        online = await register_player(world, game.game, "Ann", b"{}")
        offline = await register_player(world, game.game, "Bob", b"{}")
        await world.players.get_ref(offline.player_id).ask(LogOut())
    await trio.sleep(1_000)
    async with open_world(memory) as world:
        assert await restore_online(world) == 1
        assert list(world.players.iterate_keys()) == [online.player_id]
        await trio.sleep(100)
        await sweep(world)
        assert (await world.players.get_ref(online.player_id).ask(DescribePlayer())).is_online
        await trio.sleep(20)
        await sweep(world)
        assert not (await world.players.get_ref(online.player_id).ask(DescribePlayer())).is_online


# Listing.


async def listed(
    world: World, game_id: int, after_id: int = 0, limit: int | None = None
) -> list[int]:
    pages = list_players(world, game_id, after_id, limit)
    return [player.player_id async for page in pages for player in page]


async def test_the_list_has_every_player_of_the_game_once(
    autojump_clock: MockClock, arena: Arena, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("greenroom.actors.flows.listing.PAGE_PLAYERS_MAX", 3)
    other, _ = await add_game(arena.world, "Other")
    ids = [(await register(arena)).player_id for _ in range(7)]
    await register_player(arena.world, other.game, "Eve", b"{}")
    game_id = arena.game.game_id

    assert await listed(arena.world, game_id) == ids
    assert await listed(arena.world, game_id, limit=4) == ids[:4]
    assert await listed(arena.world, game_id, limit=6) == ids[:6]
    assert await listed(arena.world, game_id, limit=100) == ids
    assert await listed(arena.world, game_id, after_id=ids[2]) == ids[3:]
    assert await listed(arena.world, game_id, after_id=-5, limit=1) == ids[:1]
    assert await listed(arena.world, game_id, after_id=10**30) == []
    assert await listed(arena.world, 999) == []


async def test_the_list_shows_presence_newer_than_the_database(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    player = (await identify(arena, new.token)).player
    await player.ask(LogOut())
    await trio.sleep(5)
    await identify(arena, new.token)
    assert not arena.memory.players[new.player_id].is_online

    (page,) = [page async for page in list_players(arena.world, arena.game.game_id)]

    assert [(p.is_online, p.last_heartbeat) for p in page] == [(True, START + 5)]


async def test_the_list_waits_for_nobody_whose_change_is_in_flight(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    player = (await identify(arena, new.token)).player
    arena.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(player.ask, LogOut())
        await wait_all_tasks_blocked()
        (page,) = [page async for page in list_players(arena.world, arena.game.game_id)]
        arena.memory.commit()
    assert [(p.is_online, p.last_logout) for p in page] == [(True, None)]
    ((after,),) = [page async for page in list_players(arena.world, arena.game.game_id)]
    assert (after.is_online, after.last_logout) == (False, START)


async def test_a_list_of_a_database_that_is_away_fails(autojump_clock: MockClock, arena: Arena):
    arena.memory.away = True
    with pytest.raises(StorageUnavailable):
        await listed(arena.world, arena.game.game_id)
