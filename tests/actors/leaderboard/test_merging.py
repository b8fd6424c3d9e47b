"""Standings of several nodes: whoever moves between them is there once, whenever each answers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from seeds import SEED

from greenroom.actors.leaderboard.index import Index, player_of
from greenroom.actors.leaderboard.merging import TopFound, merge_tops
from greenroom.actors.leaderboard.movers import (
    ANSWER_SECONDS_MAX,
    MOVERS_MAX,
    SHOWN_SECONDS,
    STAY_SECONDS,
    Movers,
)

GAME = 7
MOMENT = 0.01


class Board:
    """A node's index, and who moves; the real ones, on a clock that the test sets."""

    def __init__(self) -> None:
        self.index = Index(GAME, ("score",))
        self.index.complete()
        self.movers = Movers()

    def put(self, player_id: int, score: int) -> None:
        self.index.put(player_id, self.index.read(b'{"score":%d}' % score))

    def come(self, player_id: int, score: int, now: float) -> None:
        if self.movers.has_left(GAME, player_id) or not self.index.has(player_id):
            self.movers.come(GAME, player_id, now)
        self.put(player_id, score)

    def answer(self, limit: int, now: float) -> TopFound:
        for player_id in self.movers.take_past(GAME, now):
            self.index.remove(player_id)
        left = set(filter(self.index.has, self.movers.list_departed(GAME)))
        came = self.movers.list_arrived(GAME, now)
        keys = self.index.list_top_keys(limit, left)
        return TopFound(keys, len(self.index), left=left, came=came)


def boards_of(*scores: dict[int, int]) -> list[Board]:
    boards = [Board() for _ in scores]
    for board, own in zip(boards, scores, strict=True):
        for player_id, score in own.items():
            board.put(player_id, score)
    return boards


def merge(parts: list[TopFound], limit: int, seconds: float) -> tuple[list[int], int]:
    """Merge, and see to it that each player is shown by a part that has them."""
    homes, total = merge_tops(parts, limit, seconds)
    for player_id, number in homes:
        assert player_id in map(player_of, parts[number].keys)
    return [player_id for player_id, _ in homes], total


def test_lists_of_nodes_between_which_nobody_moves_are_merged_as_they_are():
    here, there = boards_of({1: 10, 3: 30}, {2: 20, 4: 40})
    parts = [here.answer(3, 0.0), there.answer(3, 0.0)]
    assert merge(parts, 3, 0.0) == ([4, 3, 2], 4)


def test_whoever_left_is_shown_until_the_other_node_has_them():
    here, there = boards_of({1: 10, 3: 30}, {2: 20})
    assert here.movers.leave(GAME, 3)
    parts = [here.answer(3, 0.0), there.answer(3, 0.0)]
    assert merge(parts, 3, 0.0) == ([3, 2, 1], 3)


def test_whoever_came_is_shown_where_they_are_now():
    here, there = boards_of({1: 10, 3: 30}, {2: 20})
    here.movers.leave(GAME, 3)
    there.come(3, 15, 0.0)
    parts = [here.answer(3, MOMENT), there.answer(3, MOMENT)]
    assert merge(parts, 3, MOMENT) == ([2, 3, 1], 3)


def test_a_node_that_answers_before_a_move_and_one_that_answers_after_it_count_a_player_once():
    here, there = boards_of({1: 10, 3: 30}, {2: 20})
    early = here.answer(3, 0.0)
    here.movers.leave(GAME, 3)
    there.come(3, 15, MOMENT)
    parts = [early, there.answer(3, 2 * MOMENT)]
    assert merge(parts, 3, 2 * MOMENT) == ([2, 3, 1], 3)


def test_a_node_that_answers_long_after_the_move_still_has_whom_the_other_did_not_have_yet():
    here, there = boards_of({1: 10, 3: 30}, {2: 20})
    early = there.answer(3, 0.0)
    here.movers.leave(GAME, 3)
    there.come(3, 15, MOMENT)
    here.movers.note_received(GAME, 3, MOMENT)
    late = ANSWER_SECONDS_MAX
    assert merge([here.answer(3, late), early], 3, late) == ([3, 2, 1], 3)


def test_a_list_is_not_shortened_by_those_who_left():
    here, there = boards_of({1: 10, 3: 30, 4: 40, 5: 50}, {})
    for player_id in (4, 5):
        here.movers.leave(GAME, player_id)
        there.come(player_id, 1, 0.0)
    parts = [here.answer(2, MOMENT), there.answer(2, MOMENT)]
    assert merge(parts, 2, MOMENT) == ([3, 1], 4)


