"""Every row of the rooms area, every text and status, over a real socket to either server."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from server_kit import Api, Reply, ServerProcess

from greenroom.control.admin.messages import DeleteGame
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

AREA = "/api/game_room.php"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
HEX = re.compile(r"[0-9a-f]{32}")


class Player(NamedTuple):
    """A player of a test's game."""

    api: Api
    player_id: int
    token: str

    def post(self, path: str, body: object = None) -> Reply:
        return self.api.call("POST", f"{AREA}/{path}", body, player=self.token)

    def get(self, path: str) -> Reply:
        return self.api.call("GET", f"{AREA}/{path}", player=self.token)

    def done(self, path: str, body: object = None) -> Any:
        """Post what must succeed."""
        reply = self.post(path, body)
        assert (reply.status, reply.json["success"]) == (200, True), reply
        return reply.json

    def seen(self, path: str) -> Any:
        reply = self.get(path)
        assert (reply.status, reply.json["success"]) == (200, True), reply
        return reply.json


def player(api: Api, name: str = "Ada") -> Player:
    return Player(api, *api.register(name))


def room(api: Api, guests: int = 1, **fields: object) -> tuple[str, list[Player]]:
    """A room with a host and some guests."""
    members = [player(api, f"Player {n}") for n in range(guests + 1)]
    room_id = members[0].done("create", {"host_switch": True, **fields})["room_id"]
    for guest in members[1:]:
        guest.done(f"{room_id}/join")
    return room_id, members


def refused(reply: Reply, status: int, text: str) -> None:
    assert (reply.status, reply.json) == (status, {"success": False, "error": text})


def listed(api: Api, body: object = None) -> list[dict[str, Any]]:
    reply = api.call("POST", f"{AREA}/list", body)
    assert reply.status == 200, reply
    rooms = reply.json["rooms"]
    assert isinstance(rooms, list)
    return rooms


# create, list, join


def test_a_room_is_created_with_defaults(api: Api):
    host = player(api)
    created = host.done("create")

    assert list(created) == ["success", "room_id", "room_name", "join_token", "is_host"]
    assert HEX.fullmatch(created["room_id"])
    assert re.fullmatch("[0-9a-f]{16}", created["join_token"])
    assert created["room_name"] == f"Game Room {created['room_id'][:6]}"
    assert created["is_host"] is True
    assert listed(api) == [
        {
            "room_id": created["room_id"],
            "room_name": created["room_name"],
            "max_players": 6,
            "current_players": 1,
            "has_password": False,
            "host_switch": False,
            "can_leave": True,
            "realtime": False,
            "rules": {},
        }
    ]


def test_a_room_is_created_as_wanted(api: Api):
    name = "🎮 " + "נ" * 118
    rules = {"z": 1, "a": {"big": 12345678901234567890, "n": None}}
    host = player(api)
    host.done(
        "create",
        {
            "room_name": name,
            "password": "sesame",
            "max_players": "16",
            "host_switch": True,
            "realtime": True,
            "rules": rules,
            "player_data": {"skin": "red"},
        },
    )

    (entry,) = listed(api)
    assert (entry["room_name"], entry["max_players"]) == (name, 16)
    assert entry["has_password"] is entry["host_switch"] is entry["realtime"] is True
    assert list(entry["rules"]) == ["z", "a"]
    assert entry["rules"] == rules
    assert host.seen("players")["players"][0]["player_data"] == {"skin": "red"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"room_name": "x" * 121}, "room_name must be at most 120 characters"),
        ({"room_name": "a\u0007b"}, "room_name must not contain control characters"),
        ({"max_players": 1}, "max_players must be between 2 and 16"),
        ({"max_players": 17}, "max_players must be between 2 and 16"),
        ({"max_players": "many"}, "max_players must be an integer"),
        ({"host_switch": "yes"}, "host_switch must be a boolean"),
        ({"rules": []}, "rules must be an object"),
        ({"rules_json": "{"}, "rules is not valid JSON"),
        (b"[]", "Invalid JSON body"),
    ],
)
def test_no_room_is_created_of_nonsense(api: Api, body: object, text: str):
    host = player(api)
    refused(host.post("create", body), 400, text)
    assert host.seen("current")["in_room"] is False
    assert listed(api) == []


def test_titles_keep_the_rules_of_the_game(api: Api):
    document = {"room_title_rules": {"digits": False}}
    api.call("PUT", "/api/game_data.php/game/update", document, admin=True)
    refused(
        player(api).post("create", {"room_name": "Room 1"}),
        400,
        "room_name must not contain digits",
    )


