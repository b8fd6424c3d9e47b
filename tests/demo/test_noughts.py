"""The demo's tic-tac-toe, played without a server."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from seeds import SEED

from greenroom.behaviour import Refused
from greenroom.demo.noughts import (
    BOT,
    BOT_NAME,
    BOT_SECONDS,
    PAUSE_SECONDS,
    TURN_SECONDS,
    Grid,
    Noughts,
)
from greenroom.testing import RoomHarness, SimulatedCrowd


def begin(*names: str) -> RoomHarness[Grid]:
    room = RoomHarness(Noughts, seed=1)
    for name in names:
        room.join(name)
    return room


def refusal(room: RoomHarness[Grid], player_id: int, cell: int) -> str:
    """Return why a move was not taken."""
    outcome = room.act(player_id, "place", {"cell": cell})
    assert outcome.status == "failed"
    return str(outcome.response_data["error"])


def play_until_over(room: RoomHarness[Grid]) -> None:
    """Have Ann take the first free cell, again and again."""
    for _ in range(9):
        room.advance(BOT_SECONDS * 1.1 if room.state.turn == BOT else 0.0)
        if room.state.turn == 1:
            room.act(1, "place", {"cell": room.state.cells.index(0)})
        if room.state.turn == 0:
            return


def test_somebody_alone_plays_against_the_bot_at_once() -> None:
    room = begin("Ann")
    assert sorted(room.state.players) == [BOT, 1]
    shown = room.view(1).shared["players"]
    assert {player["name"] for player in shown} == {"Ann", BOT_NAME}
    play_until_over(room)
    assert room.state.turn == 0
    room.advance(PAUSE_SECONDS + 0.1)
    assert room.state.turn != 0
    assert sum(map(bool, room.state.cells)) <= 1


def test_a_second_player_takes_the_bots_place_and_gives_it_back() -> None:
    room = begin("Ann")
    room.join("Bob")
    assert sorted(room.state.players) == [1, 2]
    with pytest.raises(Refused, match="Two are playing already"):
        room.join("Eve")
    room.leave(2)
    assert sorted(room.state.players) == [BOT, 1]


def test_three_in_a_row_win_and_count() -> None:
    room = begin("Ann", "Bob")
    first, second = room.state.players
    for cell in (0, 3, 1, 4):
        room.act(room.state.turn, "place", {"cell": cell})
    room.act(first, "place", {"cell": 2})
    assert (room.state.winner, room.state.turn) == (first, 0)
    assert room.view(1).shared["row"] == [0, 1, 2]
    assert room.stats == {first: {"noughts_wins": 1}}
    assert refusal(room, second, 8) == "It is not your turn"


def test_wrong_moves_are_refused() -> None:
    room = begin("Ann", "Bob")
    first, second = room.state.players
    assert refusal(room, second, 0) == "It is not your turn"
    room.act(first, "place", {"cell": 0})
    assert refusal(room, second, 0) == "That cell is taken"
    with pytest.raises(Refused):
        room.act(second, "place", {"cell": 9})


def test_who_thinks_too_long_has_a_move_made_for_them() -> None:
    room = begin("Ann", "Bob")
    first, second = room.state.players
    room.advance(TURN_SECONDS + 0.1)
    assert room.state.cells.count(first) == 1
    assert room.state.turn == second


@pytest.mark.parametrize("are_away", [True, False])
def test_nobody_wins_by_moves_that_the_bot_makes_for_them(are_away: bool) -> None:
    games = 0
    for seed in range(5):
        room = RoomHarness(Noughts, seed=seed)
        for player_id in (room.join("Ann"), room.join("Bob")):
            if are_away:
                room.drop(player_id)
                room.go_offline(player_id)
        for _ in range(9):
            room.advance(TURN_SECONDS)
            games += room.state.winner > 0
        assert (room.stats, room.state.wins) == ({}, {})
    assert games, "games end all the same"


def place(room: RoomHarness[Grid], player_id: int, chance: Random) -> None:
    room.act(player_id, "place", {"cell": chance.randrange(9)})


def test_nobody_is_there_nothing_is_won() -> None:
    crowd = SimulatedCrowd(
        Noughts, {"place": place}, players_max=2, seed=SEED, wins_need_players=True
    )
    crowd.run(1_000)


def answers_of_the_bot(*cells: int) -> Counter[int]:
    """Return how often the bot takes which cell, in many rooms."""
    taken = Counter[int]()
    for seed in range(60):
        room = RoomHarness(Noughts, seed=seed)
        room.join("Ann")
        if room.state.turn != BOT:
            continue
        room.state.cells = [*cells]
        room.advance(BOT_SECONDS + 0.01)
        taken[next(n for n in range(9) if room.state.cells[n] != cells[n])] += 1
    return taken


@pytest.mark.parametrize(
    ("cells", "cell"),
    [
        ((BOT, BOT, 0, 1, 1, 0, 0, 0, 0), 2),
        ((BOT, 0, 0, 1, 1, 0, 0, 0, 0), 5),
        ((0, 0, 0, 0, 0, 0, 0, 0, 1), 4),
    ],
    ids=["wins", "hinders", "takes the middle"],
)
def test_the_bot_plays_well_but_not_always(cells: tuple[int, ...], cell: int) -> None:
    taken = answers_of_the_bot(*cells)
    assert taken[cell] > taken.total() / 2
    assert taken.total() > taken[cell]
