"""Take the screens of docs/pictures: two browsers in one room, the server's own pages, the demo.

A server is started on an empty data directory, and Chromium is shown its pages; so this takes no
more than a browser on the PATH. tests/browser runs it to its end.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from urllib.parse import urlencode

import trio

ROOT = Path(__file__).resolve().parent.parent
KITS = ROOT / "tests" / "support"
FOLDERS = (KITS, KITS / "servers", KITS / "starts", KITS / "sdks", KITS / "demo")
sys.path[:0] = [str(ROOT), *map(str, FOLDERS)]

from browser_kit import FOUND, Browser, Page, open_browser, serve_files  # noqa: E402
from demo_kit import enter_arena, open_demo, play_for, running_demo  # noqa: E402 (likewise)
from gif import write_gif  # noqa: E402 (beside this file)
from page_kit import blocks_of, enter_room, write_block  # noqa: E402 (likewise)
from server_kit import ServerProcess, data_directory  # noqa: E402 (all found by FOLDERS)

PICTURES = ROOT / "docs" / "pictures"
EXAMPLES = ROOT / "examples"
BEHAVIOURS = "*/tictactoe=tictactoe:TicTacToe,*/cards=cards:Cards,*/arena=arena:Arena"
SDK = ROOT / "greenroom" / "demo" / "page" / "sdk"

WIDTH, HEIGHT = 420, 740
MOVES = (4, 0, 2, 6, 3)
"""A game that nobody has won yet."""

ARENA = 720, 440
PLAY_SECONDS = 8.0
CLIP_SECONDS = 7.0
GIF_SIZE = 480, 292
FRAME_SECONDS = 0.12
BEGIN_CLIP = """
(() => {
  const stream = document.getElementById("field").captureStream(25);
  const options = { mimeType: "video/webm;codecs=vp8", videoBitsPerSecond: 1_000_000 };
  globalThis.recorder = new MediaRecorder(stream, options);
  globalThis.parts = [];
  recorder.ondataavailable = (event) => parts.push(event.data);
  recorder.start(1000);
  const small = new OffscreenCanvas(WIDTH, HEIGHT).getContext("2d", { willReadFrequently: true });
  globalThis.frames = [];
  const takeFrame = () => {
    small.drawImage(document.getElementById("field"), 0, 0, WIDTH, HEIGHT);
    const { data } = small.getImageData(0, 0, WIDTH, HEIGHT);
    const frame = new Uint8Array(WIDTH * HEIGHT);
    for (let i = 0, at = 0; i < frame.length; i++, at += 4) {
      frame[i] = (data[at] >> 5 << 5) | (data[at + 1] >> 5 << 2) | (data[at + 2] >> 6);
    }
    frames.push(frame);
  };
  globalThis.taking = setInterval(takeFrame, FRAME_SECONDS * 1000);
  return 0;
})()
"""
END_CLIP = """
new Promise((resolve) => {
  clearInterval(taking);
  recorder.onstop = async () => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.split(",")[1]);
    reader.readAsDataURL(new Blob(parts));
  };
  recorder.stop();
})
"""

FRAME = """
new Promise((resolve) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.split(",")[1]);
  reader.readAsDataURL(new Blob([frames[NUMBER]]));
})
"""

A_TICK = """
new Promise((resolve) => {
  room.on("message", () => requestAnimationFrame(() => resolve(0)));
})
"""

WINDOW = """
<style>
  body { display: flex; gap: 24px; margin: 0; padding: 24px; background: #cfd6e4; }
  figure { margin: 0; border-radius: 10px; overflow: hidden; box-shadow: 0 6px 24px #0004; }
  figcaption { padding: 7px 12px; background: #e9ecf2; color: #444; font: 13px sans-serif; }
  img { display: block; }
</style>
"""


async def main(arguments: Sequence[str]) -> int:
    """Take the screens; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/screens", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=PICTURES)
    directory = parser.parse_args(arguments).directory
    if FOUND is None:
        print("There is no Chromium: install it, and try again.", file=sys.stderr)
        return 1
    await take_demo(directory)
    with tempfile.TemporaryDirectory(prefix="greenroom-screens-") as data_dir:
        behaviours = ("--behaviours-dir", str(EXAMPLES), "--behaviours", BEHAVIOURS)
        server = await trio.to_thread.run_sync(ServerProcess(Path(data_dir), *behaviours).start)
        try:
            async with open_browser() as browser:
                for name, screen in (await take_screens(server, browser)).items():
                    (directory / f"{name}.png").write_bytes(screen)
                    print(f"{name}.png: {len(screen):,} bytes")
        finally:
            await trio.to_thread.run_sync(server.stop)
    return 0


async def take_demo(directory: Path) -> None:
    """Write a screen of the demo's arena, and a clip of some seconds."""
    chance = Random(20)  # noqa: S311 (keys that are pressed)
    with data_directory() as data_dir:
        async with running_demo(data_dir) as demo, open_browser() as browser:
            page = await open_demo(browser, f"{demo.url}?ships=12")
            await resize(page, *ARENA)
            await enter_arena(page, "Ada")
            await play_for(page, PLAY_SECONDS, chance)
            await page.until("document.querySelectorAll('#board li').length > 0")
            screen = await take(page)
            sizes = f"const [WIDTH, HEIGHT, FRAME_SECONDS] = {[*GIF_SIZE, FRAME_SECONDS]};"
            await page.evaluate(BEGIN_CLIP.replace("(() => {", "(() => {" + sizes, 1))
            await play_for(page, CLIP_SECONDS, chance)
            clip = base64.b64decode(await page.evaluate(END_CLIP))
            frames = [
                base64.b64decode(await page.evaluate(FRAME.replace("NUMBER", str(number))))
                for number in range(await page.evaluate("frames.length"))
            ]
    moving = write_gif(frames, *GIF_SIZE, FRAME_SECONDS)
    files = (("screen-demo.png", screen), ("demo.webm", clip), ("demo.gif", moving))
    for name, content in files:
        (directory / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")


async def take_screens(server: ServerProcess, browser: Browser) -> dict[str, bytes]:
    """Return every screen, by name."""
    http = server.ready["http"].rstrip("/")
    return {
        **await take_server_pages(browser, http),
        **await take_game(browser, {"server": http, "key": server.new_game().key}),
        "two-hands": await take_hands(browser, http, server.new_game().key),
        "two-runners": await take_runners(browser, http, server.new_game().key),
    }


async def take_server_pages(browser: Browser, http: str) -> dict[str, bytes]:
    """Return what the server itself shows."""
    screens = {}
    for name, path in (("screen-root", "/"), ("screen-docs", "/docs")):
        page = await open_page(browser, 1000, 620)
        await page.show(f"{http}{path}")
        if path == "/docs":
            await page.until("document.body.innerText.includes('/api/game_players.php/register')")
        screens[name] = await take(page)
    return screens


async def take_game(browser: Browser, address: dict[str, str]) -> dict[str, bytes]:
    """Return what two players see of their game, one after the other and side by side."""
    screens = {}
    ann = await open_page(browser, WIDTH, 510)
    bob = await open_page(browser, WIDTH, HEIGHT, "dark")
    with serve_files(EXAMPLES) as pages:
        await ann.show(f"{pages}/tictactoe.html#{urlencode({**address, 'name': 'Ann'})}")
        await ann.click("#entrance button")
        await ann.reads("#turn", "Waiting for somebody to play with.")
        await ann.reads("#connection", "Connected")
        screens["screen-invitation"] = await take(ann)
        await resize(ann, WIDTH, HEIGHT)
        await bob.show(await ann.evaluate("document.getElementById('link').value"))
        await bob.until("state?.players.length == 2")
        await ann.until("state.players.length == 2")
        await rename(bob, "Bob")
        await ann.until("state.players.some(player => player.name == 'Bob')")
        await play(ann, bob)
        screens["two-browsers"] = await frame(browser, await take(ann), await take(bob))
    return screens


@contextmanager
def serve_client(tutorial: str, project: str, http: str) -> Generator[str]:
    """Serve the page that a tutorial writes; it calls the server at `http`."""
    with tempfile.TemporaryDirectory(prefix="greenroom-client-") as directory:
        client = Path(directory) / project / "client"
        (client / "greenroom-client").mkdir(parents=True)
        (client / "greenroom-client" / "dist").symlink_to(SDK)
        for block in blocks_of(ROOT / "docs" / "tutorials" / tutorial):
            if block.file.startswith(f"{project}/client/"):
                text = block.text.replace("http://127.0.0.1:8080", http)
                write_block(Path(directory), block._replace(text=text))
        with serve_files(client) as pages:
            yield pages


async def take_hands(browser: Browser, http: str, key: str) -> bytes:
    """Return what two players see of their cards, side by side."""
    ann, bob = [await open_page(browser, WIDTH, 530) for _ in range(2)]
    with serve_client("hidden-hands.md", "my-cards", http) as pages:
        await enter_room(ann, f"{pages}/", "Ann", key)
        await enter_room(bob, await ann.evaluate("location.href"), "Bob")
        await ann.click("#deal")
        for page in (ann, bob):
            await page.until("room.privateState?.length == 5")
        return await frame(browser, await take(ann), await take(bob), height=530)


async def take_runners(browser: Browser, http: str, key: str) -> bytes:
    """Return what two players see of their arena, side by side."""
    ann, bob = [await open_page(browser, WIDTH, 580) for _ in range(2)]
    with serve_client("arena.md", "my-arena", http) as pages:
        await enter_room(ann, f"{pages}/", "Ann", key)
        await enter_room(bob, await ann.evaluate("location.href"), "Bob")
        for page in (ann, bob):
            await page.until("Object.keys(room.state.coins).length == 2")
            await page.evaluate(A_TICK)
        return await frame(browser, await take(ann), await take(bob), height=580)


async def open_page(browser: Browser, width: int, height: int, scheme: str = "light") -> Page:
    """Open a window of this size for somebody who likes light or dark pages."""
    page = await browser.new_page()
    await resize(page, width, height)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    await page.call("Emulation.setEmulatedMedia", features=features)
    return page


async def resize(page: Page, width: int, height: int) -> None:
    """Make a window this large."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    await page.call("Emulation.setDeviceMetricsOverride", **size)


async def take(page: Page) -> bytes:
    """Return what a window shows, as PNG."""
    await page.evaluate("document.fonts.ready.then(() => true)")
    found = await page.call("Page.captureScreenshot", format="png")
    return base64.b64decode(found["data"])


async def rename(page: Page, name: str) -> None:
    """Change a guest's name, as the button does."""
    await page.evaluate(f"prompt = () => {name!r}")
    await page.click("#rename")


async def play(ann: Page, bob: Page) -> None:
    """Move in turn, whoever begins."""
    await ann.until("state.turn != 0")
    ann_begins = await ann.evaluate("state.turn == session.playerId")
    first, second = (ann, bob) if ann_begins else (bob, ann)
    for number, cell in enumerate(MOVES):
        mover = (first, second)[number % 2]
        await mover.reads("#turn", "It is your turn.")
        await mover.click(f"#board button:nth-child({cell + 1})")
    for page in (ann, bob):
        await page.until(f"state.cells.filter(Boolean).length == {len(MOVES)}")


async def frame(browser: Browser, *screens: bytes, height: int = HEIGHT) -> bytes:
    """Return windows of this height side by side in one picture."""
    page = await open_page(browser, WIDTH * 2 + 24 * 3, height + 30 + 24 * 2)
    await page.show("about:blank")
    figures = "".join(
        f'<figure><figcaption>{title}</figcaption><img src="data:image/png;base64,{data}"></figure>'
        for title, data in zip(
            ("Ann's browser", "Bob's browser"),
            (base64.b64encode(screen).decode() for screen in screens),
            strict=True,
        )
    )
    await page.evaluate(f"document.documentElement.innerHTML = {WINDOW + figures!r}; 0")
    await page.until("[...document.images].every(image => image.complete && image.naturalWidth)")
    return await take(page)


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1:]))
