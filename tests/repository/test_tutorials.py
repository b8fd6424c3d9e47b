"""Every block of the README and of the tutorials is run, in order, as a reader would."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import trio
from browser_kit import Page, needs_browser, open_browser
from cheat_kit import Seat, Table, open_table
from honest_kit import GAME_SECONDS_MAX, play, wait_for_stat
from page_kit import ROOT, Block, Reader, blocks_of, enter_room
from waiting import block_until, until

README = ROOT / "README.md"
FIRST_GAME = ROOT / "docs" / "tutorials" / "first-game.md"
HIDDEN_HANDS = FIRST_GAME.with_name("hidden-hands.md")
ARENA = FIRST_GAME.with_name("arena.md")
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
        case _ if block.file:
            reader.write(block)
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


CARDS_STEPS = {
    "1. Begin a project": "",
    "2. Deal the cards": "",
    "3. Show each player their own hand": "1 passed",
    "4. Take turns": "3 passed",
    "5. Wait for nobody": "5 passed",
    "6. Make a page": "",
    "7. Play": "",
}
ARENA_STEPS = {
    "1. Begin a project": "",
    "2. Say what there is": "",
    "3. Move everybody": "2 passed",
    "4. Show the coin and the scores": "",
    "5. Play in rounds": "3 passed",
    "6. Let players go": "5 passed",
    "7. Make a page": "",
    "8. Play": "",
}


def write_game(reader: Reader, page: Path, steps: Mapping[str, str], example: str) -> list[Block]:
    """Follow a tutorial until its game can be played; return the blocks that remain."""
    blocks = blocks_of(page)
    for section, said in steps.items():
        follow(reader, blocks, section)
        assert said in reader.said
    [project] = {block.file.partition("/")[0] for block in blocks_of(page) if block.file}
    written = ast.parse((reader.checkout / project / example).read_text())
    whole = ast.parse((ROOT / "examples" / example).read_text())
    assert ast.get_docstring(whole)
    assert ast.dump(written) == ast.dump(ast.Module(whole.body[1:], []))
    return blocks


async def cheat_in_the_console(page: Page, blocks: list[Block]) -> None:
    """Do what the next section says in a browser's console."""
    section = blocks[0].section
    while blocks[0].section == section:
        tried, answer = blocks.pop(0), blocks.pop(0)
        assert (tried.language, answer.language) == ("js", "text")
        call = tried.text.removeprefix("await ").strip()
        said = await page.evaluate(f"{call}.then(() => 'taken', (error) => error.message)")
        assert said == answer.text.strip()


CARD = re.compile(r'"([2-9TJQKA][CDHS])"')


def cards_in(received: str) -> set[str]:
    return set(CARD.findall(received))


@needs_curl
async def test_the_card_game_is_written_and_no_client_receives_the_hand_of_another(
    reader: Reader,
) -> None:
    blocks = write_game(reader, HIDDEN_HANDS, CARDS_STEPS, "cards.py")
    async with open_table(reader, "cards") as table:
        hands = []
        for seat in table.seats.values():
            seen = seat.act("look")
            hands.append(set(seen["hand"]))
            assert cards_in("".join(seat.received)) == {*seen["hand"], seen["table"]["top"]}
        assert [len(hand) for hand in hands] == [5, 5]
        assert hands[0].isdisjoint(hands[1])
        winner = table.seats[await play(table)]
        games = 1
        while not await is_the_losers_hand_hidden(table, winner):
            assert (games := games + 1) <= GAMES_MAX
            winner.received.clear()
            table.host.act("deal")
            winner = table.seats[await play(table)]
        await wait_for_stat(winner, "cards_wins")
    follow(reader, blocks[4:], "9. See who has won")
    assert f'"player_id":{winner.player_id},' in reader.said


GAMES_MAX = 5
"""More long games than that do not come in a row."""


async def is_the_losers_hand_hidden(table: Table, winner: Seat) -> bool:
    """Check that the winner has never received a card that the other still holds.

    Return False where that says nothing: in a long game the pile becomes the deck again, so all
    that the other holds may have lain on it before.
    """
    await winner.view()
    received = "".join(winner.received)
    shown = set(re.findall(r'"top": ?"(..)"', received))
    held = set(table.other(winner).act("look")["hand"]) - shown
    assert held.isdisjoint(cards_in(received))
    return bool(held)


async def enter_both(ann: Page, bob: Page, reader: Reader) -> None:
    """Come to one room in two browsers, as the tutorials say."""
    key = reader.filled["gr_api_…"]
    await enter_room(ann, reader.fill("http://127.0.0.1:8000/"), "Ann", key)
    await enter_room(bob, await ann.evaluate("location.href"), "Bob")


async def lay_or_draw(page: Page) -> None:
    """Lay the first card that follows, or draw."""
    await page.evaluate("""(() => {
        const { top } = room.state;
        const at = room.privateState.findIndex((card) => card[0] === top[0] || card[1] === top[1]);
        (document.querySelectorAll("#hand button")[at] ?? document.getElementById("draw")).click();
    })()""")
    await page.until("document.getElementById('turn').textContent != 'It is your turn.'")


