"""The matchmaking area: in a lobby, out of it, and on into a room, over a real socket."""

from __future__ import annotations

from pathlib import Path

import pytest
from lobby_http_kit import (
    AREA,
    HEX,
    NOT_FOUND,
    NOT_IN,
    NOT_IN_ANY,
    PROCESSED,
    ROOMS,
    STAMP,
    asked,
    listed,
    lobby,
    player,
    refused,
)
from server_kit import Api, ServerProcess

# Leaving, removing, stopping, kicking


def test_without_a_lobby_every_operation_says_so(api: Api):
    loner = player(api)
    for reply, text in (
        (loner.get("players"), NOT_IN_ANY),
        (loner.post("leave"), NOT_IN_ANY),
        (loner.post("heartbeat"), NOT_IN_ANY),
        (loner.post("remove"), NOT_IN),
        (loner.post("start"), NOT_IN),
        (loner.post("stop"), NOT_IN),
        (loner.post("kick", {"player_id": 1}), NOT_IN),
        (loner.post("password", {"password": ""}), NOT_IN),
    ):
        refused(reply, 400, text)
    assert loner.seen("current") == {
        "success": True,
        "in_matchmaking": False,
        "matchmaking": None,
        "pending_requests": [],
        "message": "Player is not in any matchmaking lobby",
    }


def test_the_host_leaves_and_another_is_host(api: Api):
    lobby_id, (host, guest) = lobby(api)
    assert host.done("leave") == {
        "success": True,
        "message": "Successfully left matchmaking lobby",
    }
    assert guest.seen("current")["matchmaking"]["is_host"] is True
    host.done(f"{lobby_id}/join")
    assert host.seen("current")["matchmaking"]["is_host"] is False


def test_the_lobby_ends_with_its_host_without_host_switch(api: Api):
    lobby_id, (host, guest) = lobby(api, 1, host_switch=False)
    host.done("leave")
    assert guest.seen("current")["in_matchmaking"] is False
    refused(guest.post(f"{lobby_id}/join"), 404, NOT_FOUND)
    guest.done("create", {"max_players": 2})


@pytest.mark.parametrize(
    ("path", "only", "done"),
    [
        (
            "remove",
            "Only host can remove matchmaking lobby",
            "Matchmaking lobby removed successfully",
        ),
        (
            "stop",
            "Only host can stop matchmaking lobby",
            "Matchmaking lobby stopped successfully",
        ),
    ],
)
def test_ending_is_the_hosts(api: Api, path: str, only: str, done: str):
    lobby_id, (host, guest) = lobby(api)
    refused(guest.post(path), 400, only)
    assert host.done(path) == {"success": True, "message": done}
    for member in (host, guest):
        refused(member.post("heartbeat"), 400, NOT_IN_ANY)
    refused(player(api).post(f"{lobby_id}/join"), 404, NOT_FOUND)
    refused(host.post(path), 400, NOT_IN)


def test_kick_is_the_hosts(api: Api):
    lobby_id, (host, guest) = lobby(api)
    refused(host.post("kick"), 400, "Missing required field: player_id")
    refused(guest.post("kick", {"player_id": host.player_id}), 400, "Only host can kick players")
    refused(host.post("kick", {"player_id": host.player_id}), 400, "You cannot kick yourself")
    text = "Player not found in this matchmaking lobby"
    refused(host.post("kick", {"player_id": 10**12}), 404, text)
    assert host.done("kick", {"player_id": str(guest.player_id)}) == {
        "success": True,
        "message": "Player kicked successfully",
        "kicked_player_id": guest.player_id,
    }
    refused(guest.get("players"), 400, NOT_IN_ANY)
    guest.done(f"{lobby_id}/join")


def test_a_ban_frees_the_seat(api: Api):
    _, (host, guest) = lobby(api)
    body = {"player_id": host.player_id, "ban_duration": "day"}
    assert api.call("POST", "/api/game_players.php/ban", body, admin=True).status == 200
    assert [p["player_id"] for p in guest.seen("players")["players"]] == [guest.player_id]
    assert guest.seen("current")["matchmaking"]["is_host"] is True


def test_a_new_name_reaches_the_lobby_and_its_room(api: Api):
    _, (host, guest) = lobby(api)
    path = "/api/game_players.php/rename"
    api.call("PUT", path, {"new_name": "Eve"}, player=guest.token)
    assert [p["player_name"] for p in host.seen("players")["players"]] == ["Player 0", "Eve"]
    host.done("start")
    api.call("PUT", path, {"new_name": "Mallory"}, player=guest.token)
    assert [p["player_name"] for p in host.seen("players")["players"]][1] == "Mallory"


def test_heartbeat_is_ok(api: Api):
    _, (host, guest) = lobby(api)
    assert guest.done("heartbeat") == {"success": True, "status": "ok"}
    host.done("start")
    assert guest.done("heartbeat") == {"success": True, "status": "ok"}


