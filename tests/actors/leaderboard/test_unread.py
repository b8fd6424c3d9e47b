"""Documents beyond what a commit may have read at once: read later, and missed by nobody."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from world_kit import Memory

from greenroom.actors.leaderboard import reading_turn
from greenroom.actors.leaderboard.boards import INDEXES_PER_GAME_MAX, Boards
from greenroom.actors.leaderboard.reading_turn import TURN_SECONDS, ReadingTurn
from greenroom.actors.leaderboard.unread import Change, Unread
from greenroom.actors.player.messages import PlayerDeleted, PlayerDocumentReplaced
from greenroom.actors.world import leaderboards as leaderboards_module
from greenroom.actors.world.leaderboards import CHUNK_BYTES, Leaderboards

GAME, OTHER_GAME = 1, 2
SCORE, LEVEL = ("score",), ("level",)


def small(player_id: int, score: int, game_id: int = GAME) -> PlayerDocumentReplaced:
    return PlayerDocumentReplaced(player_id, game_id, b'{"score":%d}' % score, 0)


def large(player_id: int, score: int, game_id: int = GAME) -> PlayerDocumentReplaced:
    text = b'{"score":%d,"level":%d,"text":"%b"}' % (score, -score, b"x" * CHUNK_BYTES)
    return PlayerDocumentReplaced(player_id, game_id, text, 0)


@asynccontextmanager
async def serving() -> AsyncGenerator[Leaderboards]:
    """Run leaderboards of two games without players."""
    async with trio.open_nursery() as nursery:
        leaderboards = Leaderboards(Memory())
        await nursery.start(leaderboards.run)
        for game_id in (GAME, OTHER_GAME):
            await leaderboards.find_or_build(game_id, SCORE)
        yield leaderboards
        nursery.cancel_scope.cancel()


async def top(leaderboards: Leaderboards, game_id: int = GAME) -> list[int]:
    return (await leaderboards.find_or_build(game_id, SCORE)).list_top(10)


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that tells which players are given a place."""
    told: list[int] = []
    put_keys = Boards.put_keys

    def put(boards: Boards, game_id: int, player_id: int, keys: dict[str, bytes]) -> None:
        told.append(player_id)
        put_keys(boards, game_id, player_id, keys)

    monkeypatch.setattr(Boards, "put_keys", put)
    return told


async def test_a_commit_reads_so_much_and_whoever_asks_waits_for_the_rest(
    autojump_clock: trio.testing.MockClock, placed: list[int]
):
    async with serving() as leaderboards:
        leaderboards.note_durable([small(1, 1), *(large(n, n) for n in range(2, 6)), small(6, 6)])
        assert placed == [1, 6]
        assert leaderboards.find(GAME, SCORE) is None
        assert leaderboards.find(OTHER_GAME, SCORE) is not None
        assert await top(leaderboards) == [6, 5, 4, 3, 2, 1]
        assert leaderboards.find(GAME, SCORE) is not None


async def test_many_small_documents_of_a_commit_are_read_in_pieces(
    autojump_clock: trio.testing.MockClock, placed: list[int]
):
    async with serving() as leaderboards:
        leaderboards.note_durable([small(n, n) for n in range(1, 1001)])
        assert 10 < len(placed) < 100
        assert (await top(leaderboards))[0] == 1000
        assert len(placed) == 1000


async def test_the_last_document_of_a_player_counts(autojump_clock: trio.testing.MockClock):
    async with serving() as leaderboards:
        leaderboards.note_durable([small(n, 5) for n in range(1, 5)])
        leaderboards.note_durable([large(1, 9), small(1, 1)])  # the large one is no longer read
        leaderboards.note_durable([small(2, 1), large(2, 9)])
        leaderboards.note_durable([large(3, 8), large(3, 7)])
        leaderboards.note_durable([large(4, 10)])
        leaderboards.note_durable([PlayerDeleted(4, GAME)])
        assert await top(leaderboards) == [2, 3, 1]


async def test_a_document_replaced_while_it_is_read_has_no_place(
    autojump_clock: trio.testing.MockClock,
):
    async with serving() as leaderboards:
        leaderboards.note_durable([large(1, 1)])
        for _ in range(3):
            await trio.lowlevel.checkpoint()  # it may have been read, but others had their turn
            leaderboards.note_durable([large(1, 2), large(1, 3)])
        assert await top(leaderboards) == [1]
        index = await leaderboards.find_or_build(GAME, SCORE)
        leaderboards.note_durable([small(2, 2)])
        assert index.list_top(10) == [1, 2]


