"""Players, lobbies and what they are told, over a real socket."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from server_kit import Api, Reply

AREA = "/api/matchmaking.php"
ROOMS = "/api/game_room.php"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
HEX = re.compile(r"[0-9a-f]{32}")

NOT_IN_ANY = "You are not in any matchmaking lobby"
NOT_IN = "You are not in a matchmaking lobby"
NOT_FOUND = "Matchmaking lobby not found or already started"
PROCESSED = "Request not found or already processed"
NOT_YOURS = "Request not found or you are not the requester"


class Player(NamedTuple):
    """A player of a test's game."""

    api: Api
    player_id: int
    token: str

    def post(self, path: str, body: object = None, area: str = AREA) -> Reply:
        return self.api.call("POST", f"{area}/{path}", body, player=self.token)

    def get(self, path: str, area: str = AREA) -> Reply:
        return self.api.call("GET", f"{area}/{path}", player=self.token)

    def done(self, path: str, body: object = None, area: str = AREA) -> Any:
        """Post what must succeed."""
        reply = self.post(path, body, area)
        assert (reply.status, reply.json["success"]) == (200, True), reply
        return reply.json

    def seen(self, path: str, area: str = AREA) -> Any:
        reply = self.get(path, area)
        assert (reply.status, reply.json["success"]) == (200, True), reply
        return reply.json

    def log_out(self) -> None:
        path = "/api/game_players.php/logout"
        assert self.api.call("POST", path, player=self.token).status == 200


def player(api: Api, name: str = "Ada") -> Player:
    return Player(api, *api.register(name))


def lobby(api: Api, guests: int = 1, **fields: object) -> tuple[str, list[Player]]:
    """A lobby with a host and some guests."""
    members = [player(api, f"Player {n}") for n in range(guests + 1)]
    body = {"max_players": 4, "host_switch": True, **fields}
    created = members[0].done("create", body)
    for guest in members[1:]:
        join = {"join_token": created["join_token"]}
        guest.done(f"{created['matchmaking_id']}/join", join)
    return created["matchmaking_id"], members


def asked(api: Api, lobby_id: str) -> tuple[Player, str]:
    """Make a player who asks to be let in; return them and their request."""
    requester = player(api, "Asker")
    return requester, requester.done(f"{lobby_id}/request")["request_id"]


def refused(reply: Reply, status: int, text: str) -> None:
    assert (reply.status, reply.json) == (status, {"success": False, "error": text})


def listed(api: Api, body: object = None) -> list[dict[str, Any]]:
    reply = api.call("POST", f"{AREA}/list", body)
    assert reply.status == 200, reply
    lobbies = reply.json["lobbies"]
    assert isinstance(lobbies, list)
    return lobbies
