"""Players and rooms that benchmarks put into a database: a server finds them when it starts."""

from __future__ import annotations

import json
from pathlib import Path

import seed
from server_kit import Api, Game, ServerProcess

PLAYERS, ROOMS, UPDATES_EACH = 12, 2, 3


def test_a_server_has_the_rooms_that_were_put_into_its_database(data_dir: Path, database_url: str):
    server = ServerProcess(data_dir, "--database-url", database_url)
    try:
        server.start()
        keys = json.loads((data_dir / "first-game.json").read_text())
        game = Game(keys["game_id"], keys["api_token"], keys["api_private_token"])
        seed.add_players(database_url, PLAYERS)
        seed.add_rooms(database_url, ROOMS, UPDATES_EACH)
        [token] = seed.give_tokens(database_url, [seed.host_id(1)])
        assert server.stop() == 0
        api = Api(server.start().address, game)
        rooms = api.call("POST", "/api/game_room.php/list").json["rooms"]
        assert [room["current_players"] for room in rooms] == [seed.ROOM_MEMBERS] * ROOMS
        assert api.call("GET", "/api/game_room.php/players", player=token).status == 200
    finally:
        server.kill()