def test_current_shows_the_lobby(api: Api):
    lobby_id, (host, guest) = lobby(api, 1, matchmaking_name="Den", rules={"r": 1}, password="p")
    seen = guest.seen("current")
    stamps = ["joined_at", "last_heartbeat", "lobby_heartbeat"]
    assert all(STAMP.fullmatch(seen["matchmaking"].pop(name)) for name in stamps)
    assert seen == {
        "success": True,
        "in_matchmaking": True,
        "matchmaking": {
            "matchmaking_id": lobby_id,
            "matchmaking_name": "Den",
            "is_host": False,
            "max_players": 4,
            "current_players": 2,
            "has_password": True,
            "strict_full": False,
            "join_by_requests": False,
            "host_switch": True,
            "can_leave_room": False,
            "realtime_room": False,
            "rules": {"r": 1},
            "player_status": "active",
            "is_online": True,
            "host_player_id": host.player_id,
            "is_started": False,
            "started_at": None,
            "room_id": None,
        },
        "pending_requests": [],
    }


# The start.


def test_a_lobby_starts_and_everything_moves_along(api: Api):
    flags = {"can_leave_room": True, "realtime_room": True, "password": "sesame"}
    lobby_id, (host, guest, third) = lobby(
        api, 2, matchmaking_name="Duel", rules={"r": 1}, max_players=3, **flags
    )
    joined = [p["joined_at"] for p in host.seen("players")["players"]]
    started = host.done("start")
    room_id = started["room_id"]
    assert HEX.fullmatch(room_id)
    assert started == {
        "success": True,
        "room_id": room_id,
        "room_name": "Duel",
        "players_transferred": 3,
        "message": "Game started successfully",
    }
    room = guest.seen("current", ROOMS)["room"]
    assert (room["room_id"], room["room_name"], room["rules"]) == (room_id, "Duel", {"r": 1})
    assert (room["max_players"], room["current_players"]) == (3, 3)
    assert room["host_switch"] is room["can_leave"] is room["realtime"] is True
    assert (room["has_password"], room["is_host"]) == (False, False)
    assert room["joined_at"] == joined[1]
    ids = [host.player_id, guest.player_id, third.player_id]
    for area in (AREA, ROOMS):
        roster = guest.seen("players", area)["players"]
        assert [p["player_id"] for p in roster] == ids
        assert [p["is_host"] for p in roster] == [True, False, False]
    assert [p["joined_at"] for p in guest.seen("players")["players"]] == joined
    for member in (host, guest, third):
        current = member.seen("current")["matchmaking"]
        assert (current["is_started"], current["room_id"]) == (True, room_id)
        assert (current["matchmaking_id"], current["has_password"]) == (lobby_id, True)
        assert STAMP.fullmatch(current["started_at"])
    assert listed(api) == []


def test_start_is_the_hosts_and_happens_once(api: Api):
    _, (host, guest) = lobby(api)
    refused(guest.post("start"), 400, "Only host can start matchmaking")
    host.done("start")
    refused(guest.post("start"), 400, "Only host can start matchmaking")
    refused(host.post("start"), 404, NOT_FOUND)


def test_a_strict_lobby_starts_full(api: Api):
    lobby_id, (host, guest) = lobby(api, 1, strict_full=True, max_players=3)
    text = "Lobby must be full to start (strict_full enabled)"
    refused(host.post("start"), 400, text)
    third = player(api)
    third.done(f"{lobby_id}/join")
    guest.log_out()
    refused(host.post("start"), 400, text)
    guest.seen("current")
    assert host.done("start")["players_transferred"] == 3


def test_who_is_not_online_at_the_start_is_put_out(api: Api):
    _, (host, guest, third) = lobby(api, 2)
    guest.log_out()
    roster = host.seen("players")["players"]
    assert [(p["is_online"], p["status"]) for p in roster] == [
        (True, "active"),
        (False, "inactive"),
        (True, "active"),
    ]
    assert host.done("start")["players_transferred"] == 2
    assert guest.seen("current")["in_matchmaking"] is False
    assert guest.seen("current", ROOMS)["in_room"] is False
    assert third.seen("current", ROOMS)["in_room"] is True


def test_a_started_lobby_is_joined_and_asked_no_more(api: Api):
    lobby_id, (host,) = lobby(api, 0, join_by_requests=True)
    requester, request_id = asked(api, lobby_id)
    host.done("start")
    for path in ("join", "request"):
        refused(player(api).post(f"{lobby_id}/{path}"), 404, NOT_FOUND)
    assert requester.seen(f"{request_id}/status")["request"]["status"] == "rejected"
    refused(host.post(f"{request_id}/response", {"action": "approve"}), 404, PROCESSED)
    assert host.seen("current")["pending_requests"] == []


