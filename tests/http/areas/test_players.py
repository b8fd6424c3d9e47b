"""Every row of the players area, every text and status, over a real socket to either server."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from server_kit import Api, Reply, ServerProcess

from greenroom.control.admin.messages import ChangeGameSettings
from greenroom.control.client import call
from greenroom.control.errors import OperationRefused
from greenroom.control.protocol import socket_path

AREA = "/api/game_players.php"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
BAN_ID = re.compile(r"[0-9a-f]{32}")

PLAYER_CALLS = [
    ("PUT", "login"),
    ("POST", "heartbeat"),
    ("POST", "logout"),
    ("PUT", "rename"),
    ("POST", "rotate"),
]
ADMIN_CALLS = [("GET", "list"), ("POST", "ban"), ("POST", "unban")]
CALLS = [("POST", "register"), *PLAYER_CALLS, *ADMIN_CALLS]


def register(api: Api, body: object) -> Reply:
    return api.call("POST", f"{AREA}/register", body)


def rename(api: Api, token: str, body: object) -> Reply:
    return api.call("PUT", f"{AREA}/rename", body, player=token)


def login(api: Api, token: str) -> dict[str, Any]:
    reply = api.call("PUT", f"{AREA}/login", player=token)
    assert reply.status == 200, reply
    player = reply.json["player"]
    assert isinstance(player, dict)
    return player


def ban(api: Api, player_id: object, duration: object = "day", **fields: object) -> Reply:
    body = {"player_id": player_id, "ban_duration": duration, **fields}
    return api.call("POST", f"{AREA}/ban", body, admin=True)


def unban(api: Api, body: object) -> Reply:
    return api.call("POST", f"{AREA}/unban", body, admin=True)


def listed(api: Api, query: str = "") -> list[dict[str, Any]]:
    reply = api.call("GET", f"{AREA}/list{query}", admin=True)
    assert reply.status == 200, reply
    assert list(reply.json) == ["success", "players", "count"]
    assert reply.json["count"] == len(reply.json["players"])
    players = reply.json["players"]
    assert isinstance(players, list)
    return players


def assert_error(reply: Reply, status: int, text: str) -> None:
    assert (reply.status, reply.json) == (status, {"success": False, "error": text})


def moment(stamp: object) -> datetime:
    assert isinstance(stamp, str)
    assert STAMP.fullmatch(stamp)
    return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


# register


def test_register_answers_the_whole_account(api: Api):
    reply = register(api, {"player_name": "  Ada Lövelace ", "player_data": {"level": 1}})

    assert reply.status == 200
    account = reply.json
    assert re.fullmatch(r"[1-9]\d*", account.pop("player_id"))
    assert re.fullmatch(r"[A-Za-z0-9_]{36,}", account.pop("private_key"))
    assert re.fullmatch(r"#[2-9B-DF-HJ-NP-TV-Z]{8}", account.pop("player_tag"))
    assert account == {
        "success": True,
        "player_name": "Ada Lövelace",
        "game_id": api.game.game_id,
        "auth": "guest",
        "account": "created",
    }


def test_names_need_not_be_unique(api: Api):
    first, second = register(api, {"player_name": "Ada"}), register(api, {"player_name": "Ada"})
    assert first.json["player_id"] != second.json["player_id"]
    assert first.json["player_tag"] != second.json["player_tag"]
    assert first.json["private_key"] != second.json["private_key"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, "Player name is required"),
        ({}, "Player name is required"),
        (b"null", "Player name is required"),
        ({"player_name": None}, "Player name is required"),
        ({"player_name": ""}, "Player name is required"),
        ({"name": "Ada"}, "Player name is required"),
        ({"player_name": "A"}, "Player name must be between 2 and 50 characters"),
        ({"player_name": "  A  "}, "Player name must be between 2 and 50 characters"),
        ({"player_name": "   "}, "Player name must be between 2 and 50 characters"),
        ({"player_name": "x" * 51}, "Player name must be between 2 and 50 characters"),
        ({"player_name": "x" * 1_000_000}, "Player name must be between 2 and 50 characters"),
        ({"player_name": "a\u202eb"}, "Player name must not contain bidirectional characters"),
        ({"player_name": "a\u200bb"}, "Player name must not contain zero-width characters"),
        ({"player_name": "a\nb"}, "Player name must not contain control characters"),
        ({"player_name": 5}, "player_name must be a string"),
        ({"player_name": ["Ada"]}, "player_name must be a string"),
        (b'{"player_name":"a\\ud800b"}', "Invalid JSON body"),
        ({"player_name": "Ada", "player_data": []}, "player_data must be an object"),
        ({"player_name": "Ada", "player_data": "x"}, "player_data must be an object"),
        ({"player_name": "Ada", "player_data_json": {}}, "player_data_json must be a string"),
        ({"player_name": "Ada", "player_data_json": "{"}, "player_data is not valid JSON"),
        (
            {"player_name": "Ada", "platform_ticket": "00ff"},
            "Platform sign-in is not enabled for this game",
        ),
        ({"platform_ticket": "00ff"}, "Platform sign-in is not enabled for this game"),
        (b"{", "Invalid JSON body"),
        (b"[]", "Invalid JSON body"),
        (b'"Ada"', "Invalid JSON body"),
        (b'{"player_name":"A\xff"}', "Invalid JSON body"),
        (b'{"player_name":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "Invalid JSON body"),
    ],
)
def test_register_refuses_with_the_right_text(api: Api, body: object, text: str):
    assert_error(register(api, body), 400, text)
    assert listed(api) == []


def test_a_nul_in_a_name_is_a_400(api: Api):
    reply = register(api, {"player_name": "a\x00b"})
    assert reply.status == 400
    assert listed(api) == []


def test_names_of_50_characters_of_any_script_pass(api: Api):
    assert register(api, {"player_name": "蛙" * 50}).json["player_name"] == "蛙" * 50


def test_an_empty_ticket_is_no_ticket(api: Api):
    reply = register(api, {"player_name": "Ada", "platform_ticket": "", "platform_identity": "x"})
    assert reply.json["auth"] == "guest"


@pytest.mark.parametrize("field", ["player_data", "player_data_json"])
def test_the_document_may_come_in_either_form(api: Api, field: str):
    value: object = {"a": 1} if field == "player_data" else '{"a":1}'
    token = register(api, {"player_name": "Ada", field: value}).json["private_key"]
    assert login(api, token)["player_data"] == {"a": 1}


def test_name_rules_of_the_game_document_are_kept(api: Api):
    rules = {
        "name_rules": {"scripts": ["Latin"], "case": "lower", "digits": False, "spaces": False}
    }
    api.call("PUT", "/api/game_data.php/game/update", rules, admin=True)
    _, token = api.register("ada")
    for name, rule in [
        ("ольга", "must use only these scripts: Latin"),
        ("Ada", "must be lower case"),
        ("ada1", "must not contain digits"),
        ("a da", "must not contain spaces"),
    ]:
        assert_error(register(api, {"player_name": name}), 400, f"Player name {rule}")
        assert_error(rename(api, token, {"new_name": name}), 400, f"Player name {rule}")


@pytest.mark.parametrize("rules", ["lower", 5, [], {"case": 1, "scripts": "Latin", "digits": 0}])
def test_malformed_name_rules_are_ignored(api: Api, rules: object):
    api.call("PUT", "/api/game_data.php/game/update", {"name_rules": rules}, admin=True)
    assert register(api, {"player_name": "Ада 1"}).status == 200


# login, heartbeat, logout


def test_login_answers_the_player_with_the_login_before(api: Api):
    player_id, token = api.register("Ada", player_data={"z": 1, "a": [None]})

    player = login(api, token)

    assert re.fullmatch(r"#\w{8}", player.pop("player_tag"))
    stamps = [player.pop(name) for name in ("last_heartbeat", "created_at", "updated_at")]
    assert all(STAMP.fullmatch(stamp) for stamp in stamps)
    assert player == {
        "id": player_id,
        "game_id": api.game.game_id,
        "player_name": "Ada",
        "player_data": {"z": 1, "a": [None]},
        "is_online": True,
        "last_login": None,
        "last_logout": None,
    }
    again = login(api, token)
    assert moment(again["last_login"]) >= moment(stamps[1])


def test_login_in_the_engine_variant_has_the_document_as_a_string(api: Api):
    _, token = api.register("Ada", player_data={"a": 1})
    for form in ("engine", "unity"):
        player = api.call("PUT", f"{AREA}/login?format={form}", player=token).json["player"]
        assert player["player_data_json"] == '{"a":1}'
        assert "player_data" not in player


def test_a_heartbeat_answers_its_time(api: Api):
    _, token = api.register()
    reply = api.call("POST", f"{AREA}/heartbeat", player=token)
    assert reply.status == 200
    assert reply.json["success"] is True
    assert reply.json["message"] == "Heartbeat updated"
    assert abs(moment(reply.json["last_heartbeat"]) - datetime.now(UTC)) < timedelta(seconds=5)


def test_logout_goes_offline_and_any_call_comes_back(api: Api):
    _, token = api.register()
    reply = api.call("POST", f"{AREA}/logout", player=token)
    assert reply.json["message"] == "Player logged out successfully"
    last_logout = reply.json["last_logout"]
    moment(last_logout)
    (player,) = listed(api)
    assert (player["is_online"], player["last_logout"]) == (False, last_logout)

    api.call("GET", "/api/game_data.php/player/get", player=token)

    (player,) = listed(api)
    assert (player["is_online"], player["last_logout"]) == (True, last_logout)


@pytest.mark.parametrize("body", [None, b"", b"null", b"{}", b'{"anything":1}'])
def test_calls_without_arguments_take_any_of_the_empty_bodies(api: Api, body: bytes | None):
    _, token = api.register()
    for method, name in (("PUT", "login"), ("POST", "heartbeat"), ("POST", "logout")):
        assert api.call(method, f"{AREA}/{name}", body, player=token).status == 200


# rename, rotate


def test_rename_trims_and_lasts(api: Api):
    player_id, token = api.register()
    reply = rename(api, token, {"new_name": "  Eve "})
    assert reply.json == {
        "success": True,
        "message": "Player name updated successfully",
        "new_name": "Eve",
        "player_id": player_id,
    }
    assert login(api, token)["player_name"] == "Eve"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, "New name is required"),
        ({"new_name": ""}, "New name is required"),
        ({"new_name": None}, "New name is required"),
        ({"new_name": "E"}, "Player name must be between 2 and 50 characters"),
        ({"new_name": "e" * 51}, "Player name must be between 2 and 50 characters"),
        ({"new_name": "a\u200db"}, "Player name must not contain zero-width characters"),
        ({"new_name": True}, "new_name must be a string"),
        (b"nonsense", "Invalid JSON body"),
    ],
)
def test_rename_refuses_with_the_right_text(api: Api, body: object, text: str):
    _, token = api.register("Ada")
    assert_error(rename(api, token, body), 400, text)
    assert login(api, token)["player_name"] == "Ada"


def test_rotation_kills_the_old_token_at_once(api: Api):
    player_id, old = api.register()
    reply = api.call("POST", f"{AREA}/rotate", player=old)
    assert reply.status == 200
    new = reply.json.pop("private_key")
    assert reply.json == {"success": True, "player_id": player_id}
    assert new != old
    assert len(new) >= 36
    assert_error(api.call("POST", f"{AREA}/rotate", player=old), 401, "Invalid game player token")
    assert login(api, new)["id"] == player_id


# list


def test_the_list_shows_these_fields_of_every_player(api: Api):
    ids = sorted(api.register(f"Player {number}")[0] for number in range(3))
    players = listed(api)
    assert [player["id"] for player in players] == ids
    assert set(players[0]) == {
        "id", "player_name", "is_online", "last_login", "last_logout", "last_heartbeat",
        "created_at",
    }  # fmt: skip
    assert players[0]["is_online"] is True
    assert players[0]["last_login"] is None


def test_the_list_can_be_cut_into_pages(api: Api):
    ids = sorted(api.register()[0] for _ in range(5))
    assert [p["id"] for p in listed(api, "?limit=2")] == ids[:2]
    assert [p["id"] for p in listed(api, f"?limit=2&after_id={ids[1]}")] == ids[2:4]
    assert [p["id"] for p in listed(api, f"?after_id={ids[3]}")] == ids[4:]
    assert listed(api, f"?after_id={2**52}") == []
    assert len(listed(api, "?limit=100000&after_id=")) == 5


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("limit=0", "limit must be at least 1"),
        ("limit=-3", "limit must be at least 1"),
        ("limit=two", "limit must be an integer"),
        ("after_id=x", "after_id must be an integer"),
        ("limit=" + "9" * 1000, "limit must be an integer"),
    ],
)
def test_a_bad_page_is_refused(api: Api, query: str, text: str):
    assert_error(api.call("GET", f"{AREA}/list?{query}", admin=True), 400, text)


def test_another_games_players_are_not_listed(api: Api, other: Api):
    other.register()
    assert listed(api) == []


# ban, unban


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        ("hour", "1 hour|59 minutes"),
        ("day", "1 day|23 hours"),
        ("week", "7 days|6 days"),
        ("month", "1 month|30 days|29 days|28 days|27 days"),
        ("quarter", "3 months|2 months"),
        ("year", "1 year|11 months"),
    ],
)
def test_a_ban_says_how_long(api: Api, duration: str, words: str):
    player_id, token = api.register()
    reply = ban(api, player_id, duration, ban_reason="Cheating")
    assert reply.status == 200
    made = reply.json
    assert made["success"] is True
    assert made["message"] == "Player banned successfully"
    assert BAN_ID.fullmatch(made["ban_id"])
    assert (made["player_id"], made["ban_duration"]) == (player_id, duration)
    moment(made["banned_until"])

    refused = api.call("PUT", f"{AREA}/login", player=token)

    assert refused.status == 403
    assert re.fullmatch(
        rf"You are banned: Cheating\. Ban expires in ({words})", refused.json["error"]
    )
    info = refused.json["ban_info"]
    moment(info.pop("banned_at"))
    assert info == {
        "ban_id": made["ban_id"],
        "ban_duration": duration,
        "ban_reason": "Cheating",
        "banned_until": made["banned_until"],
    }


def test_a_permanent_ban_has_no_end(api: Api):
    player_id, token = api.register()
    assert ban(api, player_id, "forever").json["banned_until"] is None
    refused = api.call("PUT", f"{AREA}/login", player=token)
    assert refused.json["error"] == "You are banned. This is a permanent ban."
    assert refused.json["ban_info"]["banned_until"] is None
    assert refused.json["ban_info"]["ban_reason"] is None


def test_the_banned_are_refused_everywhere(api: Api):
    player_id, token = api.register()
    ban(api, player_id, "forever", ban_reason="")
    calls = [
        *((method, f"{AREA}/{name}") for method, name in PLAYER_CALLS),
        ("GET", "/api/game_data.php/player/get"),
        ("PUT", "/api/game_data.php/player/update"),
    ]
    for method, path in calls:
        reply = api.call(method, path, b"not JSON", player=token)
        assert (reply.status, reply.json["error"]) == (
            403,
            "You are banned. This is a permanent ban.",
        )


def test_a_new_ban_ends_the_older_one(api: Api):
    player_id, token = api.register()
    ban(api, player_id, "forever")
    second = ban(api, str(player_id), "hour").json
    refused = api.call("PUT", f"{AREA}/login", player=token)
    assert refused.json["ban_info"]["ban_id"] == second["ban_id"]
    assert unban(api, {"player_id": player_id}).json["bans_removed"] == 1


def test_unban_succeeds_with_and_without_a_ban(api: Api):
    player_id, token = api.register()
    ban(api, player_id)
    assert unban(api, {"player_id": str(player_id)}).json == {
        "success": True,
        "message": "Player unbanned successfully",
        "player_id": player_id,
        "bans_removed": 1,
    }
    login(api, token)
    assert unban(api, {"player_id": player_id}).json == {
        "success": True,
        "message": "No active bans found for this player",
        "player_id": player_id,
        "bans_removed": 0,
    }


NO_DURATION = "ban_duration is required (hour, day, week, month, quarter, year, forever)"
BAD_DURATION = (
    "Invalid ban_duration. Must be one of: hour, day, week, month, quarter, year, forever"
)
NO_PLAYER = "Player not found or does not belong to this game"


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (None, 400, "player_id is required"),
        ({"ban_duration": "day"}, 400, "player_id is required"),
        ({"player_id": None}, 400, "player_id is required"),
        ({"player_id": "seven"}, 400, "player_id must be an integer"),
        ({"player_id": 1.5}, 400, "player_id must be an integer"),
        ({"player_id": True}, 400, "player_id must be an integer"),
        (b'{"player_id":1e400}', 400, "player_id must be an integer"),
        ({"player_id": 10**30, "ban_duration": "day"}, 400, "player_id must be an integer"),
        ({"player_id": 1}, 400, NO_DURATION),
        ({"player_id": 1, "ban_duration": ""}, 400, NO_DURATION),
        ({"player_id": 1, "ban_duration": "decade"}, 400, BAD_DURATION),
        ({"player_id": 1, "ban_duration": "Day"}, 400, BAD_DURATION),
        ({"player_id": 1, "ban_duration": 7}, 400, "ban_duration must be a string"),
        ({"player_id": 2**53 - 1, "ban_duration": "day"}, 404, NO_PLAYER),
        ({"player_id": 0, "ban_duration": "day"}, 404, NO_PLAYER),
        ({"player_id": -1, "ban_duration": "day"}, 404, NO_PLAYER),
        (
            {"player_id": 1, "ban_duration": "day", "ban_reason": "x" * 1001},
            400,
            "ban_reason must be at most 1000 characters",
        ),
        (
            {"player_id": 1, "ban_duration": "day", "ban_reason": 5},
            400,
            "ban_reason must be a string",
        ),
        (b"[", 400, "Invalid JSON body"),
    ],
)
def test_ban_refuses_with_the_right_text(api: Api, body: object, status: int, text: str):
    assert_error(api.call("POST", f"{AREA}/ban", body, admin=True), status, text)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (None, 400, "player_id is required"),
        ({"player_id": []}, 400, "player_id must be an integer"),
        ({"player_id": 2**53 - 1}, 404, NO_PLAYER),
    ],
)
def test_unban_refuses_with_the_right_text(api: Api, body: object, status: int, text: str):
    assert_error(unban(api, body), status, text)


def test_another_games_player_is_out_of_reach(api: Api, other: Api):
    player_id, token = other.register()
    assert_error(ban(api, player_id), 404, NO_PLAYER)
    assert_error(unban(api, {"player_id": player_id}), 404, NO_PLAYER)
    login(other, token)


def test_a_reason_with_a_nul_is_a_400(api: Api):
    player_id, token = api.register()
    assert ban(api, player_id, ban_reason="a\x00b").status == 400
    login(api, token)


# tokens


def texts(name: str) -> tuple[str, str, str]:
    """Return what is said of no key, no second token, and a bad second token."""
    if name == "register":
        return "API token is required", "", ""
    if name in {"list", "ban", "unban"}:
        both = "API token and private token are required"
        return both, both, "Invalid API credentials"
    both = "API token and game player token are required"
    which = "game player" if name in {"login", "rotate"} else "player"
    return both, both, f"Invalid {which} token"


@pytest.mark.parametrize(("method", "name"), CALLS)
def test_every_call_wants_its_tokens(api: Api, other: Api, method: str, name: str):
    path = f"{AREA}/{name}"
    no_key, no_token, bad_token = texts(name)
    header = "X-Api-Private-Token" if (method, name) in ADMIN_CALLS else "X-Game-Player-Token"
    _, foreign = other.register()
    foreign = other.game.private if header == "X-Api-Private-Token" else foreign

    for missing in (None, ""):
        reply = api.call(method, path, headers={"X-Api-Token": missing, header: foreign})
        assert_error(reply, 401, no_key)
    for bad in ("nonsense", "x" * 2000, api.game.private, api.game.key[:-1] + "_"):
        reply = api.call(method, path, headers={"X-Api-Token": bad, header: foreign})
        assert reply.status == 401
        assert reply.json == {
            "success": False,
            "error": "Invalid API token",
            "message": "Authentication failed",
        }
    if not no_token:
        return
    for missing in (None, ""):
        assert_error(api.call(method, path, headers={header: missing}), 401, no_token)
    for bad in ("nonsense", "x" * 2000, api.game.key, foreign):
        assert_error(api.call(method, path, headers={header: bad}), 401, bad_token)


@pytest.mark.parametrize(("method", "name"), CALLS)
def test_another_method_is_no_endpoint(api: Api, method: str, name: str):
    for wrong in {"GET", "POST", "PUT", "DELETE", "PATCH"} - {method}:
        assert_error(api.call(wrong, f"{AREA}/{name}"), 404, "Invalid endpoint")
    assert_error(api.call(method, f"{AREA}/{name}/more"), 404, "Invalid endpoint")


def test_tokens_are_judged_before_bodies(api: Api):
    reply = api.call("POST", f"{AREA}/register", b"{", headers={"X-Api-Token": None})
    assert_error(reply, 401, "API token is required")
    reply = api.call("PUT", f"{AREA}/rename", b"{", player="nonsense")
    assert_error(reply, 401, "Invalid player token")


def test_a_token_in_the_url_is_no_token(api: Api):
    path = f"{AREA}/register?X-Api-Token={api.game.key}&api_token={api.game.key}"
    reply = api.call("POST", path, {"player_name": "Ada"}, headers={"X-Api-Token": None})
    assert_error(reply, 401, "API token is required")


def test_clocks_of_client_and_server_agree(api: Api):
    """The stamps are UTC whatever the machine's own time zone is."""
    before = int(time.time())
    _, token = api.register()
    created = moment(login(api, token)["created_at"]).timestamp()
    assert before <= created <= time.time()


