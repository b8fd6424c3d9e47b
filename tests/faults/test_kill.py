"""Nothing acknowledged is lost: a crowd writes while the server, or its Postgres, is killed.

KILL_ROUNDS says how often (20 for a long run).
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
import trio
from crowd_kit import HEAL_SECONDS_MAX, Counters, Crowd
from pair_kit import PlayerPairs
from seeds import SEED
from server_kit import ServerProcess
from waiting import until

ROUNDS = int(os.environ.get("KILL_ROUNDS", "3"))

pytestmark = [
    pytest.mark.chance,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("crowd_type", [Counters, PlayerPairs]),
]


async def test_a_killed_server_has_every_acknowledged_change_when_it_is_back(
    data_dir: Path, crowd_type: type[Crowd]
) -> None:
    chance = random.Random(SEED)
    server = ServerProcess(data_dir, GREENROOM_RATE_LIMIT_FACTOR="1000")
    server.start()
    crowd = crowd_type(server, server.new_game())
    crowd.up.set()
    try:
        async with crowd.at_work():
            for _ in range(ROUNDS):
                await crowd.wait_acknowledged(chance.randrange(1, 4 * crowd.tasks))
                crowd.up = trio.Event()
                server.kill()
                server.begin()
                await until(server.is_ready, HEAL_SECONDS_MAX)
                crowd.up.set()
            await crowd.wait_acknowledged(crowd.tasks)
        assert crowd.checked >= crowd.tasks
        assert server.stop() == 0
    finally:
        server.stop()


async def test_a_killed_postgres_is_healed_under_the_running_server_and_nothing_is_lost(
    data_dir: Path, crowd_type: type[Crowd]
) -> None:
    chance = random.Random(SEED)
    server = ServerProcess(data_dir, GREENROOM_RATE_LIMIT_FACTOR="1000")
    server.start()
    server_pid = server.pid
    crowd = crowd_type(server, server.new_game())
    crowd.up.set()
    pid_file = data_dir / "postgres" / "postmaster.pid"
    try:
        async with crowd.at_work():
            for _ in range(ROUNDS):
                await crowd.wait_acknowledged(chance.randrange(1, 4 * crowd.tasks))
                os.kill(int(pid_file.read_text().split()[0]), signal.SIGKILL)
                await crowd.wait_acknowledged(crowd.tasks)
        assert crowd.checked >= crowd.tasks
        assert server.pid == server_pid
        assert server.stop() == 0
    finally:
        server.stop()
