"""Crowds that ask for the same thing at the same moment, over real sockets to either server.

Every request of a race has arrived but for its last byte before any is sent whole.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from answer_judge import judge
from lobby_http_kit import AREA, ROOMS, Player, lobby, player
from server_kit import Api

pytestmark = pytest.mark.chance

CROWD = 200
SECONDS_MAX = 60.0
FRIENDS = "/api/friends.php"


class Call(NamedTuple):
    """A player's POST of a JSON object."""

    player: Player
    path: str
    body: object = {}


Outcome = tuple[int, str | None]
"""The status, and the text of the error if there is one."""


def outcomes(api: Api, calls: Sequence[Call]) -> list[Outcome]:
    """Make all calls at the same moment, each on a connection of its own."""
    connections = [_begin(api, call) for call in calls]
    for connection in connections:
        connection.sendall(b"}")
    return [
        _outcome(connection, call.path) for connection, call in zip(connections, calls, strict=True)
    ]


def _begin(api: Api, call: Call) -> socket.socket:
    body = json.dumps(call.body).encode()
    head = (
        f"POST {call.path} HTTP/1.1\r\nHost: test\r\nX-Api-Token: {api.game.key}\r\n"
        f"X-Game-Player-Token: {call.player.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(api.address, timeout=SECONDS_MAX)
    connection.sendall(head.encode() + body[:-1])
    return connection


def _outcome(connection: socket.socket, path: str) -> Outcome:
    with connection, http.client.HTTPResponse(connection) as response:
        response.begin()
        answer: dict[str, Any] = json.loads(response.read())
        judge("POST", path, response.status, answer)
        assert answer["success"] == (response.status == 200)
        return response.status, answer.get("error")


def roster(member: Player, area: str) -> list[int]:
    """Return the members, as one of them sees them; exactly one of them is the host."""
    players = member.seen("players", area)["players"]
    assert [entry["is_host"] for entry in players].count(True) == 1
    return sorted(entry["player_id"] for entry in players)


def place_of(one: Player) -> tuple[str | None, str | None]:
    """Return the room and the open lobby that a player is in, as they see it."""
    room = one.seen("current", ROOMS)
    open_lobby = one.seen("current")
    in_lobby = open_lobby["in_matchmaking"] and not open_lobby["matchmaking"]["is_started"]
    return (
        room["room"]["room_id"] if room["in_room"] else None,
        open_lobby["matchmaking"]["matchmaking_id"] if in_lobby else None,
    )


@pytest.mark.parametrize(
    ("area", "name", "text"),
    [(ROOMS, "room_id", "Room is full"), (AREA, "matchmaking_id", "Matchmaking lobby is full")],
)
def test_of_a_crowd_that_races_for_the_last_slot_one_gets_it(
    api: Api, area: str, name: str, text: str
):
    host = player(api)
    place_id = host.done("create", {"max_players": 2}, area)[name]
    crowd = [player(api) for _ in range(CROWD)]

    results = outcomes(api, [Call(one, f"{area}/{place_id}/join") for one in crowd])

    assert Counter(results) == {(200, None): 1, (400, text): CROWD - 1}
    winner = crowd[results.index((200, None))]
    assert roster(host, area) == sorted([host.player_id, winner.player_id])
    seated = [one for one in crowd if any(place_of(one))]
    assert seated == [winner]


def test_of_many_approvals_of_the_last_slot_one_goes_through(api: Api):
    lobby_id, (host,) = lobby(api, 0, max_players=2, join_by_requests=True)
    crowd = [player(api) for _ in range(100)]
    asked = [one.done(f"{lobby_id}/request")["request_id"] for one in crowd]

    paths = [f"{AREA}/{request_id}/response" for request_id in asked]
    results = outcomes(api, [Call(host, path, {"action": "approve"}) for path in paths])

    assert Counter(results) == {(200, None): 1, (400, "Matchmaking lobby is full"): 99}
    winner = crowd[results.index((200, None))]
    assert roster(host, AREA) == sorted([host.player_id, winner.player_id])


def test_one_player_who_is_wanted_everywhere_at_once_gets_one_seat(api: Api):
    racer = player(api)
    rooms = [player(api).done("create", {}, ROOMS)["room_id"] for _ in range(8)]
    lobbies = [lobby(api, 0)[0] for _ in range(8)]
    asked = [lobby(api, 0, join_by_requests=True) for _ in range(8)]
    requests = [(host, racer.done(f"{i}/request")["request_id"]) for i, (host,) in asked]
    calls = [Call(racer, f"{ROOMS}/{room_id}/join") for room_id in rooms]
    calls += [Call(racer, f"{AREA}/{lobby_id}/join") for lobby_id in lobbies]
    calls += [Call(host, f"{AREA}/{i}/response", {"action": "approve"}) for host, i in requests]
    calls += [Call(racer, f"{ROOMS}/create"), Call(racer, f"{AREA}/create", {"max_players": 2})]
    random.shuffle(calls)

    results = outcomes(api, calls)

    assert Counter(status for status, _ in results) == {200: 1, 400: len(calls) - 1}
    assert Counter(map(bool, place_of(racer))) == {True: 1, False: 1}


def test_leaving_kicking_joining_and_starting_at_once_leave_everybody_one_true_place(api: Api):
    for _ in range(5):
        lobby_id, (host, *guests) = lobby(api, 5, max_players=8)
        late = [player(api) for _ in range(20)]
        calls = [Call(host, f"{AREA}/start"), Call(host, f"{AREA}/leave")]
        calls += [Call(guest, f"{AREA}/leave") for guest in guests[:3]]
        calls += [Call(host, f"{AREA}/kick", {"player_id": g.player_id}) for g in guests[2:]]
        calls += [Call(one, f"{AREA}/{lobby_id}/join") for one in late]
        random.shuffle(calls)

        assert {status for status, _ in outcomes(api, calls)} <= {200, 400, 404}

        everybody = [host, *guests, *late]
        places = {one: place_of(one) for one in everybody}
        assert not any(room and open_lobby for room, open_lobby in places.values())
        for area, of_area in ((ROOMS, 0), (AREA, 1)):
            members = [one for one in everybody if places[one][of_area]]
            assert len({places[one][of_area] for one in members}) <= 1
            assert len(members) <= 8
            for one in members:
                assert roster(one, area) == sorted(m.player_id for m in members)


def test_requests_of_friendship_that_cross_make_friends_once(api: Api):
    pairs = [(player(api), player(api)) for _ in range(20)]
    calls = [
        Call(one, f"{FRIENDS}/request", {"player_id": other.player_id})
        for pair in pairs
        for one, other in (pair, pair[::-1])
        for _ in range(3)
    ]
    random.shuffle(calls)

    results = outcomes(api, calls)

    assert Counter(status for status, _ in results) == {200: 40, 400: 80}
    for one, other in pairs:
        for mine, theirs in ((one, other), (other, one)):
            listed = mine.seen("list", FRIENDS)
            assert [f["player_id"] for f in listed["friends"]] == [theirs.player_id]
            assert listed["incoming"] == listed["outgoing"] == []
