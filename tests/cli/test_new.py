"""`greenroom new`: what it makes is tested and served as it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from server_kit import Api, Game, ServerProcess

from greenroom.cli.main import main

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60.0


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python's in a folder, as a studio would, with Greenroom installed."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("GREENROOM_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=own | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


class ServerOfProject(ServerProcess):
    """`greenroom serve` in the current directory, a project whose settings say the rest."""

    def __init__(self, project: Path) -> None:
        super().__init__(project / "data")
        project.joinpath("data").mkdir(mode=0o711)
        self._command.remove("--data-dir")
        self._command.remove(str(self.data_dir))


def test_the_project_is_tested_and_served(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(data_dir)
    assert main(["new", "my-game"]) == 0
    project = data_dir / "my-game"
    assert "cd my-game" in capsys.readouterr().out
    assert (project / "README.md").read_text().startswith("# my-game\n")
    tested = run(project, "pytest", "-q")
    assert tested.returncode == 0, tested.stdout
    assert "4 passed" in tested.stdout

    monkeypatch.chdir(project)
    server = ServerOfProject(project).start()
    try:
        server.wait_logged("The first game's keys: cat ")  # behind the ready file
        told = server.log.read_text()
        assert f"Its settings are those of {project / 'greenroom.toml'}." in told
        assert "gr_" not in told, "the output is a file, which others may read"
        assert "Rooms run these behaviours: game:Game." in told
        made = json.loads((project / "data" / "first-game.json").read_text())
        play(Api(server.address, Game(1, made["api_token"], made["api_private_token"])))
        listed = run(project, "greenroom", "room", "list", "--json")
        assert len(json.loads(listed.stdout)["rooms"]) == 1, "commands find the project's server"
    finally:
        assert server.stop(signal.SIGTERM) == 0


def play(api: Api) -> None:
    """Have two players find the number."""
    (_, ann), (_, bob) = api.register("Ann"), api.register("Bob")

    def room(operation: str, body: Any, player: str, method: str = "POST") -> Any:
        reply = api.call(method, f"/api/game_room.php/{operation}", body, player=player)
        assert reply.status == 200, reply
        return reply.json

    room_id = room("create", {}, ann)["room_id"]
    room(f"{room_id}/join", {}, bob)
    low, high = 1, 100
    while True:
        number = (low + high) // 2
        action = {"target_players": "host", "action_type": "guess"}
        (action_id,) = room("actions", action | {"request_data": {"number": number}}, bob)[
            "action_ids"
        ]
        results = room("actions/poll", None, bob, "GET")["actions"]
        (result,) = [result for result in results if result["action_id"] == action_id]
        match result["response_data"]["it_is"]:
            case "higher":
                low = number + 1
            case "lower":
                high = number - 1
            case "right":
                break
    winners = api.call("POST", "/api/leaderboard.php", {"sort_by": ["guessing_wins"]})
    assert winners.json["leaderboard"][0]["stats"] == {"guessing_wins": 1}


def test_what_is_there_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").write_text("mine")
    for name in ("mine", "file"):
        assert main(["new", name]) == 1
        assert capsys.readouterr().err == (
            f"greenroom: {tmp_path / name} is there already: nothing was written. "
            "Take another name.\n"
        )
    assert list((tmp_path / "mine").iterdir()) == []
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "../x", "/x", "a b", "1st", "é", ".x", "x" * 65, "a\n"])
def test_what_is_no_name_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
):
    monkeypatch.chdir(tmp_path)
    assert main(["new", name]) == 2
    assert "is no name for a project" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_who_has_no_command_yet_is_told_how_to_come_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["new", "game"]) == 0
    assert f"pip install '{ROOT}[client]'" in capsys.readouterr().out


def test_what_was_made_is_told_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "game", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["directory"] == str(tmp_path / "game")
    assert sorted(path.name for path in (tmp_path / "game").iterdir()) == told["files"]


def test_a_project_that_cannot_be_written_is_not_left_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "write_text", fail)  # a full disk cannot be had here
    assert main(["new", "game"]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
