"""No player reaches what is another's: every id and every credential of others, in every place.

The tables are checked against the endpoint table. So a new operation that takes an id, or a new
field, fails here until somebody has said what becomes of another player's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from server_kit import Api, Reply

from greenroom.http.endpoints import ENDPOINTS
from greenroom.http.table import Auth, Endpoint

ROOMS, LOBBIES, FRIENDS = "/api/game_room.php", "/api/matchmaking.php", "/api/friends.php"
PLAYERS, STATS = "/api/game_players.php", "/api/game_data.php/player/stats"


class Crew:
    """Players of one game in every kind of seat, and the ids of all that is theirs."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.ids: dict[str, Any] = {}
        self.tokens: dict[str, str] = {}
        self.player_ids: dict[str, int] = {}
        for name in ("host", "member", "lobby_host", "lobby_member", "asker", "friend", "loner"):
            self.player_ids[name], self.tokens[name] = api.register(name.replace("_", " "))
        room = self.ask("host", f"{ROOMS}/create", {"room_name": "R", "realtime": True})
        self.ids["room_id"] = room["room_id"]
        self.ask("member", f"{ROOMS}/{room['room_id']}/join")
        request = {"action_type": "a", "target_players": "host"}
        self.ids["action_id"] = self.ask("member", f"{ROOMS}/actions", request)["action_ids"][0]
        update = {"target_players": "host", "type": "u", "data": {"n": 1}}
        self.ids["last_update"] = self.ask("member", f"{ROOMS}/updates", update)["update_ids"][0]
        lobby = {"max_players": 4, "join_by_requests": True}
        lobby_id = self.ask("lobby_host", f"{LOBBIES}/create", lobby)["matchmaking_id"]
        self.ids["matchmaking_id"] = lobby_id
        first = self.ask("lobby_member", f"{LOBBIES}/{lobby_id}/request")["request_id"]
        self.ask("lobby_host", f"{LOBBIES}/{first}/response", {"action": "approve"})
        self.ids["request_id"] = self.ask("asker", f"{LOBBIES}/{lobby_id}/request")["request_id"]
        self.ask("host", f"{FRIENDS}/request", {"player_id": self.player_ids["friend"]})
        self.ask("friend", f"{FRIENDS}/accept", {"player_id": self.player_ids["host"]})
        self.ask("member", f"{FRIENDS}/request", {"player_id": self.player_ids["friend"]})
        invite = {"player_id": self.player_ids["friend"]}
        self.ids["invite_id"] = self.ask("host", f"{FRIENDS}/invite", invite)["invite_id"]
        self.ids["player_tag"] = self.ask("friend", f"{FRIENDS}/list", method="GET")["player_tag"]

    def call(self, who: str, path: str, body: object = None, method: str = "POST") -> Reply:
        return self.api.call(method, path, body, player=self.tokens[who])

    def ask(self, who: str, path: str, body: object = None, method: str = "POST") -> Any:
        reply = self.call(who, path, body, method)
        assert reply.status == 200, reply
        return reply.json

    def state(self) -> list[Any]:
        """Everything that others could have changed, without times."""
        looks = [
            self.ask("host", f"{ROOMS}/players", method="GET"),
            self.ask("host", f"{ROOMS}/actions/pending", method="GET"),
            self.ask("member", f"{ROOMS}/actions/poll", method="GET"),
            self.ask("host", f"{ROOMS}/updates/poll", {"from_players": "all"}),
            self.ask("lobby_host", f"{LOBBIES}/current", method="GET"),
            self.ask("lobby_host", f"{LOBBIES}/players", method="GET"),
            self.ask("asker", f"{LOBBIES}/{self.ids['request_id']}/status", method="GET"),
            self.ask("friend", f"{FRIENDS}/list", method="GET"),
            self.ask("friend", f"{FRIENDS}/invites", method="GET"),
            self.api.call("GET", f"{PLAYERS}/list", admin=True).json,
            self.api.call("GET", "/api/game_data.php/game/get").json,
        ]
        return [timeless(look) for look in looks]


