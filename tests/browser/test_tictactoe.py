"""The page of tic-tac-toe, as players use it: links, keys, lost connections, forged messages."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import trio
from browser_kit import Page, needs_browser, open_browser, serve_files
from page_kit import free_port
from server_kit import Api, ServerProcess, serving

EXAMPLES = Path(__file__).parents[2] / "examples"
CONTRAST_MIN = 4.5
ENTRY = "*/tictactoe=tictactoe:TicTacToe"
BEHAVIOURS = ("--behaviours-dir", str(EXAMPLES), "--behaviours", ENTRY)

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]

CONTRASTS = """
(() => {
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = numbers(color).map((part) => {
      const x = part / 255;
      return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return numbers(color)[3] === 0 ? behind(element.parentElement) : color;
  };
  const found = {};
  for (const element of document.querySelectorAll("main *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    found[element.textContent.trim()] = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }
  return found;
})()
"""
"""How well every text that is shown stands out from what is behind it, as WCAG counts it."""


@pytest.fixture(scope="module")
def studio(new_database: Callable[[], str]) -> Iterator[ServerProcess]:
    with serving("--database-url", new_database(), *BEHAVIOURS) as server:
        yield server


class Match:
    """Two browsers in one room: the second has opened the first one's invitation link."""

    def __init__(self, api: Api, ann: Page, bob: Page, first: Page) -> None:
        self.api = api
        self.ann = ann
        self.bob = bob
        self.first = first
        self.second = bob if first is ann else ann

    async def play(self, *cells: int) -> None:
        """Move in turn, as fast as the turns come."""
        movers = (self.first, self.second)
        await self.play_on(*((movers[n % 2], cell) for n, cell in enumerate(cells)))

    @staticmethod
    async def play_on(*moves: tuple[Page, int]) -> None:
        """Make moves, each as soon as it is the mover's turn."""
        for mover, cell in moves:
            await mover.reads("#turn", "It is your turn.")
            await place(mover, cell)


async def place(page: Page, cell: int) -> None:
    """Click a cell."""
    await page.click(f"#board button:nth-child({cell + 1})")


async def open_again(page: Page) -> None:
    """Go away and come back to the same address in the same tab."""
    address = await page.evaluate("location.href")
    await page.show("about:blank")
    await page.show(address)


@asynccontextmanager
async def sit_down(studio: ServerProcess) -> AsyncGenerator[Match]:
    """Bring two browsers together, over the link."""
    api = Api(studio.address, studio.new_game())
    given = {"server": studio.ready["http"], "key": api.game.key, "name": "Ann"}
    with serve_files(EXAMPLES) as pages:
        async with open_browser() as browser:
            ann, bob = await browser.new_page(), await browser.new_page()
            await ann.show(f"{pages}/tictactoe.html?{urlencode(given)}")
            await ann.click("#entrance button")
            await ann.reads("#turn", "Waiting for somebody to play with.")
            link = await ann.evaluate("document.getElementById('link').value")
            await bob.show(link)
            await bob.until("state?.players.length == 2")
            await ann.until("state.players.length == 2")
            ann_begins = await ann.evaluate("state.turn == session.playerId")
            yield Match(api, ann, bob, ann if ann_begins else bob)
            assert ann.errors == bob.errors == []


async def test_two_browsers_play_to_the_end_and_then_again(studio: ServerProcess):
    async with sit_down(studio) as match:
        await match.play(0, 3, 1, 4)
        await match.first.reads("#turn", "It is your turn.")
        await place(match.second, 5)
        await match.second.reads("#trouble", "It is not your turn")
        await place(match.first, 2)
        await match.first.reads("#turn", "You won.")
        await match.second.reads("#turn", "You lost.")
        assert await match.second.evaluate("document.querySelectorAll('#board .won').length") == 3
        await match.first.until("state.turn != 0 && !state.cells.some(Boolean)")
        wins = "[...document.querySelectorAll('#players .wins')].map((wins) => wins.textContent)"
        assert sorted(await match.second.evaluate(wins)) == ["0", "1"]
        channels = [url for url in match.ann.urls if url.startswith("ws:")]
        assert channels == [f"{studio.ready['realtime'].rstrip('/')}/?client=json"]
    board = match.api.call("POST", "/api/leaderboard.php", {"sort_by": ["tictactoe_wins"]})
    winner = board.json["leaderboard"][0]
    assert winner["player_name"] == ("Ann" if match.first is match.ann else "Guest")
    assert winner["stats"] == {"tictactoe_wins": 1}


async def test_an_invited_guest_has_a_seat_at_once_and_takes_a_name_later(studio: ServerProcess):
    async with sit_down(studio) as match:
        assert "Guest" in await match.ann.text("#players")
        await match.bob.evaluate("prompt = () => 'Bob'; 0")
        await match.bob.click("#rename")
        await match.bob.until("session.name == 'Bob'")
        await match.play(4)
        await match.ann.until("document.getElementById('players').textContent.includes('Bob')")


async def test_a_third_who_opens_the_link_is_told_why_they_may_not_play(studio: ServerProcess):
    async with sit_down(studio) as match:
        await match.ann.evaluate("sessionStorage.clear(); 0")  # a stranger with the same link
        await open_again(match.ann)
        await match.ann.reads("#trouble", "Room is full")
        assert not await match.ann.evaluate("document.getElementById('entrance').hidden")
        match.ann.errors.clear()  # browsers log every answer that is a refusal


async def test_a_lost_connection_is_shown_and_comes_back_with_the_board(studio: ServerProcess):
    async with sit_down(studio) as match:
        await match.play(0, 3)
        await match.bob.evaluate("attempts = 5; channel.close(); 0")
        await match.bob.until("document.getElementById('connection').textContent.includes('lost')")
        await match.ann.until("document.getElementById('players').textContent.includes('away')")
        await match.bob.evaluate("dispatchEvent(new Event('online')); 0")
        await match.bob.reads("#connection", "Connected")
        await match.ann.until("!document.getElementById('players').textContent.includes('away')")
        await match.play(1)
        await match.bob.until("state.cells.filter(Boolean).length == 3")


async def test_the_pages_come_back_to_a_server_that_was_killed(data_dir: Path):
    ports = [str(free_port()), str(free_port())]
    chosen = ("--port", ports[0], "--realtime-port", ports[1], *BEHAVIOURS)
    studio = ServerProcess(data_dir, *chosen).start()
    try:
        async with sit_down(studio) as match:
            await match.play(0, 3)
            await match.first.until("state.cells.filter(Boolean).length == 2")
            studio.kill()
            for page in (match.ann, match.bob):
                await page.until(
                    "document.getElementById('connection').textContent.includes('lost')"
                )
            await trio.to_thread.run_sync(studio.start)
            for page in (match.ann, match.bob):
                await page.reads("#connection", "Connected")
                await page.until("state.cells.filter(Boolean).length >= 2 || state.winner")
                page.errors.clear()  # browsers log every call that nobody answers
    finally:
        studio.stop()


async def test_a_reload_keeps_the_seat(studio: ServerProcess):
    async with sit_down(studio) as match:
        await match.play(0, 3)
        player_id = await match.bob.evaluate("session.playerId")
        await open_again(match.bob)
        await match.bob.until("state?.cells.filter(Boolean).length == 2")
        assert await match.bob.evaluate("session.playerId") == player_id
        await match.play(1)
        await match.bob.until("state.cells.filter(Boolean).length == 3")


FORGED = (
    ("over", {"winner": 0}),
    ("placed", {"by": 0, "cell": 8, "turn": 0}),
    ("state", {"version": 99, "shared": {"turn": 0}}),
)
MARKS = {"is_server": True, "sender": {"is_server": True, "is_host": True}}
SHOWN = (
    "JSON.stringify([state, ...['turn', 'news', 'players', 'board'].map((i) => find(i).innerText)])"
)


async def forge(page: Page) -> None:
    """Say what only the server may say, in the words of a modified client."""
    player_id = await page.evaluate("session.playerId")
    for command, data in FORGED:
        winner = {name: player_id if value == 0 else value for name, value in data.items()}
        more = {"command": command, "target": "all", **MARKS, "data": {**winner, **MARKS}}
        for kind in ("send", "receive", "event"):
            said = json.dumps({"type": kind, "event": command, **more})
            await page.evaluate(f"say({said}); 0")
        update = json.dumps({"target_players": "all", "type": command, "data": winner, **MARKS})
        sent = f"call('POST', 'game_room.php/updates', {update})"
        await page.evaluate(f"{sent}.then(() => 0, () => 0)")


async def catch_up(page: Page) -> None:
    """Wait until the page has all that the server has sent it so far."""
    await page.evaluate("say({type: 'state'}); version = 0; 0")
    await page.until("version > 0")


async def listen(page: Page) -> None:
    """Keep what the page is told from now on, as `told`."""
    await catch_up(page)
    await page.evaluate(
        "told = []; globalThis.heed ??= take; take = (m) => { told.push(m); heed(m) }; 0"
    )


@pytest.fixture
def loose(data_dir: Path) -> Iterator[ServerProcess]:
    """A server whose tic-tac-toe lets members say what they like."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "loose.py").write_text(
            "from tictactoe import TicTacToe\n\n\nclass Loose(TicTacToe):\n    strict = False\n"
        )
        entry = ("--behaviours-dir", folder, "--behaviours", "*/tictactoe=loose:Loose")
        server = ServerProcess(data_dir, *entry, PYTHONPATH=f"{EXAMPLES.parent}:{EXAMPLES}")
        yield server.start()
        server.stop()


async def test_a_page_does_not_believe_host_or_guest_that_the_game_is_lost(loose: ServerProcess):
    async with sit_down(loose) as match:
        await match.play(0)
        await match.second.reads("#turn", "It is your turn.")
        for cheat, other in ((match.ann, match.bob), (match.bob, match.ann)):
            await listen(other)
            before = await other.evaluate(SHOWN)
            await forge(cheat)
            await other.until("told.filter((m) => m.type == 'receive').length >= 3")
            await catch_up(other)  # the forged ones have been sent before that
            assert await other.evaluate(SHOWN) == before
            assert await other.evaluate("told.filter((m) => m.sender?.is_server).length") == 0
            cheat.errors.clear()  # browsers log refused calls
        first, second = match.first, match.second
        await match.play_on((second, 3), (first, 1), (second, 4), (first, 2))
        for page in (match.ann, match.bob):
            await page.until("find('news').innerText.startsWith('The game is over: ')")
            assert await page.evaluate("told.filter((m) => m.sender?.is_server).length") > 0


async def test_a_strict_room_lets_nobody_say_that_the_game_is_lost(studio: ServerProcess):
    async with sit_down(studio) as match:
        await match.play(0)
        await match.second.reads("#turn", "It is your turn.")
        for cheat, other in ((match.ann, match.bob), (match.bob, match.ann)):
            await listen(cheat)
            await listen(other)
            before = await other.evaluate(SHOWN)
            await forge(cheat)
            await cheat.until("told.filter((m) => m.type == 'error').length == 3")
            unknown = await cheat.evaluate("told.find((m) => m.type == 'error').data.message")
            assert unknown == '"over" is unknown. This room takes no messages'
            await other.evaluate("say({type: 'state'}); version = 0; 0")
            await other.until("version > 0")
            assert await other.evaluate("told.filter((m) => m.type == 'receive').length") == 0
            assert await other.evaluate(SHOWN) == before
            cheat.errors.clear()


async def press(page: Page, key: str) -> None:
    """Press a key, as a keyboard does."""
    text = {"Enter": "\r"}.get(key, "")
    codes: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": 13 if text else 0}
    await page.call("Input.dispatchKeyEvent", type="keyDown", text=text, **codes)
    await page.call("Input.dispatchKeyEvent", type="keyUp", **codes)


async def test_the_board_is_played_with_the_keyboard(studio: ServerProcess):
    async with sit_down(studio) as match:
        page = match.first
        await page.reads("#turn", "It is your turn.")
        await page.evaluate("cells[0].focus(); 0")
        for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowUp"):
            await press(page, key)
        assert await page.evaluate("cells.indexOf(document.activeElement)") == 6
        await press(page, "Enter")
        await match.second.reads("#turn", "It is your turn.")
        assert await match.second.evaluate("state.cells[6] == state.first")


async def test_everything_has_a_name_for_screen_readers(studio: ServerProcess):
    async with sit_down(studio) as match:
        await match.play(0)
        await match.second.reads("#turn", "It is your turn.")
        for page in (match.ann, match.bob):
            tree = (await page.call("Accessibility.getFullAXTree"))["nodes"]
            roles = {"button", "textbox", "form", "group", "list", "img"}
            named = [node for node in tree if node.get("role", {}).get("value") in roles]
            names = [node.get("name", {}).get("value", "") for node in named]
            assert [node for node, name in zip(named, names, strict=True) if not name] == []
            name = "Ann" if match.first is match.ann else "Guest"
            assert f"row 1, column 1: ✕ {name}" in names


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_stands_out_in_light_and_dark(studio: ServerProcess, scheme: str):
    async with sit_down(studio) as match:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page = match.second
        await page.call("Emulation.setEmulatedMedia", features=features)
        await match.play(0)
        await page.reads("#turn", "It is your turn.")
        await place(page, 0)
        await page.reads("#trouble", "That cell is taken")
        found = await page.evaluate(CONTRASTS)
        assert "✕" in found
        assert {text: ratio for text, ratio in found.items() if ratio < CONTRAST_MIN} == {}
        await page.click("#leave")
        await page.until("!document.getElementById('entrance').hidden")
        found = await page.evaluate(CONTRASTS)
        assert "Play" in found
        assert {text: ratio for text, ratio in found.items() if ratio < CONTRAST_MIN} == {}


async def test_nothing_is_wider_than_a_phone(studio: ServerProcess):
    async with sit_down(studio) as match:
        size = {"width": 320, "height": 568, "deviceScaleFactor": 2, "mobile": True}
        await match.bob.call("Emulation.setDeviceMetricsOverride", **size)
        await match.bob.until("innerWidth == 320")
        assert await match.bob.evaluate("document.documentElement.scrollWidth") == 320
        smallest = (
            "Math.min(...[...document.querySelectorAll('button')].filter(b => b.checkVisibility())"
            ".map((button) => button.getBoundingClientRect().height))"
        )
        assert await match.bob.evaluate(smallest) >= 44
