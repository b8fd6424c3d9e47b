"""Tic-tac-toe, played without a server."""

from typing import Any

import pytest
from tictactoe import Board, TicTacToe

from greenroom.behaviour import Refused
from greenroom.testing import Heard, RoomHarness


def begin() -> tuple[RoomHarness[Board], int, int]:
    room = RoomHarness(TicTacToe, seed=1)
    players = [room.join("Ann"), room.join("Bob")]
    first = room.state.turn
    return room, first, next(i for i in players if i != first)


def table(room: RoomHarness[Board], player_id: int) -> Any:
    """Return what a player's client is shown."""
    return room.view(player_id).shared


def test_three_in_a_row_win_and_the_next_game_begins() -> None:
    room, first, second = begin()
    for mover, cell in ((first, 0), (second, 3), (first, 1), (second, 4)):
        assert room.act(mover, "place", {"cell": cell}).response_data == {
            "won": False,
            "is_over": False,
        }
    assert room.act(first, "place", {"cell": 2}).response_data == {"won": True, "is_over": True}
    assert room.stats == {first: {"tictactoe_wins": 1}}
    seen = table(room, second)
    assert (seen["winner"], seen["line"], seen["turn"]) == (first, [0, 1, 2], 0)
    assert room.act(second, "place", {"cell": 8}).response_data == {"error": "It is not your turn"}
    room.advance(3.1)
    heard = [message.command for message in room.heard(second)]
    assert heard[-2:] == ["over", "start"]
    assert room.state.cells == [0] * 9
    wins = {player["id"]: player["wins"] for player in table(room, first)["players"]}
    assert wins == {first: 1, second: 0}


def test_a_player_who_comes_in_the_pause_has_a_game_of_full_length() -> None:
    room, first, second = begin()
    room.leave(first)
    room.advance(2.0)
    third = room.join("Eve")
    room.act(room.state.turn, "place", {"cell": 4})
    room.advance(2.0)
    assert sum(map(bool, room.state.cells)) == 1, "the pause is over, and no second game began"
    assert {player["id"] for player in table(room, second)["players"]} == {second, third}


def test_moves_out_of_turn_and_on_taken_cells_fail() -> None:
    room, first, second = begin()
    assert room.act(second, "place", {"cell": 0}).response_data == {"error": "It is not your turn"}
    room.act(first, "place", {"cell": 0})
    outcome = room.act(second, "place", {"cell": 0})
    assert (outcome.status, outcome.response_data) == ("failed", {"error": "That cell is taken"})
    with pytest.raises(Refused, match="Invalid data for place"):
        room.act(second, "place", {"cell": 9})


def test_a_slow_player_loses() -> None:
    room, first, second = begin()
    room.advance(20.1)
    assert Heard("over", {"winner": second}) in room.heard(first)


def test_a_third_may_not_join_and_who_stays_wins() -> None:
    room, first, second = begin()
    with pytest.raises(Refused, match="Two are playing already"):
        room.join("Eve")
    room.leave(first)
    assert room.stats == {second: {"tictactoe_wins": 1}}


def test_a_host_does_not_win_by_kicking() -> None:
    room = begin()[0]
    room.kick(2)
    assert room.stats == {}


def test_who_is_away_is_shown_until_they_are_back() -> None:
    room, first, second = begin()

    def away() -> list[int]:
        return [player["id"] for player in table(room, second)["players"] if player["is_away"]]

    room.drop(first)
    assert away() == [first]
    room.reconnect(first)
    assert away() == []


@pytest.mark.parametrize("restarts", [0, 1])
def test_nobody_is_there_and_nothing_is_won(restarts: int) -> None:
    room, first, second = begin()
    room.act(first, "place", {"cell": 0})
    room.drop(first)
    room.drop(second)
    for _ in range(restarts):
        room.restart()
    room.advance(300.0)
    assert room.stats == {}
    assert (room.state.turn, room.state.winner, room.state.wins) == (0, 0, {})


def test_no_game_begins_until_both_are_back() -> None:
    room, first, second = begin()
    room.drop(first)
    room.advance(60.0)
    assert room.stats == {second: {"tictactoe_wins": 1}}, "one game, which went to its end"
    room.act(second, "again")
    assert room.state.turn == 0
    room.reconnect(first)
    assert room.state.turn in {first, second}


def test_players_who_poll_go_on_by_asking() -> None:
    room = RoomHarness(TicTacToe, seed=1)
    players = [room.join(connected=False), room.join(connected=False)]
    room.advance(60.0)
    assert (room.state.turn, room.documents) == (0, {}), "neither has moved"
    for player in players:
        assert room.state.turn == 0
        room.act(player, "again")
    first = room.state.turn
    room.act(first, "place", {"cell": 4})
    room.advance(60.0)
    assert room.stats == {first: {"tictactoe_wins": 1}}
    assert room.state.turn == 0
