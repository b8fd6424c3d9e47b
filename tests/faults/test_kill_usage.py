"""A killed server remembers what owners have used, but for the last second."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from server_kit import Api, Game, ServerProcess
from waiting import block_until

from greenroom.control.admin.messages import CreateGame, CreateOwner, OwnerDetails, ShowOwner
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def used(server: ServerProcess) -> OwnerDetails:
    return call(socket_path(server.data_dir), ShowOwner(owner="Studio"))


def wait_written(database_url: str, calls: int) -> None:
    """Wait until the database knows of so many calls."""
    query = "SELECT max(calls) FROM game_usage"
    with psycopg.connect(database_url, autocommit=True) as connection:
        block_until(lambda: connection.execute(query).fetchone() == (calls,))


def test_calls_and_bytes_survive_kill_9_and_a_stop(data_dir: Path, database_url: str):
    server = ServerProcess(
        data_dir, "--database-url", database_url, GREENROOM_FREE_CALLS_PER_DAY_MAX="40"
    )
    try:
        server.start()
        path = socket_path(data_dir)
        call(path, CreateOwner(owner="Studio", plan="free"))
        keys = call(path, CreateGame(game="game", owner="Studio"))
        api = Api(server.address, Game(keys.game_id, keys.api_token, keys.api_private_token))
        _, ada = api.register("Ada", player_data={"n": "x" * 1_000})
        for _ in range(19):
            assert api.call("GET", "/api/time.php").status == 200
        before = used(server)
        assert before.calls_today.used == 20
        wait_written(database_url, 20)
        api.call("GET", "/api/time.php")
        server.kill()
        server.start()

        after = used(server)
        assert after.calls_today.used in {20, 21}
        assert after.storage_bytes == before.storage_bytes
        assert after.written_bytes_today == before.written_bytes_today
        assert after.written_bytes_today.used > 1_000
        assert after.players_online.used == 1
        api.address = server.address
        assert api.call("PUT", "/api/game_data.php/player/update", {}, player=ada).status == 200
        left = used(server)
        assert server.stop() == 0
        server.start()
        assert used(server) == left
        api.address = server.address
        statuses = [api.call("GET", "/api/time.php").status for _ in range(25)]
        assert statuses.count(200) == 40 - left.calls_today.used
    finally:
        server.kill()