@needs_curl
@needs_browser
async def test_the_card_game_is_played_in_two_browsers(reader: Reader) -> None:
    blocks = write_game(reader, HIDDEN_HANDS, CARDS_STEPS, "cards.py")
    async with open_browser() as browser:
        ann, bob = await browser.new_page(), await browser.new_page()
        await enter_both(ann, bob, reader)
        await ann.click("#deal")
        hands = []
        for page in (ann, bob):
            await page.until("room.privateState?.length == 5")
            hands.append(set(await page.evaluate("room.privateState")))
            seen = {*hands[-1], await page.evaluate("room.state.top")}
            assert cards_in(await page.received()) == seen
        assert hands[0].isdisjoint(hands[1])
        is_anns = await ann.text("#turn") == "It is your turn."
        mover, other = (ann, bob) if is_anns else (bob, ann)
        await cheat_in_the_console(other, blocks)
        await ann.call("Page.reload")
        await ann.until("globalThis.room?.privateState?.length == 5")
        assert set(await ann.evaluate("room.privateState")) == hands[0]
        while await other.evaluate("room.state.turn"):  # whoever has just moved knows
            await mover.reads("#turn", "It is your turn.")
            await lay_or_draw(mover)
            mover, other = other, mover
        winner, loser = other, mover
        await winner.reads("#news", "You have won!")
        await loser.reads("#news", "You have not won.")
        assert ann.errors + bob.errors == []
    follow(reader, blocks, "9. See who has won")
    assert ('"Ann"' if winner is ann else '"Bob"') in reader.said


async def run_one_way(seat: Seat, ticks: int) -> list[float]:
    """Run along the field for some ticks; return how far each of them got the player."""
    key = str(seat.player_id)
    first = seat.act("steer", {"x": 0, "y": 0})["places"][key][0]
    assert (await seat.say("steer", {"x": 1 if first < 50 else -1, "y": 0}))["type"] == "sent"
    places = [first]
    while len(places) <= ticks:
        frame = await seat.client.take()
        if frame.get("command") == "places":
            places.append(frame["data"][key][0])
    return [abs(after - before) for before, after in pairwise(places)]


@needs_curl
async def test_the_arena_is_written_and_its_server_moves_everybody(reader: Reader) -> None:
    blocks = write_game(reader, ARENA, ARENA_STEPS, "arena.py")
    async with open_table(reader, "arena", seconds=5) as table:
        began = trio.current_time()
        steps = await run_one_way(table.host, 40)
        assert trio.current_time() - began > 1.7, "no more than 20 ticks a second"
        assert median(steps) == pytest.approx(1.0, abs=0.02), "20 steps of 1.0 a second"
        await play(table)  # the guest takes a coin
        await table.host.send()
        deltas = [frame for frame in table.host.frames if frame.get("event") == "delta"]
        assert any("coins" in json.dumps(delta) for delta in deltas)
        await win_a_round(table)
    follow(reader, blocks[4:], "10. See who has won")


async def win_a_round(table: Table) -> None:
    """Have the guest win one; the host may take a coin in passing, and a draw has no winner."""
    table.host.act("steer", {"x": 0, "y": 0})

    async def has_won() -> bool:
        await play(table)
        return bool(table.stats()[table.guest.player_id].get("arena_wins"))

    await until(has_won, GAME_SECONDS_MAX)


WAY = "[0, 1].map((axis) => room.state.coin[axis] - heard[Object.keys(heard).at(-1)][axis])"
"""The way to the coin from where the server has the player who joined last."""
LISTEN = """
room.on("message", ({ command, data }) => { if (command === "places") globalThis.heard = data; }); 0
"""


async def run_until_won(page: Page) -> None:
    """Hold the arrow key that leads to the coin, until the player has won a round."""
    await page.evaluate(LISTEN)
    await page.until("globalThis.heard")
    held = None
    while not (await page.text("#news")).endswith("you have won!"):
        x, y = await page.evaluate(WAY)
        ways = ("ArrowLeft", "ArrowRight") if abs(x) > 2 else ("ArrowUp", "ArrowDown")
        key = ways[(x if abs(x) > 2 else y) > 0]
        if key != held:
            if held is not None:
                await page.call("Input.dispatchKeyEvent", type="keyUp", key=held)
            await page.call("Input.dispatchKeyEvent", type="keyDown", key=key)
            held = key


@needs_curl
@needs_browser
async def test_the_arena_is_played_in_two_browsers(reader: Reader) -> None:
    blocks = write_game(reader, ARENA, ARENA_STEPS, "arena.py")
    async with open_browser() as browser:
        ann, bob = await browser.new_page(), await browser.new_page()
        await enter_both(ann, bob, reader)
        with trio.fail_after(100):
            await run_until_won(bob)
        await ann.until("document.getElementById('news').textContent.endsWith('have not won.')")
        received = await ann.received()
        assert received.count('"command":"places"') > 100
        connections = received.count('"type":"connected"')  # a busy browser may lose one
        assert 1 <= connections <= 2
        # a tick between a connection and the room's note of it shows the state once more
        assert 1 <= received.count('"event":"state"') <= 2 * connections
        assert received.count('"event":"delta"') > 1
        await cheat_in_the_console(bob, blocks)
        assert ann.errors + bob.errors == []
    follow(reader, blocks, "10. See who has won")
    assert '"Bob"' in reader.said


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
    # tests/sdks follows those of the clients
    assert [README, ARENA, *clients, FIRST_GAME, HIDDEN_HANDS] == PAGES
