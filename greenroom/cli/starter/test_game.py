"""The game played without a server: `pytest` runs this."""

from __future__ import annotations

from random import Random

import pytest
from game import Game, Round

from greenroom.behaviour import Refused
from greenroom.testing import Heard, RoomHarness, SimulatedCrowd


def test_guesses_are_answered_and_a_hit_wins() -> None:
    room = RoomHarness(Game, seed=1)
    ann = room.join("Ann")
    alone = room.act(ann, "guess", {"number": 50})
    assert alone.response_data == {"error": "Wait for somebody to play with"}
    bob = room.join("Bob")
    number = room.state.number
    assert room.act(ann, "guess", {"number": number - 1}).response_data == {"it_is": "higher"}
    assert room.act(bob, "guess", {"number": number}).response_data == {"it_is": "right"}
    assert room.heard(ann)[-1] == Heard("won", {"by": bob, "number": number})
    assert room.stats == {bob: {"guessing_wins": 1}}


def test_what_is_no_guess_is_refused() -> None:
    room = RoomHarness(Game)
    ann = room.join("Ann")
    with pytest.raises(Refused, match="Invalid data for guess"):
        room.act(ann, "guess", {"number": 101})


def test_what_the_game_does_not_know_is_refused() -> None:
    room = RoomHarness(Game)
    ann, bob = room.join("Ann"), room.join("Bob")
    with pytest.raises(Refused, match=r'"gues": did you mean "guess"\?'):
        room.act(bob, "gues", {"number": 50})
    with pytest.raises(Refused, match='"won" is unknown'):
        room.say(ann, "won", {"by": ann})


def guess(room: RoomHarness[Round], player_id: int, chance: Random) -> None:
    room.act(player_id, "guess", {"number": chance.randint(1, 100)})


def test_a_crowd_that_comes_and_goes_breaks_nothing() -> None:
    SimulatedCrowd(Game, {"guess": guess}, seed=1).run(200)
