"""Properties of every operation alike, tried on each of them over a socket to either server."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from server_kit import Api, Reply

from greenroom.http.endpoints import ENDPOINTS

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "get", "post", "Put", "FROB")
BAD_KEY = {
    "success": False,
    "error": "Invalid API token",
    "message": "Authentication failed",
}
BANNED = "You are banned. This is a permanent ban."
TOKENS = {
    "A": "X-Api-Token",
    "P": "X-Game-Player-Token",
    "V": "X-Api-Private-Token",
}

# The specification's tables: area, tokens, method, path.
SPECIFIED = """
game_players.php A POST register
game_players.php AP PUT login
game_players.php AP POST heartbeat
game_players.php AP POST logout
game_players.php AP PUT rename
game_players.php AP POST rotate
game_players.php AV GET list
game_players.php AV POST ban
game_players.php AV POST unban
game_data.php A GET game/get
game_data.php AV PUT game/update
game_data.php AP GET player/get
game_data.php AP PUT player/update
game_room.php AP POST create
game_room.php A POST list
game_room.php AP POST {}/join
game_room.php AP GET players
game_room.php AP POST leave
game_room.php AP POST heartbeat
game_room.php AP GET current
game_room.php AP POST stop
game_room.php AP POST kick
game_room.php AP POST password
game_room.php AP POST actions
game_room.php AP GET actions/poll
game_room.php AP GET actions/pending
game_room.php AP POST actions/{}/complete
game_room.php AP POST updates
game_room.php AP POST updates/poll
matchmaking.php A POST list
matchmaking.php AP POST create
matchmaking.php AP POST {}/request
matchmaking.php AP POST {}/response
matchmaking.php AP GET {}/status
matchmaking.php AP GET current
matchmaking.php AP POST {}/join
matchmaking.php AP POST leave
matchmaking.php AP GET players
matchmaking.php AP POST heartbeat
matchmaking.php AP POST remove
matchmaking.php AP POST start
matchmaking.php AP POST stop
matchmaking.php AP POST kick
matchmaking.php AP POST password
leaderboard.php A POST
friends.php AP GET list
friends.php AP POST lookup
friends.php AP POST request
friends.php AP POST accept
friends.php AP POST decline
friends.php AP POST remove
friends.php AP POST platform
friends.php AP POST invite
friends.php AP GET invites
friends.php AP POST invites/accept
friends.php AP POST invites/decline
realtime.php AP POST token
censor.php A POST
time.php A GET
"""

# What this server has besides.
ADDED = """
game_data.php AV POST player/stats
game_room.php AP POST join_token
matchmaking.php AP POST join_token
"""

DOCUMENTS = ("game_data.php/game/update", "game_data.php/player/update")

# What is said of no project key, no second token, a bad second token (wire.md, section 2).
COMMON = ("API token is required", "Player token is required", "Invalid player token")
PLAYERS = "API token and game player token are required"
ADMINS = "API token and private token are required"
TEXTS = {
    "game_players.php/register": ("API token is required", "", ""),
    "game_players.php/login": (PLAYERS, PLAYERS, "Invalid game player token"),
    "game_players.php/heartbeat": (PLAYERS, PLAYERS, "Invalid player token"),
    "game_players.php/logout": (PLAYERS, PLAYERS, "Invalid player token"),
    "game_players.php/rename": (PLAYERS, PLAYERS, "Invalid player token"),
    "game_players.php/rotate": (PLAYERS, PLAYERS, "Invalid game player token"),
    "game_players.php/list": (ADMINS, ADMINS, "Invalid API credentials"),
    "game_players.php/ban": (ADMINS, ADMINS, "Invalid API credentials"),
    "game_players.php/unban": (ADMINS, ADMINS, "Invalid API credentials"),
    "game_data.php/game/update": (
        "API token is required",
        "API private token is required",
        "Invalid API token or private token",
    ),
    "game_data.php/player/get": (
        "API token is required",
        "Game player token is required",
        "Invalid game player token",
    ),
    "game_data.php/player/stats": (
        "API token is required",
        "API private token is required",
        "Invalid API token or private token",
    ),
    "game_data.php/player/update": (
        "API token is required",
        "Game player token is required",
        "Invalid player or does not belong to game",
    ),
    "leaderboard.php": ("api_token is required", "", ""),
    "time.php": ("API key is required", "", ""),
}


class Operation(NamedTuple):
    """A row of the specification's tables."""

    auth: str
    method: str
    path: str

    @property
    def name(self) -> str:
        return self.path.removeprefix("/api/")

    @property
    def url(self) -> str:
        """An address of it, of something that there is not."""
        return self.path.replace("{}", "0" * 32)

    @property
    def texts(self) -> tuple[str, str, str]:
        return TEXTS.get(self.name, COMMON)


