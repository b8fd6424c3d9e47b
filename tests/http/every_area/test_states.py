"""Every transition of players, rooms and actions, and each from every wrong state."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from server_kit import Api, Reply

BANNED = "You are banned. This is a permanent ban."
UNKNOWN = "Invalid player token"
UNKNOWN_GAME_PLAYER = "Invalid game player token"


class Caller(NamedTuple):
    """A player of a test's game, and their calls."""

    api: Api
    player_id: int
    token: str

    def call(self, method: str, path: str, body: object = None) -> Reply:
        return self.api.call(method, f"/api/{path}", body, player=self.token)

    def post(self, operation: str, body: object = None) -> Reply:
        return self.call("POST", f"game_room.php/{operation}", body)

    def done(self, operation: str, body: object = None) -> Any:
        reply = self.post(operation, body)
        assert reply.status == 200, reply
        return reply.json

    def current(self) -> Any:
        return self.call("GET", "game_room.php/current").json

    def is_online(self) -> bool:
        """Return whether the list says so, which is no sign of life of theirs."""
        reply = self.api.call("GET", "/api/game_players.php/list", admin=True)
        (found,) = [p for p in reply.json["players"] if p["id"] == self.player_id]
        assert isinstance(found["is_online"], bool)
        return found["is_online"]

    def admin(self, operation: str, **fields: object) -> Reply:
        body = {"player_id": self.player_id, **fields}
        return self.api.call("POST", f"/api/game_players.php/{operation}", body, admin=True)


def new(api: Api, name: str = "Ada") -> Caller:
    return Caller(api, *api.register(name))


def told(reply: Reply) -> tuple[int, str | None]:
    """The status and the error; a success has none."""
    assert reply.json["success"] is (reply.status == 200)
    return reply.status, reply.json.get("error")


OK = (200, None)


# Players


def online(api: Api) -> Caller:
    player = new(api)
    assert player.is_online()
    return player


def offline(api: Api) -> Caller:
    player = new(api)
    assert player.call("POST", "game_players.php/logout").status == 200
    assert not player.is_online()
    return player


def banned(api: Api) -> Caller:
    player = new(api)
    assert player.admin("ban", ban_duration="forever").status == 200
    return player


def rotated(api: Api) -> Caller:
    """Return a player with the token that they had before."""
    player = new(api)
    assert player.call("POST", "game_players.php/rotate").status == 200
    return player


def nobody(api: Api) -> Caller:
    return Caller(api, 2**53 - 1, "nonsense")


PLAYER_STATES = {f.__name__: f for f in (online, offline, banned, rotated, nobody)}
NOT_FOUND = (404, "Player not found or does not belong to this game")


@pytest.mark.parametrize(
    ("state", "method", "operation", "expected", "is_online"),
    [
        ("online", "PUT", "login", OK, True),
        ("online", "POST", "heartbeat", OK, True),
        ("online", "POST", "logout", OK, False),
        ("online", "POST", "rotate", OK, True),
        ("offline", "PUT", "login", OK, True),
        ("offline", "POST", "heartbeat", OK, True),
        ("offline", "POST", "logout", OK, False),
        ("offline", "POST", "rotate", OK, True),
        *(
            ("banned", method, operation, (403, BANNED), None)
            for method, operation in (
                ("PUT", "login"),
                ("POST", "heartbeat"),
                ("POST", "logout"),
                ("POST", "rotate"),
                ("PUT", "rename"),
            )
        ),
        *(
            (state, method, operation, (401, text), None)
            for state in ("rotated", "nobody")
            for method, operation, text in (
                ("PUT", "login", UNKNOWN_GAME_PLAYER),
                ("POST", "heartbeat", UNKNOWN),
                ("POST", "logout", UNKNOWN),
                ("POST", "rotate", UNKNOWN_GAME_PLAYER),
                ("PUT", "rename", UNKNOWN),
            )
        ),
    ],
)
def test_players_go_online_and_offline_from_the_right_states_alone(
    api: Api,
    *,
    state: str,
    method: str,
    operation: str,
    expected: tuple[int, str | None],
    is_online: bool | None,
):
    player = PLAYER_STATES[state](api)
    before = None if state == "nobody" else player.is_online()
    reply = player.call(method, f"game_players.php/{operation}")
    assert told(reply) == expected
    if state != "nobody":
        assert player.is_online() is (before if is_online is None else is_online)