def test_whoever_has_a_seat_takes_no_other(api: Api):
    room_id, (host, guest) = room(api)
    text = "You are already in a game room. Leave current room first."
    for member in (host, guest):
        refused(member.post("create"), 400, text)
        refused(member.post(f"{room_id}/join"), 400, text)
        refused(member.post("0" * 32 + "/join"), 400, text)


def test_rooms_are_searched_and_cut(api: Api):
    for name in ("Alpha", "beta", "ALPHABET"):
        player(api).done("create", {"room_name": name})
    room(api, 1, room_name="Full", max_players=2)
    room(api, 1, room_name="zeta")

    assert [r["room_name"] for r in listed(api)] == ["zeta", "ALPHABET", "Alpha", "beta"]
    assert [r["room_name"] for r in listed(api, {"search": "alpha"})] == ["ALPHABET", "Alpha"]
    assert [r["room_name"] for r in listed(api, {"limit": 1, "search": ""})] == ["zeta"]
    for limit in (0, 101, -1):
        reply = api.call("POST", f"{AREA}/list", {"limit": limit})
        refused(reply, 400, "limit must be between 1 and 100")


def test_a_room_of_another_game_is_neither_listed_nor_joined(api: Api, other: Api):
    room_id, _ = room(api)
    assert listed(other) == []
    refused(player(other).post(f"{room_id}/join"), 404, "Room not found")


def test_joining(api: Api):
    room_id, (host, guest) = room(api, 1, max_players=3)
    third = player(api, "Third")
    joined = third.done(f"{room_id}/join", {"player_data": {"a": None}})

    assert joined == {
        "success": True,
        "room_id": room_id,
        "is_host": False,
        "message": "Successfully joined the room",
    }
    roster = host.seen("players")
    assert list(roster) == ["success", "players", "last_updated"]
    assert STAMP.fullmatch(roster["last_updated"])
    assert [p["player_id"] for p in roster["players"]] == [
        host.player_id,
        guest.player_id,
        third.player_id,
    ]
    entry = roster["players"][2]
    assert STAMP.fullmatch(entry.pop("last_heartbeat"))
    assert entry == {
        "player_id": third.player_id,
        "player_name": "Third",
        "player_data": {"a": None},
        "is_host": False,
        "is_online": True,
        "is_local": False,
    }
    refused(player(api).post(f"{room_id}/join"), 400, "Room is full")
    refused(player(api).post("f" * 32 + "/join"), 404, "Room not found")


def test_passwords_and_join_tokens(api: Api):
    host = player(api)
    created = host.done("create", {"password": "sesame"})
    path = f"{created['room_id']}/join"
    for body in ({}, {"password": ""}, {"password": "Sesame"}, {"join_token": "0" * 16}):
        refused(player(api).post(path, body), 400, "Incorrect password")
    player(api).done(path, {"password": "sesame"})
    player(api).done(path, {"join_token": created["join_token"], "password": "wrong"})

    assert host.done("password", {"password": ""})["message"] == "Password updated successfully"
    guest = player(api)
    guest.done(path)
    refused(host.post("password"), 400, "Missing required field: password")
    refused(guest.post("password", {"password": "x"}), 400, "Only host can update room password")
    host.done("password", {"password": "new"})
    refused(player(api).post(path), 400, "Incorrect password")


def test_one_player_racing_for_many_rooms_gets_one_seat(api: Api):
    room_ids = [room(api, 0)[0] for _ in range(8)]
    racer = player(api)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda i: racer.post(f"{i}/join"), room_ids))
    assert sorted(r.status for r in replies) == [200, *[400] * 7]
    assert sum(r["current_players"] for r in listed(api)) == 9


# Leaving, stopping, kicking


def test_without_a_room_every_operation_says_so(api: Api):
    loner = player(api)
    you, they = "You are not in any room", "Player is not in any room"
    updates = {"target_players": "all", "type": "x"}
    actions = {"target_players": "all", "action_type": "x"}
    for reply, text in (
        (loner.get("players"), you),
        (loner.post("leave"), you),
        (loner.post("password", {"password": ""}), you),
        (loner.get("actions/pending"), you),
        (loner.post("heartbeat"), they),
        (loner.post("actions", actions), they),
        (loner.get("actions/poll"), they),
        (loner.post("actions/f/complete", {"status": "failed"}), they),
        (loner.post("updates", updates), they),
        (loner.post("updates/poll"), they),
        (loner.post("stop"), "You are not in any game room"),
        (loner.post("kick", {"player_id": 1}), "You are not in any game room"),
    ):
        refused(reply, 400, text)
    assert loner.seen("current") == {
        "success": True,
        "in_room": False,
        "room": None,
        "pending_actions": [],
        "pending_updates": [],
        "message": "Player is not in any game room",
    }


