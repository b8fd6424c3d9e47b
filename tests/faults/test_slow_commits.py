"""Commits that take too long: what was asked meanwhile is told only once it is certain."""

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


def test_nobody_is_told_that_they_were_put_out_of_a_room_before_it_is_durable(
    data_dir: Path, database_url: str
):
    settings = {"GREENROOM_COMMIT_SECONDS_MAX": "0.5"}
    server = ServerProcess(data_dir, "--database-url", database_url, **settings)
    rooms = "/api/game_room.php"
    try:
        server.start()
        api = Api(server.address, server.new_game())
        (_, host), (guest_id, guest) = api.register(), api.register()
        room = api.call("POST", f"{rooms}/create", {"room_name": "R"}, player=host).json
        join = f"{rooms}/{room['room_id']}/join"
        assert api.call("POST", join, {}, player=guest).status == 200
        kick = {"player_id": guest_id}
        with psycopg.connect(database_url) as blocker:
            blocker.execute("LOCK TABLE journal IN EXCLUSIVE MODE")
            assert api.call("POST", f"{rooms}/kick", kick, player=host).status == 500
            asked = [f"{rooms}/players", f"{rooms}/current"]
            told = [api.call("GET", path, player=guest) for path in asked]
            assert {each.status for each in told} == {429}, told
            lobby = api.call("GET", "/api/matchmaking.php/current", player=guest)
            assert lobby.json["in_matchmaking"] is False, "they are in no lobby, kicked or not"
            blocker.rollback()
        block_until(lambda: api.call("GET", f"{rooms}/players", player=guest).status != 429)
        found = api.call("GET", f"{rooms}/players", player=guest)
        assert (found.status, found.json["error"]) == (400, "You are not in any room")
        for _ in range(2):
            assert api.call("GET", f"{rooms}/current", player=guest).json["in_room"] is False
    finally:
        server.kill()