@pytest.mark.parametrize(
    ("state", "operation", "expected", "is_banned"),
    [
        ("online", "ban", OK, True),
        ("offline", "ban", OK, True),
        ("banned", "ban", OK, True),
        ("nobody", "ban", NOT_FOUND, None),
        ("online", "unban", OK, False),
        ("offline", "unban", OK, False),
        ("banned", "unban", OK, False),
        ("nobody", "unban", NOT_FOUND, None),
    ],
)
def test_players_are_banned_and_pardoned_from_any_state(
    api: Api, state: str, operation: str, expected: tuple[int, str | None], is_banned: bool | None
):
    player = PLAYER_STATES[state](api)
    assert told(player.admin(operation, ban_duration="forever")) == expected
    if is_banned is None:
        return
    refused = (403, BANNED) if is_banned else OK
    for method, path in (("PUT", "game_players.php/login"), ("GET", "game_data.php/player/get")):
        assert told(player.call(method, path)) == refused


def test_a_heartbeat_is_shown_and_a_logout_has_its_time(api: Api):
    player = offline(api)
    beat = player.call("POST", "game_players.php/heartbeat").json["last_heartbeat"]
    listed = api.call("GET", "/api/game_players.php/list", admin=True).json["players"]
    assert [(p["is_online"], p["last_heartbeat"]) for p in listed] == [(True, beat)]
    left = player.call("POST", "game_players.php/logout").json["last_logout"]
    listed = api.call("GET", "/api/game_players.php/list", admin=True).json["players"]
    assert [(p["is_online"], p["last_logout"]) for p in listed] == [(False, left)]


@pytest.mark.parametrize("second", ["rotate", "login", "heartbeat"])
def test_a_rotated_token_opens_nothing_and_the_new_one_everything(api: Api, second: str):
    player = new(api)
    key = player.call("POST", "game_players.php/rotate").json["private_key"]
    method = "PUT" if second == "login" else "POST"
    assert player.call(method, f"game_players.php/{second}").status == 401
    assert player.call("GET", "game_data.php/player/get").status == 401
    assert player._replace(token=key).call(method, f"game_players.php/{second}").status == 200


def test_a_tag_is_permanent(api: Api):
    player = new(api)

    def tag() -> object:
        return player.call("PUT", "game_players.php/login").json["player"]["player_tag"]

    first = tag()
    assert player.call("PUT", "game_players.php/rename", {"new_name": "Eve"}).status == 200
    key = player.call("POST", "game_players.php/rotate").json["private_key"]
    player = player._replace(token=key)
    assert player.call("POST", "game_players.php/logout").status == 200
    assert re.fullmatch(r"#[2-9B-DF-HJ-NP-TV-Z]{8}", str(first))
    assert tag() == first


# Rooms


class Scene(NamedTuple):
    """The caller, the room that the call is about, its host and another member."""

    caller: Caller
    room_id: str
    host: Caller
    guest: Caller
    action_id: str


def scene(api: Api, **fields: object) -> Scene:
    host, guest = new(api, "Host"), new(api, "Guest")
    room_id = host.done("create", {"host_switch": True, **fields})["room_id"]
    guest.done(f"{room_id}/join", {"password": fields.get("password")})
    body = {"target_players": "others", "action_type": "ask"}
    (action_id,) = host.done("actions", body)["action_ids"]
    return Scene(guest, room_id, host, guest, action_id)


def outsider(api: Api) -> Scene:
    return scene(api)._replace(caller=new(api, "Outsider"))


def member(api: Api) -> Scene:
    return scene(api)


