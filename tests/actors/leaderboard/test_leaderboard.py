"""Leaderboards over a world: built on first use, in step with what is durable and nothing else."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from world_kit import (
    Arena,
    Memory,
    add_game,
    identify,
    leave_memory,
    open_arena,
    register,
)

from greenroom.actors.flows import ranking
from greenroom.actors.flows.games import delete_game
from greenroom.actors.flows.ranking import Standings, rank_players
from greenroom.actors.flows.register import NewPlayer
from greenroom.actors.kernel.errors import ActorCrashed, StorageRefused, StorageUnavailable
from greenroom.actors.leaderboard.top_entries import document_of
from greenroom.actors.player.actor import PlayerActor
from greenroom.actors.player.messages import (
    PlayerDeleted,
    ReadPlayerDocument,
    Rename,
    ReplacePlayerDocument,
)
from greenroom.actors.world import leaderboards as leaderboards_module
from greenroom.actors.world.leaderboards import Leaderboards

SCORE = ("score",)


async def update(arena: Arena, player: NewPlayer, document: bytes) -> None:
    identity = await identify(arena, player.token)
    await identity.player.ask(ReplacePlayerDocument(document))


async def rank(arena: Arena, *fields: str, limit: int = 10) -> Standings:
    return await rank_players(arena.world, arena.game.game_id, fields or SCORE, limit)


def lines(standings: Standings) -> list[tuple[int, str, bytes]]:
    return [(entry.rank, entry.player_name, document_of(entry)) for entry in standings.entries]


async def crowd(arena: Arena, count: int) -> list[NewPlayer]:
    return [await register(arena, f"Player {n}", b'{"score":%d}' % n) for n in range(1, count + 1)]


async def test_players_are_ranked_online_or_not(autojump_clock: trio.testing.MockClock):
    async with open_arena() as arena:
        low = await register(arena, "Low", b'{"score":1}')
        await register(arena, "High", b'{"score":10}')
        await register(arena, "None")
        await leave_memory(arena, low.token)

        standings = await rank(arena)

        assert lines(standings) == [
            (1, "High", b'{"score":10}'),
            (2, "Low", b'{"score":1}'),
            (3, "None", b"{}"),
        ]
        assert standings.total == 3


async def test_a_second_call_reads_nothing_and_sees_every_change(
    autojump_clock: trio.testing.MockClock,
):
    async with open_arena() as arena:
        first, second = await crowd(arena, 2)
        assert [line[1] for line in lines(await rank(arena))] == ["Player 2", "Player 1"]
        arena.memory.reads.clear()

        await update(arena, first, b'{"score":3}')
        identity = await identify(arena, second.token)
        await identity.player.ask(Rename("Second"))
        await register(arena, "Third", b'{"score":2.5}')

        assert lines(await rank(arena)) == [
            (1, "Player 1", b'{"score":3}'),
            (2, "Third", b'{"score":2.5}'),
            (3, "Second", b'{"score":2}'),
        ]
        assert not arena.memory.reads


async def test_the_passive_come_from_the_database_in_one_query_and_once(
    autojump_clock: trio.testing.MockClock,
):
    async with open_arena() as arena:
        for player in await crowd(arena, 5):
            await leave_memory(arena, player.token)
        await arena.world.leaderboards.find_or_build(arena.game.game_id, SCORE)
        arena.memory.reads.clear()

        for _ in range(2):
            standings = await rank(arena, limit=3)
            names = [entry.player_name for entry in standings.entries]
            assert names == ["Player 5", "Player 4", "Player 3"]
        assert arena.memory.reads == ["load_players_by_id"]


async def test_large_documents_are_shown_up_to_a_bound_and_the_first_always(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
):
    async with open_arena() as arena:
        players = await crowd(arena, 25)  # of 11 bytes and 12
        for player in players[::2]:
            await leave_memory(arena, player.token)
        for bytes_max, count in ((0, 1), (24, 2), (12 * 11, 11), (10_000, 25)):
            monkeypatch.setattr(ranking, "DOCUMENTS_BYTES_MAX", bytes_max)
            arena.world.leaderboards.tops.clear()
            standings = await rank(arena, limit=100)
            assert len(standings.entries) == count
            assert standings.entries[0].player_name == "Player 25"
            assert standings.total == 25


async def test_a_game_is_not_ranked_with_another(autojump_clock: trio.testing.MockClock):
    async with open_arena() as arena:
        await crowd(arena, 2)
        other, keys = await add_game(arena.world, "Other")
        elsewhere = Arena(arena.world, arena.memory, other, keys)
        assert (await rank(elsewhere)).entries == []
        await register(elsewhere, "Else", b'{"score":99}')

        assert (await rank(arena)).total == 2
        assert [line[1] for line in lines(await rank(elsewhere))] == ["Else"]


async def test_a_change_is_ranked_before_its_answer_leaves_and_not_before_it_is_durable(
    autojump_clock: trio.testing.MockClock,
):
    async with open_arena() as arena:
        first, second = await crowd(arena, 2)
        await rank(arena)
        index = await arena.world.leaderboards.find_or_build(arena.game.game_id, SCORE)
        arena.memory.automatic = False
        seen: list[list[int]] = []

        async def change() -> None:
            await update(arena, first, b'{"score":9}')
            seen.append(index.list_top(2))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            await trio.testing.wait_all_tasks_blocked()
            assert index.list_top(2) == [second.player_id, first.player_id]
            arena.memory.commit()
        assert seen == [[first.player_id, second.player_id]]


async def test_a_change_that_the_database_refuses_is_never_ranked(
    autojump_clock: trio.testing.MockClock,
):
    async with open_arena() as arena:
        first, _ = await crowd(arena, 2)
        before = lines(await rank(arena))
        arena.memory.automatic = False

        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def change() -> None:
                with pytest.raises(ActorCrashed):
                    await update(arena, first, b'{"score":9}')

            await trio.testing.wait_all_tasks_blocked()
            arena.memory.refuse_first()
        arena.memory.automatic = True

        assert lines(await rank(arena)) == before
        await update(arena, first, b'{"score":8}')
        assert lines(await rank(arena))[0] == (1, "Player 1", b'{"score":8}')


async def test_a_build_meets_changes_made_while_a_page_is_being_read(
    autojump_clock: trio.testing.MockClock,
):
    async with open_arena() as arena:
        players = await crowd(arena, 40)
        arena.memory.read_seconds = 1.0
        found: list[Standings] = []

        async def look() -> None:
            found.append(await rank(arena, limit=3))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await trio.sleep(0.5)  # the first page has its snapshot, and is still on its way
            await update(arena, players[0], b'{"score":100}')
            await update(arena, players[39], b'{"score":0}')
            await register(arena, "New", b'{"score":50}')

        assert [entry.player_name for entry in found[0].entries] == ["Player 1", "New", "Player 39"]
        assert found[0].total == 41


async def test_callers_share_a_build_and_a_cancelled_one_does_not_end_it(
    autojump_clock: trio.testing.MockClock,
):
    async with open_arena() as arena:
        await crowd(arena, 3)
        arena.memory.read_seconds = 1.0
        with trio.move_on_after(0.5):
            await rank(arena)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(rank, arena)

        assert arena.memory.reads.count("load_documents_page") == 1


async def test_a_long_build_is_waited_for_for_a_while_and_goes_on(
    autojump_clock: trio.testing.MockClock,
):
    async with open_arena() as arena:
        await crowd(arena, 20)
        arena.memory.read_seconds = 6.0  # 16 players, then the rest
        began = trio.current_time()

        with pytest.raises(StorageUnavailable):
            await rank(arena)

        assert trio.current_time() - began == leaderboards_module.BUILD_WAIT_SECONDS_MAX
        await trio.sleep(6)
        arena.memory.read_seconds = 0.0
        arena.memory.reads.clear()
        assert (await rank(arena)).total == 20
        assert not arena.memory.reads


async def test_a_build_waits_out_a_database_that_is_away(autojump_clock: trio.testing.MockClock):
    async with open_arena() as arena:
        await crowd(arena, 3)
        arena.memory.away = True

        async def mend() -> None:
            await trio.sleep(3)
            arena.memory.away = False

        async with trio.open_nursery() as nursery:
            nursery.start_soon(mend)
            assert (await rank(arena)).total == 3


async def test_a_build_does_not_wait_for_a_database_that_refuses(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
):
    async def refuse(*_: object) -> list[tuple[int, bytes, bytes]]:
        await trio.lowlevel.checkpoint()
        raise StorageRefused("permission denied for table players")

    async with open_arena() as arena:
        await crowd(arena, 3)
        began = trio.current_time()
        with monkeypatch.context() as patched:
            patched.setattr(arena.memory, "load_documents_page", refuse)
            for _ in range(2):
                with pytest.raises(StorageRefused, match="permission denied"):
                    await rank(arena)
        assert trio.current_time() == began
        assert (await rank(arena)).total == 3


async def test_pages_grow_while_documents_are_small_and_shrink_when_they_are_not(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
):
    memory, wanted = Memory(), []

    async def page(game_id: int, after_id: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        await trio.lowlevel.checkpoint()
        wanted.append(limit)
        ids = range(after_id + 1, min(after_id + limit, 3000) + 1)
        return [(n, b"x" * 100_000 if n > 2500 else b"{}", b"{}") for n in ids]

    monkeypatch.setattr(memory, "load_documents_page", page)
    async with trio.open_nursery() as nursery:
        leaderboards = Leaderboards(memory)
        await nursery.start(leaderboards.run)
        index = await leaderboards.find_or_build(1, SCORE)
        nursery.cancel_scope.cancel()

    assert len(index) == 3000
    assert wanted[:7] == [16, 32, 64, 128, 256, 500, 500]
    assert wanted[-1] == 10


async def test_a_build_that_fails_harms_nobody_else(
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    async with open_arena() as arena:
        await crowd(arena, 2)
        await rank(arena)

        async def broken(*_: int) -> list[tuple[int, bytes, bytes]]:
            raise RuntimeError("a bug")

        with monkeypatch.context() as patch, caplog.at_level(logging.CRITICAL):
            patch.setattr(arena.memory, "load_documents_page", broken)
            with pytest.raises(ActorCrashed):
                await rank(arena, "level")
        assert (await rank(arena)).total == 2
        assert (await rank(arena, "level")).total == 2


async def test_an_index_that_cannot_follow_is_built_again(
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    async with open_arena() as arena:
        first, _ = await crowd(arena, 2)
        index = await arena.world.leaderboards.find_or_build(arena.game.game_id, SCORE)

        def broken(*_: object) -> None:
            raise RuntimeError("a bug")

        with monkeypatch.context() as patch, caplog.at_level(logging.CRITICAL):
            patch.setattr("greenroom.actors.leaderboard.index.Index.put", broken)
            await update(arena, first, b'{"score":9}')

        assert index.is_dropped
        assert lines(await rank(arena))[0] == (1, "Player 1", b'{"score":9}')


async def test_deleted_players_and_games_are_gone(autojump_clock: trio.testing.MockClock):
    async with open_arena() as arena:
        first, second = await crowd(arena, 2)
        index = await arena.world.leaderboards.find_or_build(arena.game.game_id, SCORE)

        del arena.memory.players[second.player_id]
        arena.world.players.discard(second.player_id)
        assert (await rank(arena)).entries[0].player_id == first.player_id
        deleted = PlayerDeleted(second.player_id, arena.game.game_id)
        arena.world.leaderboards.note_durable([deleted])
        assert (await rank(arena)).total == 1

        await delete_game(arena.world, arena.game.game_id)
        assert index.is_dropped


async def test_an_index_forgotten_while_it_is_built_is_not_there(
    autojump_clock: trio.testing.MockClock,
):
    async with open_arena() as arena:
        await crowd(arena, 20)
        arena.memory.read_seconds = 1.0

        async def look() -> None:
            with pytest.raises(StorageUnavailable):
                await rank(arena)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await trio.sleep(0.5)
            arena.world.leaderboards.forget_game(arena.game.game_id)
        assert arena.memory.reads.count("load_documents_page") == 1


async def test_a_restarted_service_has_forgotten_everything(
    autojump_clock: trio.testing.MockClock,
):
    memory = Memory()
    leaderboards = Leaderboards(memory)
    with pytest.raises(StorageUnavailable):
        await leaderboards.find_or_build(1, SCORE)
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            await nursery.start(leaderboards.run)
            index = await leaderboards.find_or_build(1, SCORE)
            nursery.cancel_scope.cancel()
        assert index.is_dropped
    assert memory.reads == ["load_documents_page"] * 2


async def test_a_crashed_player_is_shown_as_the_database_has_them(
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    async with open_arena() as arena:
        await crowd(arena, 2)
        before = lines(await rank(arena))
        arena.world.leaderboards.tops.clear()
        arena.world.leaderboards.profiles.clear()
        handlers = dict[Any, Any](PlayerActor.handlers) | {ReadPlayerDocument: broken}
        monkeypatch.setattr(PlayerActor, "handlers", handlers)

        with caplog.at_level(logging.CRITICAL):
            assert lines(await rank(arena)) == before
        assert "load_players_by_id" in arena.memory.reads