def test_the_host_leaves_and_another_is_host(api: Api):
    room_id, (host, guest) = room(api)
    assert host.done("leave")["message"] == "Successfully left the room"
    assert guest.seen("current")["room"]["is_host"] is True
    host.done(f"{room_id}/join")
    assert host.seen("current")["room"]["is_host"] is False


def test_who_has_logged_out_is_no_target_and_no_next_host_at_once(api: Api):
    _, (host, first, second) = room(api, 2, host_switch=True)
    logged_out = api.call("POST", "/api/game_players.php/logout", player=first.token)
    assert logged_out.status == 200
    roster = second.seen("players")["players"]
    shown = {int(entry["player_id"]): entry["is_online"] for entry in roster}
    assert shown == {host.player_id: True, first.player_id: False, second.player_id: True}
    for word in ("others", "all"):
        sent = host.done("updates", {"target_players": word, "type": "x"})
        assert first.player_id not in sent["target_players_ids"]
    specific = {"target_players": "specific", "target_players_ids": [first.player_id]}
    text = "No valid target players found"
    refused(host.post("actions", specific | {"action_type": "x"}), 400, text)
    host.done("leave")
    assert second.seen("current")["room"]["is_host"]
    assert not first.seen("current")["room"]["is_host"]
    assert first.seen("current")["room"]["is_online"]


def test_the_room_ends_with_its_host_without_host_switch(api: Api):
    room_id, (host, guest) = room(api, 1, host_switch=False)
    host.done("leave")
    assert guest.seen("current")["in_room"] is False
    assert listed(api) == []
    refused(guest.post(f"{room_id}/join"), 400, "Room inactive")
    guest.done("create")


def test_stop_is_the_hosts(api: Api):
    _, (host, guest) = room(api)
    refused(guest.post("stop"), 400, "Only host can stop game room")
    assert host.done("stop")["message"] == "Game room stopped successfully"
    refused(guest.post("heartbeat"), 400, "Player is not in any room")


def test_kick_is_the_hosts(api: Api):
    room_id, (host, guest) = room(api)
    refused(host.post("kick"), 400, "Missing required field: player_id")
    refused(guest.post("kick", {"player_id": host.player_id}), 400, "Only host can kick players")
    refused(host.post("kick", {"player_id": host.player_id}), 400, "You cannot kick yourself")
    refused(host.post("kick", {"player_id": 10**12}), 404, "Player not found in this room")
    assert host.done("kick", {"player_id": str(guest.player_id)}) == {
        "success": True,
        "message": "Player kicked successfully",
        "kicked_player_id": guest.player_id,
    }
    refused(guest.get("players"), 400, "You are not in any room")
    guest.done(f"{room_id}/join")


def test_a_ban_frees_the_seat(api: Api):
    _, (host, guest) = room(api)
    body = {"player_id": host.player_id, "ban_duration": "day"}
    assert api.call("POST", "/api/game_players.php/ban", body, admin=True).status == 200
    assert [p["player_id"] for p in guest.seen("players")["players"]] == [guest.player_id]
    assert guest.seen("current")["room"]["is_host"] is True


def test_a_new_name_reaches_the_room(api: Api):
    _, (host, guest) = room(api)
    api.call("PUT", "/api/game_players.php/rename", {"new_name": "Eve"}, player=guest.token)
    assert [p["player_name"] for p in host.seen("players")["players"]] == ["Player 0", "Eve"]


def test_heartbeat_is_ok(api: Api):
    _, (host, _) = room(api)
    assert host.done("heartbeat") == {"success": True, "status": "ok"}


def test_current_shows_the_room_and_what_waits_there(api: Api):
    room_id, (host, guest) = room(api, 1, room_name="Den", rules={"r": 1})
    host.done("actions", {"target_players": "others", "action_type": "a", "request_data": {"q": 1}})
    host.done("updates", {"target_players": "others", "type": "u", "data": {"d": 1}})

    seen = guest.seen("current")
    stamps = ["joined_at", "last_heartbeat", "room_created_at", "room_last_activity"]
    assert all(STAMP.fullmatch(seen["room"].pop(name)) for name in stamps)
    assert re.fullmatch("[0-9a-f]{16}", seen["room"].pop("join_token"))
    assert seen["room"] == {
        "room_id": room_id,
        "room_name": "Den",
        "is_host": False,
        "is_online": True,
        "max_players": 6,
        "current_players": 2,
        "has_password": False,
        "is_active": True,
        "player_name": "Player 1",
        "host_switch": True,
        "can_leave": True,
        "realtime": False,
        "rules": {"r": 1},
    }
    assert seen["in_room"] is True
    assert [a["request_data"] for a in seen["pending_actions"]] == [{"q": 1}]
    assert [u["data"] for u in seen["pending_updates"]] == [{"d": 1}]
    guest.done("updates/poll")
    assert guest.seen("current")["pending_updates"] == []
    assert len(guest.seen("current")["pending_actions"]) == 1