def host(api: Api) -> Scene:
    made = scene(api)
    return made._replace(caller=made.host)


def leaver(api: Api) -> Scene:
    made = scene(api)
    made.guest.done("leave")
    return made


def kicked(api: Api) -> Scene:
    made = scene(api)
    made.host.done("kick", {"player_id": made.guest.player_id})
    return made


def of_a_stopped_room(api: Api) -> Scene:
    made = scene(api)
    made.host.done("stop")
    return made


def of_a_room_whose_host_left(api: Api) -> Scene:
    made = scene(api, host_switch=False)
    made.host.done("leave")
    return made


def host_of_another(api: Api) -> Scene:
    made = scene(api)
    other = new(api, "Elsewhere")
    other.done("create")
    return made._replace(caller=other)


ROOM_STATES: dict[str, Callable[[Api], Scene]] = {
    f.__name__: f
    for f in (
        *(outsider, member, host, leaver, kicked, of_a_stopped_room),
        *(of_a_room_whose_host_left, host_of_another),
    )
}
SEATLESS = ("outsider", "leaver", "kicked", "of_a_stopped_room", "of_a_room_whose_host_left")
SEATED = ("member", "host", "host_of_another")

ASK = {"target_players": "host", "action_type": "x"}
TELL = {"target_players": "host", "type": "x"}
OPERATIONS: dict[str, tuple[str, Callable[[Scene], object]]] = {
    "create": ("create", lambda _: None),
    "join": ("{room_id}/join", lambda _: None),
    "players": ("GET players", lambda _: None),
    "leave": ("leave", lambda _: None),
    "heartbeat": ("heartbeat", lambda _: None),
    "stop": ("stop", lambda _: None),
    "kick": ("kick", lambda it: {"player_id": it.guest.player_id}),
    "password": ("password", lambda _: {"password": "sesame"}),
    "actions": ("actions", lambda _: ASK),
    "actions/poll": ("GET actions/poll", lambda _: None),
    "actions/pending": ("GET actions/pending", lambda _: None),
    "complete": ("actions/{action_id}/complete", lambda _: {"status": "completed"}),
    "updates": ("updates", lambda _: TELL),
    "updates/poll": ("updates/poll", lambda _: None),
}


def perform(it: Scene, name: str) -> Reply:
    path, body = OPERATIONS[name]
    method, _, path = f"POST {path}".rpartition(" ")
    url = path.format(room_id=it.room_id, action_id=it.action_id)
    return it.caller.call(method.split()[-1], f"game_room.php/{url}", body(it))


