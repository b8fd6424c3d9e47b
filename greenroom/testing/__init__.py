"""Tests of behaviours without a server: see docs/how-to/test-a-behaviour.md.

from greenroom.testing import RoomHarness

def test_the_first_move():
    room = RoomHarness(TicTacToe, seed=7)
    ann, bob = room.join("Ann"), room.join("Bob")
    assert room.act(ann, "place", {"cell": 4}).status == "completed"
"""

from greenroom.testing.checks import CheckFailed
from greenroom.testing.crowd import Move, SimulatedCrowd
from greenroom.testing.harness import Outcome, RoomHarness
from greenroom.testing.stand_ins import Heard

__all__ = ["CheckFailed", "Heard", "Move", "Outcome", "RoomHarness", "SimulatedCrowd"]
