"""The demo: flown over a bad network, reloaded, cut off, its server killed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio
from browser_kit import Browser, Page, needs_browser, open_browser
from demo_kit import (
    Demo,
    enter_arena,
    figures_of,
    open_demo,
    play_all,
    record,
    running_demo,
)
from seeds import SEED

from greenroom.demo.flight import SIZE

FLIGHT_SECONDS = 6.0
CORNERS = """
(() => {
  const { data } = document.getElementById("code").getContext("2d").getImageData(0, 0, 40, 40);
  return [5, 27].map((at) => data[(at * 40 + at) * 4]);
})()
"""
AS_IN_A_NETWORK = """
const asked = fetch;
globalThis.fetch = async (url, options) => {
  const answer = await asked(url, options);
  if (url !== "/demo/about.json") return answer;
  const about = { ...(await answer.json()), phone: "http://192.168.1.5:8080/demo" };
  return new Response(JSON.stringify(about));
};
"""
"""The server's answer on a machine that others reach; this one may have no network."""

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]


@asynccontextmanager
async def shown(
    data_dir: Path, new_database: Callable[[], str]
) -> AsyncGenerator[tuple[Demo, Browser]]:
    """A demo, and a browser to look at it."""
    database = {"GREENROOM_DATABASE_URL": new_database()}
    async with running_demo(data_dir, **database) as demo, open_browser() as browser:
        yield demo, browser


async def ship_of(page: Page) -> dict[str, object]:
    """Return what everybody sees of the page's player: who they are, and their points."""
    found: dict[str, object] = await page.evaluate(
        "({id: demo.player.id, room: demo.room.roomId, ...demo.room.state.ships[demo.player.id]})"
    )
    return found


@pytest.mark.chance
async def test_two_pages_fly_over_a_bad_network(data_dir: Path, new_database: Callable[[], str]):
    chance = Random(SEED)
    async with shown(data_dir, new_database) as (demo, browser):
        demo.set_network(delay_seconds=0.05, loss=0.02)
        ada = await open_demo(browser, f"{demo.url}?ships=16")
        await enter_arena(ada, "Ada")
        bob = await open_demo(browser, demo.url)
        await enter_arena(bob, "Bob")
        for page in (ada, bob):
            await record(page)
        await play_all((ada, bob), FLIGHT_SECONDS, chance)
        for page in (ada, bob):
            figures = await figures_of(page)
            assert figures["ships"] == 16
            assert figures["positions"] > 100
            assert 0 <= figures["off_p50"] <= figures["off_p95"] < SIZE
            assert figures["ping_ms"] >= 100
            await page.until("document.getElementById('ping').textContent.endsWith('ms')")
            await page.until("document.querySelectorAll('#scores li').length === 8")
        rooms = [await page.evaluate("demo.room.roomId") for page in (ada, bob)]
        assert rooms[0] == rooms[1]
        await ada.until(f"demo.room.state.ships[{(await ship_of(bob))['id']}].name === 'Bob'")
        assert ada.errors == bob.errors == []


async def test_a_ship_flies_at_once_and_where_the_server_has_it(
    data_dir: Path, new_database: Callable[[], str]
):
    async with shown(data_dir, new_database) as (demo, browser):
        page = await open_demo(browser, demo.url)
        await enter_arena(page, "Ada")
        row = "demo.view.latest?.ships.find((ship) => ship[0] === demo.player.id)"
        await page.evaluate("demo.view.onTick = (places) => { demo.view.latest = places }")
        # keys are as good as thumbs: the wish is what counts
        await page.call("Input.dispatchKeyEvent", type="keyDown", code="KeyW", key="w")
        await page.until("demo.view.pilot.wish.y === -1 && demo.view.pilot.ship.vy < -1")
        await page.until(f"{row}?.[4] < -1")
        await page.call("Input.dispatchKeyEvent", type="keyUp", code="KeyW", key="w")
        await page.until(f"Math.abs({row}?.[4]) < 0.1 && demo.view.pilot.ship.vy > -0.1")
        await page.until(f"Math.abs({row}[2] - demo.view.pilot.ship.y) < 0.5")
        assert page.errors == []


async def test_a_phone_flies_by_a_thumb_and_has_room_for_everything(
    data_dir: Path, new_database: Callable[[], str]
):
    async with shown(data_dir, new_database) as (demo, browser):
        page = await open_demo(browser, demo.url)
        size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        await page.call("Emulation.setDeviceMetricsOverride", **size)
        await page.call("Emulation.setTouchEmulationEnabled", enabled=True)
        await enter_arena(page, "Ada of a long name")
        thumb = {"x": 90, "y": 700, "id": 1}
        await page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[thumb])
        moved = thumb | {"x": 150}
        await page.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[moved])
        await page.until("demo.view.pilot.wish.x === 1 && demo.view.pilot.ship.vx > 1")
        await page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        await page.until("demo.view.pilot.wish.x === 0")
        box = "document.querySelector('header').getBoundingClientRect()"
        assert await page.evaluate(f"{box}.height") < 60, "the bar takes two lines"
        assert await page.evaluate(f"{box}.right") <= 390
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.errors == []


