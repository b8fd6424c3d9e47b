"""Every operation of lobbies in every state of its caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from lobby_http_kit import (
    AREA,
    NOT_FOUND,
    NOT_IN,
    NOT_IN_ANY,
    PROCESSED,
    ROOMS,
    Player,
    lobby,
    player,
)
from server_kit import Api, Reply

Told = dict[str, tuple[int, str | None]]

OK = (200, None)


class Scene(NamedTuple):
    """The caller, the lobby of the call, its host, another member, and a request to it."""

    caller: Player
    lobby_id: str
    host: Player
    guest: Player
    request_id: str


def scene(api: Api, **fields: object) -> Scene:
    lobby_id, (host, guest) = lobby(api, 1, join_by_requests=True, **fields)
    asker = player(api, "Asker")
    request_id = asker.done(f"{lobby_id}/request")["request_id"]
    return Scene(guest, lobby_id, host, guest, request_id)


def outsider(api: Api) -> Scene:
    return scene(api)._replace(caller=player(api, "Outsider"))


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


def of_a_removed_lobby(api: Api) -> Scene:
    made = scene(api)
    made.host.done("remove")
    return made


def in_a_room(api: Api) -> Scene:
    made = outsider(api)
    made.caller.done("create", {}, ROOMS)
    return made


def member_of_a_started_lobby(api: Api) -> Scene:
    made = scene(api)
    made.host.done("start")
    return made


def host_of_a_started_lobby(api: Api) -> Scene:
    made = host(api)
    made.host.done("start")
    return made


STATES: dict[str, Callable[[Api], Scene]] = {
    f.__name__: f
    for f in (
        *(outsider, member, host, leaver, kicked, of_a_removed_lobby, in_a_room),
        *(member_of_a_started_lobby, host_of_a_started_lobby),
    )
}
OPERATIONS: dict[str, tuple[str, Callable[[Scene], object]]] = {
    "create": ("create", lambda _: {"max_players": 2}),
    "join": ("{lobby_id}/join", lambda _: None),
    "request": ("{lobby_id}/request", lambda _: None),
    "approve": ("{request_id}/response", lambda _: {"action": "approve"}),
    "reject": ("{request_id}/response", lambda _: {"action": "reject"}),
    "players": ("GET players", lambda _: None),
    "heartbeat": ("heartbeat", lambda _: None),
    "leave": ("leave", lambda _: None),
    "remove": ("remove", lambda _: None),
    "start": ("start", lambda _: None),
    "stop": ("stop", lambda _: None),
    "kick": ("kick", lambda it: {"player_id": it.guest.player_id}),
    "password": ("password", lambda _: {"password": "sesame"}),
}

ALREADY = (400, "You are already in a matchmaking lobby")
APPROVAL = (400, "This matchmaking lobby requires host approval. Use /request endpoint instead.")
ONLY_HOST_RESPONDS = (400, "Only the host can respond to join requests")
GONE = (404, PROCESSED)
WITHOUT_SEAT: Told = {
    "create": OK,
    "join": APPROVAL,
    "request": OK,
    "approve": ONLY_HOST_RESPONDS,
    "reject": ONLY_HOST_RESPONDS,
    **dict.fromkeys(("players", "heartbeat", "leave"), (400, NOT_IN_ANY)),
    **dict.fromkeys(("remove", "start", "stop", "kick", "password"), (400, NOT_IN)),
}
ONLY_HOST: Told = {
    "approve": ONLY_HOST_RESPONDS,
    "reject": ONLY_HOST_RESPONDS,
    "remove": (400, "Only host can remove matchmaking lobby"),
    "start": (400, "Only host can start matchmaking"),
    "stop": (400, "Only host can stop matchmaking lobby"),
    "kick": (400, "Only host can kick players"),
    "password": (400, "Only host can update matchmaking password"),
}
WITH_SEAT: Told = dict.fromkeys(OPERATIONS, OK) | dict.fromkeys(
    ("create", "join", "request"), ALREADY
)
IN_ROOM: Told = {
    "create": (400, "You cannot create matchmaking while in a game room. Leave room first."),
    "join": (400, "You cannot join matchmaking while in a game room. Leave room first."),
    "request": (400, "You cannot join matchmaking while in a game room. Leave room first."),
}
AFTER_THE_START: Told = {
    "approve": GONE,
    "reject": GONE,
    "start": (404, NOT_FOUND),
    "stop": (400, "Cannot stop matchmaking lobby after it has been started"),
    "kick": (400, "Cannot kick players from matchmaking after it has been started"),
    "password": (400, "Cannot change password after matchmaking has started"),
}
LEAVING: Told = {"leave": (400, "Players are not allowed to leave this matchmaking lobby")}
REMOVED: Told = {
    **dict.fromkeys(("join", "request"), (404, NOT_FOUND)),
    **dict.fromkeys(("approve", "reject"), GONE),
}
EXPECTED: dict[str, Told] = {
    "outsider": WITHOUT_SEAT,
    "leaver": WITHOUT_SEAT,
    "kicked": WITHOUT_SEAT,
    "of_a_removed_lobby": WITHOUT_SEAT | REMOVED,
    "in_a_room": WITHOUT_SEAT | IN_ROOM,
    "member": WITH_SEAT | ONLY_HOST,
    "host": WITH_SEAT,
    "member_of_a_started_lobby": WITH_SEAT
    | ONLY_HOST
    | LEAVING
    | dict.fromkeys(("approve", "reject"), GONE),
    "host_of_a_started_lobby": WITH_SEAT | AFTER_THE_START,
}


def perform(it: Scene, name: str) -> Reply:
    path, body = OPERATIONS[name]
    method, _, path = f"POST {path}".rpartition(" ")
    url = path.format(lobby_id=it.lobby_id, request_id=it.request_id)
    token = it.caller.token
    return it.caller.api.call(method.split()[-1], f"{AREA}/{url}", body(it), player=token)


def seat_of(caller: Player) -> object:
    """Return where a player is and as what, and whom they see there."""
    current = caller.seen("current")
    in_room = caller.seen("current", ROOMS)["in_room"]
    if not current["in_matchmaking"]:
        return in_room
    lobby = current["matchmaking"]
    roster = caller.seen("players")["players"]
    shown = [lobby[name] for name in ("matchmaking_id", "is_host", "is_started", "has_password")]
    ids = [(entry["player_id"], entry["is_host"]) for entry in roster]
    return shown, ids, [r["request_id"] for r in current["pending_requests"]], in_room


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("state", STATES)
def test_every_operation_of_lobbies_in_every_state(api: Api, state: str, name: str):
    it = STATES[state](api)
    before = [seat_of(caller) for caller in (it.host, it.guest, it.caller)]
    reply = perform(it, name)
    assert (reply.status, reply.json.get("error")) == EXPECTED[state][name]
    assert reply.json["success"] is (reply.status == 200)
    if reply.status != 200:
        assert [seat_of(caller) for caller in (it.host, it.guest, it.caller)] == before


def test_where_members_may_not_leave_the_room_they_are_told_so(api: Api):
    it = member_of_a_started_lobby(api)
    reply = it.guest.post("leave", None, ROOMS)
    assert (reply.status, reply.json) == (
        400,
        {"success": False, "error": "Players are not allowed to leave this room"},
    )
    assert it.guest.seen("current", ROOMS)["in_room"] is True
    assert it.guest.seen("current", ROOMS)["room"]["can_leave"] is False
    it.host.done("leave", None, ROOMS)
    assert it.guest.seen("current", ROOMS)["room"]["is_host"] is True
    it.guest.done("leave", None, ROOMS)


def test_a_list_of_lobbies_holds_twenty_unless_more_are_asked_for(api: Api):
    for _ in range(21):
        player(api).done("create", {"max_players": 2})

    def count(body: object) -> int:
        return len(api.call("POST", f"{AREA}/list", body).json["lobbies"])

    assert [count(body) for body in (None, {"limit": None}, {"limit": ""})] == [20, 20, 20]
    assert [count({"limit": limit}) for limit in (1, 21, "100")] == [1, 21, 21]