@pytest.mark.parametrize("query", ["", "?format=engine", "?format=unity"])
def test_register_answers_an_integer_where_the_game_says_so(
    server: ServerProcess, api: Api, other: Api, query: str
):
    def change(assigned: dict[str, str], removed: list[str]) -> None:
        ask = ChangeGameSettings(game_id=api.game.game_id, assigned=assigned, removed=removed)
        call(socket_path(server.data_dir), ask)

    def registered(caller: Api) -> Any:
        reply = caller.call("POST", f"{AREA}/register{query}", {"player_name": "Ada"})
        assert reply.status == 200, reply
        return reply.json["player_id"]

    change({"register_player_id": "integer"}, [])
    player_id = registered(api)
    assert type(player_id) is int
    assert player_id in [player["id"] for player in listed(api)]
    assert type(registered(other)) is str

    change({}, ["register_player_id"])
    assert type(registered(api)) is str


def test_a_form_of_player_ids_that_there_is_not_is_refused(server: ServerProcess, api: Api):
    ask = ChangeGameSettings(game_id=api.game.game_id, assigned={"register_player_id": "number"})
    with pytest.raises(OperationRefused, match="must be string or integer, not 'number'"):
        call(socket_path(server.data_dir), ask)
    assert type(register(api, {"player_name": "Ada"}).json["player_id"]) is str
