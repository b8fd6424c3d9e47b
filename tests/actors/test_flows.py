"""Flows over real actors: identity, registration, moderation, housekeeping, and their races."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import START, Arena, Memory, add_game, open_arena, open_world

from greenroom.actors.flows.games import (
    create_game,
    delete_game,
    make_game_keys,
    rotate_game_keys,
    set_plan,
)
from greenroom.actors.flows.identify import (
    PlayerIdentity,
    identify_admin,
    identify_game,
    identify_player,
)
from greenroom.actors.flows.listing import list_players
from greenroom.actors.flows.moderation import ban_player, unban_player
from greenroom.actors.flows.register import (
    NewPlayer,
    register_player,
    rename_player,
    rotate_token,
)
from greenroom.actors.flows.sweep import restore_online, save_presence, sweep, sweep_for_ever
from greenroom.actors.flows.world import World
from greenroom.actors.game.messages import (
    DescribeGame,
    GameNameRefused,
    GameNotFound,
    ReadGameDocument,
    ReplaceGameDocument,
)
from greenroom.actors.kernel.errors import ActorCrashed, StorageUnavailable
from greenroom.actors.player.messages import (
    DescribePlayer,
    Heartbeat,
    InvalidPlayerToken,
    LogIn,
    LogOut,
    PlayerBanned,
    PlayerIsBanned,
    PlayerNotFound,
    PlayerOfAnotherGame,
    PlayerPresenceSaved,
    PlayerView,
    ReadPlayerDocument,
    ReplacePlayerDocument,
)
from greenroom.actors.player.tokens import PLAYER_TOKEN, hash_token, make_token
from greenroom.actors.text.names import NameRefused


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


async def register(arena: Arena, name: str = "Ada", data: bytes = b"{}") -> NewPlayer:
    return await register_player(arena.world, arena.game.game, name, data)


async def identify(arena: Arena, token: str) -> PlayerIdentity:
    return await identify_player(arena.world, arena.game, token)


async def describe(arena: Arena, player_id: int) -> PlayerView:
    return await arena.world.players.ref(player_id).ask(DescribePlayer())


async def leave_memory(arena: Arena, token: str) -> int:
    """Log a player out and let the sweeps take him out of memory; return his id."""
    player = await identify(arena, token)
    await player.player.ask(LogOut())
    for _ in range(3):
        await sweep(arena.world)
        await trio.sleep(31)
    assert arena.world.players.active(player.player_id) is None
    return player.player_id


# Registration.


async def test_a_registered_player_is_known_by_his_token_at_once(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena, "  Ada ", b'{"level":1}')

    player = await identify(arena, new.token)

    assert player.player_id == new.player_id
    assert new.player_name == "Ada"
    shown = await player.player.ask(DescribePlayer())
    assert (shown.is_online, shown.player_data, shown.player_tag) == (
        True,
        b'{"level":1}',
        new.player_tag,
    )
    assert arena.memory.players[new.player_id].token_hash == hash_token(new.token)


async def test_the_names_rules_of_the_game_count_from_the_moment_they_are_stored(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena, "Ada 1")
    rules = b'{"name_rules":{"digits":false,"scripts":["Latin"]}}'
    await arena.game.game.ask(ReplaceGameDocument(rules))

    with pytest.raises(NameRefused, match="must not contain digits"):
        await register(arena, "Ada 1")
    player = await identify(arena, new.token)
    with pytest.raises(NameRefused, match="only these scripts: Latin"):
        await rename_player(arena.game.game, player.player, "Ольга")
    assert await rename_player(arena.game.game, player.player, " Eve ") == "Eve"
    assert (await describe(arena, new.player_id)).player_name == "Eve"


async def test_malformed_name_rules_are_ignored_and_logged(
    autojump_clock: MockClock, arena: Arena, caplog: pytest.LogCaptureFixture
):
    await arena.game.game.ask(ReplaceGameDocument(b'{"name_rules":{"case":"Title"}}'))
    assert (await register(arena, "AdA")).player_name == "AdA"
    assert "game 1: name_rules.case is none of any, lower, upper; ignored" in caplog.text


async def test_a_closed_gate_refuses_registration_and_leaves_nobody_behind(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.away = True
    with pytest.raises(StorageUnavailable):
        await register(arena)
    assert len(arena.world.players) == 0


async def test_a_registration_that_the_database_refuses_leaves_nobody_behind(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.automatic = False
    async with trio.open_nursery() as nursery:

        async def try_it() -> None:
            with pytest.raises(ActorCrashed):
                await register(arena)

        nursery.start_soon(try_it)
        await wait_all_tasks_blocked()
        arena.memory.refuse_first()
    await wait_all_tasks_blocked()
    assert len(arena.world.players) == 0
    assert arena.world.player_index.online_count == 0


async def test_a_ban_in_the_middle_of_a_registration_takes_effect_behind_it(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(register, arena)
        await wait_all_tasks_blocked()
        nursery.start_soon(ban_player, arena.world, arena.game.game_id, 1, "day", None)
        await wait_all_tasks_blocked()
        arena.memory.commit()
    assert isinstance(arena.memory.committed[-1], PlayerBanned)
    assert arena.memory.players[1].ban is not None


# Identity.


@pytest.mark.parametrize("token", ["", "junk", "gr_plr_", make_token(PLAYER_TOKEN, b"x" * 24)])
async def test_a_token_of_nobodys_is_invalid(autojump_clock: MockClock, arena: Arena, token: str):
    with pytest.raises(InvalidPlayerToken) as refused:
        await identify(arena, token)
    assert type(refused.value) is InvalidPlayerToken


async def test_junk_never_reaches_the_database(autojump_clock: MockClock, arena: Arena):
    for junk in ("", "junk", "gr_plr_" + "0" * 39, "\ud800" * 46):
        with pytest.raises(InvalidPlayerToken):
            await identify(arena, junk)
        assert await identify_game(arena.world, junk) is None
        assert not await identify_admin(arena.world, arena.game, junk)
    assert arena.memory.reads == []


async def test_another_games_player_is_refused_active_or_not(
    autojump_clock: MockClock, arena: Arena
):
    other, _ = await add_game(arena.world, "Other")
    new = await register(arena)
    with pytest.raises(PlayerOfAnotherGame):
        await identify_player(arena.world, other, new.token)
    await leave_memory(arena, new.token)
    with pytest.raises(PlayerOfAnotherGame):
        await identify_player(arena.world, other, new.token)
    assert len(arena.world.players) == 0


async def test_a_passive_player_is_found_by_his_token(autojump_clock: MockClock, arena: Arena):
    new = await register(arena, data=b'{"a":1}')
    await leave_memory(arena, new.token)

    player = await identify(arena, new.token)

    assert (await player.player.ask(ReadPlayerDocument())).player_data == b'{"a":1}'
    assert (await describe(arena, new.player_id)).is_online


async def test_a_player_loaded_by_id_while_his_token_is_looked_up_is_one_player(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    await leave_memory(arena, new.token)
    arena.memory.read_seconds = 1.0
    names: list[str] = []

    async def by_token() -> None:
        player = await identify(arena, new.token)
        names.append((await player.player.ask(DescribePlayer())).player_name)

    async def by_id() -> None:
        await trio.sleep(0.5)
        await rename_player(arena.game.game, arena.world.players.ref(new.player_id), "Eve")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(by_token)
        nursery.start_soon(by_id)

    assert names in (["Ada"], ["Eve"])
    assert (await describe(arena, new.player_id)).player_name == "Eve"
    assert arena.memory.players[new.player_id].player_name == "Eve"


async def test_a_record_read_before_a_change_never_replaces_the_player(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    await leave_memory(arena, new.token)
    arena.memory.read_seconds = 5.0

    async def change() -> None:
        await trio.sleep(1)
        arena.memory.read_seconds = 0.0
        await rename_player(arena.game.game, arena.world.players.ref(new.player_id), "Eve")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(change)
        player = await identify(arena, new.token)  # its record still says Ada

    assert (await player.player.ask(DescribePlayer())).player_name == "Eve"


async def test_a_rotated_token_is_dead_even_while_the_database_knows_it(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    player = await identify(arena, new.token)
    arena.memory.automatic = False
    fresh: list[str] = []

    async def rotate() -> None:
        fresh.append(await rotate_token(player.player, player.token_hash))

    async def try_the_old() -> None:
        with pytest.raises(InvalidPlayerToken):
            await identify(arena, new.token)
        assert arena.memory.reads[-1] == "player_by_token"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rotate)
        await wait_all_tasks_blocked()
        nursery.start_soon(try_the_old)
        await wait_all_tasks_blocked()
        assert fresh == []  # not before it is durable
        arena.memory.commit()
    arena.memory.automatic = True
    assert (await identify(arena, fresh[0])).player_id == new.player_id
    with pytest.raises(InvalidPlayerToken):
        await identify(arena, new.token)


async def test_of_two_rotations_with_one_token_one_succeeds(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    first, second = await identify(arena, new.token), await identify(arena, new.token)
    token = await rotate_token(first.player, first.token_hash)
    with pytest.raises(InvalidPlayerToken):
        await rotate_token(second.player, second.token_hash)
    assert (await identify(arena, token)).player_id == new.player_id


async def test_a_rotation_that_the_database_refuses_leaves_the_old_token_good(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    player = await identify(arena, new.token)
    arena.memory.automatic = False

    async def rotate() -> None:
        with pytest.raises(ActorCrashed):
            await rotate_token(player.player, player.token_hash)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rotate)
        await wait_all_tasks_blocked()
        arena.memory.refuse_first()
    arena.memory.automatic = True
    assert (await identify(arena, new.token)).player_id == new.player_id


async def test_away_is_not_the_same_as_invalid(autojump_clock: MockClock, arena: Arena):
    arena.memory.away = True
    with pytest.raises(StorageUnavailable):
        await identify(arena, make_token(PLAYER_TOKEN, os.urandom(24)))
    with pytest.raises(StorageUnavailable):
        await identify_game(arena.world, make_game_keys().api_token)


# Sessions.


async def test_login_answers_the_login_before(autojump_clock: MockClock, arena: Arena):
    player = (await identify(arena, (await register(arena)).token)).player
    assert (await player.ask(LogIn())).last_login is None
    await trio.sleep(10)
    assert (await player.ask(LogIn())).last_login == START
    assert (await player.ask(DescribePlayer())).last_login == START + 10


async def test_logout_is_durable_and_the_next_call_brings_him_back(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    player = (await identify(arena, new.token)).player
    await trio.sleep(3)
    assert await player.ask(LogOut()) == START + 3
    assert not arena.memory.players[new.player_id].is_online
    assert not (await player.ask(DescribePlayer())).is_online

    await identify(arena, new.token)

    shown = await player.ask(DescribePlayer())
    assert (shown.is_online, shown.last_logout) == (True, START + 3)
    await player.ask(LogOut())
    await trio.sleep(1)
    assert await player.ask(Heartbeat()) == START + 4


# Moderation.


async def test_a_banned_player_is_refused_until_his_ban_ends(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    ban = await ban_player(arena.world, arena.game.game_id, new.player_id, "hour", "spam")
    with pytest.raises(PlayerIsBanned) as refused:
        await identify(arena, new.token)
    assert refused.value.ban == ban
    assert str(refused.value) == "You are banned: spam. Ban expires in 1 hour"
    await trio.sleep(3_601)
    await identify(arena, new.token)
    assert await unban_player(arena.world, arena.game.game_id, new.player_id) == 0


async def test_passive_players_can_be_banned_and_pardoned(autojump_clock: MockClock, arena: Arena):
    new = await register(arena)
    await leave_memory(arena, new.token)
    await ban_player(arena.world, arena.game.game_id, new.player_id, "forever", None)
    with pytest.raises(PlayerIsBanned):
        await identify(arena, new.token)
    assert await unban_player(arena.world, arena.game.game_id, new.player_id) == 1
    assert await unban_player(arena.world, arena.game.game_id, new.player_id) == 0
    await identify(arena, new.token)


@pytest.mark.parametrize("player_id", [-1, 0, 999, 2**63 - 1, 2**63, 10**30])
async def test_nobody_can_be_banned_who_is_not(
    autojump_clock: MockClock, arena: Arena, player_id: int
):
    with pytest.raises(PlayerNotFound):
        await ban_player(arena.world, arena.game.game_id, player_id, "day", None)
    with pytest.raises(PlayerNotFound):
        await unban_player(arena.world, arena.game.game_id, player_id)


async def test_another_games_players_can_not_be_banned(autojump_clock: MockClock, arena: Arena):
    other, _ = await add_game(arena.world, "Other")
    new = await register(arena)
    with pytest.raises(PlayerNotFound):
        await ban_player(arena.world, other.game_id, new.player_id, "day", None)
    await identify(arena, new.token)


# Housekeeping.


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
    assert list(arena.world.players.keys()) == [here.player_id]
    assert arena.world.player_index.offline() == []


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
        await world.players.ref(offline.player_id).ask(LogOut())
    await trio.sleep(1_000)
    async with open_world(memory) as world:
        assert await restore_online(world) == 1
        assert list(world.players.keys()) == [online.player_id]
        await trio.sleep(100)
        await sweep(world)
        assert (await world.players.ref(online.player_id).ask(DescribePlayer())).is_online
        await trio.sleep(20)
        await sweep(world)
        assert not (await world.players.ref(online.player_id).ask(DescribePlayer())).is_online


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
    assert [(p.player_id, p.is_online) for p in page] == [(new.player_id, False)]


async def test_a_list_of_a_database_that_is_away_fails(autojump_clock: MockClock, arena: Arena):
    arena.memory.away = True
    with pytest.raises(StorageUnavailable):
        await listed(arena.world, arena.game.game_id)


# Games.


async def test_a_game_is_known_by_its_keys_active_or_not(autojump_clock: MockClock):
    memory = Memory()
    async with open_world(memory) as world:
        game, keys = await add_game(world)
    async with open_world(memory) as world:
        for _ in range(2):  # from the database, then from memory
            found = await identify_game(world, keys.api_token)
            assert found is not None
            assert found.game_id == game.game_id
            assert await identify_admin(world, found, keys.api_private_token)
            assert not await identify_admin(world, found, keys.api_token)
            assert not await identify_admin(world, found, make_game_keys().api_private_token)
        assert memory.reads == ["game_by_api_key", "game"]
        assert await identify_game(world, keys.api_private_token) is None


async def test_rotated_keys_are_dead_at_once(autojump_clock: MockClock, arena: Arena):
    keys = make_game_keys()
    await rotate_game_keys(arena.world, arena.game.game_id, keys)
    assert await identify_game(arena.world, arena.keys.api_token) is None
    assert not await identify_admin(arena.world, arena.game, arena.keys.api_private_token)
    found = await identify_game(arena.world, keys.api_token)
    assert found is not None
    assert found.game_id == arena.game.game_id
    assert await identify_admin(arena.world, found, keys.api_private_token)
    with pytest.raises(GameNotFound):
        await rotate_game_keys(arena.world, 999, keys)


async def test_an_old_key_that_the_database_still_knows_opens_nothing(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rotate_game_keys, arena.world, arena.game.game_id, make_game_keys())
        await wait_all_tasks_blocked()

        async def try_the_old() -> None:
            assert await identify_game(arena.world, arena.keys.api_token) is None

        nursery.start_soon(try_the_old)
        await wait_all_tasks_blocked()
        arena.memory.commit()


async def test_a_bad_name_creates_no_game(autojump_clock: MockClock, arena: Arena):
    with pytest.raises(GameNameRefused):
        await create_game(arena.world, arena.memory.all_owners[1], "", make_game_keys())
    assert list(arena.world.games.keys()) == [arena.game.game_id]


async def test_a_new_plan_reaches_the_owners_active_games_alone(
    autojump_clock: MockClock, arena: Arena
):
    owner = await arena.memory.create_owner("Eve", "free")
    other_id = await create_game(arena.world, owner, "Eve's", make_game_keys())
    await set_plan(arena.world, owner.owner_id, "pro")
    await wait_all_tasks_blocked()
    assert (await arena.world.games.ref(other_id).ask(DescribeGame())).plan == "pro"
    assert (await arena.game.game.ask(DescribeGame())).plan == "unlimited"


async def test_a_deleted_game_is_gone_with_its_keys_and_players(
    autojump_clock: MockClock, arena: Arena
):
    new = await register(arena)
    deleted: list[int] = []
    await delete_game(arena.world, arena.game.game_id, deleted.append)
    assert deleted == [1]
    assert await identify_game(arena.world, arena.keys.api_token) is None
    assert not await identify_admin(arena.world, arena.game, arena.keys.api_private_token)
    with pytest.raises(GameNotFound):
        await delete_game(arena.world, arena.game.game_id)
    await trio.sleep(150)
    for _ in range(3):
        await sweep(arena.world)
        await trio.sleep(31)
    assert arena.world.players.active(new.player_id) is None


async def test_a_game_that_could_not_be_deleted_is_there_still(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.away = True
    with pytest.raises(StorageUnavailable):
        await delete_game(arena.world, arena.game.game_id)
    arena.memory.away = False
    found = await identify_game(arena.world, arena.keys.api_token)
    assert found is not None
    assert (await found.game.ask(ReadGameDocument())).data == b"{}"
