"""Nothing acknowledged is lost: a crowd writes while the server, or its Postgres, is killed.

Rounds and seed come from KILL_ROUNDS (20 for a long run) and KILL_SEED.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from server_kit import ConnectionLost, Game, ServerProcess, TrioClient

CLIENTS = 200
ROUNDS = int(os.environ.get("KILL_ROUNDS", "3"))
SEED = int(os.environ.get("KILL_SEED", str(random.SystemRandom().randrange(10**6))))
BREATH_SECONDS = 0.05
"""Between tries of a client that was told to come back later."""
HEAL_SECONDS_MAX = 60.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Crowd:
    """Clients that register and count up in their documents, and what they were told."""

    def __init__(self, server: ServerProcess, game: Game) -> None:
        self.server = server
        self.game = game
        self.acknowledged = 0
        self.checked = 0
        self.refused = 0
        self.is_over = False
        self.up = trio.Event()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Run all clients until the end of the block, then let each check its document."""
        async with trio.open_nursery() as nursery:
            for number in range(CLIENTS):
                nursery.start_soon(self._client, number)
            yield
            self.is_over = True

    async def wait_acknowledged(self, count: int) -> None:
        """Wait until so many more changes were acknowledged."""
        target = self.acknowledged + count
        with trio.fail_after(HEAL_SECONDS_MAX):
            while self.acknowledged < target:  # noqa: ASYNC110 - of many clients
                await trio.sleep(BREATH_SECONDS / 10)

    async def _client(self, number: int) -> None:
        client = TrioClient(self.server, self.game.key)
        token: str | None = None
        known, tried = 0, 0
        while not self.is_over or known != tried:
            await self.up.wait()
            try:
                if token is None:
                    token = await self._register(client, number)
                elif known != tried:
                    known = tried = await self._check(client, token, known, tried)
                else:
                    tried = known + 1
                    if await self._update(client, token, tried):
                        known = tried
            except ConnectionLost:
                await trio.sleep(BREATH_SECONDS)
        if token is not None:
            await self._check(client, token, known, known)
        await client.close()

    async def _register(self, client: TrioClient, number: int) -> str | None:
        body = b'{"player_name":"client %d","player_data":{"n":0}}' % number
        status, answer = await client.call("POST", "/api/game_players.php/register", body)
        if await self._is_refused(status):
            return None
        self.acknowledged += 1
        return str(answer["private_key"])

    async def _update(self, client: TrioClient, token: str, n: int) -> bool:
        path = "/api/game_data.php/player/update"
        status, _ = await client.call("PUT", path, b'{"n":%d}' % n, token)
        if await self._is_refused(status):
            return False
        self.acknowledged += 1
        return True

    async def _check(self, client: TrioClient, token: str, known: int, tried: int) -> int:
        """Read the document: what was acknowledged is there, and nothing that was never sent."""
        while True:
            status, answer = await client.call("GET", "/api/game_data.php/player/get", player=token)
            if not await self._is_refused(status):
                break
        n = int(answer["data"]["n"])
        assert known <= n <= tried, f"acknowledged {known}, sent {tried}, found {n}"
        self.checked += 1
        return n

    async def _is_refused(self, status: int) -> bool:
        """Return whether the server could not do it just now; anything else unexpected fails."""
        if status == 200:
            return False
        assert status in {429, 500}, status
        self.refused += 1
        await trio.sleep(BREATH_SECONDS)
        return True


async def wait_until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(HEAL_SECONDS_MAX):
        while not condition():  # noqa: ASYNC110 - of another process
            await trio.sleep(BREATH_SECONDS / 5)


async def test_a_killed_server_has_every_acknowledged_change_when_it_is_back(
    data_dir: Path,
) -> None:
    print(f"KILL_SEED={SEED}")  # noqa: T201 - to run it again
    chance = random.Random(SEED)
    server = ServerProcess(data_dir, GREENROOM_RATE_LIMIT_FACTOR="1000")
    server.start()
    crowd = Crowd(server, server.new_game())
    crowd.up.set()
    try:
        async with crowd.at_work():
            for _ in range(ROUNDS):
                await crowd.wait_acknowledged(chance.randrange(1, 4 * CLIENTS))
                crowd.up = trio.Event()
                server.kill()
                server.begin()
                await wait_until(server.is_ready)
                crowd.up.set()
            await crowd.wait_acknowledged(CLIENTS)
        assert crowd.checked >= CLIENTS
        assert server.stop() == 0
    finally:
        server.stop()


async def test_a_killed_postgres_is_healed_under_the_running_server_and_nothing_is_lost(
    data_dir: Path,
) -> None:
    print(f"KILL_SEED={SEED}")  # noqa: T201 - to run it again
    chance = random.Random(SEED)
    server = ServerProcess(data_dir, GREENROOM_RATE_LIMIT_FACTOR="1000")
    server.start()
    server_pid = server.pid
    crowd = Crowd(server, server.new_game())
    crowd.up.set()
    pid_file = data_dir / "postgres" / "postmaster.pid"
    try:
        async with crowd.at_work():
            for _ in range(ROUNDS):
                await crowd.wait_acknowledged(chance.randrange(1, 4 * CLIENTS))
                os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)
                await crowd.wait_acknowledged(CLIENTS)
        assert crowd.checked >= CLIENTS
        assert server.pid == server_pid
        assert server.stop() == 0
    finally:
        server.stop()