# Actions and updates


@pytest.mark.parametrize(
    ("path", "rest", "missing"),
    [
        ("actions", {"action_type": "x"}, "Missing action_type"),
        ("updates", {"type": "x"}, "Missing required field: type"),
    ],
)
def test_targets_are_checked(api: Api, path: str, rest: dict[str, str], missing: str):
    _, (host, guest, third) = room(api, 2)
    ids = [host.player_id, third.player_id]
    only = "Only the host can target other players"
    for who, body, text in (
        (host, {"target_players": "all"}, missing),
        (host, rest, "Missing required field: target_players"),
        (host, rest | {"target_players": "x"}, "Invalid target players"),
        (
            host,
            rest | {"target_players": "specific"},
            "Missing required field: target_players_ids",
        ),
        (
            host,
            rest | {"target_players": "specific", "target_players_ids": []},
            "Invalid target players ids",
        ),
        (
            host,
            rest | {"target_players": "specific", "target_players_ids": [10**12]},
            "No valid target players found",
        ),
        (
            host,
            rest | {"target_players": "specific", "target_players_ids": 5},
            "target_players_ids must be an array",
        ),
        *(
            (
                host,
                rest | {"target_players": "specific", "target_players_ids": ids},
                "Invalid target players ids",
            )
            for ids in (["x"], [1.5], [None], [host.player_id, ""], [True], [10**30], [[1]])
        ),
        (guest, rest | {"target_players": "all"}, only),
        (guest, rest | {"target_players": "others"}, only),
        (guest, rest | {"target_players": "specific", "target_players_ids": ids}, only),
    ):
        refused(who.post(path, body), 400, text)
    sent = guest.done(path, rest | {"target_players": "host"})
    assert sent["target_players_ids"] == [host.player_id]
    alone, _ = room(api, 0), None
    nobody = alone[1][0].done(path, rest | {"target_players": "others"})
    assert (nobody[f"{path}_sent"], nobody["target_players_ids"]) == (0, [])


def test_an_action_is_asked_answered_and_told(api: Api):
    _, (host, guest) = room(api)
    body = {"target_players": "host", "action_type": "place", "request_data": {"x": 1.0}}
    sent = guest.done("actions", body)
    (action_id,) = sent["action_ids"]
    assert (sent["actions_sent"], HEX.fullmatch(action_id) is not None) == (1, True)

    (pending,) = host.seen("actions/pending")["actions"]
    assert STAMP.fullmatch(pending.pop("created_at"))
    assert pending == {
        "action_id": action_id,
        "player_id": guest.player_id,
        "target_id": host.player_id,
        "action_type": "place",
        "request_data": {"x": 1.0},
        "player_name": "Player 1",
        "is_host": False,
    }
    assert guest.seen("actions/poll")["actions"] == []
    complete = f"actions/{action_id}/complete"
    refused(host.post(complete), 400, "Status is required")
    refused(host.post(complete, {"status": "ok"}), 400, "Status must be completed or failed")
    gone = "Action not found or already processed"
    refused(guest.post(complete, {"status": "failed"}), 404, gone)
    done = host.done(complete, {"status": "completed", "response_data": {"ok": True}})
    assert done == {"success": True, "message": "Action completed"}
    refused(host.post(complete, {"status": "failed"}), 404, gone)

    for _ in range(2):
        (result,) = guest.seen("actions/poll")["actions"]
        assert STAMP.fullmatch(result.pop("processed_at"))
        assert result == {
            "action_id": action_id,
            "action_type": "place",
            "response_data": {"ok": True},
            "status": "completed",
            "target_id": host.player_id,
            "is_host": True,
        }
    assert host.seen("actions/pending")["actions"] == []


