"""The server's own pages, as far as only a real browser can show."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from browser_kit import needs_browser, open_browser
from server_kit import ServerProcess

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]


async def test_the_reference_page_stands_on_its_own(server: ServerProcess):
    origin = "{}:{}".format(*server.address)
    async with open_browser() as browser:
        page = await browser.new_page()
        await page.show(f"http://{origin}/docs")
        await page.until("document.body.innerText.includes('/api/game_room.php/create')")
        await page.until("document.body.textContent.includes('API docs by Redocly')")
        await page.until("!document.querySelector('img[alt=\"redocly logo\"]')")
        assert page.errors == []
        foreign = {urlsplit(url).netloc for url in page.urls} - {origin, ""}
        assert not foreign