def timeless(value: Any) -> Any:
    """An answer without the times in it, which every call of a player moves."""
    if isinstance(value, dict):
        times = re.compile(r"_at$|last_|heartbeat|time")
        return {key: timeless(item) for key, item in value.items() if not times.search(key)}
    return [timeless(item) for item in value] if isinstance(value, list) else value


@pytest.fixture
def ours(api: Api) -> Crew:
    return Crew(api)


@pytest.fixture
def theirs(other: Api) -> Crew:
    return Crew(other)


def takes_ids() -> set[tuple[str, str]]:
    """Every place where a client names something: (path, segment or field)."""
    places = set()
    for row in ENDPOINTS:
        fields = re.findall(r"{(\w+)}", row.path)
        for kind in (row.body, row.query):
            fields += [f.encode_name for f in msgspec.structs.fields(kind)] if kind else []
        names = (f for f in fields if re.search(r"_ids?$|_tag$|^last_update$|^after_id$", f))
        places |= {(row.path, name) for name in names}
    return places


Try = Callable[[Crew, Crew], Reply]
NOWHERE = (400, 404)


def room_call(who: str, path: str, field: str, **body: Any) -> Try:
    """A call of ours that gives an id of theirs in a field."""

    def call(ours: Crew, theirs: Crew) -> Reply:
        value = theirs.ids[field] if field in theirs.ids else theirs.player_ids["member"]
        return ours.call(who, path, {**body, field: value})

    return call


def listed(who: str, path: str, field: str, **body: Any) -> Try:
    """The same, where the field is a list of ids."""
    return lambda ours, theirs: ours.call(who, path, {**body, field: [theirs.player_ids["member"]]})


def at(who: str, path: str, body: object = None, method: str = "POST") -> Try:
    """A call of ours to the address of something of theirs."""
    return lambda ours, theirs: ours.call(who, path.format(**theirs.ids), body, method)


def by_admin(path: str, **body: Any) -> Try:
    """Our owner names a player of theirs."""
    return lambda ours, theirs: ours.api.call(
        "POST", path, {**body, "player_id": theirs.player_ids["member"]}, admin=True
    )


ACTION = {"action_type": "a", "target_players": "specific"}
UPDATE = {"target_players": "specific", "type": "u"}
FOREIGN: dict[tuple[str, str], Try] = {
    (f"{PLAYERS}/ban", "player_id"): by_admin(f"{PLAYERS}/ban", ban_duration="forever"),
    (f"{PLAYERS}/unban", "player_id"): by_admin(f"{PLAYERS}/unban"),
    (STATS, "player_id"): by_admin(STATS),
    (f"{ROOMS}/{{room_id}}/join", "room_id"): at("loner", f"{ROOMS}/{{room_id}}/join"),
    (f"{ROOMS}/kick", "player_id"): room_call("host", f"{ROOMS}/kick", "player_id"),
    (f"{ROOMS}/actions", "target_players_ids"): listed(
        "host", f"{ROOMS}/actions", "target_players_ids", **ACTION
    ),
    (f"{ROOMS}/actions/{{action_id}}/complete", "action_id"): at(
        "host", f"{ROOMS}/actions/{{action_id}}/complete", {"status": "completed"}
    ),
    (f"{ROOMS}/updates", "target_players_ids"): listed(
        "host", f"{ROOMS}/updates", "target_players_ids", **UPDATE
    ),
    (f"{ROOMS}/updates/poll", "from_players_ids"): listed(
        "host", f"{ROOMS}/updates/poll", "from_players_ids", from_players="specific"
    ),
    (f"{LOBBIES}/{{matchmaking_id}}/request", "matchmaking_id"): at(
        "loner", f"{LOBBIES}/{{matchmaking_id}}/request"
    ),
    (f"{LOBBIES}/{{matchmaking_id}}/join", "matchmaking_id"): at(
        "loner", f"{LOBBIES}/{{matchmaking_id}}/join"
    ),
    (f"{LOBBIES}/{{request_id}}/status", "request_id"): at(
        "asker", f"{LOBBIES}/{{request_id}}/status", method="GET"
    ),
    (f"{LOBBIES}/{{request_id}}/response", "request_id"): at(
        "lobby_host", f"{LOBBIES}/{{request_id}}/response", {"action": "approve"}
    ),
    (f"{LOBBIES}/kick", "player_id"): room_call("lobby_host", f"{LOBBIES}/kick", "player_id"),
    **{
        (f"{FRIENDS}/{verb}", "player_id"): room_call("host", f"{FRIENDS}/{verb}", "player_id")
        for verb in ("lookup", "request", "accept", "decline", "remove", "invite")
    },
    **{
        (f"{FRIENDS}/{verb}", "player_tag"): room_call("host", f"{FRIENDS}/{verb}", "player_tag")
        for verb in ("lookup", "request")
    },
    **{
        (f"{FRIENDS}/invites/{verb}", "invite_id"): room_call(
            "friend", f"{FRIENDS}/invites/{verb}", "invite_id"
        )
        for verb in ("accept", "decline")
    },
}
"""Calls of our players about what is another's; all of them are refused."""