def test_updates_are_read_on_from_the_cursor(api: Api):
    _, (host, guest) = room(api)
    ids = [
        host.done("updates", {"target_players": "all", "type": "t", "data": {"n": n}})["update_ids"]
        for n in range(3)
    ]
    page = guest.done("updates/poll", {"last_update": ids[0][1]})
    assert list(page) == ["success", "updates", "last_update", "missed"]
    assert [u["update_id"] for u in page["updates"]] == [ids[1][1], ids[2][1]]
    entry = page["updates"][0]
    assert STAMP.fullmatch(entry.pop("created_at"))
    assert entry == {
        "update_id": ids[1][1],
        "from_player_id": host.player_id,
        "type": "t",
        "data": {"n": 1},
    }
    assert (page["last_update"], page["missed"]) == (ids[2][1], 0)
    again = guest.done("updates/poll", {"last_update": page["last_update"]})
    assert (again["updates"], again["last_update"]) == ([], ids[2][1])
    assert guest.done("updates/poll", {"from_players": "others"})["last_update"] == ids[2][1]
    assert guest.done("updates/poll", {"last_update": "?", "from_players": "all"})["missed"] == 0
    own = {"from_players": "specific", "from_players_ids": [guest.player_id]}
    assert guest.done("updates/poll", own)["last_update"] is None


def test_senders_are_checked(api: Api):
    _, (host, _) = room(api)
    refused(host.post("updates/poll", {"from_players": "x"}), 400, "Invalid from players")
    for ids in (None, [], [10**12]):
        body = {"from_players": "specific", "from_players_ids": ids}
        refused(host.post("updates/poll", body), 400, "No valid source players found")


def test_engines_get_documents_as_strings(api: Api):
    host, guest = player(api), player(api)
    path = "create?format=engine"
    room_id = host.done(path, {"rules_json": '{"a":1}', "player_data_json": '{"b":2}'})["room_id"]
    guest.done(f"{room_id}/join")
    body = {"target_players": "host", "action_type": "x", "request_data_json": '{"c":3}'}
    guest.done("actions", body)
    guest.done("updates", {"target_players": "host", "type": "x", "data_json": '{"d":4}'})

    seen = host.seen("current?format=engine")
    assert seen["room"]["rules_json"] == '{"a":1}'
    assert seen["pending_actions"][0]["request_data_json"] == '{"c":3}'
    assert seen["pending_updates"][0]["data_json"] == '{"d":4}'
    assert seen["pending_updates"][0]["data"] == {"d": 4}
    roster = host.seen("players?format=engine")["players"]
    assert [p["player_data_json"] for p in roster] == ['{"b":2}', "{}"]


def test_rooms_survive_a_kill_with_members_actions_updates_and_cursors(
    data_dir: Path, database_url: str
):
    server = ServerProcess(data_dir, "--database-url", database_url)
    try:
        api = Api(server.start().address, server.new_game())
        room_id, (host, guest) = room(api)
        first = host.done("updates", {"target_players": "others", "type": "t", "data": {"n": 1}})
        second = host.done("updates", {"target_players": "others", "type": "t", "data": {"n": 2}})
        action = guest.done("actions", {"target_players": "host", "action_type": "a"})
        server.kill()
        api.address = server.start().address

        page = guest.done("updates/poll", {"last_update": first["update_ids"][0]})
        assert [u["update_id"] for u in page["updates"]] == second["update_ids"]
        assert [a["action_id"] for a in host.seen("actions/pending")["actions"]] == (
            action["action_ids"]
        )
        assert guest.seen("current")["room"]["room_id"] == room_id
        third = host.done("updates", {"target_players": "others", "type": "t"})
        page = guest.done("updates/poll", {"last_update": page["last_update"]})
        assert [u["update_id"] for u in page["updates"]] == third["update_ids"]
        assert server.stop() == 0
        api.address = server.start().address
        page = guest.done("updates/poll")
        assert [u["update_id"] for u in page["updates"]] == [
            *first["update_ids"],
            *second["update_ids"],
            *third["update_ids"],
        ]
        assert server.stop() == 0
    finally:
        server.kill()


def test_after_its_game_was_deleted_every_call_is_unauthorized(server: ServerProcess):
    api = Api(server.address, server.new_game("doomed"))
    _, host = api.register("Ada")
    created = api.call("POST", f"{AREA}/create", {}, player=host)
    assert created.status == 200
    gone = call(socket_path(server.data_dir), DeleteGame(game_id=api.game.game_id))
    assert gone.players == 1
    for method, path in [
        ("GET", f"{AREA}/current"),
        ("POST", f"{AREA}/heartbeat"),
        ("POST", f"{AREA}/list"),
    ]:
        reply = api.call(method, path, player=host)
        assert (reply.status, reply.json["error"]) == (401, "Invalid API token")
    other = Api(server.address, server.new_game("other"))
    reply = other.call("GET", f"{AREA}/current", player=host)
    refused(reply, 401, "Invalid player token")
