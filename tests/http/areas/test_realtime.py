"""The realtime area over real sockets to either server, and its tokens on the realtime port."""

from __future__ import annotations

import re

import pytest
from realtime_kit import dial
from server_kit import Api, Reply, ServerProcess, serving

PATH = "/api/realtime.php/token"


def mint(api: Api, token: str, host: str | None = None) -> Reply:
    return api.call("POST", PATH, player=token, headers={} if host is None else {"Host": host})


def member(api: Api, **fields: object) -> tuple[int, str, str]:
    """Make a player in a room of their own; return their id, their token, the room's id."""
    player_id, token = api.register()
    body = {"realtime": True, **fields}
    reply = api.call("POST", "/api/game_room.php/create", body, player=token)
    return player_id, token, reply.json["room_id"]


def test_a_member_of_a_realtime_room_gets_a_token(api: Api, server: ServerProcess):
    player_id, token, room_id = member(api)
    reply = mint(api, token, "play.example.com:8080")
    assert reply.status == 200
    assert re.fullmatch(r"[0-9a-f]{64}", reply.json.pop("token"))
    told = reply.json["realtime_server"]
    assert server.tells_ports(told.pop("port"), told.pop("udp_port"))
    assert reply.json == {
        "success": True,
        "player_info": {
            "player_id": player_id,
            "player_name": "Ada",
            "room_id": room_id,
            "is_host": True,
        },
        "realtime_server": {
            "host": "play.example.com",
            "protocol": "ws",
        },
    }


@pytest.mark.parametrize(
    ("host", "told"),
    [("[::1]:8080", "[::1]"), ("[::1]", "[::1]"), ("localhost", "localhost")],
)
def test_the_host_is_told_without_its_port(api: Api, host: str, told: str):
    _, token, _ = member(api)
    assert mint(api, token, host).json["realtime_server"]["host"] == told


def test_everybody_else_gets_none(api: Api):
    text = "Player is not in a realtime-enabled room"
    _, loner = api.register()
    _, token, _ = member(api, realtime=False)
    for each in (loner, token):
        assert (mint(api, each).status, mint(api, each).json["error"]) == (400, text)


def test_tokens_are_asked_for_with_both_tokens(api: Api):
    _, token, _ = member(api)
    for headers, text in (
        ({"X-Api-Token": None}, "API token is required"),
        ({"X-Api-Token": "junk"}, "Invalid API token"),
        ({"X-Game-Player-Token": None}, "Player token is required"),
        ({"X-Game-Player-Token": "junk"}, "Invalid player token"),
    ):
        sent: dict[str, str | None] = {"X-Game-Player-Token": token, **headers}
        reply = api.call("POST", PATH, headers=sent)
        assert (reply.status, reply.json["error"]) == (401, text)


async def test_the_token_opens_the_realtime_port(api: Api, server: ServerProcess):
    _, token, room_id = member(api)
    minted = mint(api, token).json["token"]
    url = server.ready["realtime"].rstrip("/") + "/"
    async with dial(url, minted) as client:
        assert (await client.expect("connected"))["data"]["room_id"] == room_id


def test_behind_a_proxy_clients_are_told_what_it_offers(database_url: str):
    told = {"host": "play.example.com", "port": 443, "protocol": "wss", "udp_port": 9000}
    settings = {
        "GREENROOM_PUBLIC_HOST": "play.example.com",
        "GREENROOM_PUBLIC_REALTIME_PORT": "443",
        "GREENROOM_PUBLIC_REALTIME_PROTOCOL": "wss",
        "GREENROOM_PUBLIC_UDP_PORT": "9000",
    }
    with serving("--database-url", database_url, **settings) as server:
        api = Api(server.address, server.new_game())
        _, token, _ = member(api)
        assert mint(api, token).json["realtime_server"] == told
