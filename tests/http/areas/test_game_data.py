"""Every row of the game data area: documents come back as they were sent, tokens, errors."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from server_kit import Api, Reply, ServerProcess

from greenroom.control.admin.messages import ChangeGameSettings
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

GAME_GET = "/api/game_data.php/game/get"
GAME_UPDATE = "/api/game_data.php/game/update"
PLAYER_GET = "/api/game_data.php/player/get"
PLAYER_UPDATE = "/api/game_data.php/player/update"

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

VERBATIM = [
    b"{}",
    b'{"z":1,"a":2,"m":3}',
    b'{"big":123456789012345678901234567890,"neg":-0.0,"tiny":1e-300,"exact":1.10}',
    b'{"nested":{"null":null,"list":[null,{},[[]],false,true,0]}}',
    '{"ünï":"蛙 🐸","slash":"a/b\\/c"}'.encode(),
    b'{"escapes":"\\u0041\\n\\t\\"\\\\ \\u0000 \\ud83d\\ude00"}',
    b'{"twice":1,"twice":2}',
    b'{"name":"2026-01-01 00:00:00","created_at":"yesterday","player_data":{"x":1},"data":[1]}',
    b'{"html":"<script>&amp;\x7f"}',
    b'{"":""}',
    b'{"long":"' + b"x" * 500_000 + b'"}',
    b'{"deep":' + b"[" * 100 + b"]" * 100 + b"}",
]


def assert_error(reply: Reply, status: int, text: str) -> None:
    assert (reply.status, reply.json) == (status, {"success": False, "error": text})


def document_of(reply: Reply) -> bytes:
    """Return the bytes of the answer's last member, `data`."""
    assert reply.status == 200, reply
    return reply.body.partition(b'"data":')[2][:-1]


def test_new_games_and_players_have_empty_documents(api: Api):
    player_id, token = api.register("Ada")
    assert api.call("GET", GAME_GET).json == {
        "success": True,
        "type": "game",
        "game_id": api.game.game_id,
        "data": {},
    }
    assert api.call("GET", PLAYER_GET, player=token).json == {
        "success": True,
        "type": "player",
        "player_id": player_id,
        "player_name": "Ada",
        "data": {},
    }


def test_updates_say_when(api: Api):
    _, token = api.register()
    for reply, text in (
        (api.call("PUT", GAME_UPDATE, {"a": 1}, admin=True), "Game data updated successfully"),
        (
            api.call("PUT", PLAYER_UPDATE, {"a": 1}, player=token),
            "Player data updated successfully",
        ),
    ):
        assert reply.status == 200
        assert STAMP.fullmatch(reply.json.pop("updated_at"))
        assert reply.json == {"success": True, "message": text}


@pytest.mark.parametrize("document", VERBATIM, ids=lambda document: document[:30].decode())
def test_documents_come_back_byte_for_byte(api: Api, document: bytes):
    _, token = api.register()
    api.call("PUT", GAME_UPDATE, document, admin=True)
    api.call("PUT", PLAYER_UPDATE, document, player=token)
    assert document_of(api.call("GET", GAME_GET)) == document
    assert document_of(api.call("GET", PLAYER_GET, player=token)) == document


def test_a_document_given_at_registration_comes_back_byte_for_byte(api: Api):
    for document in VERBATIM:
        body = b'{"player_name":"Ada","player_data":' + document + b"}"
        registered = api.call("POST", "/api/game_players.php/register", body)
        token = registered.json["private_key"]
        assert document_of(api.call("GET", PLAYER_GET, player=token)) == document


def test_the_engine_variant_adds_data_json_and_takes_bodies_as_they_are(api: Api):
    _, token = api.register()
    document: dict[str, Any] = {"player_data_json": "{", "rules": {"a": [1, 2]}, "data": None}
    for get, update in ((GAME_GET, GAME_UPDATE), (PLAYER_GET, PLAYER_UPDATE)):
        reply = api.call("PUT", f"{update}?format=engine", document, player=token, admin=True)
        assert reply.status == 200
        found = api.call("GET", f"{get}?format=engine", player=token).json
        assert found["data"] == document
        assert json.loads(found["data_json"]) == document
        assert " " not in found["data_json"]
        assert "data_json" not in api.call("GET", get, player=token).json


@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b"null",
        b"[]",
        b"5",
        b'"{}"',
        b"{",
        b"{}{}",
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":1,}',
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b"\xff\xfe{\x00}\x00",
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 100_000,
    ],
    ids=lambda body: repr(body)[:24],
)
def test_only_an_object_is_a_document(api: Api, body: bytes | None):
    _, token = api.register()
    assert_error(api.call("PUT", GAME_UPDATE, body, admin=True), 400, "Invalid JSON body")
    assert_error(api.call("PUT", PLAYER_UPDATE, body, player=token), 400, "Invalid JSON body")
    assert document_of(api.call("GET", GAME_GET)) == b"{}"
    assert document_of(api.call("GET", PLAYER_GET, player=token)) == b"{}"


def test_more_than_a_megabyte_is_too_large(api: Api):
    _, token = api.register()
    body = b'{"a":"' + b"x" * 1_048_576 + b'"}'
    assert_error(api.call("PUT", GAME_UPDATE, body, admin=True), 413, "Request body is too large")
    reply = api.call("PUT", PLAYER_UPDATE, body, player=token)
    assert_error(reply, 413, "Request body is too large")


