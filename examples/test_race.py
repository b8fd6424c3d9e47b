"""The race of the README: it is what the README shows, and it works."""

from pathlib import Path
from random import Random

import pytest
from race import Race, Racing

from greenroom.behaviour import Refused
from greenroom.testing import Heard, RoomHarness, SimulatedCrowd

ROOT = Path(__file__).parents[1]


def test_ten_laps_win_and_short_cuts_fail() -> None:
    room = RoomHarness(Racing)
    ann, bob = room.join("Ann"), room.join("Bob")
    assert room.act(bob, "lap", {"number": 2}).response_data == {"error": "No short cuts"}
    for number in range(1, 10):
        assert room.act(bob, "lap", {"number": number}).status == "completed"
    assert room.heard(ann)[-1] == Heard("lap", {"by": bob, "number": 9})
    room.act(bob, "lap", {"number": 10})
    assert room.stats == {bob: {"races_won": 1}}


def test_nobody_cheats() -> None:
    room = RoomHarness(Racing)
    ann, bob = room.join("Ann"), room.join("Bob")
    for wrong in ({"number": 11}, {"number": "1"}, {}):
        with pytest.raises(Refused, match="Invalid data for lap"):
            room.act(bob, "lap", wrong)
    with pytest.raises(Refused, match='"over" is unknown'):
        room.say(ann, "over", {"winner": ann})
    room.act(bob, "lap", {"number": 1})
    assert room.act(bob, "lap", {"number": 1}).response_data == {"error": "No short cuts"}
    assert room.stats == {}


def lap(room: RoomHarness[Race], player_id: int, chance: Random) -> None:
    room.act(player_id, "lap", {"number": chance.randint(1, 10)})


def test_a_crowd() -> None:
    SimulatedCrowd(Racing, {"lap": lap}, seed=1).run(1_000)


def test_the_documents_show_this_very_room() -> None:
    shown = (ROOT / "examples/race.py").read_text()
    for page in ("README.md", "docs/reference/behaviours.md"):
        text = (ROOT / page).read_text()
        assert shown.partition("\n\n")[2].strip() in text, page
    tests = Path(__file__).read_text()
    page = (ROOT / "docs/how-to/never-trust-the-client.md").read_text()
    assert tests[tests.index("def test_nobody_cheats") : tests.index("\n\n\ndef lap")] in page
    page = (ROOT / "docs/how-to/test-a-behaviour.md").read_text()
    assert tests[tests.index("def lap") : tests.index("\n\n\ndef test_the_doc")] in page
