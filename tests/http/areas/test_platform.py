"""Platform sign-in over sockets: the server, its database, and a Steam to ask."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from server_kit import KINDS, Api, Reply, ServerProcess, serving
from steam_kit import APP_ID, KEY, STEAM_ID, SteamServer

from greenroom.control.admin.messages import ChangeGameSettings
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

_numbers = itertools.count(1)

REGISTER = "/api/game_players.php/register"
PLAYER_GET = "/api/game_data.php/player/get"


@pytest.fixture(scope="module")
def steam() -> Iterator[SteamServer]:
    with SteamServer() as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, steam: SteamServer, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    settings = {
        "GREENROOM_RATE_LIMIT_FACTOR": "1000",
        "GREENROOM_STEAM_BASE_URL": steam.url,
        "GREENROOM_PLATFORM_SECONDS_MAX": "2",
    }
    with serving(
        "--database-url", new_database(), "--server", request.param, **settings
    ) as process:
        yield process
        process.stop()
        log = process.log.read_text()
        assert KEY not in log
        assert "platform_ticket" not in log


@pytest.fixture
def api(server: ServerProcess, steam: SteamServer) -> Api:
    """A client of a game with platform sign-in."""
    steam.behave()
    steam.tickets.clear()
    steam.personas.clear()
    api = Api(server.address, server.new_game())
    change_settings(server, api, steam_app_id=str(APP_ID), steam_publisher_key=KEY)
    return api


@pytest.fixture
def ticket() -> Callable[[int], str]:
    """Tickets of this test's alone: a server takes each one time only."""
    prefix = f"14{next(_numbers):08x}"
    return lambda number: f"{prefix}{number:02x}"


def change_settings(server: ServerProcess, api: Api, **assigned: str) -> None:
    change = ChangeGameSettings(game_id=api.game.game_id, assigned=assigned)
    call(socket_path(server.data_dir), change)


def sign_in(api: Api, ticket: str, **fields: Any) -> Reply:
    return api.call("POST", REGISTER, {"platform_ticket": ticket, **fields})


def assert_error(reply: Reply, status: int, text: str, **more: object) -> None:
    assert (reply.status, reply.json) == (status, {"success": False, "error": text, **more})


def test_the_first_call_creates_and_later_ones_log_in(
    api: Api, steam: SteamServer, ticket: Callable[[int], str]
):
    steam.ticket(ticket(1), identity="chess")
    steam.ticket(ticket(2))

    created = sign_in(api, ticket(1), platform_identity="chess", player_name=" Ada ")
    existing = sign_in(api, ticket(2), player_name="Bob")

    token = created.json.pop("private_key")
    assert created.json == {
        "success": True,
        "player_id": created.json["player_id"],
        "player_name": "Ada",
        "player_tag": created.json["player_tag"],
        "game_id": api.game.game_id,
        "auth": "platform",
        "account": "created",
        "platform_id": STEAM_ID,
    }
    new_token = existing.json.pop("private_key")
    assert existing.json == created.json | {"account": "existing"}
    assert api.call("GET", PLAYER_GET, player=new_token).status == 200
    refused = api.call("GET", PLAYER_GET, player=token)
    assert_error(refused, 401, "Invalid game player token")


def test_a_guest_is_still_a_guest(api: Api):
    reply = api.call("POST", REGISTER, {"player_name": "Ada", "platform_ticket": ""})
    assert (reply.json["auth"], reply.json["account"]) == ("guest", "created")
    assert "platform_id" not in reply.json
    assert_error(sign_in(api, ""), 400, "Player name is required")
    too_long = {"player_name": "Ada", "platform_identity": "x" * 257}
    assert_error(api.call("POST", REGISTER, too_long), 401, "Invalid platform ticket")


def test_without_a_name_it_is_the_personas(
    api: Api, steam: SteamServer, ticket: Callable[[int], str]
):
    steam.personas[STEAM_ID] = "Gabe"
    assert sign_in(api, steam.ticket(ticket(1))).json["player_name"] == "Gabe"


@pytest.mark.parametrize("missing", ["steam_app_id", "steam_publisher_key"])
def test_both_settings_enable_it(
    server: ServerProcess, api: Api, missing: str, ticket: Callable[[int], str]
):
    change = ChangeGameSettings(game_id=api.game.game_id, removed=[missing])
    call(socket_path(server.data_dir), change)
    text = "Platform sign-in is not enabled for this game"
    assert_error(sign_in(api, ticket(1), player_name="Ada"), 400, text)


def test_invalid_tickets_are_401(api: Api, steam: SteamServer, ticket: Callable[[int], str]):
    text = "Invalid platform ticket"
    steam.ticket(ticket(1), identity="chess")
    steam.ticket(ticket(2), app_id=1)
    steam.ticket(ticket(3))
    for shown in (ticket(0), ticket(2), "x", "140", "14" * 5000):
        assert_error(sign_in(api, shown, player_name="Ada"), 401, text)
    for identity in (None, "draughts"):
        fields = {"platform_identity": identity, "player_name": "Ada"}
        assert_error(sign_in(api, ticket(1), **fields), 401, text)
    assert sign_in(api, ticket(3), player_name="Ada").status == 200
    assert_error(sign_in(api, ticket(3), player_name="Ada"), 401, text)
    assert api.call("GET", "/api/game_players.php/list", admin=True).json["count"] == 1


