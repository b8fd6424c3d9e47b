"""The answer to an action has its result where the room settles it at once, on both servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from server_kit import KINDS, Api, ServerProcess, serving_modules

ROOMS = "/api/game_room.php"
SETTLING = """
from greenroom.behaviour import Member, Refused, Room, RoomBehaviour, action

class Settling(RoomBehaviour[dict[str, int]]):
    def initial_state(self, rules: object) -> dict[str, int]:
        return {"n": 0}

    @action("count")
    def count(self, room: Room[dict[str, int]], by: Member) -> dict[str, int]:
        room.state["n"] += 1
        return {"n": room.state["n"]}

    @action("refuse")
    def refuse(self, room: Room[dict[str, int]], by: Member) -> None:
        raise Refused("not now")
"""


@pytest.fixture(scope="module", params=KINDS)
def studio(
    request: pytest.FixtureRequest, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    entry = ("--behaviours", "*/settling=settling:Settling", "--server", request.param)
    with serving_modules(
        {"settling": SETTLING}, *entry, "--database-url", new_database()
    ) as server:
        yield server


class Seat:
    """The host of a room, alone in it."""

    def __init__(self, api: Api, room_type: str) -> None:
        self._api = api
        self.player_id, self._token = api.register()
        self.call("create", {"rules": {"type": room_type}})

    def call(self, operation: str, body: Any = None, method: str = "POST") -> Any:
        reply = self._api.call(method, f"{ROOMS}/{operation}", body, player=self._token)
        assert reply.status == 200, reply
        return reply.json

    def act(self, action_type: str, query: str = "") -> Any:
        body = {"target_players": "host", "action_type": action_type}
        return self.call(f"actions{query}", body)

    def polled(self, query: str = "") -> Any:
        return self.call(f"actions/poll{query}", method="GET")["actions"]


def test_the_result_is_the_one_that_polling_shows(studio: ServerProcess):
    seat = Seat(Api(studio.address, studio.new_game()), "settling")
    answer = seat.act("count")
    assert answer.pop("results") == seat.polled()
    (result,) = seat.polled()
    assert answer == {
        "success": True,
        "actions_sent": 1,
        "action_ids": [result["action_id"]],
        "target_players_ids": [seat.player_id],
    }
    assert (result["status"], result["response_data"]) == ("completed", {"n": 1})


def test_a_refused_action_is_answered_with_its_failure(studio: ServerProcess):
    seat = Seat(Api(studio.address, studio.new_game()), "settling")
    (result,) = seat.act("refuse")["results"]
    assert (result["status"], result["response_data"]) == ("failed", {"error": "not now"})


def test_engines_get_the_result_as_a_string(studio: ServerProcess):
    seat = Seat(Api(studio.address, studio.new_game()), "settling")
    (result,) = seat.act("count", "?format=engine")["results"]
    assert result["response_data_json"] == '{"n":1}'
    assert "response_data" not in result
    assert seat.polled("?format=engine") == [result]


def test_an_action_that_waits_for_its_target_has_no_result(studio: ServerProcess):
    seat = Seat(Api(studio.address, studio.new_game()), "another")
    assert set(seat.act("count")) == {
        "success",
        "actions_sent",
        "action_ids",
        "target_players_ids",
    }
