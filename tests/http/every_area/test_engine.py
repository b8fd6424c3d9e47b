"""Payloads as objects and as strings, in requests and answers, wherever there are any."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from server_kit import Api, Reply

REGISTER = "/api/game_players.php/register"
ROOM = "/api/game_room.php"
FORMS = ["engine", "unity"]
# Verbatim: no order, number or character of it may change on the way.
TEXT = '{"z":1.50,"a":[null,{},1e5,-0.0],"big":123456789012345678901234567890,"蛙 🐸":"א/\\"b"}'
DOCUMENT = json.loads(TEXT)


class Payload(NamedTuple):
    """An optional payload of a call: where it goes in and where it is seen again."""

    field: str
    path: str
    others: str
    """The other fields of the body, as the inside of a JSON object."""
    seen: str
    """By whom it is read, and where."""


PAYLOADS = [
    Payload("player_data", REGISTER, '"player_name":"Ada"', "new PUT /api/game_players.php/login"),
    Payload("player_data", f"{ROOM}/create", '"max_players":3', f"sender GET {ROOM}/players"),
    Payload("rules", f"{ROOM}/create", '"max_players":3', f"sender POST {ROOM}/list"),
    Payload("rules", f"{ROOM}/create", '"max_players":3', f"sender GET {ROOM}/current"),
    Payload("player_data", f"{ROOM}/<room>/join", '"password":""', f"host GET {ROOM}/players"),
    Payload(
        "request_data",
        f"{ROOM}/actions",
        '"target_players":"host","action_type":"x"',
        f"host GET {ROOM}/actions/pending",
    ),
    Payload(
        "request_data",
        f"{ROOM}/actions",
        '"target_players":"host","action_type":"x"',
        f"host GET {ROOM}/current",
    ),
    Payload(
        "response_data",
        f"{ROOM}/actions/<action>/complete",
        '"status":"failed"',
        f"host GET {ROOM}/actions/poll",
    ),
    Payload(
        "data",
        f"{ROOM}/updates",
        '"target_players":"host","type":"x"',
        f"host POST {ROOM}/updates/poll",
    ),
    Payload(
        "data",
        f"{ROOM}/updates",
        '"target_players":"host","type":"x"',
        f"host GET {ROOM}/current",
    ),
]
NAMES = [f"{each.field} of {each.path} in {each.seen}" for each in PAYLOADS]


class EngineKit:
    """A host, and the sender, who has what it takes to make the call."""

    def __init__(self, api: Api, payload: Payload) -> None:
        self.api = api
        self.payload = payload
        self.tokens = {name: api.register(name)[1] for name in ("host", "sender")}
        path = payload.path
        if path in {REGISTER, f"{ROOM}/create"}:
            self.path = path
            return
        room_id = self.post("host", f"{ROOM}/create").json["room_id"]
        if not path.endswith("join"):
            assert self.post("sender", f"{ROOM}/{room_id}/join").status == 200
        body = {"target_players": "others", "action_type": "ask"}
        action = self.post("host", f"{ROOM}/actions", body).json["action_ids"]
        self.path = path.replace("<room>", room_id).replace("<action>", (*action, "")[0])

    def post(self, name: str, path: str, body: object = None) -> Reply:
        return self.api.call("POST", path, body, player=self.tokens[name])

    def send(self, fields: str, query: str = "") -> Reply:
        body = "{" + ",".join(filter(None, [self.payload.others, fields])) + "}"
        reply = self.post("sender", self.path + query, body.encode())
        if self.path == REGISTER and reply.status == 200:
            self.tokens["new"] = reply.json["private_key"]
        return reply

    def read(self, query: str = "") -> str:
        """Return the part of the answer that is looked at, as JSON."""
        name, method, path = self.payload.seen.split()
        others = {"from_players": "all"} if path.endswith("updates/poll") else None
        reply = self.api.call(method, path + query, others, player=self.tokens[name])
        assert reply.status == 200, reply
        return reply.body.decode()


def in_two_forms(field: str) -> list[str]:
    return [f'"{field}":{TEXT}', f'"{field}_json":{json.dumps(TEXT)}']


@pytest.mark.parametrize("form", [0, 1], ids=["object", "string"])
@pytest.mark.parametrize("query", ["", "?format=engine"])
@pytest.mark.parametrize("payload", PAYLOADS, ids=NAMES)
def test_a_payload_is_taken_in_both_forms_and_comes_back_verbatim(
    api: Api, payload: Payload, query: str, form: int
):
    stage = EngineKit(api, payload)
    assert stage.send(in_two_forms(payload.field)[form], query).status == 200

    assert f'"{payload.field}":{TEXT}' in stage.read()
    for engine in FORMS:
        seen = stage.read(f"?format={engine}")
        as_string = json.dumps(TEXT, ensure_ascii=False)
        assert f'"{payload.field}_json":{as_string}' in seen
        assert (f'"{payload.field}":{TEXT}' in seen) is (payload.field == "data")
    assert "_json" not in stage.read("?format=json")


@pytest.mark.parametrize("payload", PAYLOADS, ids=NAMES)
def test_a_payload_may_be_absent(api: Api, payload: Payload):
    absent = ("", f'"{payload.field}":null', f'"{payload.field}_json":""')
    for fields in absent:
        stage = EngineKit(api, payload)
        assert stage.send(fields).status == 200
        nothing = "null" if payload.field == "response_data" else "{}"
        assert f'"{payload.field}":{nothing}' in stage.read()
        assert f'"{payload.field}_json":"{{}}"' in stage.read("?format=engine")


STRINGS = {
    "player_data": "player_data_json must be a string",
    "rules": "rules_json must be a string",
    "request_data": "request_data_json must be a string",
    "response_data": "response_data_json must be a string",
    "data": "data_json must be a string",
}
JSON = {
    "player_data": "player_data is not valid JSON",
    "rules": "rules is not valid JSON",
    "request_data": "request_data is not valid JSON",
    "response_data": "response_data is not valid JSON",
    "data": "data is not valid JSON",
}
OBJECTS = {
    "player_data": "player_data must be an object",
    "rules": "rules must be an object",
    "request_data": "request_data must be an object",
    "response_data": "response_data must be an object",
    "data": "data must be an object",
}


@pytest.mark.parametrize("query", ["", "?format=engine"])
@pytest.mark.parametrize("payload", PAYLOADS, ids=NAMES)
def test_a_payload_that_is_none_is_refused(api: Api, payload: Payload, query: str):
    stage = EngineKit(api, payload)
    field = payload.field
    for value, text in (
        ("{}", STRINGS[field]),
        ("5", STRINGS[field]),
        ("[]", STRINGS[field]),
        ("true", STRINGS[field]),
        ('"{"', JSON[field]),
        ('"nonsense"', JSON[field]),
        ('"{} {}"', JSON[field]),
        ('"[]"', OBJECTS[field]),
        ('"7"', OBJECTS[field]),
    ):
        reply = stage.send(f'"{field}_json":{value}', query)
        assert (value, reply.status, reply.json) == (
            value,
            400,
            {"success": False, "error": text},
        )
    for value in ("[]", "5", '"x"', "true"):
        reply = stage.send(f'"{field}":{value}', query)
        assert (reply.status, reply.json["error"]) == (400, OBJECTS[field])


def test_what_is_inside_a_document_is_nobodys_business(api: Api):
    inner: dict[str, Any] = {
        "player_data": {"player_data": 1},
        "rules_json": "{",
        "data": [{"request_data": None}],
        "created_at": "2026-03-13 14:01:49",
    }
    _, token = api.register("Ada", player_data=inner)
    for query in ("", "?format=engine"):
        player = api.call("PUT", f"/api/game_players.php/login{query}", player=token).json["player"]
        found = player["player_data"] if not query else json.loads(player["player_data_json"])
        assert found == inner