def test_whoever_comes_back_is_counted_once():
    here, there = boards_of({3: 30}, {2: 20})
    here.movers.leave(GAME, 3)
    there.come(3, 30, 0.0)
    there.movers.leave(GAME, 3)
    here.come(3, 40, MOMENT)
    parts = [here.answer(2, 2 * MOMENT), there.answer(2, 2 * MOMENT)]
    assert merge(parts, 2, 2 * MOMENT) == ([3, 2], 2)


def test_after_some_seconds_nothing_is_left_of_a_move():
    here, there = boards_of({1: 10, 3: 30}, {2: 20})
    here.movers.leave(GAME, 3)
    there.come(3, 30, 0.0)
    here.movers.note_received(GAME, 3, 0.0)
    parts = [here.answer(3, STAY_SECONDS), there.answer(3, SHOWN_SECONDS + 1.0)]
    assert not any(part.left or part.came for part in parts)
    assert merge(parts, 3, 0.0) == ([3, 2, 1], 3)


def test_no_more_movers_than_the_bound_are_kept():
    movers = Movers()
    for player_id in range(MOVERS_MAX):
        assert movers.leave(GAME, player_id)
        movers.come(GAME + 1, player_id, 0.0)
    assert not movers.leave(GAME, MOVERS_MAX)
    movers.come(GAME + 1, MOVERS_MAX, 0.0)
    assert MOVERS_MAX not in movers.list_arrived(GAME + 1, 0.0)
    movers.forget_game(GAME)
    assert movers.leave(GAME, MOVERS_MAX)


@pytest.mark.chance
@pytest.mark.parametrize("rest_seconds", [2 * ANSWER_SECONDS_MAX, 0.0])
def test_however_players_move_while_nodes_answer_everybody_is_shown_once(rest_seconds: float):
    for number in range(200):
        crowd = Crowd(Random(SEED * 1_000 + number), rest_seconds)
        for _ in range(200):
            crowd.step()


class Crowd:
    """Players who move between three nodes, while these are asked one after the other."""

    players = range(1, 7)

    def __init__(self, dice: Random, rest_seconds: float) -> None:
        self.dice, self.rest_seconds = dice, rest_seconds
        self.boards = boards_of({i: 10 * i for i in self.players}, {}, {})
        self.now = self.began = 0.0
        self.homes = dict.fromkeys(self.players, 0)
        self.rest_until = dict.fromkeys(self.players, 0.0)
        self.waiting: list[tuple[float, str, int, int, int]] = []
        """The steps of moves that are to come: when, what, who, from where, whereto."""
        self.parts: dict[int, TopFound] = {}

    def step(self) -> None:
        """Let time pass, somebody move, and a node answer."""
        self.now += self.dice.choice([0.001, 0.01, 0.1, 0.5])
        for move in sorted(one for one in self.waiting if one[0] <= self.now):
            self.waiting.remove(move)
            self._go_on(*move)
        self._move(self.dice.choice(self.players))
        if not self.parts or self.now - self.began > ANSWER_SECONDS_MAX:
            self.began, self.parts = self.now, {}
        node = self.dice.choice([n for n in range(3) if n not in self.parts])
        self.parts[node] = self.boards[node].answer(6, self.now)
        if len(self.parts) == 3:
            parts, self.parts = [self.parts[n] for n in range(3)], {}
            found, total = merge(parts, 6, self.now - self.began)
            assert found == sorted(self.players, reverse=True)
            if self.rest_seconds:
                assert total == 6

    def _move(self, player_id: int) -> None:
        if any(move[2] == player_id for move in self.waiting):
            return
        if self.now < self.rest_until[player_id] or self.dice.random() < 0.5:
            return
        self.rest_until[player_id] = self.now + self.rest_seconds
        old = self.homes[player_id]
        new = self.homes[player_id] = self.dice.choice([n for n in range(3) if n != old])
        self.boards[old].movers.leave(GAME, player_id)
        self._later([0.0, 0.002, 1.0], "come", player_id, old, new)

    def _go_on(self, at: float, what: str, player_id: int, old: int, new: int) -> None:
        if what == "come":
            self.boards[new].come(player_id, 10 * player_id, at)
            self._later([0.0, 0.3], "tell", player_id, old, new)
        else:
            self.boards[new].movers.come(GAME, player_id, at)
            self.boards[old].movers.note_received(GAME, player_id, at)

    def _later(self, delays: list[float], *move: Any) -> None:
        self.waiting.append((self.now + self.dice.choice(delays), *move))


def test_keys_of_an_index_end_in_the_player():
    (board,) = boards_of({9: 1})
    assert list(map(player_of, board.index.list_top_keys(1))) == [9]
