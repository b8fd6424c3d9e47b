"""Play the demo in two browser pages over a bad network, and print how good it looks.

The pages fly at random in an arena of sixteen ships. The network takes 50 ms each way and loses 2 %
of what is sent. Where the others are drawn is compared with where the server had them at that time.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import trio

ROOT = Path(__file__).resolve().parent.parent
KITS = ROOT / "tests" / "support"
FOLDERS = (KITS, KITS / "servers", KITS / "starts", KITS / "sdks", KITS / "demo")
sys.path[:0] = [str(ROOT), *map(str, FOLDERS)]

from browser_kit import FOUND, open_browser  # noqa: E402 (found by the line above)
from demo_kit import (  # noqa: E402 (likewise)
    enter_arena,
    figures_of,
    open_demo,
    play_all,
    record,
    running_demo,
)
from server_kit import data_directory  # noqa: E402 (likewise)

from greenroom.demo.flight import RADIUS  # noqa: E402 (likewise)

SETTLE_SECONDS = 3.0
"""How long the pages play before anything is written down: delays are measured first."""
FRAMES_MIN = 59.0
Figures = dict[str, Any]


async def main(arguments: Sequence[str]) -> int:
    """Measure; return 0 if it is as good as the README says."""
    parser = argparse.ArgumentParser(prog="scripts/demo-figures", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long (120)")
    parser.add_argument("--ships", type=int, default=16, help="ships in the arena (16)")
    parser.add_argument("--delay", type=float, default=50.0, help="ms each way (50)")
    parser.add_argument("--loss", type=float, default=2.0, help="percent (2)")
    parser.add_argument("--seed", type=int, default=20, help="of the players' keys (20)")
    given = parser.parse_args(arguments)
    if FOUND is None:
        print("There is no Chromium: install it, and try again.", file=sys.stderr)
        return 1
    print(f"seed {given.seed}", file=sys.stderr)
    measured = await measure(given)
    for name, figures in measured.items():
        print(json.dumps({"page": name, **figures}))
    return judge(measured)


async def measure(given: argparse.Namespace) -> dict[str, Figures]:
    """Return the figures of both pages, with what went wrong on them."""
    found = dict[str, Figures]()
    chance = Random(given.seed)  # noqa: S311 (keys that are pressed)
    with data_directory() as data_dir:
        async with running_demo(data_dir) as demo, open_browser() as browser:
            demo.set_network(delay_seconds=given.delay / 1000, loss=given.loss / 100)
            url = f"{demo.url}?ships={given.ships}"
            pages = {}
            for name in ("Ada", "Bob"):
                pages[name] = await open_demo(browser, url)
                await enter_arena(pages[name], name)

            await play_all(pages.values(), SETTLE_SECONDS, chance)
            for page in pages.values():
                await record(page)
            await play_all(pages.values(), given.seconds, chance)
            for name, page in pages.items():
                found[name] = {**await figures_of(page), "errors": page.errors}
    return found


def judge(measured: dict[str, Figures]) -> int:
    """Print whether everything is as it should be; return 0 if so."""
    off = max(figures["off_p95"] or math.inf for figures in measured.values())
    rate = min(figures["frames_per_second"] for figures in measured.values())
    errors = sum(len(figures["errors"]) for figures in measured.values())
    body = 2 * RADIUS
    checks = {
        f"others off by {off:.2f} at p95, less than a body ({body})": off < body,
        f"{rate:.1f} frames a second, 60 wanted": rate >= FRAMES_MIN,
        f"{errors} errors on the consoles": not errors,
    }
    for text, is_good in checks.items():
        print(f"{'ok ' if is_good else 'BAD'} {text}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1:]))
