"""Stats over REST: the game's own services change them, and everybody reads them."""

from __future__ import annotations

from typing import Any

import pytest
from server_kit import Api, Reply, ServerProcess

from greenroom.control.admin.messages import ChangeGameSettings, ShowPlayer
from greenroom.control.admin.player_messages import DeletePlayer, ExportPlayer
from greenroom.control.client import call
from greenroom.control.errors import OperationRefused
from greenroom.control.protocol import socket_path

STATS = "/api/game_data.php/player/stats"
GET = "/api/game_data.php/player/get"
UPDATE = "/api/game_data.php/player/update"
LOGIN = "/api/game_players.php/login"
LIST = "/api/game_players.php/list"
BOARD = "/api/leaderboard.php"
DECLARED = '{"wins":{"maximum":100},"best":{"kind":"number","maximum":3600}}'


@pytest.fixture
def declared(server: ServerProcess, api: Api) -> Api:
    change = ChangeGameSettings(game_id=api.game.game_id, assigned={"stats": DECLARED})
    call(socket_path(server.data_dir), change)
    return api


def change(api: Api, player_id: int, changes: object = None, **more: object) -> Reply:
    body = {"player_id": player_id, "changes": changes} | more
    return api.call("POST", STATS, body, admin=True)


def ok(reply: Reply) -> Any:
    assert reply.status == 200, reply
    return reply.json


def test_every_answer_with_the_document_has_them_beside_it(declared: Api):
    player_id, token = declared.register("Ada", player_data={"stats": {"wins": 9}})
    assert "stats" not in ok(declared.call("GET", GET, player=token))
    done = ok(change(declared, player_id, {"wins": {"increment": 2}, "best": {"min": 71.25}}))
    stats = {"wins": 2, "best": 71.25}
    assert done == {
        "success": True,
        "player_id": player_id,
        "stats": stats,
        "applied": ["wins", "best"],
        "repeated": False,
    }
    read = ok(declared.call("GET", GET, player=token))
    assert (read["data"], read["stats"]) == ({"stats": {"wins": 9}}, stats)
    assert ok(declared.call("PUT", LOGIN, player=token))["player"]["stats"] == stats
    (listed,) = ok(declared.call("GET", LIST, admin=True))["players"]
    assert listed["stats"] == stats
    (entry,) = ok(declared.call("POST", BOARD, {"sort_by": ["wins"]}))["leaderboard"]
    assert (entry["player_data"], entry["stats"]) == ({"stats": {"wins": 9}}, stats)
    engine = ok(declared.call("GET", f"{GET}?format=engine", player=token))
    assert (engine["stats"], engine["stats_json"]) == (stats, '{"wins":2,"best":71.25}')


def test_without_stats_no_answer_has_changed(api: Api):
    _, token = api.register("Ada")
    assert set(ok(api.call("GET", GET, player=token))) == {
        *("success", "type", "player_id", "player_name", "data")
    }
    engine = ok(api.call("GET", f"{GET}?format=engine", player=token))
    assert not {"stats", "stats_json"} & set(engine)
    (entry,) = ok(api.call("POST", BOARD, {"sort_by": ["wins"]}))["leaderboard"]
    assert set(entry) == {"rank", "player_id", "player_name", "player_data"}


def test_no_client_can_touch_them(declared: Api):
    player_id, token = declared.register()
    ok(change(declared, player_id, {"wins": {"set": 5}}))
    for forged in ({"stats": {"wins": 99}}, {"wins": 99, "results": "x:1"}, {}):
        ok(declared.call("PUT", UPDATE, forged, player=token))
        assert ok(declared.call("GET", GET, player=token))["stats"] == {"wins": 5}
    body = {"player_id": player_id, "changes": {"wins": {"set": 99}}}
    for refused in (
        declared.call("POST", STATS, body),
        declared.call("POST", STATS, body, player=token),
    ):
        assert refused.status == 401
    assert ok(change(declared, player_id))["stats"] == {"wins": 5}


