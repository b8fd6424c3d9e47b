"""Tic-tac-toe, played without a server."""

import pytest
from tictactoe import Board, TicTacToe

from greenroom.behaviour import Refused
from greenroom.testing import Heard, RoomHarness


def begin() -> tuple[RoomHarness[Board], int, int]:
    room = RoomHarness(TicTacToe, seed=1)
    players = [room.join("Ann"), room.join("Bob")]
    first = room.state.turn
    return room, first, next(i for i in players if i != first)


def test_three_in_a_row_win_and_the_next_game_begins() -> None:
    room, first, second = begin()
    for mover, cell in ((first, 0), (second, 3), (first, 1), (second, 4)):
        assert room.act(mover, "place", {"cell": cell}).response_data == {
            "won": False,
            "is_over": False,
        }
    assert room.act(first, "place", {"cell": 2}).response_data == {"won": True, "is_over": True}
    assert room.documents == {first: {"tictactoe_wins": 1}}
    heard = [message.command for message in room.heard(second)]
    assert heard[-2:] == ["over", "start"]
    assert room.state.cells == [0] * 9


def test_moves_out_of_turn_and_on_taken_cells_fail() -> None:
    room, first, second = begin()
    assert room.act(second, "place", {"cell": 0}).response_data == {"error": "It is not your turn"}
    room.act(first, "place", {"cell": 0})
    outcome = room.act(second, "place", {"cell": 0})
    assert (outcome.status, outcome.response_data) == ("failed", {"error": "That cell is taken"})
    with pytest.raises(Refused, match="Invalid data for place"):
        room.act(second, "place", {"cell": 9})


def test_who_dallies_loses() -> None:
    room, first, second = begin()
    room.advance(20.1)
    assert Heard("over", {"winner": second}) in room.heard(first)


def test_a_third_may_not_join_and_who_stays_wins() -> None:
    room, first, second = begin()
    with pytest.raises(Refused, match="Two are playing already"):
        room.join("Eve")
    room.leave(first)
    assert room.documents == {second: {"tictactoe_wins": 1}}
