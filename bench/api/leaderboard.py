"""Measure leaderboards: what an index costs, and what a server with a million players takes.

    python bench/api/leaderboard.py [--players 1000000] [--skip-server]

The first part is the index alone, in this process. The second part starts a server on an embedded
Postgres and puts the players there by SQL. The first call builds the index. Meanwhile another
client goes on asking for the time, which shows if anybody is blocked.
"""

from __future__ import annotations

import argparse
import gc
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *map(str, (ROOT / "tests" / "support").glob("**/"))]

import psycopg  # noqa: E402
from server_kit import Api, Game, ServerProcess  # noqa: E402

from greenroom.actors.leaderboard.index import Index  # noqa: E402

FIELDS = ("score",)
UPDATES = 20_000
CALLS = 2_000


def main() -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--players", type=int, default=1_000_000)
    parser.add_argument("--skip-server", action="store_true")
    options = parser.parse_args()
    print("| players | bytes each | put in, µs | update, µs | top 10, µs | top 100, µs |")
    print("|---|---|---|---|---|---|")
    for players in (options.players // 100, options.players // 10, options.players):
        print(row(players))
    if not options.skip_server:
        with tempfile.TemporaryDirectory(prefix="greenroom-bench-") as folder:
            measure_server(Path(folder), options.players)


def document(dice: random.Random) -> bytes:
    """A document of some 150 bytes with a score in it."""
    score = dice.randrange(10_000_000)
    name = f"{dice.getrandbits(128):032x}"
    return f'{{"name":"{name}","items":[1,2,3],"skin":"{name}","score":{score},"level":7}}'.encode()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def row(players: int) -> str:
    """Fill an index and measure it; return a line of the table."""
    dice = random.Random(players)
    gc.collect()
    before = resident_bytes()
    index = Index(1, FIELDS)
    spent = 0.0
    for player_id in range(1, players + 1):
        new = document(dice)
        began = time.perf_counter()
        index.fill(player_id, index.read(new))
        spent += time.perf_counter() - began
    index.complete()
    gc.collect()
    each = (resident_bytes() - before) / players
    changes = [(dice.randrange(1, players + 1), document(dice)) for _ in range(UPDATES)]
    began = time.perf_counter()
    for player_id, new in changes:
        index.put(player_id, index.read(new))
    update = (time.perf_counter() - began) / UPDATES
    tops = [each_seconds(partial(index.list_top, limit)) for limit in (10, 100)]
    figures = (each, spent / players * 1e6, update * 1e6, *(top * 1e6 for top in tops))
    return f"| {players:,} | " + " | ".join(f"{figure:,.1f}" for figure in figures) + " |"


def each_seconds(call: Callable[[], object], times: int = 2_000) -> float:
    """Return what one call takes, in seconds."""
    began = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - began) / times


def measure_server(folder: Path, players: int) -> None:
    """Start a server, fill it, measure, print."""
    folder.chmod(0o711)
    server = ServerProcess(folder, GREENROOM_RATE_LIMIT_FACTOR="1000000").start()
    try:
        game = server.new_game("bench")
        fill(folder, game, players)
        with Bystander(server, game) as slowest:
            began = time.perf_counter()
            while Api(server.address, game).call("POST", PATH, BODY).status == 429:
                pass
            print(f"\nbuilt over {players:,} players in {time.perf_counter() - began:.1f} s;")
            print(f"others meanwhile waited {percentiles(slowest)}")
        token = Api(server.address, game).register("Ada", player_data={"score": 5_000_000})[1]
        print_calls(server, game, token)
    finally:
        server.stop()


PATH = "/api/leaderboard.php"
BODY = {"sort_by": list(FIELDS)}


def fill(folder: Path, game: Game, players: int) -> None:
    """Put players straight into the database."""
    command = [sys.executable, "-m", "greenroom", "db", "url", "--data-dir", str(folder)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    with psycopg.connect(shown.strip(), autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute(
            """
            INSERT INTO players SELECT 10000000 + n, %s, 'Player ' || n, to_char(n, 'FM00000000'),
                decode(md5(n::text), 'hex'), json_build_object('name', md5(n::text),
                'items', json_build_array(1, 2, 3), 'skin', md5((n + 1)::text),
                'score', (random() * 10000000)::int, 'level', n %% 100),
                false, NULL, NULL, NULL, now(), now()
            FROM generate_series(1, %s) AS n
            """,
            (game.game_id, players),
        )


class Bystander:
    """Asks for the time, over and over, in a thread; holds how long each answer took."""

    def __init__(self, server: ServerProcess, game: Game) -> None:
        self._server, self._game = server, game
        self._seconds: list[float] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for seconds in calls(self._server, self._game, "GET", "/api/time.php"):
            self._seconds.append(seconds)
            if self._ends.wait(0.002):
                return

    def __enter__(self) -> list[float]:
        self._thread.start()
        return self._seconds

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def calls(
    server: ServerProcess,
    game: Game,
    method: str,
    path: str,
    *,
    body: object = None,
    token: str = "",
) -> Iterator[float]:
    """Call over one connection, for ever; give how long each call took, in seconds."""
    connection = http.client.HTTPConnection(*server.address)
    headers = {"X-Api-Token": game.key, "X-Game-Player-Token": token}
    content = None if body is None else json.dumps(body).encode()
    while True:
        began = time.perf_counter()
        connection.request(method, path, content, headers)
        reply = connection.getresponse()
        reply.read()
        if reply.status != 200:
            raise SystemExit(f"{path} answered {reply.status}")
        yield time.perf_counter() - began


def print_calls(server: ServerProcess, game: Game, token: str) -> None:
    """Print how long calls take, one after the other; the time's is the floor."""
    top_100 = {**BODY, "limit": 100}
    for name, method, path, body in (
        ("time", "GET", "/api/time.php", None),
        ("top 10", "POST", PATH, BODY),
        ("top 100", "POST", PATH, top_100),
        ("a ranked field updated", "PUT", "/api/game_data.php/player/update", {"score": 7}),
    ):
        busy = server_seconds(server)
        took = list(islice(calls(server, game, method, path, body=body, token=token), CALLS))
        each = (server_seconds(server) - busy) / CALLS
        print(f"{name}: {percentiles(took)}, {each * 1e3:.2f} ms of the server's CPU")


def server_seconds(server: ServerProcess) -> float:
    """Return the CPU time that the server has used."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def percentiles(seconds: list[float]) -> str:
    """Median, 99th percentile and maximum in milliseconds."""
    ordered = sorted(seconds)
    p99 = ordered[int(len(ordered) * 0.99)]
    return (
        f"{statistics.median(ordered) * 1e3:.2f} ms in the middle, p99 {p99 * 1e3:.2f} ms,"
        f" at most {ordered[-1] * 1e3:.2f} ms ({len(ordered):,} calls)"
    )


if __name__ == "__main__":
    main()
