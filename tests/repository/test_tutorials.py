"""Every block of the README and of the tutorials is run, in order, as a reader would."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_kit import Page, needs_browser, open_browser
from page_kit import ROOT, Block, Reader, blocks_of
from waiting import block_until

README = ROOT / "README.md"
FIRST_GAME = ROOT / "docs" / "tutorials" / "first-game.md"
PAGES = [README, *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]

MODULE = re.compile(r"^(?:from|import) ", re.MULTILINE)
INSTALLATION = ("python3 -m venv ~/greenroom", "pip install .")
"""The lines that tests/repository/test_packaging.py runs."""
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def reader(data_dir: Path) -> Iterator[Reader]:
    reader = Reader(data_dir)
    yield reader
    reader.leave()


def follow(reader: Reader, blocks: list[Block], section: str) -> None:
    """Do what the next section says; the section must be the next one that has blocks."""
    assert blocks
    assert blocks[0].section == section
    while blocks and blocks[0].section == section:
        follow_one(reader, blocks)


def follow_one(reader: Reader, blocks: list[Block]) -> None:
    """Do what the next block says."""
    block = blocks.pop(0)
    match block.language:
        case "sh":
            reader.paste(block.text)
        case "json":
            reader.compare(block.text)
        case "text":
            assert shown_lines(block.text) <= shown_lines(reader.said)
        case language:
            assert language == "python", language


def shown_lines(text: str) -> set[str]:
    """Return the lines of a text, without what is different each time."""
    text = re.sub(r"gr_(\w{3})_\w+", r"gr_\1_…", text)
    text = re.sub(r":\d+\b|port \d+", ":…", text)
    return {re.sub(r"/\S+/first", "…/first", line) for line in text.splitlines()}


class Player:
    """Somebody who plays without a browser."""

    def __init__(self, reader: Reader, name: str) -> None:
        self._address = reader.fill("http://127.0.0.1:8080/api/")
        self._headers = {"X-Api-Token": reader.filled["gr_api_…"]}
        made = self.call("POST", "game_players.php/register", {"player_name": name})
        self.player_id = int(made["player_id"])
        self._headers["X-Game-Player-Token"] = made["private_key"]

    def call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        address = f"{self._address}{path}"
        request = urllib.request.Request(address, data, self._headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def place(self, cell: int) -> bool:
        """Move; return whether that was allowed."""
        asked = {"action_type": "place", "request_data": {"cell": cell}}
        self.call("POST", "game_room.php/actions", {"target_players": "host", **asked})
        (action,) = self.call("GET", "game_room.php/actions/poll")["actions"][:1]
        return bool(action["status"] == "completed")


@needs_curl
def test_the_first_game_is_played_without_a_browser(reader: Reader) -> None:
    blocks = blocks_of(FIRST_GAME)
    follow(reader, blocks, "1. Start the server")
    follow(reader, blocks, "2. Open the game's page")
    with urllib.request.urlopen(reader.fill("http://127.0.0.1:8000/tictactoe.html")) as page:
        assert b"<title>Tic-tac-toe" in page.read()
    ann, bob = Player(reader, "Ann"), Player(reader, "Bob")
    wanted = {"realtime": True, "max_players": 2, "rules": {"type": "tictactoe"}}
    room = ann.call("POST", "game_room.php/create", wanted)["room_id"]
    bob.call("POST", f"game_room.php/{room}/join")
    first, second = (ann, bob) if ann.place(0) else (bob, ann)
    if first is bob:
        assert bob.place(0)
    assert not first.place(1)
    for mover, cell in ((second, 3), (first, 1), (second, 4), (first, 2)):
        assert mover.place(cell)
    reader.filled["ROOM_ID"] = room
    finish(reader, blocks)
    assert f'"player_id":{first.player_id},' in reader.said


def finish(reader: Reader, blocks: list[Block]) -> None:
    follow(reader, blocks, "3. Try to cheat")
    follow(reader, blocks, "4. Read the rules")
    follow(reader, blocks, "5. See who has won")
    assert blocks == []


async def sit_down(ann: Page, bob: Page, reader: Reader) -> None:
    """Do what the tutorial says in two browsers; the ports alone are others."""
    await ann.show(reader.fill("http://127.0.0.1:8000/tictactoe.html"))
    assert await ann.evaluate("entrance.server.value") == "http://127.0.0.1:8080"
    server = reader.fill("http://127.0.0.1:8080")
    given = {"server": server, "key": reader.filled["gr_api_…"], "name": "Ann"}
    for field, value in given.items():
        await ann.evaluate(f"entrance.elements[{json.dumps(field)}].value = '{value}'")
    await ann.click("#entrance button")
    await ann.until("document.getElementById('link').value")
    await bob.show(await ann.evaluate("document.getElementById('link').value"))
    await bob.until("state?.players.length == 2")
    await bob.evaluate("prompt = () => 'Bob'; 0")
    await bob.click("#rename")
    await bob.until("session.name == 'Bob'")
    await ann.until("state.players.length == 2")


@needs_curl
@needs_browser
async def test_the_first_game_ends_with_two_browsers_in_one_room(reader: Reader) -> None:
    blocks = blocks_of(FIRST_GAME)
    follow(reader, blocks, "1. Start the server")
    follow(reader, blocks, "2. Open the game's page")
    async with open_browser() as browser:
        ann, bob = await browser.new_page(), await browser.new_page()
        await sit_down(ann, bob, reader)
        [room] = re.findall(r"room=([0-9a-f]{32})$", await ann.evaluate("location.href"))
        ann_begins = await ann.evaluate("state.turn == session.playerId")
        first, second = (ann, bob) if ann_begins else (bob, ann)
        for mover, cell in ((first, 0), (second, 3), (first, 1), (second, 4), (first, 2)):
            await mover.reads("#turn", "It is your turn.")
            await mover.click(f"#board button:nth-child({cell + 1})")
        await first.reads("#turn", "You won.")
        await second.reads("#turn", "You lost.")
        reader.filled["ROOM_ID"] = room
        finish(reader, blocks)
        assert ('"Ann"' if first is ann else '"Bob"') in reader.said


@needs_curl
def test_the_readme_does_what_it_says(reader: Reader) -> None:
    blocks = [block for block in blocks_of(README) if block.language != "python"]
    clone, blocks[0] = blocks[0], blocks[0]._replace(text=blocks[0].text.partition("\n")[2])
    assert clone.text.startswith("git clone <this repository> greenroom && cd greenroom\n")
    start = blocks[0].text
    follow(reader, blocks, "Greenroom")
    while "actions/poll" not in blocks[0].text:
        follow_one(reader, blocks)
    follow_one(reader, blocks)
    newest, oldest = json.loads(reader.said)["actions"]
    assert (oldest["status"], newest["status"]) == ("completed", "failed")
    assert newest["response_data"] == {"error": "No short cuts"}
    follow_one(reader, blocks)
    standings = blocks[0].text

    def is_won() -> bool:
        reader.paste(standings)
        return '"stats"' in reader.said

    block_until(is_won, explain=lambda: reader.said)  # a result follows the lap that won it
    follow(reader, blocks, "Play the race")
    assert blocks == []
    shown = reader.said
    [winner] = json.loads(shown)["leaderboard"]
    assert (winner["player_name"], winner["stats"]) == ("Bob", {"races_won": 1})
    reader.kill_server()
    reader.paste(start)
    reader.paste(standings)
    assert reader.said == shown


@needs_curl
def test_a_server_is_run_as_the_page_says(reader: Reader) -> None:
    [running] = blocks_of(ROOT / "docs" / "how-to" / "run.md")
    first, *others = running.text.splitlines()
    reader.paste(first)
    for line in others:
        command = line.partition("  #")[0].strip().replace("~/greenroom/bin/", "")
        if command.startswith("scripts/serve "):
            reader.paste(f"{command.removesuffix(' --help')} --help".replace("…", "a/b"))
        elif command not in INSTALLATION:
            reader.paste(command)
    assert (reader.checkout / "star-racer" / "test_game.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_block_of_python_is_wrong(page: Path, tmp_path: Path) -> None:
    """Whole modules type-check, and their tests pass; a piece of one is a piece of an example."""
    examples = "\n".join(path.read_text() for path in (ROOT / "examples").glob("*.py"))
    names = []
    for number, block in enumerate(blocks_of(page)):
        if block.language == "python" and not MODULE.search(block.text):
            assert block.text in examples, block.text
        elif block.language == "python":
            names.append(f"test_block_{number}.py")
            (tmp_path / names[-1]).write_text(block.text)
    paths = [str(tmp_path / name) for name in names]
    if paths:
        python(["mypy", "--config-file", "pyproject.toml", *paths], (0,))
        python(["pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", *paths], (0, 5))


def python(arguments: list[str], statuses: tuple[int, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in statuses, done.stdout + done.stderr


def test_every_tutorial_is_followed_by_a_test() -> None:
    names = ("first-client-in-python", "first-client-in-typescript")
    clients = [FIRST_GAME.parent / f"{name}.md" for name in names]
    assert [README, *clients, FIRST_GAME] == PAGES  # tests/sdks follows those of the clients
