"""The command line: parsing, output, exit statuses. Whole processes are in test_commands.py."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import pytest

from greenroom import __version__
from greenroom.actors.game.settings import NAMES
from greenroom.actors.plans.plan import Plan
from greenroom.cli import perform
from greenroom.cli.common import PLANS
from greenroom.cli.main import cli, main
from greenroom.cli.output import shown
from greenroom.control.admin import messages
from greenroom.control.errors import ControlError
from greenroom.supervisors.tree import TreeNode


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = sorted(commands())


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr("greenroom.logs.configure", lambda *_: None)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Answers of operations, first come first; none reaches a server."""
    queue: list[Any] = []

    def answer(_: object, operation: object) -> object:
        found = queue.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found(operation) if callable(found) else found

    monkeypatch.setattr(perform, "perform", answer)
    return queue


def test_the_command_line_offers_the_plans_that_there_are() -> None:
    assert tuple(PLANS) == get_args(Plan)


def test_every_command_of_the_issue_is_there() -> None:
    assert {" ".join(command) for command in COMMANDS} == {
        "new",
        "serve",
        "demo",
        *(f"owner {verb}" for verb in ("create", "list", "show", "set-plan")),
        *(
            f"game {verb}"
            for verb in (
                "create",
                "list",
                "show",
                "rotate-keys",
                "grow",
                "revoke-keys",
                "delete",
                "settings",
            )
        ),
        *(f"player {verb}" for verb in ("list", "show", "ban", "unban", "export", "delete")),
        *(f"room {verb}" for verb in ("list", "show", "stop", "discard", "history")),
        "lobby list",
        "lobby discard",
        "backup",
        "restore",
        "audit",
        *(f"db {verb}" for verb in ("migrate", "status", "url")),
        "config show",
        *(f"cluster {verb}" for verb in ("status", "drain", "move", "balance")),
        "tree",
        "doctor",
        "plan",
        "worker",
    }


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself_and_takes_the_common_options(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    told = capsys.readouterr().out
    of_servers = (
        () if command in {("new",), ("plan",)} else ("--data-dir", "--config", "--database-url")
    )
    is_internal = cli.commands[command[0]].hidden
    for option in () if is_internal else (*of_servers, "--json"):
        assert option in told
    assert len(told.splitlines()[2].split()) > 2, "it says what it does"


GROUPS = [(), *sorted({command[:1] for command in COMMANDS if len(command) > 1})]


@pytest.mark.parametrize("columns", ["40", "80", "200"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: " ".join(group) or "greenroom")
def test_no_help_text_is_cut(
    group: tuple[str, ...],
    columns: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main([*group, "--help"]) == 0
    told = capsys.readouterr().out.partition("Commands:\n")[2]
    names = {line.split()[0] for line in told.splitlines() if re.match(r"  \w", line)}
    assert names >= {command[len(group)] for command in COMMANDS if command[: len(group)] == group}
    assert not re.search(r"(\.\.\.|…)$", told, re.MULTILINE)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"greenroom {__version__}\n"


def test_help_needs_nothing_heavy() -> None:
    code = "import greenroom.cli.main, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"trio", "psycopg", "quart", "greenroom.app"} & set(done.stdout.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["game"],
        ["game", "show"],
        ["game", "show", "x"],
        ["game", "show", "0"],
        ["game", "show", str(2**63)],
        ["game", "create"],
        ["game", "create", "a\udcff"],
        ["owner", "create", "a", "--plan", "gold"],
        ["player", "list", "--limit", "1001"],
        ["player", "list", "--limit", "x"],
        ["plan", "--players", "x"],
        ["tree", "--nonsense"],
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(arguments) == 2
    assert "integer range" not in capsys.readouterr().err
    if len(arguments) > 1:
        assert main([*arguments, "--json"]) == 2
        assert json.loads(capsys.readouterr().out).keys() == {"error"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "x"],
        ["--server", "apache"],
        ["--config", "/does/not/exist"],
        ["--data-dir", ""],
        ["--database-url", "mysql://u:s3cret@h/x"],
    ],
)
def test_a_wrong_setting_is_one_sentence(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["serve", "--data-dir", str(tmp_path), *arguments]
    assert main(command) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("greenroom: ")
    assert err.count("\n") == 1
    assert "s3cret" not in err
    assert "[redacted]" not in err, "our own example is no secret"
    assert main([*command, "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out).keys() == {"error"}
    assert err == ""


def test_the_settings_are_shown_with_their_places_and_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREENROOM_METRICS_TOKEN", "s3cret")
    arguments = ["--data-dir", str(tmp_path), "--database-url", "postgresql://u:s3cret@h/d"]
    assert main(["config", "show", *arguments]) == 0
    text = capsys.readouterr().out
    assert "(GREENROOM_METRICS_TOKEN)" in text
    assert "postgresql://u:***@h/d  (--database-url)" in text
    assert main(["config", "show", *arguments, "--json"]) == 0
    as_json = capsys.readouterr().out
    assert json.loads(as_json)["port"] == 8080
    assert "s3cret" not in text + as_json


def test_json_is_all_there_is_on_standard_output(
    answers: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    answers.append(messages.Owners([messages.Owner(1, "local", "unlimited", "2026-01-01")]))
    assert main(["owner", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "owners": [
            {"owner_id": 1, "name": "local", "plan": "unlimited", "created_at": "2026-01-01"}
        ]
    }


def test_new_keys_are_printed(answers: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[messages.CreateGame] = []

    def answer(operation: messages.CreateGame) -> messages.GameKeys:
        asked.append(operation)
        return messages.GameKeys(7, operation.game, operation.owner, "gr_api_A", "gr_adm_B")

    answers += [answer, answer]
    assert main(["game", "create", "Chess", "--owner", "Studio"]) == 0
    text = capsys.readouterr().out
    assert "gr_api_A" in text
    assert "gr_adm_B" in text
    assert main(["game", "create", "Chess", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "game_id": 7,
        "name": "Chess",
        "owner": "local",
        "api_token": "gr_api_A",
        "api_private_token": "gr_adm_B",
    }
    assert [operation.owner for operation in asked] == ["Studio", "local"]


def test_the_tree_is_drawn(answers: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    leaf = TreeNode("storage", "running", restarts=2)
    inner = TreeNode("server", "running", mailbox=3, children=[leaf, TreeNode("http", "running")])
    answers.append(TreeNode("greenroom", "running", mailbox=3, children=[inner]))
    assert main(["tree"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "NAME             STATE    RESTARTS  MAILBOX",
        "greenroom        running  0         3",
        "└── server       running  0         3",
        "    ├── storage  running  2         0",
        "    └── http     running  0         0",
    ]


def test_settings_of_a_game_are_read_from_the_line_from_files_and_from_standard_input(
    answers: list[Any],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[messages.ChangeGameSettings] = []

    def answer(operation: messages.ChangeGameSettings) -> messages.GameSettings:
        asked.append(operation)
        return messages.GameSettings(7, 480, "set", False, [["level", "xp"]], "integer")

    answers += [answer, answer]
    file = tmp_path / "key"
    file.write_text("secret\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b" secret ")))
    settings = ["game", "settings", "7"]
    assert main([*settings, "--set", f"steam_publisher_key=@{file}", "--unset", "b"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "game_id                    7",
        "steam_app_id               480",
        "steam_publisher_key        set",
        "clients_write_player_data  no",
        'leaderboards               [["level","xp"]]',
        "register_player_id         integer",
        "stats                      -",
    ]
    assert main([*settings, "--json", "--set", "steam_publisher_key=@-", "--set", "a=b=c"]) == 0
    assert json.loads(capsys.readouterr().out)["steam_publisher_key"] == "set"
    assert [(ask.assigned, ask.removed) for ask in asked] == [
        ({"steam_publisher_key": "secret"}, ["b"]),
        ({"steam_publisher_key": "secret", "a": "b=c"}, []),
    ]


def test_settings_that_cannot_be_read_are_refused_without_quoting_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    contents = {"empty": b" ", "long": b"s3cret" * 1000, "binary": b"s3cret\xff"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    given = ["s3cret", "=s3cret", f"a=@{tmp_path}", *(f"a=@{tmp_path / name}" for name in contents)]
    for text in (*given, "a=@/none"):
        assert main(["game", "settings", "7", "--set", text]) == 2
        assert "s3cret" not in capsys.readouterr().err
    assert main(["game", "settings", "7", "--set", "a=s3cret", "--set", "a=b"]) == 2
    assert "'a' is given twice" in capsys.readouterr().err


def test_the_help_names_every_setting_of_a_game(capsys: pytest.CaptureFixture[str]) -> None:
    main(["game", "settings", "--help"])
    told = capsys.readouterr().out
    assert all(f"  {name} " in told for name in NAMES)


@pytest.mark.parametrize(("typed", "is_deleted"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_game_is_deleted_only_after_a_yes(
    answers: list[Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    is_deleted: bool,
) -> None:
    game = messages.GameDetails(7, "Chess", "local", "pro", "-", "-", msgspec.Raw(b"{}"))
    answers += [game, messages.Deleted(7, 12)]

    def prompt(_: str) -> str:
        if not typed:
            raise EOFError
        return typed.strip()

    monkeypatch.setattr("click.termui.visible_prompt_func", prompt)
    assert main(["game", "delete", "7"]) == (0 if is_deleted else 1)
    assert len(answers) == (0 if is_deleted else 1)
    told = capsys.readouterr()
    assert ("12 players" in told.out) == is_deleted
    assert ("Nothing was deleted" in told.err) != is_deleted


def test_yes_deletes_without_asking(answers: list[Any]) -> None:
    answers.append(messages.Deleted(7, 0))
    assert main(["game", "delete", "7", "--yes"]) == 0


def test_an_expected_failure_is_one_sentence_and_a_bug_is_told_as_one(
    answers: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    answers += [
        ControlError("No."),
        ExceptionGroup("x", [ControlError("No.")]),
        ValueError("gr_api_1"),
    ]
    for _ in range(2):
        assert main(["game", "list"]) == 1
        assert capsys.readouterr() == ("", "greenroom: No.\n")
    assert main(["game", "list", "--json"]) == 1
    out, err = capsys.readouterr()
    assert "bug in Greenroom" in json.loads(out)["error"]
    assert "ValueError: gr_api_[redacted]" in err


@pytest.mark.parametrize(
    "interrupt",
    [
        KeyboardInterrupt(),
        perform.CommandInterrupted(),
        BaseExceptionGroup("x", [KeyboardInterrupt()]),
    ],
)
def test_an_interrupt_is_no_bug(
    answers: list[Any], capsys: pytest.CaptureFixture[str], interrupt: BaseException
) -> None:
    answers.append(interrupt)
    assert main(["game", "list"]) == 130
    assert "Interrupted" in capsys.readouterr().err


def test_nothing_that_is_shown_steers_the_terminal() -> None:
    assert shown("a\x1b[2Jb\nc\u202e\x9b") == r"a\x1b[2Jb\nc\u202e\x9b"
    assert shown("Zoë 日本") == "Zoë 日本"
    assert [shown(value) for value in (None, True, False, 0)] == ["-", "yes", "no", "0"]
