"""Every row of the leaderboard area: order, ties, texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from server_kit import Api, Reply

PATH = "/api/leaderboard.php"
UPDATE = "/api/game_data.php/player/update"

NO_SORT_BY = "sort_by must be a non-empty array of field names"
NOTHING_LEFT = "No valid sort fields provided after sanitization"
LIMIT = "limit must be between 1 and 100"
TOO_LONG = "sort_by must be an array of at most 16 field names of at most 100 characters"


def assert_error(reply: Reply, status: int, text: str) -> None:
    assert (reply.status, reply.json) == (status, {"success": False, "error": text})


def rank(api: Api, *sort_by: str, **more: Any) -> Any:
    reply = api.call("POST", PATH, {"sort_by": sort_by, **more})
    assert reply.status == 200, reply
    return reply.json


def names(answer: Any) -> list[str]:
    return [entry["player_name"] for entry in answer["leaderboard"]]


def put(api: Api, **documents: object) -> dict[str, int]:
    """Register players by name, documents as JSON text or values; return their ids."""
    ids = {}
    for name, document in documents.items():
        text = document if isinstance(document, str) else json.dumps(document)
        body = f'{{"player_name":"{name}","player_data":{text}}}'.encode()
        reply = api.call("POST", "/api/game_players.php/register", body)
        assert reply.status == 200, reply
        ids[name] = int(reply.json["player_id"])
    return ids


def test_an_empty_game_has_an_empty_leaderboard(api: Api):
    assert rank(api, "level") == {
        "success": True,
        "leaderboard": [],
        "total": 0,
        "sort_by": ["level"],
        "limit": 10,
    }


def test_entries_are_ranked_from_the_highest_with_the_document_as_it_was_sent(api: Api):
    ids = put(api, Ada={"level": 3}, Bob={"level": 12.5}, Cid={"level": -1, "x": None})
    assert rank(api, "level") == {
        "success": True,
        "leaderboard": [
            {
                "rank": 1,
                "player_id": ids["Bob"],
                "player_name": "Bob",
                "player_data": {"level": 12.5},
            },
            {"rank": 2, "player_id": ids["Ada"], "player_name": "Ada", "player_data": {"level": 3}},
            {
                "rank": 3,
                "player_id": ids["Cid"],
                "player_name": "Cid",
                "player_data": {"level": -1, "x": None},
            },
        ],
        "total": 3,
        "sort_by": ["level"],
        "limit": 10,
    }


def test_ties_are_broken_by_the_next_fields_and_at_last_by_who_came_first(api: Api):
    ids = put(
        api,
        P1={"level": 1, "xp": 5},
        P2={"level": 2, "xp": 1},
        P3={"level": 2, "xp": 9},
        P4={"level": 2, "xp": 9},
        P5={"level": 2},
        P6={"xp": 99},
        P7={},
        P8={"level": 2, "xp": 9.0},
    )
    equals = sorted(("P3", "P4", "P8"), key=ids.__getitem__)
    assert names(rank(api, "level", "xp")) == [*equals, "P2", "P5", "P1", "P6", "P7"]
    assert names(rank(api, "xp", "level")) == ["P6", *equals, "P1", "P2", "P5", "P7"]


def test_what_is_no_number_counts_as_lacking(api: Api):
    ids = put(
        api,
        Text={"n": "9"},
        Yes={"n": True},
        Null={"n": None},
        List={"n": [9]},
        Below={"n": -5},
        Nested={"a": {"n": 9}},
        Zero={"n": 0},
    )
    lacking = sorted(ids.keys() - {"Zero", "Below"}, key=ids.__getitem__)
    assert names(rank(api, "n")) == ["Zero", "Below", *lacking]


def test_numbers_are_compared_exactly_and_come_back_as_they_were_sent(api: Api):
    put(
        api,
        Tenth='{"n":0.1}',
        More='{"n":0.1000000000000000055511151231257827}',
        Big='{"n":1000000000000000000000000000000}',
        Bigger='{"n":1000000000000000000000000000001}',
        Huge='{"n":1e400}',
        Low='{"n":-1e400}',
        Twice='{"n":1e999,"n":0.05}',
        Nul='{"n":0.01,"text":"\\u0000"}',
    )
    reply = api.call("POST", PATH, {"sort_by": ["n"]})
    order = ["Huge", "Bigger", "Big", "More", "Tenth", "Twice", "Nul", "Low"]
    assert names(reply.json) == order
    assert b'{"n":0.1000000000000000055511151231257827}' in reply.body
    assert b'{"n":1e999,"n":0.05}' in reply.body


def test_a_change_is_ranked_when_it_is_answered(api: Api):
    ids = put(api, Ada={"level": 3}, Bob={"level": 2})
    assert names(rank(api, "level")) == ["Ada", "Bob"]
    player_id, token = api.register("Cid")
    assert names(rank(api, "level")) == ["Ada", "Bob", "Cid"]
    for level in range(1, 6):
        assert api.call("PUT", UPDATE, {"level": level}, player=token).status == 200
        first = rank(api, "level")["leaderboard"][0]
        expected = player_id if level > 3 else ids["Ada"]
        assert first["player_id"] == expected
    assert api.call("PUT", "/api/game_players.php/rename", {"new_name": "Cyd"}, player=token).json[
        "success"
    ]
    assert api.call("POST", "/api/game_players.php/logout", player=token).json["success"]
    assert names(rank(api, "level")) == ["Cyd", "Ada", "Bob"]


def test_limit_is_ten_unless_said_and_total_counts_everybody(api: Api):
    put(api, **{f"P{n:02}": {"n": n} for n in range(1, 13)})
    assert len(rank(api, "n")["leaderboard"]) == 10
    assert rank(api, "n", limit=3)["total"] == 12
    assert names(rank(api, "n", limit=2)) == ["P12", "P11"]
    assert len(rank(api, "n", limit=100)["leaderboard"]) == 12
    assert rank(api, "n", limit="5")["limit"] == 5
    for absent in (None, ""):
        assert rank(api, "n", limit=absent)["limit"] == 10


def test_players_of_other_games_and_banned_ones(api: Api, server: Any):
    ids = put(api, Ada={"n": 1}, Bob={"n": 2})
    other = Api(server.address, server.new_game("other"))
    put(other, Eve={"n": 99})
    api.call(
        "POST",
        "/api/game_players.php/ban",
        {"player_id": ids["Bob"], "ban_duration": "forever"},
        admin=True,
    )
    assert names(rank(api, "n")) == ["Bob", "Ada"]
    assert names(rank(other, "n")) == ["Eve"]


@pytest.mark.parametrize("name", ["engine", "unity"])
def test_the_engine_variant_gives_documents_as_strings(api: Api, name: str):
    put(api, Ada='{"n": 1.50, "text": "ü"}')
    entry = api.call("POST", f"{PATH}?format={name}", {"sort_by": ["n"]}).json["leaderboard"][0]
    assert entry["player_data_json"] == '{"n":1.50,"text":"ü"}'
    assert "player_data" not in entry


def test_names_keep_letters_digits_and_underscores(api: Api):
    put(api, Ada={"best_time2": 1}, Bob={"best_time2": 2})
    answer = rank(api, "best time-2; DROP", "b.e.s.t_time2", "!!")
    assert answer["sort_by"] == ["besttime2DROP", "best_time2"]
    assert names(answer) == ["Bob", "Ada"]
    assert rank(api, "n", "n")["sort_by"] == ["n", "n"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, NO_SORT_BY),
        ({}, NO_SORT_BY),
        ({"sort_by": None}, NO_SORT_BY),
        ({"sort_by": []}, NO_SORT_BY),
        ({"sort_by": "level"}, NO_SORT_BY),
        ({"sort_by": ""}, NO_SORT_BY),
        ({"sort_by": {"level": 1}}, NO_SORT_BY),
        ({"sort_by": [1]}, NO_SORT_BY),
        ({"sort_by": ["level", None]}, NO_SORT_BY),
        ({"sort_by": 7}, NO_SORT_BY),
        ({"sort_by": ["!", "ü", " ", ""]}, NOTHING_LEFT),
        ({"sort_by": ["n"], "limit": 0}, LIMIT),
        ({"sort_by": ["n"], "limit": 101}, LIMIT),
        ({"sort_by": ["n"], "limit": -1}, LIMIT),
        ({"sort_by": ["n"], "limit": 10**17}, LIMIT),
        ({"sort_by": ["n"], "limit": "many"}, "limit must be an integer"),
        ({"sort_by": ["n"], "limit": 1.5}, "limit must be an integer"),
        ({"sort_by": ["n"], "limit": True}, "limit must be an integer"),
        ({"sort_by": ["n"], "limit": [1]}, "limit must be an integer"),
        ({"sort_by": [f"n{n}" for n in range(17)]}, TOO_LONG),
        ({"sort_by": ["n" * 101]}, TOO_LONG),
        ([], "Invalid JSON body"),
        (b'{"sort_by":["n"', "Invalid JSON body"),
    ],
)
def test_other_bodies_are_refused(api: Api, body: object, text: str):
    assert_error(api.call("POST", PATH, body), 400, text)


def test_a_project_key_is_needed_and_enough(api: Api):
    body = {"sort_by": ["n"]}
    missing = api.call("POST", PATH, body, headers={"X-Api-Token": None})
    assert_error(missing, 401, "api_token is required")
    wrong = api.call("POST", PATH, body, headers={"X-Api-Token": "nonsense"})
    assert (wrong.status, wrong.json) == (
        401,
        {"success": False, "error": "Invalid API token", "message": "Authentication failed"},
    )
    for method, path in (("GET", PATH), ("PUT", PATH), ("POST", f"{PATH}/top")):
        assert_error(api.call(method, path, body), 404, "Invalid endpoint")
    assert api.call("POST", f"{PATH}/", body).status == 200
