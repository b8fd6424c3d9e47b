"""Identity, registration, sessions, bans, and their races."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import (
    START,
    Arena,
    add_game,
    describe,
    identify,
    leave_memory,
    open_arena,
    register,
)

from greenroom.actors.flows.bans import ban_player, unban_player
from greenroom.actors.flows.games import (
    make_game_keys,
)
from greenroom.actors.flows.identify import (
    identify_admin,
    identify_game,
    identify_player,
)
from greenroom.actors.flows.register import (
    rename_player,
    rotate_token,
)
from greenroom.actors.game.messages import (
    ReplaceGameDocument,
)
from greenroom.actors.kernel.errors import ActorCrashed, StorageUnavailable
from greenroom.actors.player.messages import (
    DescribePlayer,
    Heartbeat,
    LogIn,
    LogOut,
    PlayerBanned,
    PlayerRegistered,
    ReadPlayerDocument,
)
from greenroom.actors.player.refusals import (
    InvalidPlayerToken,
    PlayerIsBanned,
    PlayerNotFound,
    PlayerOfAnotherGame,
)
from greenroom.actors.player.tokens import PLAYER_TOKEN, hash_token, make_token
from greenroom.actors.text.refusals import NameRefused


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        yield arena


# Registration.


async def test_a_registered_player_is_known_by_their_token_at_once(
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
        await rename_player(arena.world, arena.game.game, player.player, "Ольга")
    assert await rename_player(arena.world, arena.game.game, player.player, " Eve ") == "Eve"
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
    assert arena.world.player_index.take_unsaved() == []


async def test_whoever_asks_about_an_id_just_before_it_is_given_away_keeps_nobody_out(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.read_seconds = 1.0

    async def ask() -> None:
        with pytest.raises(PlayerNotFound):
            await ban_player(arena.world, arena.game.game_id, 1, "day", None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        new = await register(arena)
    assert new.player_id == 1
    assert (await identify(arena, new.token)).player_id == 1


async def test_an_account_that_is_not_durable_in_time_is_taken_back(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.automatic = False
    with pytest.raises(StorageUnavailable):
        await register(arena)
    arena.memory.automatic = True
    arena.memory.commit()
    await wait_all_tasks_blocked()
    usage = arena.world.ledger.get_game_usage(arena.game.game_id)
    assert arena.memory.players == {}
    assert (usage.players_online, usage.owner.players_online) == (0, 0)
    assert (await register(arena)).player_id == 2


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
    kinds = [type(event) for event in arena.memory.committed]
    assert kinds.index(PlayerBanned) > kinds.index(PlayerRegistered)
    assert arena.memory.players[1].ban is not None


# Identity.


@pytest.mark.parametrize("token", ["", "junk", "gr_plr_", make_token(PLAYER_TOKEN, b"x" * 64)])
async def test_a_token_of_nobodys_is_invalid(autojump_clock: MockClock, arena: Arena, token: str):
    with pytest.raises(InvalidPlayerToken) as refused:
        await identify(arena, token)
    assert type(refused.value) is InvalidPlayerToken


async def test_junk_never_reaches_the_database(autojump_clock: MockClock, arena: Arena):
    for junk in ("", "junk", "gr_plr_" + "0" * 39, "\ud800" * 46):
        with pytest.raises(InvalidPlayerToken):
            await identify(arena, junk)
        assert await identify_game(arena.world, junk) is None
        assert not await identify_admin(arena.game, junk)
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


async def test_a_passive_player_is_found_by_their_token(autojump_clock: MockClock, arena: Arena):
    new = await register(arena, data=b'{"a":1}')
    await leave_memory(arena, new.token)

    player = await identify(arena, new.token)

    assert (await player.player.ask(ReadPlayerDocument())).player_data == b'{"a":1}'
    assert (await describe(arena, new.player_id)).is_online


async def test_a_player_loaded_by_id_while_their_token_is_looked_up_is_one_player(
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
        await rename_player(
            arena.world, arena.game.game, arena.world.players.get_ref(new.player_id), "Eve"
        )

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
        await rename_player(
            arena.world, arena.game.game, arena.world.players.get_ref(new.player_id), "Eve"
        )

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
        assert arena.memory.reads[-1] == "find_player_by_token"

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
        await identify(arena, make_token(PLAYER_TOKEN, os.urandom(64)))
    with pytest.raises(StorageUnavailable):
        await identify_game(arena.world, make_game_keys().api_token)


# Sessions.


async def test_login_answers_the_login_before(autojump_clock: MockClock, arena: Arena):
    player = (await identify(arena, (await register(arena)).token)).player
    assert (await player.ask(LogIn())).last_login is None
    await trio.sleep(10)
    assert (await player.ask(LogIn())).last_login == START
    assert (await player.ask(DescribePlayer())).last_login == START + 10


async def test_logout_is_durable_and_the_next_call_brings_the_player_back(
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


async def test_a_banned_player_is_refused_until_their_ban_ends(
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