def test_the_tokens_texts_are_each_endpoints_own(api: Api, other: Api):
    _, token = api.register()
    _, foreign = other.register()
    no_key = {"X-Api-Token": None}
    for method, path in (
        ("GET", GAME_GET),
        ("PUT", GAME_UPDATE),
        ("GET", PLAYER_GET),
        ("PUT", PLAYER_UPDATE),
    ):
        reply = api.call(method, path, player=token, headers=no_key)
        assert_error(reply, 401, "API token is required")
        bad = api.call(method, path, player=token, headers={"X-Api-Token": "nonsense"})
        assert (bad.status, bad.json["error"]) == (401, "Invalid API token")
        assert bad.json["message"] == "Authentication failed"

    def update_game(private: str | None) -> Reply:
        return api.call("PUT", GAME_UPDATE, {}, headers={"X-Api-Private-Token": private})

    assert_error(update_game(None), 401, "API private token is required")
    for private in ("nonsense", other.game.private, api.game.key):
        assert_error(update_game(private), 401, "Invalid API token or private token")

    for method, path in (("GET", PLAYER_GET), ("PUT", PLAYER_UPDATE)):
        assert_error(api.call(method, path), 401, "Game player token is required")
    invalid = api.call("GET", PLAYER_GET, player="nonsense")
    assert_error(invalid, 401, "Invalid game player token")
    elsewhere = api.call("GET", PLAYER_GET, player=foreign)
    assert_error(elsewhere, 401, "Player does not belong to this game")
    for bad_token in ("nonsense", foreign):
        reply = api.call("PUT", PLAYER_UPDATE, {}, player=bad_token)
        assert_error(reply, 401, "Invalid player or does not belong to game")


def test_a_refused_update_changes_nothing(api: Api, other: Api):
    _, foreign = other.register()
    api.call("PUT", GAME_UPDATE, {"mine": 1}, admin=True)
    api.call("PUT", PLAYER_UPDATE, {"x": 1}, player=foreign)
    assert other.call("GET", PLAYER_GET, player=foreign).json["data"] == {}
    assert other.call("GET", GAME_GET).json["data"] == {}


def test_a_trailing_slash_and_head_are_tolerated(api: Api):
    assert api.call("GET", f"{GAME_GET}/").json["type"] == "game"
    head = api.call("HEAD", GAME_GET)
    assert (head.status, head.body) == (200, b"")


def test_unknown_paths_and_methods_are_no_endpoints(api: Api):
    for method, path in (
        ("POST", GAME_GET),
        ("GET", GAME_UPDATE),
        ("GET", "/api/game_data.php"),
        ("GET", "/api/game_data.php/game"),
        ("GET", "/api/game_data.php/game/get/x"),
        ("GET", "/api/Game_data.php/game/get"),
    ):
        assert_error(api.call(method, path), 404, "Invalid endpoint")


def forbid_clients_to_write(server: ServerProcess, api: Api) -> None:
    assigned = {"clients_write_player_data": "false"}
    change = ChangeGameSettings(game_id=api.game.game_id, assigned=assigned)
    call(socket_path(server.data_dir), change)


def test_where_clients_may_not_write_only_the_admin_key_does(server: ServerProcess, api: Api):
    _, token = api.register("Ada", player_data={"score": 1})
    forbid_clients_to_write(server, api)

    refused = api.call("PUT", PLAYER_UPDATE, {"score": 9}, player=token)
    assert_error(refused, 400, "Clients may not write player_data in this game")
    assert api.call("GET", PLAYER_GET, player=token).json["data"] == {"score": 1}

    written = api.call("PUT", PLAYER_UPDATE, {"score": 2}, player=token, admin=True)
    assert written.json["message"] == "Player data updated successfully"
    assert api.call("GET", PLAYER_GET, player=token).json["data"] == {"score": 2}


def test_where_clients_may_not_write_a_new_player_brings_no_document(
    server: ServerProcess, api: Api
):
    forbid_clients_to_write(server, api)
    for fields in ({"player_data": {"score": 9}}, {"player_data_json": ' {"score":9}'}):
        body = {"player_name": "Ada", **fields}
        refused = api.call("POST", "/api/game_players.php/register", body)
        assert_error(refused, 400, "Clients may not write player_data in this game")
    api.register("Ada", player_data={})
    api.register("Ada", player_data=None)
    api.register("Ada", player_data_json=" { } ")


def test_a_wrong_admin_key_beside_a_player_token_is_told(api: Api, other: Api):
    _, token = api.register("Ada")
    for key in ("junk", other.game.private, api.game.key):
        headers = {"X-Api-Private-Token": key}
        refused = api.call("PUT", PLAYER_UPDATE, {}, player=token, headers=headers)
        assert_error(refused, 401, "Invalid API token or private token")
    headers = {"X-Api-Private-Token": ""}
    assert api.call("PUT", PLAYER_UPDATE, {}, player=token, headers=headers).status == 200
    no_player = api.call("PUT", PLAYER_UPDATE, {}, admin=True)
    assert_error(no_player, 401, "Game player token is required")