def test_conditions_decide_where_the_stats_are(declared: Api):
    player_id, _ = declared.register()
    first = {"wins": {"set": 1, "if_unset": True}}
    assert ok(change(declared, player_id, first))["applied"] == ["wins"]
    assert ok(change(declared, player_id, first))["applied"] == []
    both = {
        "best": {"max": 5, "if_equals": 1, "of": "wins"},
        "wins": {"increment": 1, "if_more_than": 1},
    }
    assert ok(change(declared, player_id, both))["applied"] == ["best"]
    assert ok(change(declared, player_id))["stats"] == {"wins": 1, "best": 5.0}


def test_a_request_counts_once(declared: Api):
    player_id, _ = declared.register()
    for is_repeated in (False, True, True):
        done = ok(change(declared, player_id, {"wins": {"increment": 1}}, request_id="a-1"))
        assert (done["stats"], done["repeated"]) == ({"wins": 1}, is_repeated)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"wnis": {"increment": 1}}, 'There is no stat "wnis": did you mean "wins"?'),
        ({"wins": {"increment": 1.5}}, "increment of wins must be a whole number"),
        ({"wins": {"increment": "1"}}, "Expected `int | float | null`, got `str`"),
        ({"wins": {"increment": True}}, "Expected `int | float | null`, got `bool`"),
        ({"wins": {"incremet": 1}}, "unknown field `incremet`"),
        ({"wins": {}}, "must have one of increment, max, min, set"),
        ({"wins": {"set": 1, "min": 1}}, "must have one of increment"),
        ({"wins": 1}, 'changes must be such as {"wins":{"increment":1}}'),
        ({"wins": {"set": 1, "if_equals": 1, "of": "wnis"}}, 'did you mean "wins"?'),
        ([], "changes must be an object"),
        ({f"{n}": {"set": 1} for n in range(500)}, "changes must have at most 8192 bytes"),
        (
            {f"{n}": {"set": 1e308} for n in range(65)},
            "changes have too many numbers like 1e100",
        ),
    ],
)
def test_what_is_wrong_is_refused_whole(declared: Api, changes: object, told: str):
    player_id, _ = declared.register()
    if isinstance(changes, dict):
        changes = {"best": {"set": 1}} | changes
    refused = change(declared, player_id, changes)
    assert (refused.status, told in refused.json["error"]) == (400, True), refused
    assert ok(change(declared, player_id))["stats"] == {}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1e999"])
def test_numbers_that_are_none_are_refused(declared: Api, number: str):
    player_id, _ = declared.register()
    raw = f'{{"player_id":{player_id},"changes":{{"best":{{"set":{number}}}}}}}'.encode()
    refused = declared.call("POST", STATS, raw, admin=True)
    assert refused.status == 400, refused
    assert ok(change(declared, player_id))["stats"] == {}


def test_only_players_of_the_game_are_found(declared: Api):
    for player_id in (10**6, 0, -1, 10**17):
        refused = change(declared, player_id, {"wins": {"set": 1}})
        assert refused.status == 404, refused
    assert change(declared, 1, {}, request_id="x y").status == 400


def test_players_of_another_game_are_not_found(server: ServerProcess, declared: Api):
    player_id, _ = declared.register()
    ok(change(declared, player_id, {"wins": {"set": 5}}))
    foreign = Api(server.address, server.new_game("foreign"))
    assigned = ChangeGameSettings(game_id=foreign.game.game_id, assigned={"stats": DECLARED})
    call(socket_path(server.data_dir), assigned)
    for changes in (None, {"wins": {"set": 9}}):
        assert change(foreign, player_id, changes).status == 404
    assert ok(change(declared, player_id))["stats"] == {"wins": 5}


def test_operators_see_them_and_a_deletion_takes_them(server: ServerProcess, declared: Api):
    player_id, _ = declared.register()
    ok(change(declared, player_id, {"wins": {"set": 5}}))
    path = socket_path(server.data_dir)
    assert bytes(call(path, ShowPlayer(player_id=player_id)).stats) == b'{"wins":5}'
    assert bytes(call(path, ExportPlayer(player_id=player_id)).stats) == b'{"wins":5}'
    call(path, DeletePlayer(player_id=player_id))
    with pytest.raises(OperationRefused):
        call(path, ShowPlayer(player_id=player_id))
    assert change(declared, player_id, {"wins": {"set": 1}}).status == 404