async def test_a_leaderboard_opened_while_documents_are_read_has_them(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reading_turn, "TURN_BYTES", 1)
    async with serving() as leaderboards:
        leaderboards.note_durable([small(1, 0), large(2, 2)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leaderboards.find_or_build, GAME, LEVEL)
            while not leaderboards._askers:
                await trio.lowlevel.checkpoint()
            leaderboards.note_durable([large(n, 100 - n) for n in range(3, 33)])
        index = await leaderboards.find_or_build(GAME, LEVEL)
        # the first may have been read before it was opened; a database would have them
        assert index.list_top(1) == [32]
        assert await top(leaderboards) == list(range(3, 13))


async def test_a_leaderboard_opened_in_the_middle_of_a_document_has_all_of_it(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
):
    memory, may_load, may_go_on = Memory(), trio.Event(), trio.Event()
    rows = [large(1, 3), large(2, 5)]

    async def load_page(*_: object) -> list[tuple[int, bytes, bytes]]:
        await may_load.wait()
        return [(row.player_id, row.player_data, row.stats) for row in rows]

    async def wait_for_turn(_turn: ReadingTurn, done_bytes: int) -> None:
        await may_go_on.wait()

    async with trio.open_nursery() as nursery:
        leaderboards = Leaderboards(memory)
        await nursery.start(leaderboards.run)
        await leaderboards.find_or_build(GAME, SCORE)
        monkeypatch.setattr(memory, "load_documents_page", load_page)
        monkeypatch.setattr(ReadingTurn, "end_if_long", wait_for_turn)
        for fields in (("text",), LEVEL):  # one is built after the other
            nursery.start_soon(leaderboards.find_or_build, GAME, fields)
            await trio.testing.wait_all_tasks_blocked()
        leaderboards.note_durable(rows)
        await trio.testing.wait_all_tasks_blocked()  # the first is read for all but the level
        may_load.set()
        await trio.testing.wait_all_tasks_blocked()
        may_go_on.set()
        index = await leaderboards.find_or_build(GAME, LEVEL)
        assert index.list_top(10) == [1, 2]
        assert await top(leaderboards) == [2, 1]
        nursery.cancel_scope.cancel()


async def test_a_game_that_cannot_be_followed_is_built_again_and_no_other(
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(leaderboards_module, "UNREAD_BYTES_MAX", 4 * CHUNK_BYTES)
    async with serving() as leaderboards:
        index = await leaderboards.find_or_build(GAME, SCORE)
        other = await leaderboards.find_or_build(OTHER_GAME, SCORE)
        with caplog.at_level(logging.WARNING):
            changes = [large(n, n) for n in range(1, 6)]
            leaderboards.note_durable([large(9, 9, OTHER_GAME), *changes])
        assert index.is_dropped
        assert "game 1 cannot follow" in caplog.text
        assert await top(leaderboards, OTHER_GAME) == [9]
        assert not other.is_dropped
        assert (await leaderboards.find_or_build(GAME, SCORE)).is_complete


async def test_whoever_waits_hears_of_the_end_of_a_game(autojump_clock: trio.testing.MockClock):
    async with serving() as leaderboards:
        leaderboards.note_durable([large(1, 1)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leaderboards.find_or_build, GAME, SCORE)
            leaderboards.note_durable([large(2, 2)])
            leaderboards.forget_game(GAME)
        assert trio.current_time() == 0


changes = st.builds(Change, st.integers(1, 3), st.integers(1, 4), st.binary(max_size=9))
steps = st.one_of(
    changes, st.just("read"), st.tuples(st.integers(1, 3), st.integers(1, 4)), st.integers(1, 3)
)


@given(st.lists(steps, max_size=30))
def test_the_backlog_has_the_latest_of_each_player_in_order(todo: list[object]):
    unread, model = Unread(), dict[tuple[int, int], bytes]()
    for step in todo:
        if isinstance(step, Change):
            unread.put(step)
            model[step.game_id, step.player_id] = step.document
            assert unread.has(step)
        elif isinstance(step, tuple):
            unread.forget(*step)
            model.pop(step, None)
        elif isinstance(step, int):
            unread.forget_game(step)
            model = {place: text for place, text in model.items() if place[0] != step}
        else:
            _read_first(unread, model)
        assert unread.size_bytes == sum(map(len, model.values()))
    while model:
        _read_first(unread, model)
    assert unread.find_first() is None


def _read_first(unread: Unread, model: dict[tuple[int, int], bytes]) -> None:
    change = unread.find_first()
    if change is None:
        assert not model
        return
    game_id, player_id, document, _ = change
    newest = unread.find_newest(game_id)
    first = next(place for place in model if place[0] == game_id)
    assert (first, model.pop(first)) == ((game_id, player_id), document)
    unread.forget(game_id, player_id)
    unread.end_turn(game_id)
    assert unread.is_read_to(game_id, newest) == all(place[0] != game_id for place in model)


class Passes(trio.abc.Instrument):
    """Counts the passes of the scheduler."""

    def __init__(self) -> None:
        self.number = 0

    def after_io_wait(self, timeout: float) -> None:
        self.number += 1


async def test_small_documents_are_read_many_in_a_pass_whatever_strangers_sort_by(
    mock_clock: trio.testing.MockClock,
):
    """Each took a pass, so under overload the game's own board waited for seconds.

    No time passes here: a turn that is long by the clock ends by the test below.
    """
    async with serving() as leaderboards:
        for number in range(INDEXES_PER_GAME_MAX - 1):
            names = tuple(f"f{number}_{field}" for field in range(16))
            await leaderboards.find_or_build(GAME, names)
        passes = Passes()
        trio.lowlevel.add_instrument(passes)
        leaderboards.note_durable(
            PlayerDocumentReplaced(n, GAME, b'{"score":%d,"text":"%b"}' % (n, b"x" * 1_000), 0)
            for n in range(1, 201)
        )
        assert (await top(leaderboards))[0] == 200
        trio.lowlevel.remove_instrument(passes)
    assert passes.number < 60


async def test_documents_that_take_long_for_their_size_let_others_have_their_turns(
    mock_clock: trio.testing.MockClock,
):
    passes = Passes()
    trio.lowlevel.add_instrument(passes)
    turn = ReadingTurn()
    for number in range(10):
        assert passes.number == number
        await turn.end_if_long(1)
        mock_clock.jump(TURN_SECONDS)
        await turn.end_if_long(1)
    trio.lowlevel.remove_instrument(passes)