HARMLESS = {
    (f"{PLAYERS}/list", "after_id"): "a number to go on from: only players of this game follow",
    (f"{ROOMS}/updates/poll", "last_update"): "one of elsewhere is unknown here (wire.md)",
    (STATS, "request_id"): "the caller's own word, compared with those of this player alone",
    (f"{FRIENDS}/platform", "platform_ids"): "ids of the platform, looked up in this game alone",
}


def test_every_id_that_a_client_may_give_is_tried() -> None:
    assert takes_ids() == FOREIGN.keys() | HARMLESS.keys()


def test_what_belongs_to_another_game_cannot_be_reached(ours: Crew, theirs: Crew) -> None:
    before = theirs.state(), ours.state()
    for place, attempt in FOREIGN.items():
        reply = attempt(ours, theirs)
        if place != (f"{PLAYERS}/unban", "player_id"):
            assert (place, reply.status in NOWHERE) == (place, True), reply
        said = reply.body.decode()
        for value in (*theirs.ids.values(), *theirs.tokens.values()):
            assert (place, str(value) in said) == (place, False)
        assert (place, theirs.state()) == (place, before[0])
    assert ours.state() == before[1]


def test_a_cursor_of_elsewhere_reads_only_what_is_here(ours: Crew, theirs: Crew) -> None:
    body = {"last_update": theirs.ids["last_update"], "from_players": "all"}
    told = ours.ask("host", f"{ROOMS}/updates/poll", body)
    assert [update["update_id"] for update in told["updates"]] == [ours.ids["last_update"]]
    page = ours.api.call("GET", f"{PLAYERS}/list?after_id=0&limit=100", admin=True).json
    ids = {player["id"] for player in page["players"]}
    assert ids == set(ours.player_ids.values())


OWN_GAME: dict[str, tuple[Try, int]] = {
    "to complete another's action": (
        at("lobby_host", f"{ROOMS}/actions/{{action_id}}/complete", {"status": "completed"}),
        400,
    ),
    "as the sender": (
        at("member", f"{ROOMS}/actions/{{action_id}}/complete", {"status": "completed"}),
        404,
    ),
    "to answer for another lobby's host": (
        at("host", f"{LOBBIES}/{{request_id}}/response", {"action": "approve"}),
        400,
    ),
    "to answer as a member": (
        at("lobby_member", f"{LOBBIES}/{{request_id}}/response", {"action": "approve"}),
        400,
    ),
    "to answer one's own request": (
        at("asker", f"{LOBBIES}/{{request_id}}/response", {"action": "approve"}),
        400,
    ),
    "to read another's request": (
        at("loner", f"{LOBBIES}/{{request_id}}/status", method="GET"),
        404,
    ),
    **{
        f"to {verb} another's invite": (
            room_call("loner", f"{FRIENDS}/invites/{verb}", "invite_id"),
            404,
        )
        for verb in ("accept", "decline")
    },
    "to accept what was asked of another": (
        lambda ours, _: ours.call(
            "loner", f"{FRIENDS}/accept", {"player_id": ours.player_ids["member"]}
        ),
        404,
    ),
    "to kick from a room that is not one's own": (
        lambda ours, _: ours.call(
            "lobby_host", f"{ROOMS}/kick", {"player_id": ours.player_ids["member"]}
        ),
        400,
    ),
    "to kick as a member": (
        lambda ours, _: ours.call(
            "member", f"{ROOMS}/kick", {"player_id": ours.player_ids["host"]}
        ),
        400,
    ),
}


