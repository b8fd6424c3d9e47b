"""Building leaderboards while strangers ask for others: turns, bounds, charges, declared ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from world_kit import Arena, Memory, open_arena, register

from greenroom.actors.flows.games import delete_game
from greenroom.actors.flows.ranking import Standings, rank_players
from greenroom.actors.game.messages import ChangeGameSettings
from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.actors.kernel.portion import DOCUMENTS_BYTES_MAX
from greenroom.actors.leaderboard.build_queue import (
    BUILDS_PER_GAME_ADDRESS_MAX,
    BUILDS_PER_GAME_MAX,
)
from greenroom.actors.leaderboard.charges import Charges
from greenroom.actors.leaderboard.refusals import LeaderboardNotDeclared, TooManyBuilds
from greenroom.actors.world.leaderboards import Leaderboards
from greenroom.network.limiter import Limiter, Rate, rate_of

STRANGER, PLAYER = "192.0.2.1", "192.0.2.2"


@pytest.fixture
async def arena() -> AsyncIterator[Arena]:
    async with open_arena() as arena:
        for n in range(1, 41):
            await register(arena, f"Player {n}", b'{"score":%d}' % n)
        yield arena


async def rank(arena: Arena, *fields: str, address: str = PLAYER) -> Standings:
    return await rank_players(arena.world, arena.game.game_id, fields, 3, address)


async def declare(arena: Arena, boards: str) -> None:
    await arena.game.game.ask(ChangeGameSettings({"leaderboards": boards}, ()))


async def outcome(arena: Arena, *fields: str, address: str = STRANGER) -> str:
    try:
        await rank(arena, *fields, address=address)
    except (TooManyBuilds, StorageUnavailable) as refusal:
        return type(refusal).__name__
    return "ranked"


async def test_a_games_own_leaderboard_is_there_whatever_strangers_ask_for(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.read_seconds = 1.0  # two pages a build
    outcomes: Counter[str] = Counter()
    for _ in range(2):
        await rank(arena, "score")

    async def ask_for_another(number: int) -> None:
        await outcome(arena, *(f"f{number}_{n}" for n in range(16)))

    async with trio.open_nursery() as nursery:
        for number in range(30 * 20):
            nursery.start_soon(ask_for_another, number)
            await trio.sleep(1 / 30)
            if number % 15 == 0:
                began = trio.current_time()
                outcomes[await outcome(arena, "score", address=PLAYER)] += 1
                assert trio.current_time() == began

    assert outcomes == {"ranked": 40}


async def test_a_new_leaderboard_waits_for_a_few_builds_of_a_stranger_alone(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.read_seconds = 0.5
    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(outcome, arena, f"junk{number}")
        await trio.testing.wait_all_tasks_blocked()
        assert (await rank(arena, "score")).total == 40

    refused = arena.world.leaderboards.refused
    assert refused == {"leaderboard builds waiting by address": 100 - BUILDS_PER_GAME_ADDRESS_MAX}


async def test_a_game_builds_one_at_a_time_and_so_many_wait(
    autojump_clock: MockClock, arena: Arena, monkeypatch: pytest.MonkeyPatch
):
    reading = most = 0
    read = arena.memory.load_documents_page

    async def page(game_id: int, after_id: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        await trio.sleep(0.1)
        reading -= 1
        return await read(game_id, after_id, limit)

    monkeypatch.setattr(arena.memory, "load_documents_page", page)
    outcomes: Counter[str] = Counter()

    async def ask(number: int) -> None:
        outcomes[await outcome(arena, f"f{number}", address=f"192.0.2.{number}")] += 1

    async with trio.open_nursery() as nursery:
        for number in range(BUILDS_PER_GAME_MAX + 3):
            nursery.start_soon(ask, number)

    assert most == 1
    assert outcomes == {"ranked": BUILDS_PER_GAME_MAX, "TooManyBuilds": 3}


async def test_addresses_take_turns_with_their_builds(autojump_clock: MockClock):
    """A player's first look at a board came behind all that a stranger had asked for before."""
    memory = Memory()
    memory.read_seconds = 0.5
    built: list[str] = []

    async def ask(name: str, address: str) -> None:
        await leaderboards.find_or_build(1, (name,), address)
        built.append(name)

    async with trio.open_nursery() as service:
        leaderboards = Leaderboards(memory)
        await service.start(leaderboards.run)
        async with trio.open_nursery() as nursery:
            for name, address in (
                *((name, STRANGER) for name in "abcd"),
                ("player's", PLAYER),
                ("theirs, too", PLAYER),
                ("another's", "192.0.2.3"),
            ):
                nursery.start_soon(ask, name, address)
                await trio.sleep(0.01)
        service.cancel_scope.cancel()
    assert built == ["a", "player's", "b", "theirs, too", "c", "another's", "d"]


