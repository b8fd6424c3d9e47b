"""Errors say what to do: by their text, or by a hint beside it. On both servers."""

from __future__ import annotations

from typing import Any

import pytest
from answer_judge import DOCUMENT
from server_kit import Api

from greenroom.contract.refusals import (
    DEPTH_HINT,
    HINTS,
    JSON_AT_HINT,
    JSON_CUT_HINT,
    METHOD_HINTS,
    MISSING_HEADER_HINTS,
    NO_ROOM_HINT,
    NOT_REALTIME_HINT,
    OBJECT_HINT,
    PATH_HINT,
    REFUSALS,
    UTF8_AT_HINT,
)

TEXTS = {refusal.text for refusal in REFUSALS}
CREATE = "/api/game_room.php/create"
LOGIN = "/api/game_players.php/login"
LIST = "/api/game_players.php/list"
TOKEN = "/api/realtime.php/token"
UPDATE = "/api/game_data.php/player/update"


def refusal(reply: Any) -> tuple[int, str, str | None]:
    return reply.status, reply.json["error"], reply.hint


def test_a_missing_header_is_named(api: Api):
    both = "API token and game player token are required"
    project, player = "X-Api-Token", "X-Game-Player-Token"
    keyless = api.call("PUT", LOGIN, headers={project: None})
    assert refusal(keyless) == (401, both, MISSING_HEADER_HINTS[project])
    assert refusal(api.call("PUT", LOGIN)) == (401, both, MISSING_HEADER_HINTS[player])
    admin = MISSING_HEADER_HINTS["X-Api-Private-Token"]
    assert refusal(api.call("GET", LIST))[2] == admin
    for header, hint in MISSING_HEADER_HINTS.items():
        assert header in hint


def test_a_wrong_method_and_a_wrong_path_are_told_apart(api: Api):
    text = "Invalid endpoint"
    assert refusal(api.call("GET", CREATE)) == (404, text, METHOD_HINTS["POST"])
    assert refusal(api.call("POST", f"{LIST}/")) == (404, text, METHOD_HINTS["GET"])
    assert refusal(api.call("GET", LOGIN)) == (404, text, METHOD_HINTS["PUT"])
    room = f"/api/game_room.php/{'0' * 32}/join"
    assert refusal(api.call("GET", room)) == (404, text, METHOD_HINTS["POST"])
    assert refusal(api.call("GET", "/api/game_room.php/creat")) == (404, text, PATH_HINT)
    assert refusal(api.call("GET", "/nowhere")) == (404, text, PATH_HINT)
    assert refusal(api.call("POST", "/openapi.json")) == (404, text, METHOD_HINTS["GET"])


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b'{"a": 1, "b": tru}', JSON_AT_HINT.format(15)),
        (b'  {"a": 1, "b": tru}', JSON_AT_HINT.format(17)),
        (b'{"a": "<script>" x}', JSON_AT_HINT.format(17)),
        (b'{"a": 1}x', JSON_AT_HINT.format(8)),
        (b'{"a": 1}  {"b": 2}', JSON_AT_HINT.format(10)),
        (b'{"a": 1', JSON_CUT_HINT),
        (b'{"a": "\\ud800"}', JSON_CUT_HINT),
        (b'{"a": "\xff"}', UTF8_AT_HINT.format(7)),
        (b"[1]", OBJECT_HINT),
        (b'"text"', OBJECT_HINT),
        (b'{"a":' + b"[" * 600 + b"]" * 600 + b"}", DEPTH_HINT),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", CREATE), ("PUT", UPDATE)])
def test_bad_json_is_told_with_its_place(api: Api, method: str, path: str, body: bytes, hint: str):
    _, token = api.register()
    reply = api.call(method, path, body, player=token)
    assert refusal(reply) == (400, "Invalid JSON body", hint)


def test_no_room_and_a_room_without_realtime_are_told_apart(api: Api):
    _, token = api.register()
    text = "Player is not in a realtime-enabled room"
    assert refusal(api.call("POST", TOKEN, player=token)) == (400, text, NO_ROOM_HINT)
    api.call("POST", CREATE, {}, player=token)
    assert refusal(api.call("POST", TOKEN, player=token)) == (400, text, NOT_REALTIME_HINT)


def test_a_token_that_was_replaced_gets_the_hint_of_one_that_is_nobodys(api: Api):
    _, old = api.register()
    api.call("POST", "/api/game_players.php/rotate", player=old)
    replaced = api.call("PUT", LOGIN, player=old)
    unknown = api.call("PUT", LOGIN, player="x" * 40)
    assert replaced.body == unknown.body, "nobody learns which tokens there were"
    assert replaced.hint == HINTS["Invalid game player token"]


def test_what_a_text_says_has_no_hint(api: Api):
    _, token = api.register()
    api.call("POST", CREATE, {}, player=token)
    again = api.call("POST", CREATE, {}, player=token)
    assert again.json["error"] == "You are already in a game room. Leave current room first."
    assert again.hint is None


def test_every_hint_belongs_to_an_error_of_the_api():
    described = str(DOCUMENT)
    assert [text for text in HINTS if text not in TEXTS and text not in described] == []