def test_wrong_types_and_names_are_400(api: Api, steam: SteamServer, ticket: Callable[[int], str]):
    body = {"platform_ticket": 5, "player_name": "Ada"}
    assert_error(api.call("POST", REGISTER, body), 400, "platform_ticket must be a string")
    body = {"platform_ticket": "14", "platform_identity": []}
    assert_error(api.call("POST", REGISTER, body), 400, "platform_identity must be a string")
    steam.ticket(ticket(1))
    text = "Player name must be between 2 and 50 characters"
    assert_error(sign_in(api, ticket(1), player_name="x"), 400, text)


def test_a_steam_that_does_not_answer_clearly_signs_nobody_in(
    api: Api, steam: SteamServer, ticket: Callable[[int], str]
):
    steam.ticket(ticket(1))

    def assert_unavailable() -> None:
        reply = sign_in(api, ticket(1), player_name="Ada")
        assert_error(reply, 429, "Platform is unavailable, try again", retry_after=5)
        assert reply.headers["retry-after"] == "5"

    for status in (403, 500, 503):
        steam.answer_bytes(b'{"response":{"params":{"result":"OK","steamid":"1"}}}', status)
        assert_unavailable()
    steam.raw = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    assert_unavailable()
    steam.behave()
    steam.is_silent = True
    assert_unavailable()
    steam.behave()
    assert api.call("GET", "/api/game_players.php/list", admin=True).json["count"] == 0
    assert sign_in(api, ticket(1), player_name="Ada").json["account"] == "created"


def test_the_banned_stay_out(api: Api, steam: SteamServer, ticket: Callable[[int], str]):
    player = sign_in(api, steam.ticket(ticket(1)), player_name="Ada").json
    ban = {"player_id": player["player_id"], "ban_duration": "forever", "ban_reason": "x"}
    api.call("POST", "/api/game_players.php/ban", ban, admin=True)
    refused = sign_in(api, steam.ticket(ticket(2)))
    assert refused.status == 403
    assert refused.json["error"] == "You are banned: x. This is a permanent ban."
    assert refused.json["ban_info"]["ban_duration"] == "forever"

    banned = steam.ticket(ticket(3), steam_id="5", flags={"publisherbanned": True})
    text = "You are banned: by the game's publisher. This is a permanent ban."
    assert_error(sign_in(api, banned, player_name="Eve"), 403, text)


def test_no_score_comes_along_where_clients_may_not_write(
    server: ServerProcess, api: Api, steam: SteamServer, ticket: Callable[[int], str]
):
    change_settings(server, api, clients_write_player_data="false")
    shown = steam.ticket(ticket(1))
    refused = sign_in(api, shown, player_name="Ada", player_data={"score": 9})
    assert_error(refused, 400, "Clients may not write player_data in this game")
    assert sign_in(api, shown, player_name="Ada").status == 200


def test_a_platform_account_has_the_form_of_id_that_the_game_says(
    server: ServerProcess, api: Api, steam: SteamServer, ticket: Callable[[int], str]
):
    created = sign_in(api, steam.ticket(ticket(1)), player_name="Ada").json
    change_settings(server, api, register_player_id="integer")
    existing = sign_in(api, steam.ticket(ticket(2)), player_name="Ada").json
    assert (created["account"], existing["account"]) == ("created", "existing")
    assert created["player_id"] == str(existing["player_id"])
    assert type(existing["player_id"]) is int


def test_many_first_calls_at_once_make_one_account(
    api: Api, steam: SteamServer, ticket: Callable[[int], str]
):
    tickets = [steam.ticket(ticket(number)) for number in range(10)]
    with ThreadPoolExecutor(10) as pool:
        replies = list(pool.map(lambda shown: sign_in(api, shown, player_name="Ada"), tickets))
    assert sorted(reply.json["account"] for reply in replies) == ["created", *["existing"] * 9]
    assert len({reply.json["player_id"] for reply in replies}) == 1
    tokens = [reply.json["private_key"] for reply in replies]
    found = [api.call("GET", PLAYER_GET, player=token).status for token in tokens]
    assert sorted(found) == [200, *[401] * 9]


def test_a_restart_allows_no_replay_and_makes_no_second_account(
    server: ServerProcess, api: Api, steam: SteamServer, ticket: Callable[[int], str]
):
    created = sign_in(api, steam.ticket(ticket(1)), player_name="Ada").json
    server.kill()
    server.start()
    api.address = server.address
    assert_error(sign_in(api, ticket(1)), 401, "Invalid platform ticket")
    again = sign_in(api, steam.ticket(ticket(2))).json
    assert (again["account"], again["player_id"]) == ("existing", created["player_id"])