async def test_a_reload_keeps_the_player_the_ship_and_its_points(
    data_dir: Path, new_database: Callable[[], str]
):
    async with shown(data_dir, new_database) as (demo, browser):
        page = await open_demo(browser, demo.url)
        await enter_arena(page, "Ada")
        before = await ship_of(page)
        for _ in range(3):
            await page.call("Page.reload")
            await page.until("document.body?.dataset.ready === 'yes'")
            await page.until("globalThis.demo.view?.ticks > 2")
            after = await ship_of(page)
            assert {**after, "points": 0} == {**before, "points": 0, "is_away": False}
        assert await page.text("#who") == "Ada"
        assert page.errors == []


async def test_the_game_goes_on_after_the_server_was_killed_and_the_page_says_so(
    data_dir: Path, new_database: Callable[[], str]
):
    async with shown(data_dir, new_database) as (demo, browser):
        page = await open_demo(browser, demo.url)
        await enter_arena(page, "Ada")
        before = await ship_of(page)
        await trio.to_thread.run_sync(demo.server.kill)
        await page.reads("#banner", "The connection is lost. Trying again …")
        assert await page.evaluate("demo.room.status") == "reconnecting"
        await trio.to_thread.run_sync(demo.server.start)
        await page.reads("#banner", "The server was started again. The game goes on.")
        await page.evaluate("demo.view.ticks = 0; 0")
        await page.until("demo.view.ticks > 2")
        after = await ship_of(page)
        assert (after["id"], after["room"], after["name"]) == (before["id"], before["room"], "Ada")
        assert demo.server.ready["demo"].endswith("/demo")


async def test_a_network_that_goes_away_for_a_moment_is_told_apart(
    data_dir: Path, new_database: Callable[[], str]
):
    async with shown(data_dir, new_database) as (demo, browser):
        page = await open_demo(browser, demo.url)
        await enter_arena(page, "Ada")
        demo.cut()
        await page.reads("#banner", "Connected again.")
        assert await page.evaluate("demo.statuses") == ["connected", "reconnecting", "connected"]


async def test_tic_tac_toe_against_the_robot_and_then_a_player(
    data_dir: Path, new_database: Callable[[], str]
):
    async with shown(data_dir, new_database) as (demo, browser):
        ada = await open_demo(browser, demo.url)
        await ada.evaluate("document.getElementById('name').value = 'Ada'")
        await ada.click("#noughts")
        await ada.until("demo.room?.state?.players.length === 2")
        await ada.until("[...document.querySelectorAll('#scores li')].length === 2")
        assert "Robot" in await ada.text("#scores")
        bob = await open_demo(browser, await ada.evaluate("location.href"))
        await bob.evaluate("document.getElementById('name').value = 'Bob'")
        await bob.click("#noughts")
        await bob.until("demo.room?.state?.players.length === 2")
        assert await ada.evaluate("demo.room.roomId") == await bob.evaluate("demo.room.roomId")
        await ada.until("demo.room.state.players.every((player) => player.id > 0)")
        mover = ada if await ada.evaluate("demo.room.state.turn === demo.player.id") else bob
        await mover.reads("#turn", "Your turn")
        await mover.click("#grid button")
        for page in (ada, bob):
            await page.reads("#grid button", "✕")
        assert ada.errors == bob.errors == []


async def test_a_name_that_is_refused_is_told_and_another_one_is_taken(
    data_dir: Path, new_database: Callable[[], str]
):
    async with shown(data_dir, new_database) as (demo, browser):
        page = await open_demo(browser, demo.url)
        await page.evaluate("document.getElementById('name').value = '\\u202e'")
        await page.click("#fly")
        await page.until("document.getElementById('trouble').textContent !== ''")
        assert await page.evaluate("document.body.dataset.view") == "entrance"
        await enter_arena(page, "Ada")
        await page.click("#leave")
        await page.until("document.body.dataset.view === 'entrance'")
        await enter_arena(page, "Ada Two")
        assert await page.text("#who") == "Ada Two"


async def test_phones_join_by_a_code(data_dir: Path, new_database: Callable[[], str]):
    async with shown(data_dir, new_database) as (demo, browser):
        page = await open_demo(browser, demo.url)
        await enter_arena(page, "Ada")
        await page.click("#share")
        assert "--host 0.0.0.0" in await page.text("#address")
        assert await page.evaluate("document.getElementById('code').hidden")
        await page.click("#phone")
        await page.call("Page.addScriptToEvaluateOnNewDocument", source=AS_IN_A_NETWORK)
        await page.call("Page.reload")
        await page.until("globalThis.demo?.view?.ticks > 2")
        await page.click("#share")
        room = await page.evaluate("demo.room.roomId")
        assert await page.text("#address") == f"http://192.168.1.5:8080/demo#comets/{room}"
        # the code has a dark corner in a light frame; that it can be read is the library's business
        frame, corner = await page.evaluate(CORNERS)
        assert frame == 255
        assert corner < 50
        assert page.errors == []
