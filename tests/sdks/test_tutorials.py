"""The tutorials of the client libraries, followed as a new user would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from page_kit import ROOT, blocks_of
from sdk_kit import TYPESCRIPT, build_typescript, needs_compiler
from server_kit import Game, ServerProcess, serving

TUTORIALS = ROOT / "docs" / "tutorials"
ENTRY = (
    "--behaviours-dir",
    str(ROOT / "examples"),
    "--behaviours",
    "*/tictactoe=tictactoe:TicTacToe",
)
SECONDS_MAX = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def studio(new_database: Callable[[], str]) -> Iterator[ServerProcess]:
    with serving("--database-url", new_database(), *ENTRY) as server:
        yield server


def install_typescript(home: Path) -> None:
    """Do as the npm commands do."""
    build_typescript()
    modules = home / "my-game" / "node_modules"
    modules.mkdir(parents=True)
    (modules / "greenroom-client").symlink_to(TYPESCRIPT)


def install_python(home: Path) -> None:
    """Do as the page says, with the versions that are tested."""
    venv.create(home / "my-game", with_pip=False, symlinks=True)
    lines = (ROOT / "requirements-dev.txt").read_text()
    pins = re.findall(r"^[a-z0-9.-]+==[^\\\n]+", lines, re.MULTILINE)
    (home / "constraints").write_text("\n".join(pins))
    borrowed = Path(sys.prefix) / "borrowed-pip"
    python = home / "my-game" / "bin" / "python"
    options = ("--quiet", "--disable-pip-version-check", "--constraint", home / "constraints")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        *options,
    ]
    variables = {"PYTHONPATH": str(borrowed)} if borrowed.exists() else {}
    done = subprocess.run(
        [*command, ROOT / "sdk" / "python"],
        env=clean() | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


class Tutorial(NamedTuple):
    """A page, the commands of its section "Install the library", and what stands for them."""

    page: str
    installation: tuple[str, ...]
    install: Callable[[Path], None]
    program: str
    language: str


TYPESCRIPT_PAGE = Tutorial(
    "first-client-in-typescript.md",
    (
        "npm --prefix sdk/typescript ci",
        "npm --prefix sdk/typescript run build",
        "mkdir my-game",
        "npm --prefix my-game install ./sdk/typescript",
    ),
    install_typescript,
    "my-game/play.mjs",
    "js",
)
PYTHON_PAGE = Tutorial(
    "first-client-in-python.md",
    ("python3 -m venv my-game", "my-game/bin/pip install ./sdk/python"),
    install_python,
    "my-game/play.py",
    "python",
)


@pytest.mark.parametrize(
    "tutorial",
    [pytest.param(TYPESCRIPT_PAGE, marks=needs_compiler), PYTHON_PAGE],
    ids=["typescript", "python"],
)
def test_two_players_meet_as_the_page_says(
    studio: ServerProcess, tutorial: Tutorial, tmp_path: Path
) -> None:
    serve, install, program, first, second = blocks_of(TUTORIALS / tutorial.page)
    assert "scripts/serve --behaviours-dir examples" in serve.text
    assert tuple(install.text.splitlines()) == tutorial.installation
    assert program.language == tutorial.language
    tutorial.install(tmp_path)
    (tmp_path / tutorial.program).write_text(program.text)
    game = studio.new_game()
    with start(first.text, studio, game, tmp_path) as ada:
        assert ada.stdout is not None
        room_id = ada.stdout.readline().removeprefix("room ").strip()
        told = second.text.replace("ROOM_ID", room_id)
        with start(told, studio, game, tmp_path) as ben:
            said = [
                ben.communicate(timeout=SECONDS_MAX)[0],
                ada.communicate(timeout=SECONDS_MAX)[0],
            ]
            assert (ada.returncode, ben.returncode) == (0, 0), said
    ends = sorted(text.count("I have won") for text in said)
    assert ends == [0, 1], said
    assert sum(text.count("I have not won") for text in said) == 1
    assert sum(text.count("I take cell") for text in said) == 7


def start(command: str, server: ServerProcess, game: Game, home: Path) -> subprocess.Popen[str]:
    """Run a command of the page, with the server's address and the game's key."""
    line = command.strip().replace("http://127.0.0.1:8080", server.ready["http"])
    words = line.replace("gr_api_…", game.key).split()
    return subprocess.Popen(words, cwd=home, env=clean(), stdout=subprocess.PIPE, text=True)


def clean() -> dict[str, str]:
    """Return an environment that leads no Python to the checkout."""
    return {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONSAFEPATH"}}


def test_the_python_library_is_whole_without_the_server(tmp_path: Path) -> None:
    """It has every module that it imports, and none of the server's."""
    wheel = build_wheel(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import greenroom.client.connection, greenroom.client.udp\n"
        "found = [m for n, m in sys.modules.items() if n.partition('.')[0] == 'greenroom']\n"
        "assert all(sys.argv[1] in (m.__file__ or '') for m in found), found\n"
        "needed = {n.partition('.')[0] for n in sys.modules}\n"
        "print(sorted(needed & {'psycopg', 'quart', 'hypercorn', 'httptools', 'click', 'regex'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(wheel)],
        cwd=tmp_path,
        env=clean(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def build_wheel(folder: Path) -> Path:
    """Build the wheel as pip does; return it."""
    code = "import build_wheel, sys; print(build_wheel.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT / "sdk" / "python",
        env=clean(),
        capture_output=True,
        text=True,
        check=True,
    )
    return folder / done.stdout.strip()