async def test_builds_are_charged_by_size_to_the_address_and_the_game(
    autojump_clock: MockClock,
):
    memory = Memory()
    charges = Charges(Limiter(Rate(1_024, 1_024)), Limiter(Rate(2_048, 4_096)))

    async def page(game_id: int, after_id: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        await trio.lowlevel.checkpoint()
        return [
            (n, b"{}" + b" " * 62, b"{}")
            for n in range(after_id + 1, min(after_id + limit, 3_000) + 1)
        ]

    memory.load_documents_page = page  # type: ignore[method-assign, assignment]
    async with trio.open_nursery() as nursery:
        leaderboards = Leaderboards(memory, charges)
        await nursery.start(leaderboards.run)
        await leaderboards.find_or_build(1, ("a",), STRANGER)  # some 3.5 MB, of which 1 MB is free
        with pytest.raises(TooManyBuilds) as refused:
            await leaderboards.find_or_build(1, ("b",), STRANGER)
        assert 2 <= refused.value.retry_seconds <= 4
        await leaderboards.find_or_build(1, ("a",), STRANGER)
        await leaderboards.find_or_build(1, ("b",), PLAYER)
        with pytest.raises(TooManyBuilds):
            await leaderboards.find_or_build(1, ("c",), "192.0.2.3")  # the game owes, too
        await leaderboards.find_or_build(1, ("d",), STRANGER, is_declared=True)
        await leaderboards.find_or_build(2, ("a",), "192.0.2.3")
        await trio.sleep(refused.value.retry_seconds)
        await leaderboards.find_or_build(1, ("c",), "192.0.2.4")
        nursery.cancel_scope.cancel()

    assert leaderboards.refused == {
        "leaderboard builds by address": 1,
        "leaderboard builds by game": 1,
    }


async def test_a_build_that_waited_while_its_address_came_to_owe_is_refused(
    autojump_clock: MockClock,
):
    memory = Memory()
    memory.read_seconds = 1.0
    charges = Charges(Limiter(Rate(1, 10)), Limiter(Rate(1_000, 10_000)))
    outcomes: Counter[str] = Counter()

    async def ask(name: str) -> None:
        try:
            await leaderboards.find_or_build(1, (name,), STRANGER)
        except TooManyBuilds:
            outcomes["refused"] += 1
        else:
            outcomes["built"] += 1

    async with trio.open_nursery() as service:
        leaderboards = Leaderboards(memory, charges)
        await service.start(leaderboards.run)
        async with trio.open_nursery() as nursery:
            for name in "abc":
                nursery.start_soon(ask, name)
        service.cancel_scope.cancel()
    assert outcomes == {"built": 1, "refused": 2}


async def test_whoever_owes_nothing_has_an_index_built_however_small_the_rate(
    autojump_clock: MockClock,
):
    memory = Memory()
    charges = Charges(Limiter(rate_of(0.01, 20.0)), Limiter(rate_of(1_000, 20.0)))
    async with trio.open_nursery() as nursery:
        leaderboards = Leaderboards(memory, charges)
        await nursery.start(leaderboards.run)
        await leaderboards.find_or_build(1, ("a",), STRANGER)
        with pytest.raises(TooManyBuilds) as refused:
            await leaderboards.find_or_build(1, ("b",), STRANGER)
        await trio.sleep(refused.value.retry_seconds)
        await leaderboards.find_or_build(1, ("b",), STRANGER)
        nursery.cancel_scope.cancel()

    assert leaderboards.refused == {"leaderboard builds by address": 1}


async def test_an_index_for_which_there_is_no_room_is_given_up(
    autojump_clock: MockClock, arena: Arena, monkeypatch: pytest.MonkeyPatch
):
    for _ in range(2):
        await rank(arena, "score")
    monkeypatch.setattr(arena.world.leaderboards._boards, "_places_per_game_max", 60)

    with pytest.raises(TooManyBuilds) as refused:
        await rank(arena, "junk")
    assert refused.value.retry_seconds == 60
    assert (await rank(arena, "score")).total == 40
    assert arena.world.leaderboards._boards.places == 40


async def test_what_a_forgotten_leaderboard_held_is_freed_soon(
    autojump_clock: MockClock, arena: Arena
):
    await rank(arena, "score")
    leaderboards = arena.world.leaderboards
    leaderboards.forget_game(arena.game.game_id)
    assert leaderboards._boards._dropped
    await wait_all_tasks_blocked()
    assert not leaderboards._boards._dropped
    assert (await rank(arena, "score")).total == 40


async def test_a_game_that_declares_its_leaderboards_has_no_others(
    autojump_clock: MockClock, arena: Arena
):
    await rank(arena, "junk")
    await declare(arena, '[["score"],["level","xp"]]')

    assert (await rank(arena, "score")).total == 40
    assert (await rank(arena, "level", "xp")).total == 40
    text = (
        'There is no leaderboard by these fields: this game has those by ["score"], ["level", "xp"]'
    )
    for fields in (("junk",), ("xp", "level"), ("level",)):
        with pytest.raises(LeaderboardNotDeclared, match=re.escape(text)):
            await rank(arena, *fields)
    await arena.game.game.ask(ChangeGameSettings({}, ("leaderboards",)))
    assert (await rank(arena, "junk")).total == 40


async def test_what_waits_while_a_game_declares_others_is_not_built(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.read_seconds = 1.0
    outcomes: Counter[str] = Counter()

    async def ask(name: str) -> None:
        outcomes[await outcome(arena, name)] += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "junk")
        nursery.start_soon(ask, "more")
        await trio.sleep(0.5)
        await declare(arena, '[["score"]]')
    arena.memory.reads.clear()

    assert outcomes == {"StorageUnavailable": 2}
    assert (await rank(arena, "score")).total == 40
    assert arena.memory.reads.count("load_documents_page") == 2


async def test_what_waits_while_its_game_is_deleted_is_not_built(
    autojump_clock: MockClock, arena: Arena
):
    arena.memory.read_seconds = 1.0
    outcomes: Counter[str] = Counter()

    async def ask(name: str) -> None:
        outcomes[await outcome(arena, name)] += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "one")
        nursery.start_soon(ask, "two")
        await trio.sleep(0.5)
        await delete_game(arena.world, arena.game.game_id)

    assert outcomes == {"StorageUnavailable": 2}
    assert arena.world.leaderboards._boards.places == 0


async def test_a_build_goes_on_behind_a_page_that_its_documents_have_cut(arena: Arena):
    large = b'{"score":1,"large":"%b"}' % (b"x" * (DOCUMENTS_BYTES_MAX // 4))
    for number in range(9):
        await register(arena, f"Large {number}", large)
    arena.memory.reads.clear()

    assert (await rank(arena, "score")).total == 49
    assert arena.memory.reads.count("load_documents_page") > 2


async def test_a_build_lets_others_have_their_turn_by_time(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
):
    others = Counter[str]()

    async def count(name: str) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_turns, name)
            await rank(arena, name)
            nursery.cancel_scope.cancel()

    async def take_turns(name: str) -> None:
        while True:
            others[name] += 1
            await trio.lowlevel.checkpoint()

    await count("slow")
    monkeypatch.setattr("greenroom.actors.world.leaderboards.CHUNK_SECONDS_MAX", 0.0)
    await count("slower")
    assert others["slower"] - others["slow"] >= 35, "40 players, each a turn"