def test_what_belongs_to_others_of_the_same_game_cannot_be_reached(ours: Crew) -> None:
    before = ours.state()
    for what, (attempt, status) in OWN_GAME.items():
        reply = attempt(ours, ours)
        assert (what, reply.status) == (what, status), reply
        assert (what, ours.state()) == (what, before)


def wrong_tokens(ours: Crew, theirs: Crew) -> dict[str, dict[str, str | None]]:
    """Headers with the right project key, each without a valid player token."""
    token = ours.tokens["loner"]
    rotated = ours.call("loner", f"{PLAYERS}/rotate")
    ours.tokens["loner"] = rotated.json["private_key"]
    realtime = ours.ask("host", "/api/realtime.php/token")["token"]
    join_token = ours.ask("host", f"{ROOMS}/current", method="GET")["room"].get("join_token", "0")
    good = ours.tokens["loner"]
    wrong = {
        "one that was rotated": token,
        "a realtime token": realtime,
        "a join token": join_token,
        "the admin key": ours.api.game.private,
        "their player's": theirs.tokens["host"],
        "his id": str(ours.player_ids["host"]),
        "cut short": good[:-1],
        "longer": good + "0",
        "in upper case": good.upper() if good != good.upper() else good.lower(),
        "a null": "null",
        "a query": "' OR '1'='1",
        "a wildcard": "%",
        "very long": good * 100,
    }
    headers: dict[str, dict[str, str | None]] = {
        name: {"X-Game-Player-Token": value} for name, value in wrong.items()
    }
    headers |= {
        "as a cookie": {"Cookie": f"X-Game-Player-Token={good}; token={good}"},
        "as Authorization": {"Authorization": f"Bearer {good}"},
        "as a protocol": {"Sec-WebSocket-Protocol": f"token.{good}"},
        "under another name": {"X-Player-Token": good, "Game-Player-Token": good},
        "two of them": {"X-Game-Player-Token": f"{good}, {good}"},
    }
    return headers


def address(row: Endpoint, crew: Crew) -> str:
    return row.path.format(**crew.ids)


def test_no_wrong_token_of_any_kind_passes_or_changes_anything(ours: Crew, theirs: Crew) -> None:
    rows = [row for row in ENDPOINTS if row.auth in {Auth.PLAYER, Auth.PLAYER_AND_ADMIN}]
    assert len(rows) > 40
    headers = wrong_tokens(ours, theirs)
    before = ours.state(), theirs.state()
    for row in rows:
        for kind, sent in headers.items():
            body = None if row.method == "GET" else {"player_data": {"stolen": True}}
            reply = ours.api.call(row.method, address(row, ours), body, headers=sent)
            assert (row.path, kind, reply.status) == (row.path, kind, 401), reply
    assert (ours.state(), theirs.state()) == before


def test_no_wrong_key_of_any_kind_passes_or_changes_anything(ours: Crew, theirs: Crew) -> None:
    keys = {
        "theirs": theirs.api.game.key,
        "the admin key": ours.api.game.private,
        "a player's": ours.tokens["host"],
        "cut short": ours.api.game.key[:-1],
        "longer": ours.api.game.key + "0",
        "a wildcard": "%",
    }
    before = ours.state(), theirs.state()
    for row in ENDPOINTS:
        for kind, key in keys.items():
            headers: dict[str, str | None] = {
                "X-Api-Token": key,
                "X-Game-Player-Token": None if row.auth is Auth.KEY else ours.tokens["host"],
                "X-Api-Private-Token": ours.api.game.private if row.auth is Auth.ADMIN else None,
            }
            if (kind, row.auth) == ("theirs", Auth.KEY):
                continue  # a good key of a game where nothing else is asked
            reply = ours.api.call(row.method, address(row, ours), headers=headers)
            assert (row.path, kind, reply.status) == (row.path, kind, 401), reply
    assert (ours.state(), theirs.state()) == before
