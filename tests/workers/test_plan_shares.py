"""Two real workers that have partitions of one game share the plan of its owner."""

from __future__ import annotations

import pytest
from server_kit import Api, Game, ServerProcess
from waiting import block_until
from workers_kit import sharing

from greenroom.control.admin.messages import CreateGame, CreateOwner, OwnerDetails, ShowOwner
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

PLAYERS, CALLS = 10, 60


def add_game(server: ServerProcess) -> Game:
    path = socket_path(server.data_dir)
    call(path, CreateOwner(owner="limited", plan="pro"))
    keys = call(path, CreateGame(game="shared", owner="limited"))
    return Game(keys.game_id, keys.api_token, keys.api_private_token)


def show(server: ServerProcess) -> OwnerDetails:
    return call(socket_path(server.data_dir), ShowOwner(owner="limited"))


def test_workers_let_in_and_answer_together_what_the_plan_allows(database_url: str):
    limits = {
        "GREENROOM_PRO_PLAYERS_ONLINE_MAX": str(PLAYERS),
        "GREENROOM_PRO_CALLS_PER_DAY_MAX": str(CALLS),
    }
    with sharing("--database-url", database_url, **limits) as server:
        api = Api(server.address, add_game(server))

        def register() -> bool:
            body = {"player_name": "Ada", "player_data": {}}
            return api.call("POST", "/api/game_players.php/register", body).status == 200

        block_until(lambda: not register() and show(server).players_online.used == PLAYERS)
        used = show(server)
        assert used.games.used == 1
        assert used.players_online.limit == PLAYERS
        block_until(
            lambda: (
                api.call("GET", "/api/time.php").status == 429
                and show(server).calls_today.used == CALLS
            )
        )