def test_what_is_done_before_the_start_is_too_late_after_it(api: Api):
    _, (host, guest) = lobby(api)
    host.done("start")
    kick, password = {"player_id": guest.player_id}, {"password": "x"}
    for path, body, only, late in (
        (
            "kick",
            kick,
            "Only host can kick players",
            "Cannot kick players from matchmaking after it has been started",
        ),
        (
            "stop",
            None,
            "Only host can stop matchmaking lobby",
            "Cannot stop matchmaking lobby after it has been started",
        ),
        (
            "password",
            password,
            "Only host can update matchmaking password",
            "Cannot change password after matchmaking has started",
        ),
    ):
        refused(guest.post(path, body), 400, only)
        refused(host.post(path, body), 400, late)


def test_leaving_after_the_start_needs_can_leave_room_unless_one_is_host(api: Api):
    _, (host, guest) = lobby(api)
    host.done("start")
    text = "Players are not allowed to leave this matchmaking lobby"
    refused(guest.post("leave"), 400, text)
    host.done("leave")
    assert guest.seen("current")["matchmaking"]["is_host"] is True
    guest.done("leave")
    for member in (host, guest):
        assert member.seen("current")["in_matchmaking"] is False
        assert member.seen("current", ROOMS)["in_room"] is False

    _, (host, guest) = lobby(api, 1, can_leave_room=True)
    host.done("start")
    guest.done("leave")
    assert guest.seen("current", ROOMS)["in_room"] is False
    assert host.seen("current")["matchmaking"]["current_players"] == 1


@pytest.mark.parametrize(
    ("path", "area", "body"),
    [("leave", ROOMS, None), ("kick", ROOMS, "guest")],
)
def test_leaving_the_room_leaves_the_lobby(api: Api, path: str, area: str, body: object):
    lobby_id, (host, guest) = lobby(api, 1, can_leave_room=True)
    host.done("start")
    if body is None:
        guest.done(path, None, area)
    else:
        host.done(path, {"player_id": guest.player_id}, area)
    refused(guest.get("players"), 400, NOT_IN_ANY)
    guest.done("create", {"max_players": 2})
    refused(guest.post(f"{lobby_id}/join"), 400, "You are already in a matchmaking lobby")


def test_a_started_lobby_ends_with_its_room_and_the_room_with_it(api: Api):
    _, (host, guest) = lobby(api)
    host.done("start")
    refused(guest.post("remove"), 400, "Only host can remove matchmaking lobby")
    host.done("remove")
    assert guest.seen("current", ROOMS)["in_room"] is False
    refused(guest.post("heartbeat"), 400, NOT_IN_ANY)

    _, (host, guest) = lobby(api)
    host.done("start")
    host.done("stop", None, ROOMS)
    assert guest.seen("current")["in_matchmaking"] is False
    refused(host.post("remove"), 400, NOT_IN)


def test_engines_get_documents_as_strings(api: Api):
    host, guest = player(api), player(api)
    body = {"max_players": 2, "rules_json": '{"a":1}', "player_data_json": '{"b":2}'}
    created = host.done("create?format=engine", {**body, "join_by_requests": True})
    path = f"{created['matchmaking_id']}/request"
    request_id = guest.done(path, {"player_data_json": '{"c":3}'})["request_id"]
    current = host.seen("current?format=engine")
    assert current["matchmaking"]["rules_json"] == '{"a":1}'
    assert current["pending_requests"][0]["player_data_json"] == '{"c":3}'
    host.done(f"{request_id}/response", {"action": "approve"})
    roster = host.seen("players?format=engine")["players"]
    assert [p["player_data_json"] for p in roster] == ['{"b":2}', '{"c":3}']
    refused(
        player(api).post(path, {"player_data_json": 5}), 400, "player_data_json must be a string"
    )


def test_lobbies_survive_a_kill_before_and_after_their_start(data_dir: Path, database_url: str):
    server = ServerProcess(data_dir, "--database-url", database_url)
    try:
        api = Api(server.start().address, server.new_game())
        open_id, (host, guest) = lobby(api, 1, join_by_requests=True)
        requester, request_id = asked(api, open_id)
        started_id, (leader, follower) = lobby(api)
        room_id = leader.done("start")["room_id"]
        server.kill()
        api.address = server.start().address

        assert [x["matchmaking_id"] for x in listed(api)] == [open_id]
        assert guest.seen("current")["matchmaking"]["matchmaking_id"] == open_id
        current = follower.seen("current")["matchmaking"]
        assert (current["matchmaking_id"], current["room_id"]) == (started_id, room_id)
        assert follower.seen("current", ROOMS)["room"]["room_id"] == room_id
        host.done(f"{request_id}/response", {"action": "approve"})
        assert server.stop() == 0
        api.address = server.start().address
        assert requester.seen(f"{request_id}/status")["request"]["status"] == "approved"
        assert len(host.seen("players")["players"]) == 3
        leader.done("remove")
        assert follower.seen("current")["in_matchmaking"] is False
        assert server.stop() == 0
    finally:
        server.kill()