def read(line: str) -> Operation:
    area, auth, method, *rest = line.split()
    return Operation(auth, method, "/".join(["/api", area, *rest]))


OPERATIONS = [read(line) for line in (SPECIFIED + ADDED).splitlines() if line]
WITH_BODY = [row for row in OPERATIONS if row.method != "GET"]


def call(api: Api, row: Operation, body: object = None, **headers: str | None) -> Reply:
    """Call with the tokens that the row wants, but for those given here by their letters."""
    given = {TOKENS[letter]: token for letter, token in headers.items()}
    admin = {TOKENS["V"]: api.game.private} if "V" in row.auth else {}
    return api.call(row.method, row.url, body, headers=admin | given)


def assert_error(row: Operation, reply: Reply, status: int, text: str) -> None:
    expected = (row, status, {"success": False, "error": text})
    assert (row, reply.status, reply.json) == expected


def test_the_server_has_the_operations_of_the_specification_and_those_added_to_it() -> None:
    served = {(row.method, re.sub(r"{\w+}", "{}", row.path)) for row in ENDPOINTS}
    assert {(row.method, row.path) for row in OPERATIONS} == served
    assert len(SPECIFIED.split("\n")) - 2 == 59


def test_every_operation_wants_the_project_key(api: Api, other: Api) -> None:
    _, token = api.register()
    for row in OPERATIONS:
        for missing in (None, ""):
            reply = call(api, row, b"{", A=missing, P=token)
            assert_error(row, reply, 401, row.texts[0])
        for bad in ("nonsense", api.game.private, token, api.game.key[:-1]):
            reply = call(api, row, b"{", A=bad, P=token)
            assert (row, reply.status, reply.json) == (row, 401, BAD_KEY)


def test_every_operation_of_players_wants_a_player_of_this_game(api: Api, other: Api) -> None:
    _, foreign = other.register()
    for row in OPERATIONS:
        if "P" not in row.auth:
            continue
        for missing in (None, ""):
            assert_error(row, call(api, row, b"{", P=missing), 401, row.texts[1])
        for bad in ("nonsense", api.game.key):
            assert_error(row, call(api, row, b"{", P=bad), 401, row.texts[2])
        elsewhere = call(api, row, b"{", P=foreign)
        if row.name == "game_data.php/player/get":
            assert_error(row, elsewhere, 401, "Player does not belong to this game")
        else:
            assert_error(row, elsewhere, 401, row.texts[2])


def test_every_operation_of_the_owner_wants_the_admin_key(api: Api, other: Api) -> None:
    rows = [row for row in OPERATIONS if "V" in row.auth]
    assert [row.name for row in rows] == [
        *(f"game_players.php/{name}" for name in ("list", "ban", "unban")),
        "game_data.php/game/update",
        "game_data.php/player/stats",
    ]
    for row in rows:
        for missing in (None, ""):
            assert_error(row, call(api, row, b"{", V=missing), 401, row.texts[1])
        for bad in ("nonsense", api.game.key, other.game.private):
            assert_error(row, call(api, row, b"{", V=bad), 401, row.texts[2])


