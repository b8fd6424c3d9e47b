"""What only a real browser shows: its WebSocket, its cross-origin rules, the reference page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from browser_kit import Page, needs_browser, open_browser, serve_files
from server_kit import Api, ServerProcess

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def studio(data_dir: Path) -> Iterator[ServerProcess]:
    entry = "*/tictactoe=tictactoe:TicTacToe"
    server = ServerProcess(data_dir, "--behaviours-dir", str(EXAMPLES), "--behaviours", entry)
    yield server.start()
    server.stop()


async def place(page: Page, cell: int) -> None:
    """Click a cell."""
    await page.click(f"#board button:nth-child({cell + 1})")


async def test_two_browsers_play_tic_tac_toe_to_its_end(studio: ServerProcess):
    api = Api(studio.address, studio.new_game())
    server = "http://{}:{}".format(*studio.address)
    with serve_files(EXAMPLES) as pages:
        async with open_browser() as browser:
            ann, bob = await browser.new_page(), await browser.new_page()
            filled = {"server": server, "key": api.game.key}
            await ann.show(f"{pages}/tictactoe.html?{urlencode({**filled, 'name': 'Ann'})}")
            await ann.click("form button")
            await ann.until("!document.getElementById('board').hidden")
            room = await ann.evaluate("document.forms.entrance.room.value")
            filled |= {"name": "Bob", "room": room}
            await bob.show(f"{pages}/tictactoe.html?{urlencode(filled)}")
            await bob.click("form button")
            await bob.until("document.getElementById('turn').textContent.includes('.')")
            first, second = (ann, bob) if "your" in await ann.text("#turn") else (bob, ann)

            for mover, cell in ((first, 0), (second, 3), (first, 1), (second, 4)):
                await mover.reads("#turn", "It is your turn.")
                await place(mover, cell)
            await first.reads("#turn", "It is your turn.")
            await place(second, 5)
            await second.reads("#trouble", "It is not your turn")
            await place(first, 2)
            await first.reads("#result", "You won.")
            await second.reads("#result", "You lost.")
            assert ann.errors == bob.errors == []
            channels = [url for url in ann.urls if url.startswith("ws:")]
            assert channels == [f"{studio.ready['realtime'].rstrip('/')}/?client=json"]

    board = api.call("POST", "/api/leaderboard.php", {"sort_by": ["tictactoe_wins"]})
    winner = board.json["leaderboard"][0]
    assert winner["player_name"] == ("Ann" if first is ann else "Bob")
    assert winner["player_data"] == {"tictactoe_wins": 1}


async def test_the_reference_page_stands_on_its_own(server: ServerProcess):
    origin = "{}:{}".format(*server.address)
    async with open_browser() as browser:
        page = await browser.new_page()
        await page.show(f"http://{origin}/docs")
        await page.until("document.body.innerText.includes('/api/game_room.php/create')")
        assert page.errors == []
        foreign = {urlsplit(url).netloc for url in page.urls} - {origin, ""}
        assert not foreign
