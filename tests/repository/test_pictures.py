"""The pictures of docs/: as their texts say, with the states that the server has."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, cast, get_args

import pictures
import pytest

from greenroom.actors.lobby.transitions import LOBBY, LobbyState, LobbyStep
from greenroom.actors.seating.invite_messages import InviteAnswer
from greenroom.contract.allowed_values import ActionStatus, JoinRequestStatus

FOLDER = pictures.PICTURES
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))


TABLE: dict[str, object] = cast("Any", LOBBY)
CHARTS = ("action", "invite", "join-request", "lobby", "room")


def described(name: str) -> dict[str, Any]:
    return pictures.read_text(FOLDER / f"{name}.toml")


def test_every_picture_is_as_its_text_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert pictures.main(["--check"]) == 0
    assert sorted(path.stem for path in FOLDER.glob("*.svg")) == NAMES
    shutil.copytree(FOLDER, tmp_path / "pictures")
    monkeypatch.setattr(pictures, "PICTURES", tmp_path / "pictures")
    text = tmp_path / "pictures" / "room.toml"
    text.write_text(text.read_text().replace("all go offline", "nobody is there"))
    assert pictures.main(["--check"]) == 1
    assert "room.svg is not as its text says" in capsys.readouterr().err
    assert pictures.main([]) == 0
    assert pictures.main(["--check"]) == 0
    assert "nobody is there" in (tmp_path / "pictures" / "room.svg").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_well_formed_and_all_of_it_can_be_seen(name: str) -> None:
    root = ET.fromstring((FOLDER / f"{name}.svg").read_text())
    space = "{http://www.w3.org/2000/svg}"
    title = root.find(f"{space}title")
    assert title is not None
    assert title.text == root.get("aria-label") == described(name)["title"]
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for element in root.iter(f"{space}text"):
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        half = 0 if element.get("class") == "heading" else len(element.text or "") * 7.0 / 2
        assert x - half + pictures.MARGIN >= 0, element.text
        assert x + half + pictures.MARGIN <= width, element.text
        assert 0 <= y <= height, element.text


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("action", {"pending", *get_args(ActionStatus)}),
        ("invite", {"pending", *get_args(InviteAnswer)} - {"declined"}),
        ("join-request", set(get_args(JoinRequestStatus))),
    ],
)
def test_the_states_drawn_are_those_that_there_are(name: str, states: set[str]) -> None:
    boxes = described(name)["box"]
    drawn = {key for key, box in boxes.items() if box.get("style") not in {"dot", "end"}}
    assert drawn == states


@pytest.mark.parametrize("name", NAMES)
def test_no_box_stands_apart(name: str) -> None:
    text = described(name)
    joined = {arrow[end] for arrow in text["arrow"] for end in ("from", "to")}
    assert joined == set(text["box"])


def test_every_chart_of_states_is_drawn_from_a_table() -> None:
    assert {name for name in NAMES if "table" in described(name)} == set(CHARTS)


@pytest.mark.parametrize("name", CHARTS)
def test_every_step_that_changes_a_state_is_named_in_its_chart(name: str) -> None:
    text = described(name)
    words = " ".join(arrow.get("text", "") for arrow in text["arrow"]).split()
    for step in text["step"].values():
        assert " ".join(step.split()) in " ".join(words)


def test_a_chart_follows_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(LOBBY[LobbyState.STARTED])
    after = {**before, LobbyStep.STOPPED: LobbyState.ENDED}
    monkeypatch.setitem(TABLE, LobbyState.STARTED, after)
    assert "or stop" in " ".join(a.get("text", "") for a in described("lobby")["arrow"])
    assert pictures.main(["--check"]) == 1


@pytest.mark.parametrize(
    ("state", "steps", "error"),
    [
        (LobbyState.STARTED, {LobbyStep.START: LobbyState.OPEN}, "arrows and transitions differ"),
        (LobbyState.OPEN, {}, "arrows and transitions differ"),
        (LobbyState.STARTED, {LobbyStep.GAME_DELETED: LobbyState.ENDED}, "names and steps differ"),
        ("asleep", {}, "boxes and states differ"),
    ],
)
def test_a_chart_that_does_not_fit_its_table_is_not_drawn(
    state: str, steps: object, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TABLE, state, steps)
    with pytest.raises(pictures.ChartError, match=f"lobby.toml: {error}"):
        described("lobby")