def test_no_operation_wants_more_tokens_than_its_row_says(api: Api) -> None:
    """If something else is wrong in these calls, their tokens are not."""
    for row in OPERATIONS:
        token = {"P": api.register()[1]} if "P" in row.auth else {}
        reply = call(api, row, None, **token)
        assert (row, reply.status in {200, 400, 404}) == (row, True)


def test_a_token_in_the_url_is_none(api: Api) -> None:
    _, token = api.register()
    query = "&".join(
        f"{name}={value}"
        for value, names in (
            (api.game.key, ("api_token", "X-Api-Token", "x-api-token", "token")),
            (token, ("game_player_token", "X-Game-Player-Token")),
            (api.game.private, ("api_private_token", "X-Api-Private-Token")),
        )
        for name in names
    )
    for row in OPERATIONS:
        in_url = row._replace(path=f"{row.path}?{query}")
        reply = api.call(row.method, in_url.url, headers={"X-Api-Token": None})
        assert_error(row, reply, 401, row.texts[0])
        if row.auth != "A":
            reply = api.call(row.method, in_url.url)
            assert_error(row, reply, 401, row.texts[1])


def test_a_token_in_the_body_is_none(api: Api) -> None:
    _, token = api.register()
    body = dict.fromkeys(("api_token", "X-Api-Token", "token"), api.game.key)
    body |= {"game_player_token": token, "private_key": token, "api_private_token": token}
    for row in WITH_BODY:
        reply = api.call(row.method, row.url, body, headers={"X-Api-Token": None})
        assert_error(row, reply, 401, row.texts[0])
        if row.auth != "A":
            assert_error(row, api.call(row.method, row.url, body), 401, row.texts[1])


def test_the_banned_get_403_wherever_they_show_their_token(api: Api) -> None:
    player_id, token = api.register()
    body = {"player_id": player_id, "ban_duration": "forever"}
    made = api.call("POST", "/api/game_players.php/ban", body, admin=True)
    assert made.status == 200
    for row in OPERATIONS:
        if "P" not in row.auth:
            continue
        for sent in (None, b"{", b"[]"):
            reply = call(api, row, sent, P=token)
            assert (row, reply.status, reply.json["error"]) == (row, 403, BANNED)
            assert reply.json["success"] is False
            assert reply.json["ban_info"]["ban_id"] == made.json["ban_id"]


def test_another_method_or_a_subpath_is_an_invalid_endpoint(api: Api) -> None:
    """That there is no such endpoint is found out before any token is looked at."""
    known = {(row.method, row.url) for row in OPERATIONS}
    for row in OPERATIONS:
        for method in METHODS:
            if (method, row.url) not in known:
                reply = api.call(method, row.url, headers={"X-Api-Token": None})
                assert_error(row, reply, 404, "Invalid endpoint")
        for path in (f"{row.url}/more", row.url.replace("/api/", "/api/v1/"), row.url.upper()):
            assert_error(row, api.call(row.method, path), 404, "Invalid endpoint")


@pytest.mark.parametrize("path", ["//", "/api", "/api/", "/api/lobby.php", "/api/time", "/x"])
def test_what_is_no_area_is_an_invalid_endpoint(api: Api, path: str) -> None:
    for method in METHODS:
        reply = api.call(method, path)
        assert (reply.status, reply.json) == (
            404,
            {"success": False, "error": "Invalid endpoint"},
        )


def test_a_trailing_slash_is_tolerated(api: Api) -> None:
    for row in OPERATIONS:
        slashed = row._replace(path=f"{row.path}/")
        assert_error(row, call(api, slashed, A=None), 401, row.texts[0])


def test_head_is_answered_where_get_is(api: Api) -> None:
    _, token = api.register()
    for row in OPERATIONS:
        head = call(api, row._replace(method="HEAD"), P=token)
        if row.method == "GET":
            got = call(api, row, P=token)
            assert (row, head.status, head.body) == (row, got.status, b"")
        else:
            assert (row, head.status, head.body) == (row, 404, b"")


