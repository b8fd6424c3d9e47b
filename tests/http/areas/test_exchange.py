"""Targets and sources of actions and updates, and the lists of both."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from server_kit import Api

ROOM = "/api/game_room.php"
HOST, ONE, TWO = range(3)
EVERYBODY = [HOST, ONE, TWO]


class Table(NamedTuple):
    """A room with its host and two more, each with id and token."""

    api: Api
    members: list[tuple[int, str]]

    def post(self, who: int, operation: str, body: object = None) -> Any:
        path = f"{ROOM}/{operation}"
        reply = self.api.call("POST", path, body, player=self.members[who][1])
        assert reply.status == 200, reply
        return reply.json

    def get(self, who: int, operation: str) -> Any:
        reply = self.api.call("GET", f"{ROOM}/{operation}", player=self.members[who][1])
        assert reply.status == 200, reply
        return reply.json

    def ids(self, *who: int) -> list[int]:
        return [self.members[one][0] for one in who]


@pytest.fixture
def table(api: Api) -> Table:
    table = Table(api, [api.register(f"Player {n}") for n in EVERYBODY])
    room_id = table.post(HOST, "create", {"host_switch": True})["room_id"]
    for guest in (ONE, TWO):
        table.post(guest, f"{room_id}/join")
    return table


TARGETS = [
    ("all", (), EVERYBODY),
    ("host", (), [HOST]),
    ("others", (), [ONE, TWO]),
    ("specific", (TWO,), [TWO]),
    ("specific", (TWO, HOST), [HOST, TWO]),
]


@pytest.mark.parametrize(("word", "named", "reached"), TARGETS)
def test_actions_reach_whom_the_host_names(
    table: Table, word: str, named: tuple[int, ...], reached: list[int]
):
    body = {"target_players": word, "target_players_ids": table.ids(*named), "action_type": "x"}
    sent = table.post(HOST, "actions", body)
    assert sorted(sent["target_players_ids"]) == sorted(table.ids(*reached))
    assert sent["actions_sent"] == len(sent["action_ids"]) == len(reached)
    for who in EVERYBODY:
        entries = table.get(who, "actions/pending")["actions"]
        assert len(entries) == (who in reached)
        assert table.get(who, "current")["pending_actions"] == entries
        for entry in entries:
            assert (entry["player_id"], entry["is_host"]) == (table.ids(HOST)[0], True)
            assert entry["action_id"] in sent["action_ids"]


@pytest.mark.parametrize(("word", "named", "reached"), TARGETS)
def test_updates_reach_whom_the_host_names(
    table: Table, word: str, named: tuple[int, ...], reached: list[int]
):
    body = {"target_players": word, "target_players_ids": table.ids(*named), "type": "x"}
    sent = table.post(HOST, "updates", body | {"data": {"n": 1}})
    assert sorted(sent["target_players_ids"]) == sorted(table.ids(*reached))
    assert sent["updates_sent"] == len(sent["update_ids"]) == len(reached)
    for who in EVERYBODY:
        pending = table.get(who, "current")["pending_updates"]
        page = table.post(who, "updates/poll", {"from_players": "all"})
        assert len(page["updates"]) == (who in reached)
        assert pending == page["updates"]
        assert table.get(who, "current")["pending_updates"] == []


@pytest.mark.parametrize("named", [(), (HOST,)])
def test_others_than_the_host_reach_the_host_alone(table: Table, named: tuple[int, ...]):
    words: dict[str, Any] = {"target_players": "host"}
    if named:
        words = {"target_players": "specific", "target_players_ids": table.ids(*named)}
    acted = table.post(ONE, "actions", words | {"action_type": "x"})
    told = table.post(ONE, "updates", words | {"type": "x"})
    assert acted["target_players_ids"] == told["target_players_ids"] == table.ids(HOST)
    (entry,) = table.get(HOST, "actions/pending")["actions"]
    assert (entry["player_id"], entry["is_host"]) == (table.ids(ONE)[0], False)
    assert table.get(TWO, "current")["pending_updates"] == []


@pytest.mark.parametrize(
    ("body", "senders"),
    [
        ({}, [HOST]),
        ({"from_players": None}, [HOST]),
        ({"from_players": "host"}, [HOST]),
        ({"from_players": "all"}, [HOST, ONE, TWO]),
        ({"from_players": "others"}, [ONE, TWO]),
        ({"from_players": "specific", "from_players_ids": [TWO]}, [TWO]),
        ({"from_players": "specific", "from_players_ids": [HOST, ONE]}, [HOST, ONE]),
    ],
)
def test_updates_are_read_from_chosen_senders_in_the_order_sent(
    table: Table, body: dict[str, Any], senders: list[int]
):
    for sender in (TWO, HOST, ONE):
        table.post(sender, "updates", {"target_players": "host", "type": "x"})
    if "from_players_ids" in body:
        body = body | {"from_players_ids": table.ids(*body["from_players_ids"])}
    page = table.post(HOST, "updates/poll", body | {"last_update": None})
    ids = [entry["from_player_id"] for entry in page["updates"]]
    assert ids == table.ids(*(one for one in (TWO, HOST, ONE) if one in senders))
    assert page["last_update"] == page["updates"][-1]["update_id"]
    again = table.post(HOST, "updates/poll", body | {"last_update": page["last_update"]})
    assert (again["updates"], again["last_update"]) == ([], page["last_update"])


def test_more_updates_than_a_page_are_read_one_page_after_the_other(table: Table):
    for number in range(120):
        body = {"target_players": "others", "type": "x", "data": {"n": number}}
        table.post(HOST, "updates", body)
    read: list[int] = []
    cursor = None
    for size in (50, 50, 20, 0):
        page = table.post(ONE, "updates/poll", {"last_update": cursor})
        assert (len(page["updates"]), page["missed"]) == (size, 0)
        read += [entry["data"]["n"] for entry in page["updates"]]
        cursor = page["last_update"]
    assert read == list(range(120))


def test_the_roster_tells_each_caller_which_one_they_are(table: Table):
    for who in EVERYBODY:
        players = table.get(who, "players")["players"]
        assert [entry["player_id"] for entry in players] == table.ids(*EVERYBODY)
        assert [entry["is_local"] for entry in players] == [one == who for one in EVERYBODY]
        assert [entry["is_host"] for entry in players] == [True, False, False]
        assert [entry["is_online"] for entry in players] == [True, True, True]
        assert all(re.fullmatch(r"[\d-]+T[\d:]+Z", entry["last_heartbeat"]) for entry in players)


def test_a_list_holds_twenty_unless_more_are_asked_for(api: Api):
    for number in range(21):
        _, token = api.register()
        body = {"room_name": f"Room {number:02}"}
        assert api.call("POST", f"{ROOM}/create", body, player=token).status == 200

    def count(body: object) -> int:
        return len(api.call("POST", f"{ROOM}/list", body).json["rooms"])

    assert [count(body) for body in (None, {"limit": None}, {"limit": ""})] == [20, 20, 20]
    assert [count({"limit": limit}) for limit in (1, 21, "100")] == [1, 21, 21]


def test_a_room_with_no_free_slot_is_listed_again_when_there_is_one(table: Table):
    def listed() -> list[int]:
        rooms = table.api.call("POST", f"{ROOM}/list").json["rooms"]
        return [room["current_players"] for room in rooms]

    table.post(HOST, "stop")
    room_id = table.post(HOST, "create", {"max_players": 2})["room_id"]
    assert listed() == [1]
    table.post(ONE, f"{room_id}/join")
    assert listed() == []
    table.post(ONE, "leave")
    assert listed() == [1]
