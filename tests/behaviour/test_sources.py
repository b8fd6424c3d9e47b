"""Behaviours imported anew from changed files, or left as they were."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenroom.behaviour.errors import BadBehaviour
from greenroom.behaviour.registry import Registry

GAME = """
from greenroom.behaviour import RoomBehaviour
from parts.points import POINTS

class Game(RoomBehaviour[dict[str, int]]):
    points = POINTS
"""
OTHER = """
from greenroom.behaviour import RoomBehaviour

class Other(RoomBehaviour[None]):
    pass
"""


class Studio:
    """A folder of behaviours, and the registry of what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writes = 0
        self.write("game.py", GAME)
        self.write("parts/__init__.py", "")
        self.write("parts/points.py", "POINTS = 1")
        self.write("other.py", OTHER)
        self.registry = Registry(["game:Game", "*/o=other:Other"], folder)

    def write(self, name: str, text: str) -> None:
        """Write a file; no two writes are of one time."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self._writes += 1
        os.utime(path, (self._writes, self._writes))

    @property
    def points(self) -> Any:
        return self.registry.make("game:Game").points  # type: ignore[attr-defined]


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Studio]:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield Studio(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_changed_helper_is_seen_and_taken_in(studio: Studio):
    before = studio.registry.sources.read_stamps()
    assert studio.registry.sources.read_stamps() == before
    studio.write("parts/points.py", "POINTS = 2")
    assert studio.registry.sources.read_stamps() != before
    assert studio.points == 1
    studio.registry.reload()
    assert studio.points == 2


def test_new_and_deleted_files_are_seen(studio: Studio):
    before = studio.registry.sources.read_stamps()
    studio.write("parts/more.py", "")
    (new,) = studio.registry.sources.read_stamps().keys() - before
    assert new == str(studio.folder / "parts/more.py")
    (studio.folder / "other.py").unlink()
    assert before.keys() - studio.registry.sources.read_stamps() == {
        str(studio.folder / "other.py")
    }


def test_data_and_environments_in_the_folder_are_left_alone(studio: Studio):
    before = studio.registry.sources.read_stamps()
    for name in (".venv/lib.py", "environment/lib/site.py", "not-a-package/x.py"):
        path = studio.folder / name
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert studio.registry.sources.read_stamps() == before


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("game.py", "class Game(:", "SyntaxError"),
        ("parts/points.py", "import nowhere_at_all", "nowhere_at_all"),
        ("parts/points.py", "raise SystemExit", "SystemExit"),
        ("parts/points.py", "raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("parts/points.py", "raise GeneratorExit", "GeneratorExit"),
        ("parts/points.py", "raise BaseExceptionGroup('', [GeneratorExit()])", "Group"),
        ("game.py", "Game = 1", "no RoomBehaviour of the name Game"),
        ("game.py", GAME + "    tick_hz = 1_000\n", "tick_hz must be above 0"),
        ("other.py", "", "no RoomBehaviour of the name Other"),
    ],
)
@pytest.mark.usefixtures("signals_as_a_server_has_them")
def test_a_broken_file_leaves_everything_as_it_was(studio: Studio, name: str, text: str, told: str):
    modules = {n: sys.modules[n] for n in ("game", "other", "parts", "parts.points")}
    studio.write("parts/points.py", "POINTS = 2")
    studio.write(name, text)
    with pytest.raises(BadBehaviour, match=told):
        studio.registry.reload()
    assert studio.points == 1
    assert {n: sys.modules[n] for n in modules} == modules
    studio.write("parts/points.py", "POINTS = 3")
    studio.write("game.py", GAME)
    studio.write("other.py", OTHER)
    studio.registry.reload()
    assert studio.points == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def on_tick(:", "SyntaxError: invalid syntax (game.py, line 1)"),
        (
            "x = 1\nx.y",
            "AttributeError: 'int' object has no attribute 'y' (FOLDER/game.py, line 2)",
        ),
        ("import nowhere.at_all", "ModuleNotFoundError: No module named 'nowhere' (FOLDER/game.py"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    studio: Studio, text: str, said: str
) -> None:
    studio.write("game.py", text)
    with pytest.raises(BadBehaviour) as caught:
        studio.registry.reload()
    assert said.replace("FOLDER", str(studio.folder)) in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("nowhere:Game", "there is no module nowhere; behaviours_dir is where it is looked for"),
        ("parts.nowhere:Game", "there is no module parts.nowhere"),
        ("other.py:Other", "other.py is a file: write other, without .py"),
        ("other:Gaem", "other has no RoomBehaviour of the name Gaem; it has Other"),
        ("parts.points:POINTS", "parts.points has no RoomBehaviour of the name POINTS"),
    ],
)
def test_a_name_that_leads_nowhere_says_why(studio: Studio, entry: str, said: str) -> None:
    with pytest.raises(BadBehaviour) as caught:
        Registry([entry], studio.folder)
    assert said in str(caught.value)