def test_a_body_that_is_no_object_is_invalid_everywhere(api: Api) -> None:
    for row in WITH_BODY:
        _, token = api.register()  # a fresh one, for rotate is among the rows
        no_json = (b"{", b"[]", b"5", b'"{}"', b"true", b'{"a":\xff}', b'{"a":NaN}', b"{}{}")
        for body in (*no_json, *BLANK_BODIES):
            reply = call(api, row, body, P=token)
            assert_error(row, reply, 400, "Invalid JSON body")


BLANK_BODIES = (b"\t", b" ", b"\n", b"\r\n", b" \t ", b"\x00", b"\xef\xbb\xbf")
"""They are there and hold nothing: no JSON, where a body of no bytes is an absent one."""


def test_nothing_null_and_an_empty_object_are_the_same(api: Api) -> None:
    for row in WITH_BODY:
        if row.name in DOCUMENTS:
            continue
        replies = [
            call(api, row, body, P=api.register()[1])
            for body in (None, b"", b"null", b"{}", b" {\n} ", b'{"nobody":"asked","x":[1]}')
        ]
        assert len({(row, reply.status, reply.json.get("error")) for reply in replies}) == 1


def test_content_type_does_not_matter(api: Api) -> None:
    for content_type in (None, "", "text/plain", "application/x-www-form-urlencoded", "x"):
        reply = api.call(
            "POST",
            "/api/censor.php",
            {"text": "hello"},
            headers={"Content-Type": content_type},
        )
        assert (reply.status, reply.json["filtered"]) == (200, "hello")


def test_more_than_a_megabyte_is_too_large_everywhere(api: Api) -> None:
    body = b'{"a":"' + b"x" * (1 << 20) + b'"}'
    for row in WITH_BODY:
        _, token = api.register()
        assert_error(row, call(api, row, body, P=token), 413, "Request body is too large")


def test_the_tokens_are_judged_before_the_size(api: Api) -> None:
    body = b'{"a":"' + b"x" * (1 << 20) + b'"}'
    row = read("game_data.php AP PUT player/update")
    assert_error(row, call(api, row, body, P="nonsense"), 401, row.texts[2])


def test_every_answer_is_json_in_utf_8_with_a_boolean_success_for_every_origin(api: Api) -> None:
    for row in OPERATIONS:
        _, token = api.register("Ørsted 蛙")
        replies = [
            call(api, row, P=token),
            call(api, row, A=None),
            call(api, row, b"{", P=token),
            call(api, row._replace(method="DELETE"), P=token),
            call(api, row._replace(path=f"{row.path}?format=engine"), P=token),
        ]
        for reply in replies:
            assert reply.json["success"] is (reply.status == 200)
            assert ("error" in reply.json) is (reply.status != 200)
            assert reply.headers["content-type"] == "application/json; charset=utf-8"
            assert reply.headers["access-control-allow-origin"] == "*"
            assert reply.headers["access-control-expose-headers"] == "Retry-After"
            assert b"\\u" not in reply.body
            assert b"\\/" not in reply.body


def test_a_preflight_of_every_operation_is_answered_204(api: Api) -> None:
    for row in OPERATIONS:
        reply = api.call("OPTIONS", row.url, headers={"X-Api-Token": None, "Origin": "https://a"})
        assert (row, reply.status, reply.body) == (row, 204, b"")
        assert reply.headers["access-control-allow-origin"] == "*"
        allowed = reply.headers["access-control-allow-methods"]
        assert set(allowed.split(", ")) == {"GET", "POST", "PUT", "OPTIONS"}
        assert set(reply.headers["access-control-allow-headers"].split(", ")) == {
            "Content-Type",
            "X-Realtime-Token",
            *TOKENS.values(),
        }


def test_no_path_carries_a_version(api: Api) -> None:
    for row in OPERATIONS:
        assert re.fullmatch(r"/api/[a-z_]+\.php(/[a-z_{}]+)*", row.path)
    described = api.call("GET", "/openapi.json").json
    assert described["info"]["version"] == "1.0.0"
    assert not [path for path in described["paths"] if re.search(r"/v\d", path)]
