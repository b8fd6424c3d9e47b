"""How large documents of rooms and lobbies may be, and how much one answer holds; over sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from server_kit import Api, Reply

ROOMS = "/api/game_room.php"
LOBBIES = "/api/matchmaking.php"
BYTES_MAX = 65_536
MEBIBYTE = 1 << 20


def document(size: int, **more: object) -> str:
    """Return the JSON of an object that is so many bytes long."""
    text = json.dumps({**more, "x": ""}, separators=(",", ":"))
    return text[:-2] + "x" * (size - len(text)) + text[-2:]


def post(api: Api, token: str, path: str, body: str) -> Reply:
    return api.call("POST", path, body.encode(), player=token)


def refusal(field: str) -> dict[str, object]:
    return {"success": False, "error": f"{field} must be at most {BYTES_MAX} bytes"}


def host(api: Api, area: str, fields: str = "") -> tuple[str, Any]:
    """Open a room or lobby; return its host's token and the answer."""
    _, token = api.register("Host")
    reply = post(api, token, f"{area}/create", f'{{"max_players":16{fields}}}')
    assert reply.status == 200, reply
    return token, reply.json


@pytest.mark.parametrize("area", [ROOMS, LOBBIES])
@pytest.mark.parametrize("field", ["rules", "player_data"])
def test_documents_of_a_room_or_lobby_have_a_bound(api: Api, area: str, field: str):
    _, token = api.register("Host")
    large = document(BYTES_MAX + 1)
    for value in (f'"{field}":{large}', f'"{field}_json":{json.dumps(large)}'):
        reply = post(api, token, f"{area}/create", f'{{"max_players":2,{value}}}')
        assert (reply.status, reply.json) == (400, refusal(field))
    fits = document(BYTES_MAX)
    reply = post(api, token, f"{area}/create", f'{{"max_players":2,"{field}":{fits}}}')
    assert reply.status == 200, reply


@pytest.mark.parametrize(
    ("area", "operation", "fields"),
    [
        (ROOMS, "join", ""),
        (LOBBIES, "join", ""),
        (LOBBIES, "request", ',"join_by_requests":true'),
    ],
)
def test_what_a_member_brings_has_a_bound(api: Api, area: str, operation: str, fields: str):
    _, opened = host(api, area, fields)
    path = f"{area}/{opened.get('room_id') or opened['matchmaking_id']}/{operation}"
    _, token = api.register("Guest")
    large, fits = document(BYTES_MAX + 1), document(BYTES_MAX)
    bodies = [f'{{"player_data":{large}}}', json.dumps({"player_data_json": large})]
    if area == LOBBIES:
        bodies.append(large)  # as old clients send it
    for body in bodies:
        reply = post(api, token, path, body)
        assert (reply.status, reply.json) == (400, refusal("player_data"))
    assert post(api, token, path, f'{{"player_data":{fits}}}').status == 200


@pytest.mark.parametrize(("area", "field"), [(ROOMS, "rooms"), (LOBBIES, "lobbies")])
def test_a_list_of_large_rules_is_shorter_and_every_entry_is_whole(api: Api, area: str, field: str):
    rules = document(BYTES_MAX)
    for _ in range(18):
        host(api, area, f',"rules":{rules}')
    for query in ("", "?format=engine"):
        reply = api.call("POST", f"{area}/list{query}", {"limit": 100})
        entries = reply.json[field]
        assert len(entries) == MEBIBYTE // BYTES_MAX
        shown = {entry["rules_json"] if query else json.dumps(entry["rules"]) for entry in entries}
        assert [json.loads(text) for text in shown] == [json.loads(rules)]


def test_a_leaderboard_of_large_documents_is_shorter_and_counts_everybody(api: Api):
    for level in range(4):
        _, token = api.register(f"Player {level}")
        body = document(400_000, level=level).encode()
        assert api.call("PUT", "/api/game_data.php/player/update", body, player=token).status == 200
    reply = api.call("POST", "/api/leaderboard.php", {"sort_by": ["level"]})
    assert [entry["player_name"] for entry in reply.json["leaderboard"]] == ["Player 3", "Player 2"]
    assert (reply.json["total"], reply.json["limit"]) == (4, 10)


def test_a_tool_answers_with_as_much(api: Api):
    for _ in range(18):
        host(api, ROOMS, f',"rules":{document(BYTES_MAX)}')
    call = {"name": "rooms", "arguments": {"limit": 100}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    reply = api.call("POST", "/mcp", message)
    result = reply.json["result"]
    assert len(result["structuredContent"]["rooms"]) == MEBIBYTE // BYTES_MAX
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert len(reply.body) < 2.1 * MEBIBYTE
