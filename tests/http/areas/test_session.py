"""The typical session of the specification, walked from its beginning to its end."""

from __future__ import annotations

from typing import Any

from server_kit import Api

PLAYERS = "/api/game_players.php"
ROOM = "/api/game_room.php"


class Client:
    """A game's client, as one is written from the specification; keeps all that it was told."""

    def __init__(self, api: Api, name: str) -> None:
        self.api = api
        self.told = ""
        body = {"player_name": name}
        registered = self.call("POST", f"{PLAYERS}/register", body)
        self.player_id = int(registered["player_id"])
        self.private_key: str = registered["private_key"]
        self.told = ""

    def call(self, method: str, path: str, body: object = None) -> Any:
        token = getattr(self, "private_key", None)
        reply = self.api.call(method, path, body, player=token)
        assert (reply.status, reply.json["success"]) == (200, True), reply
        self.told += reply.body.decode()
        return reply.json


def test_a_typical_session_by_way_of_a_room(api: Api):
    host, guest = Client(api, "Host"), Client(api, "Guest")
    for client in (host, guest):
        login = client.call("PUT", f"{PLAYERS}/login")
        assert login["player"]["id"] == client.player_id
        for _ in range(2):
            client.call("POST", f"{PLAYERS}/heartbeat")
    made = host.call("POST", f"{ROOM}/create", {"room_name": "Den", "host_switch": True})
    (listed,) = guest.call("POST", f"{ROOM}/list", {"search": "den"})["rooms"]
    assert listed["room_id"] == made["room_id"]
    guest.call("POST", f"{ROOM}/{listed['room_id']}/join")

    ask = {"target_players": "host", "action_type": "move", "request_data": {"x": 1}}
    (action_id,) = guest.call("POST", f"{ROOM}/actions", ask)["action_ids"]
    (pending,) = host.call("GET", f"{ROOM}/actions/pending")["actions"]
    assert pending["action_id"] == action_id
    answer = {"status": "completed", "response_data": {"x": 2}}
    host.call("POST", f"{ROOM}/actions/{action_id}/complete", answer)
    (result,) = guest.call("GET", f"{ROOM}/actions/poll")["actions"]
    assert result["response_data"] == {"x": 2}

    tell = {"target_players": "others", "type": "moved", "data": {"x": 2}}
    host.call("POST", f"{ROOM}/updates", tell)
    (update,) = guest.call("POST", f"{ROOM}/updates/poll", {"last_update": None})["updates"]
    assert update["data"] == {"x": 2}

    for client in (host, guest):
        client.call("POST", f"{ROOM}/heartbeat")
        client.call("POST", f"{ROOM}/leave")
        assert client.call("GET", f"{ROOM}/current")["in_room"] is False
        client.call("POST", f"{PLAYERS}/logout")


def test_a_private_key_is_shown_once(api: Api):
    """Only the answers of register and rotate show the token."""
    client = Client(api, "Ada")
    client.call("PUT", f"{PLAYERS}/login")
    client.call("POST", f"{PLAYERS}/heartbeat")
    client.call("PUT", f"{PLAYERS}/rename", {"new_name": "Eve"})
    client.call("GET", "/api/game_data.php/player/get")
    client.call("POST", f"{ROOM}/create")
    client.call("GET", f"{ROOM}/players")
    client.call("GET", f"{ROOM}/current")
    first = client.private_key
    assert first not in client.told
    client.private_key = client.call("POST", f"{PLAYERS}/rotate")["private_key"]
    client.told = ""
    client.call("PUT", f"{PLAYERS}/login")
    listed = api.call("GET", f"{PLAYERS}/list", admin=True).body.decode()
    for key in (first, client.private_key):
        assert key not in client.told + listed
    assert "private_key" not in client.told + listed
