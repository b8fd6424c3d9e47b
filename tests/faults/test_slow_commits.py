"""A registration whose commit takes too long is refused, and taken back: it is never a 500."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from server_kit import Api, Reply, ServerProcess
from waiting import block_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def players(database_url: str) -> list[str]:
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("SELECT player_name FROM players ORDER BY player_id")
        return [name for (name,) in rows]


def register(api: Api, name: str) -> Reply:
    return api.call("POST", "/api/game_players.php/register", {"player_name": name})


def test_a_registration_whose_commit_takes_too_long_is_taken_back(
    data_dir: Path, database_url: str
):
    settings = {"GREENROOM_COMMIT_SECONDS_MAX": "0.5"}
    server = ServerProcess(data_dir, "--database-url", database_url, **settings)
    try:
        server.start()
        api = Api(server.address, server.new_game())
        with psycopg.connect(database_url) as blocker:
            blocker.execute("LOCK TABLE players IN EXCLUSIVE MODE")
            late = register(api, "Late")
            blocker.rollback()
        assert (late.status, late.json["error"]) == (429, "Too many requests")
        assert late.headers["retry-after"] == str(late.json["retry_after"])

        block_until(
            lambda: register(api, "Again").status == 200 and "Late" not in players(database_url)
        )
        assert server.stop() == 0, server.log.read_text()
        assert "Late" not in players(database_url)
    finally:
        server.kill()
