"""A head that comes again is not read anew, but its tokens are as good or bad as if it were."""

from __future__ import annotations

import pytest
from server_kit import Api, Reply, ServerProcess

from greenroom.control.admin.messages import RevokeKeys, RotateKeys
from greenroom.control.admin.player_messages import DeletePlayer
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

DOCUMENT = "/api/game_data.php/player/get"
UPDATE = "/api/game_data.php/player/update"
TIMES = 4
"""From the third time on, a caller is known."""


def read(api: Api, token: str, *, admin: bool = False) -> Reply:
    return api.call("GET", DOCUMENT, player=token, admin=admin)


def refusals(api: Api, token: str) -> set[tuple[int, str]]:
    """Return the answers to a player who calls as they have called before."""
    replies = [read(api, token) for _ in range(TIMES)]
    return {(reply.status, reply.json["error"]) for reply in replies}


@pytest.fixture
def known(api: Api) -> tuple[int, str]:
    """A player whose head the server knows."""
    player_id, token = api.register()
    for _ in range(TIMES):
        assert read(api, token).status == 200
        assert api.call("PUT", UPDATE, {"level": 1}, player=token).status == 200
    return player_id, token


def test_a_token_that_was_rotated_is_good_no_more(api: Api, known: tuple[int, str]):
    _, token = known
    rotated = api.call("POST", "/api/game_players.php/rotate", player=token).json
    assert refusals(api, token) == {(401, "Invalid game player token")}
    assert read(api, rotated["private_key"]).json["data"] == {"level": 1}


def test_who_is_banned_is_refused_and_comes_back(api: Api, known: tuple[int, str]):
    player_id, token = known
    body = {"player_id": player_id, "ban_duration": "day"}
    assert api.call("POST", "/api/game_players.php/ban", body, admin=True).status == 200
    assert {status for status, _ in refusals(api, token)} == {403}
    unban = {"player_id": player_id}
    assert api.call("POST", "/api/game_players.php/unban", unban, admin=True).status == 200
    assert read(api, token).status == 200


def test_who_has_logged_out_comes_online_with_the_next_call(api: Api, known: tuple[int, str]):
    _, token = known
    assert api.call("POST", "/api/game_players.php/logout", player=token).status == 200
    assert read(api, token).status == 200
    [listed] = api.call("GET", "/api/game_players.php/list", admin=True).json["players"]
    assert listed["is_online"]


def test_a_deleted_player_is_nobody(server: ServerProcess, api: Api, known: tuple[int, str]):
    player_id, token = known
    call(socket_path(server.data_dir), DeletePlayer(player_id=player_id))
    assert refusals(api, token) == {(401, "Invalid game player token")}


def test_a_key_that_was_replaced_is_good_while_it_is_kept(
    server: ServerProcess, api: Api, known: tuple[int, str]
):
    _, token = known
    control, game_id = socket_path(server.data_dir), api.game.game_id
    call(control, RotateKeys(game_id=game_id, keep_seconds=3_600))
    for _ in range(TIMES):
        assert read(api, token).status == 200
    call(control, RevokeKeys(game_id=game_id))
    assert refusals(api, token) == {(401, "Invalid API token")}


def test_an_admin_key_is_looked_at_each_time(
    server: ServerProcess, api: Api, known: tuple[int, str]
):
    _, token = known
    listing = "/api/game_players.php/list"
    for _ in range(TIMES):
        assert api.call("GET", listing, admin=True).status == 200
        assert api.call("PUT", UPDATE, {"level": 2}, player=token, admin=True).status == 200
    call(socket_path(server.data_dir), RotateKeys(game_id=api.game.game_id, kinds=("admin",)))
    for _ in range(TIMES):
        assert api.call("GET", listing, admin=True).status == 401
        assert api.call("PUT", UPDATE, {"level": 3}, player=token, admin=True).status == 401
        assert api.call("PUT", UPDATE, {"level": 4}, player=token).status == 200