IN_ROOM = (400, "You are already in a game room. Leave current room first.")
NOT_IN_ANY_ROOM = (400, "You are not in any room")
PLAYER_NOT_IN_ANY_ROOM = (400, "Player is not in any room")
NOT_IN_ANY_GAME_ROOM = (400, "You are not in any game room")
NO_SUCH_ACTION = (404, "Action not found or already processed")
WITHOUT_SEAT = {
    "create": OK,
    "players": NOT_IN_ANY_ROOM,
    "leave": NOT_IN_ANY_ROOM,
    "password": NOT_IN_ANY_ROOM,
    "actions/pending": NOT_IN_ANY_ROOM,
    "heartbeat": PLAYER_NOT_IN_ANY_ROOM,
    "actions": PLAYER_NOT_IN_ANY_ROOM,
    "actions/poll": PLAYER_NOT_IN_ANY_ROOM,
    "complete": PLAYER_NOT_IN_ANY_ROOM,
    "updates": PLAYER_NOT_IN_ANY_ROOM,
    "updates/poll": PLAYER_NOT_IN_ANY_ROOM,
    "stop": NOT_IN_ANY_GAME_ROOM,
    "kick": NOT_IN_ANY_GAME_ROOM,
}
WITH_SEAT = dict.fromkeys(OPERATIONS, OK) | {"create": IN_ROOM, "join": IN_ROOM}
EXPECTED = {
    **{(state, name): told for state in SEATLESS for name, told in WITHOUT_SEAT.items()},
    ("outsider", "join"): OK,
    ("leaver", "join"): OK,
    ("kicked", "join"): OK,
    ("of_a_stopped_room", "join"): (400, "Room inactive"),
    ("of_a_room_whose_host_left", "join"): (400, "Room inactive"),
    **{(state, name): told for state in SEATED for name, told in WITH_SEAT.items()},
    ("member", "stop"): (400, "Only host can stop game room"),
    ("member", "kick"): (400, "Only host can kick players"),
    ("member", "password"): (400, "Only host can update room password"),
    ("host", "complete"): NO_SUCH_ACTION,
    ("host_of_another", "complete"): NO_SUCH_ACTION,
    ("host_of_another", "kick"): (404, "Player not found in this room"),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("state", ROOM_STATES)
def test_every_operation_of_rooms_in_every_state(api: Api, state: str, name: str):
    it = ROOM_STATES[state](api)
    before = [seat_of(caller) for caller in (it.host, it.guest, it.caller)]
    reply = perform(it, name)
    assert told(reply) == EXPECTED[state, name]
    if reply.status != 200:
        assert [seat_of(caller) for caller in (it.host, it.guest, it.caller)] == before


def seat_of(caller: Caller) -> object:
    """Return where a player is and as what, and whom they see there."""
    current = caller.current()
    if not current["in_room"]:
        return None
    roster = caller.call("GET", "game_room.php/players").json["players"]
    room = current["room"]
    return (
        room["room_id"],
        room["is_host"],
        room["has_password"],
        [(entry["player_id"], entry["is_host"]) for entry in roster],
        len(current["pending_actions"]),
        len(current["pending_updates"]),
    )


def test_create_makes_the_caller_host_of_an_active_room(api: Api):
    caller = new(api)
    made = caller.done("create")
    room = caller.current()["room"]
    assert (room["room_id"], room["join_token"]) == (made["room_id"], made["join_token"])
    assert room["is_host"] is room["is_active"] is True


@pytest.mark.parametrize(
    ("state", "name", "host_after", "guest_after"),
    [
        ("outsider", "join", True, False),
        ("member", "leave", True, None),
        ("host", "leave", None, True),
        ("host", "stop", None, None),
        ("host", "kick", True, None),
    ],
)
def test_members_are_where_a_transition_puts_them(
    api: Api, state: str, name: str, host_after: bool | None, guest_after: bool | None
):
    """None is nowhere, True is host of the room, False another member."""
    it = ROOM_STATES[state](api)
    assert perform(it, name).status == 200
    for caller, is_host in ((it.host, host_after), (it.guest, guest_after)):
        current = caller.current()
        assert current["in_room"] is (is_host is not None)
        assert (current["room"] or {}).get("is_host") is is_host
    if state == "outsider":
        assert it.caller.current()["room"]["is_host"] is False


def test_without_host_switch_the_room_is_deleted_with_its_host(api: Api):
    it = scene(api, host_switch=False)
    it.host.done("leave")
    assert [it.host.current()["in_room"], it.guest.current()["in_room"]] == [False, False]
    assert api.call("POST", "/api/game_room.php/list").json["rooms"] == []
    assert told(new(api).post(f"{it.room_id}/join")) == (400, "Room inactive")


@pytest.mark.parametrize(
    ("fields", "body", "expected"),
    [
        ({}, {}, OK),
        ({}, {"password": "anything"}, OK),
        ({}, {"join_token": "0" * 16}, OK),
        ({"password": "sesame"}, {"password": "sesame"}, OK),
        ({"password": "sesame"}, {"join_token": "right"}, OK),
        ({"password": "sesame"}, {"join_token": "right", "password": "wrong"}, OK),
        ({"password": "sesame"}, {"join_token": "0" * 16, "password": "sesame"}, OK),
        ({"password": "sesame"}, {}, (400, "Incorrect password")),
        ({"password": "sesame"}, {"password": ""}, (400, "Incorrect password")),
        ({"password": "sesame"}, {"password": "Sesame"}, (400, "Incorrect password")),
        ({"password": "sesame"}, {"join_token": "0" * 16}, (400, "Incorrect password")),
        ({"password": "🔑 مفتاح"}, {"password": "🔑 مفتاح"}, OK),
        ({"max_players": 2}, {}, (400, "Room is full")),
        ({"max_players": 2}, {"join_token": "right"}, (400, "Room is full")),
        ({"max_players": 2, "password": "x"}, {"password": "y"}, (400, "Room is full")),
    ],
)
def test_a_room_is_joined_where_there_is_room_and_the_key_is_right(
    api: Api, fields: dict[str, object], body: dict[str, str], expected: tuple[int, str | None]
):
    it = scene(api, **fields)
    if body.get("join_token") == "right":
        body = body | {"join_token": it.host.current()["room"]["join_token"]}
    caller = new(api)
    assert told(caller.post(f"{it.room_id}/join", body)) == expected
    assert caller.current()["in_room"] is (expected == OK)


@pytest.mark.parametrize("room_id", ["f" * 32, "x", "0" * 31, "a" * 200, "%00", "..", "ГА"])
def test_a_room_that_never_was_is_not_found(api: Api, room_id: str):
    path = quote(room_id, safe="%.")
    assert told(new(api).post(f"{path}/join")) == (404, "Room not found")


# Actions


@pytest.mark.parametrize("status", ["completed", "failed"])
@pytest.mark.parametrize("again", ["completed", "failed"])
def test_an_action_is_completed_or_failed_once_by_its_target(api: Api, status: str, again: str):
    it = member(api)
    (pending,) = it.guest.call("GET", "game_room.php/actions/pending").json["actions"]
    assert pending["action_id"] == it.action_id
    assert it.host.call("GET", "game_room.php/actions/poll").json["actions"] == []
    outside = new(api)
    outside.done(f"{it.room_id}/join")
    complete = f"actions/{it.action_id}/complete"
    for stranger in (it.host, outside):
        assert told(stranger.post(complete, {"status": status})) == NO_SUCH_ACTION

    answer = {"status": status, "response_data": {"got": [None, "✔"]}}
    assert told(it.guest.post(complete, answer)) == OK

    (result,) = it.host.call("GET", "game_room.php/actions/poll").json["actions"]
    assert (result["status"], result["response_data"]) == (status, {"got": [None, "✔"]})
    assert it.guest.call("GET", "game_room.php/actions/pending").json["actions"] == []
    for caller in (it.guest, it.host):
        assert told(caller.post(complete, {"status": again})) == NO_SUCH_ACTION
    assert it.host.call("GET", "game_room.php/actions/poll").json["actions"] == [result]


@pytest.mark.parametrize("status", ["pending", "processing", "read", "Completed", "approved"])
def test_an_action_moves_to_no_other_status(api: Api, status: str):
    it = member(api)
    reply = it.guest.post(f"actions/{it.action_id}/complete", {"status": status})
    assert told(reply) == (400, "Status must be completed or failed")
    assert len(it.guest.call("GET", "game_room.php/actions/pending").json["actions"]) == 1


def test_each_target_has_a_pending_action_of_their_own(api: Api):
    it = outsider(api)
    it.caller.done(f"{it.room_id}/join")
    body = {"target_players": "all", "action_type": "vote", "request_data": {"n": 1}}
    sent = it.host.done("actions", body)
    members = [it.host, it.guest, it.caller]
    assert sent["target_players_ids"] == [one.player_id for one in members]
    assert sent["actions_sent"] == len(set(sent["action_ids"])) == 3
    for one, action_id in zip(members, sent["action_ids"], strict=True):
        assert re.fullmatch("[0-9a-f]{32}", action_id)
        pending = one.call("GET", "game_room.php/actions/pending").json["actions"]
        assert [a["action_id"] for a in pending if a["action_type"] == "vote"] == [action_id]
