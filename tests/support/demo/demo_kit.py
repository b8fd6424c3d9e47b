"""The demo as it is shown around: its server, and browsers that play it, over a rough network."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import trio
from browser_kit import Browser, Page
from lossy_kit import LossyLine
from proxy_kit import free_ports
from server_kit import ServerProcess

KEYS = {"KeyW": "w", "KeyA": "a", "KeyS": "s", "KeyD": "d"}
SAMPLES_EVERY = 3
"""Frames from one sample to the next."""

RECORD = """
(() => {
  const arena = demo.view;
  const record = (globalThis.record = {
    began: performance.now(), frames: [], truth: [], drawn: [], busy: 0, lost: 0,
  });
  arena.onTick = (places) => record.truth.push([places.time * 1000, places.ships]);
  const draw = arena.draw.bind(arena);
  arena.draw = (now) => {
    const before = performance.now();
    draw(now);
    record.busy += performance.now() - before;
  };
  arena.onFrame = (now) => {
    record.frames.push(now);
    if (record.frames.length % %d) return;
    const others = [...arena.replay.ships.values()].filter((ship) => ship.id !== arena.me.id);
    record.drawn.push([Date.now(), others.map((ship) => [ship.id, ship.x, ship.y, ship.health])]);
  };
  return 0;
})()
""".replace("%d", str(SAMPLES_EVERY))
"""Write down what is drawn, and where the server had everybody at that time."""

EVALUATE = """
(() => {
  const { frames, truth, drawn, busy, began } = globalThis.record;
  const seconds = (performance.now() - began) / 1000;
  const offs = [];
  let at = 0;
  for (const [time, ships] of drawn) {
    while (at + 1 < truth.length && truth[at + 1][0] <= time) at++;
    if (at + 1 >= truth.length || truth[at][0] > time) continue;
    const [[from, before], [to, after]] = [truth[at], truth[at + 1]];
    const share = (time - from) / (to - from);
    for (const [id, x, y, health] of ships) {
      const one = before.find((row) => row[0] === id);
      const two = after.find((row) => row[0] === id);
      if (!one || !two || !health || !one[6] || !two[6]) continue;
      if (Math.hypot(two[1] - one[1], two[2] - one[2]) > 8) continue;
      const trueX = one[1] + (two[1] - one[1]) * share;
      const trueY = one[2] + (two[2] - one[2]) * share;
      offs.push(Math.hypot(x - trueX, y - trueY));
    }
  }
  offs.sort((a, b) => a - b);
  const gaps = frames.slice(1).map((frame, i) => frame - frames[i]).sort((a, b) => a - b);
  const at95 = (list) => list[Math.floor(list.length * 0.95)] ?? null;
  return {
    seconds,
    frames_per_second: frames.length / seconds,
    frame_gap_ms_p95: at95(gaps),
    busy_ms_per_frame: busy / Math.max(1, frames.length),
    ticks: truth.length,
    ticks_per_second: truth.length / seconds,
    ships: truth.length ? truth.at(-1)[1].length : 0,
    positions: offs.length,
    off_p50: offs[Math.floor(offs.length / 2)] ?? null,
    off_p95: at95(offs),
    ping_ms: Math.round((demo.room.roundTripSeconds ?? 0) * 1000),
    loss: demo.view.replay.loss,
    behind_ms: demo.view.replay.behind,
  };
})()
"""


class DemoProcess(ServerProcess):
    """`greenroom demo` on a data directory; it can be killed and started again."""

    subcommand = "demo"


class Demo(NamedTuple):
    """A running demo, and the network between it and its players."""

    server: DemoProcess
    http: LossyLine
    realtime: LossyLine

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.port}/demo"

    def set_network(self, *, delay_seconds: float, loss: float) -> None:
        """Make the network this bad, in both directions."""
        for line in (self.http, self.realtime):
            line.delay_seconds, line.loss = delay_seconds, loss

    def cut(self) -> None:
        """End every connection, as a network does that goes away for a moment."""
        for line in (self.http, self.realtime):
            line.cut()


@asynccontextmanager
async def running_demo(data_dir: Path, **environment: str) -> AsyncGenerator[Demo]:
    """Serve the demo behind a network, on ports that stay the same when it is started again."""
    http, realtime, far_http, far_realtime = free_ports(4)
    ports = ("--port", str(http), "--realtime-port", str(realtime), "--host", "127.0.0.1")
    told = {"GREENROOM_PUBLIC_REALTIME_PORT": str(far_realtime)} | environment
    server = DemoProcess(data_dir, *ports, **told)
    await trio.to_thread.run_sync(server.start)
    try:
        async with trio.open_nursery() as nursery:
            lines = [LossyLine(("127.0.0.1", port)) for port in (http, realtime)]
            for line, far in zip(lines, (far_http, far_realtime), strict=True):
                await nursery.start(line.listen, far)
            yield Demo(server, *lines)
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(server.stop)


async def open_demo(browser: Browser, url: str) -> Page:
    """Open the demo in a browser of somebody who has never been there."""
    page = await browser.new_page()
    await page.show(url)
    await page.until("document.body.dataset.ready === 'yes'")
    return page


async def enter_arena(page: Page, name: str) -> None:
    """Fly, by this name."""
    await page.until("!document.getElementById('fly').disabled")
    await page.evaluate(f"document.getElementById('name').value = {json.dumps(name)}")
    await page.click("#fly")
    await page.until("globalThis.demo.view?.ticks > 2 && demo.view.pilot.isPlaced")


async def play_for(page: Page, seconds: float, chance: Random) -> None:
    """Press keys at random for some time, as somebody does who flies about and shoots."""
    with trio.move_on_after(seconds):
        while True:
            held = chance.sample(sorted(KEYS), chance.choice((1, 1, 2)))
            if chance.random() < 0.5:
                held.append("Space")
            await _press(page, "keyDown", held)
            await trio.sleep(chance.uniform(0.2, 0.9))
            await _press(page, "keyUp", held)
    await _press(page, "keyUp", [*KEYS, "Space"])


async def play_all(pages: Iterable[Page], seconds: float, chance: Random) -> None:
    """Play on all pages at once."""
    async with trio.open_nursery() as nursery:
        for page in pages:
            nursery.start_soon(play_for, page, seconds, Random(chance.random()))


async def _press(page: Page, kind: str, codes: list[str]) -> None:
    for code in codes:
        await page.call("Input.dispatchKeyEvent", type=kind, code=code, key=KEYS.get(code, " "))


async def record(page: Page) -> None:
    """Begin to write down what the page draws."""
    await page.evaluate(RECORD)


async def figures_of(page: Page) -> dict[str, Any]:
    """Return what was written down, in figures."""
    figures: dict[str, Any] = await page.evaluate(EVALUATE)
    return figures
