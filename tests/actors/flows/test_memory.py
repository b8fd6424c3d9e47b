"""Players in memory: who is let in, who is let go for them, and what a refusal leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock
from world_kit import Arena, describe, leave_memory, open_arena, open_world, register

from greenroom.actors.flows.bans import ban_player
from greenroom.actors.flows.friends import Addressee, look_up, request_friendship
from greenroom.actors.flows.identify import GameIdentity, PlayerIdentity, identify_player
from greenroom.actors.flows.lookup import find_by_tag
from greenroom.actors.flows.register import NewPlayer, register_player
from greenroom.actors.friendship.refusals import NoSuchPlayer
from greenroom.actors.kernel.errors import MailboxFull
from greenroom.actors.plans.memory import Memory
from greenroom.actors.plans.plan import ServerLimits
from greenroom.actors.plans.refusals import PlayersHoldTooMuch
from greenroom.actors.player.memory import PLAYER_HELD_BYTES
from greenroom.actors.player.messages import (
    LogOut,
    ReadPlayerDocument,
    Rename,
    ReplacePlayerDocument,
    WriteResult,
)
from greenroom.actors.services.sweep import restore_online, sweep

KIB = 1 << 10
SPACE = ServerLimits(players_bytes_max=400 * KIB)
"""Large documents fill 300 KiB of it, those of one address 75."""
LARGE = b'{"x":"' + b"x" * (60 * KIB) + b'"}'
OWN = b'{"x":"' + b"x" * (200 * KIB) + b'"}'
HERE, THERE = "203.0.113.7", "203.0.113.8"


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena(server=SPACE) as arena:
        yield arena


def memory_of(arena: Arena) -> Memory:
    return arena.world.player_index.memory


async def come(arena: Arena, address: str, data: bytes = b"{}") -> NewPlayer:
    return await register_player(arena.world, arena.game.game, "Ada", data, address=address)


async def call(arena: Arena, player: NewPlayer, address: str) -> PlayerIdentity:
    return await identify_player(arena.world, arena.game, player.token, address)


async def test_an_address_fills_its_share_and_another_goes_on(arena: Arena):
    greedy, other = await come(arena, HERE, LARGE), await come(arena, THERE)
    held = memory_of(arena).size
    with pytest.raises(PlayersHoldTooMuch):
        await come(arena, HERE, LARGE)
    small = await come(arena, HERE)
    with pytest.raises(PlayersHoldTooMuch):
        await (await call(arena, small, HERE)).player.ask(ReplacePlayerDocument(LARGE))
    assert (await describe(arena, small.player_id)).player_data == b"{}"
    assert memory_of(arena).size == held + PLAYER_HELD_BYTES + len("Ada{}")
    await (await call(arena, other, THERE)).player.ask(ReplacePlayerDocument(LARGE))
    await (await call(arena, greedy, HERE)).player.ask(ReplacePlayerDocument(b"{}"))
    await (await call(arena, small, HERE)).player.ask(ReplacePlayerDocument(LARGE))
    assert sum(len(p.player_data) for p in arena.memory.players.values()) == 2 * len(LARGE) + 2


async def test_what_leaves_memory_makes_space(autojump_clock: MockClock, arena: Arena):
    first = await come(arena, HERE, LARGE)
    await leave_memory(arena, first.token)
    assert memory_of(arena).size == 0
    await come(arena, HERE, LARGE)
    with pytest.raises(PlayersHoldTooMuch):
        await call(arena, first, HERE)
    assert arena.world.players.find_active(first.player_id) is None
    assert (await (await call(arena, first, THERE)).player.ask(ReadPlayerDocument())).player_data


async def test_who_is_offline_makes_space_sooner_where_it_is_short(
    autojump_clock: MockClock, arena: Arena
):
    large, small = await come(arena, HERE, LARGE), await come(arena, HERE)
    for one in (small, large):
        await arena.world.players.get_ref(one.player_id).ask(LogOut())
    await sweep(arena.world)
    await trio.sleep(14)
    with pytest.raises(PlayersHoldTooMuch):
        await come(arena, HERE, LARGE)  # a record that was read before might still be on its way
    await trio.sleep(2)
    await come(arena, HERE, LARGE)
    assert arena.world.players.find_active(large.player_id) is None
    assert arena.world.players.find_active(small.player_id) is not None, "there was space enough"
    shown = await (await call(arena, large, THERE)).player.ask(ReadPlayerDocument())
    assert shown.player_data == LARGE


async def test_nobody_looks_for_space_again_at_once(autojump_clock: MockClock, arena: Arena):
    await come(arena, HERE, LARGE)
    idle = await come(arena, HERE, LARGE[: 9 * KIB] + b'"}')
    await arena.world.players.get_ref(idle.player_id).ask(LogOut())
    await sweep(arena.world)
    for passes in (15.5, 0.5):
        with pytest.raises(PlayersHoldTooMuch):
            await come(arena, HERE, OWN)
        await trio.sleep(passes)
    await trio.sleep(1)
    with pytest.raises(PlayersHoldTooMuch):
        await come(arena, HERE, OWN)
    assert arena.world.players.find_active(idle.player_id) is None


async def test_who_is_refused_keeps_nobody_else_from_space(autojump_clock: MockClock, arena: Arena):
    idle = await register(arena, data=OWN)
    await come(arena, HERE, LARGE)
    await arena.world.players.get_ref(idle.player_id).ask(LogOut())
    await sweep(arena.world)
    await trio.sleep(16)
    with pytest.raises(PlayersHoldTooMuch):
        await come(arena, HERE, LARGE)
    await come(arena, THERE, LARGE)
    assert arena.world.players.find_active(idle.player_id) is None


async def test_who_is_looked_up_does_not_come_to_memory(autojump_clock: MockClock, arena: Arena):
    away = await register(arena, data=OWN)
    await leave_memory(arena, away.token)
    looking = await come(arena, HERE)
    held, game = memory_of(arena).size, arena.game.game
    found = await find_by_tag(arena.world, game, away.player_tag)
    assert (found.player_id, found.is_online) == (away.player_id, False)
    for addressee in (Addressee(away.player_tag, None), Addressee(None, away.player_id)):
        friend = await look_up(arena.world, game, looking.player_id, addressee)
        assert (friend.player_id, friend.is_online) == (away.player_id, False)
    with pytest.raises(NoSuchPlayer):
        await look_up(arena.world, game, looking.player_id, Addressee(None, 999))
    await request_friendship(arena.world, game, looking.player_id, addressee)
    assert arena.world.players.find_active(away.player_id) is None
    assert memory_of(arena).size == held


async def test_who_is_banned_is_read_only_where_there_is_space(
    autojump_clock: MockClock, arena: Arena
):
    away = await register(arena, data=OWN)
    await leave_memory(arena, away.token)
    await register(arena, data=OWN)
    with pytest.raises(MailboxFull):
        await ban_player(arena.world, arena.game.game_id, away.player_id, "day", None)
    assert arena.world.players.find_active(away.player_id) is None


async def test_what_a_behaviour_does_and_a_crash_pass(autojump_clock: MockClock, arena: Arena):
    full = await register(arena, data=OWN)
    rest = await register(arena, data=LARGE)
    player = arena.world.players.get_ref(rest.player_id)
    await player.ask(WriteResult("room", 1, {"y": LARGE}))
    held = memory_of(arena).size
    assert held > 320 * KIB
    with pytest.raises(PlayersHoldTooMuch):
        await player.ask(Rename("A longer name"))
    cell = vars(arena.world.players)["_cells"][full.player_id]
    cell.reject(RuntimeError("a row was refused"))
    assert (await describe(arena, full.player_id)).player_data == OWN
    assert memory_of(arena).size == held


async def test_after_a_restart_players_count_for_where_they_call_from():
    async with open_arena(server=SPACE) as arena:
        here = [await come(arena, HERE, LARGE), await come(arena, THERE, LARGE)]
    async with open_world(arena.memory, server=SPACE) as world:
        world.ledger.open_game(arena.game.game_id, 1, "unlimited")
        await restore_online(world)
        game = GameIdentity(world.games.get_ref(arena.game.game_id), arena.game.game_id)
        again = Arena(world, arena.memory, game, arena.keys)
        assert memory_of(again).size > 2 * len(LARGE)
        await call(again, here[0], HERE)
        with pytest.raises(PlayersHoldTooMuch):
            await come(again, HERE, LARGE)
        await come(again, THERE, LARGE)
