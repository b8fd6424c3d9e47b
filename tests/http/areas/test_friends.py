"""Every row of the friends area, every text and status, over a real socket to either server."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from server_kit import Api, Reply

AREA = "/api/friends.php"


NO_PLAYER = (404, "Player not found")
NO_REQUEST = (404, "Friend request not found")
NOT_FRIENDS = (400, "You are not friends with this player")


class Player(NamedTuple):
    """A player of a test's game."""

    api: Api
    player_id: int
    token: str

    def post(self, path: str, body: object = None) -> Reply:
        return self.api.call("POST", f"{AREA}/{path}", body, player=self.token)

    def done(self, path: str, body: object = None) -> Any:
        """Post what must succeed."""
        reply = self.post(path, body)
        assert (reply.status, reply.json["success"]) == (200, True), reply
        return reply.json

    def to(self, path: str, other: Player) -> Reply:
        """Post something about another player."""
        return self.post(path, {"player_id": other.player_id})

    def seen(self, path: str = "list") -> Any:
        reply = self.api.call("GET", f"{AREA}/{path}", player=self.token)
        assert (reply.status, reply.json["success"]) == (200, True), reply
        return reply.json

    def tag(self) -> str:
        return str(self.seen()["player_tag"])


def player(api: Api, name: str = "Ada") -> Player:
    return Player(api, *api.register(name))


def refused(reply: Reply, status: int, text: str) -> None:
    assert (reply.status, reply.json) == (status, {"success": False, "error": text})


def between(one: Player, other: Player) -> str | None:
    """Return what the second is to the first: the same in all that either of them is shown."""
    views = [_view(one, other), _view(other, one)]
    other_way = {"incoming": "outgoing", "outgoing": "incoming"}
    assert views[1] == other_way.get(str(views[0]), views[0])
    return views[0]


def _view(one: Player, other: Player) -> str | None:
    listed = one.seen()
    kinds = {"friends": "friend", "incoming": "incoming", "outgoing": "outgoing"}
    found = [
        kinds[field]
        for field in kinds
        for entry in listed[field]
        if entry["player_id"] == other.player_id
    ]
    looked_up = one.done("lookup", {"player_tag": other.tag()})
    assert looked_up["relationship"] == looked_up["player"]["relationship"]
    assert found == ([] if looked_up["relationship"] is None else [looked_up["relationship"]])
    return found[0] if found else None


def befriend(one: Player, other: Player) -> None:
    one.done("request", {"player_id": other.player_id})
    other.done("accept", {"player_id": one.player_id})


# Bodies.


@pytest.mark.parametrize("path", ["lookup", "request"])
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (None, 400, "Missing required field: player_tag or player_id"),
        (
            {"player_tag": "", "player_id": None},
            400,
            "Missing required field: player_tag or player_id",
        ),
        ({"player_tag": 7}, 400, "player_tag must be a string"),
        ({"player_id": "seven"}, 400, "player_id must be an integer"),
        ({"player_id": 1.5}, 400, "player_id must be an integer"),
        ({"player_id": [1]}, 400, "player_id must be an integer"),
        ({"player_id": 10**18}, 400, "player_id must be an integer"),
        (b"[]", 400, "Invalid JSON body"),
        ({"player_id": 0}, *NO_PLAYER),
        ({"player_id": -1}, *NO_PLAYER),
        ({"player_id": 10**18 - 1}, *NO_PLAYER),
        ({"player_tag": "#BBBBBBBB"}, *NO_PLAYER),
        ({"player_tag": "#"}, *NO_PLAYER),
        ({"player_tag": "🎮" * 8}, *NO_PLAYER),
        ({"player_tag": "\ud800"}, 400, "Invalid JSON body"),
        ({"player_tag": "x" * 10_000}, *NO_PLAYER),
    ],
)
def test_whoever_is_not_named_rightly_is_not_found(
    api: Api, path: str, body: object, status: int, text: str
):
    refused(player(api).post(path, body), status, text)


@pytest.mark.parametrize(
    ("path", "nobody"),
    [("accept", NO_REQUEST), ("decline", NO_REQUEST), ("remove", NOT_FRIENDS)],
)
def test_an_other_player_must_be_named_by_their_id(
    api: Api, other: Api, path: str, nobody: tuple[int, str]
):
    me = player(api)
    missing = "Missing required field: player_id"
    for body in (None, {}, {"player_id": None}, {"player_id": ""}, {"player_tag": me.tag()}):
        refused(me.post(path, body), 400, missing)
    nonsense: list[object] = ["seven", True, 1.5, {}, 10**18]
    for value in nonsense:
        refused(me.post(path, {"player_id": value}), 400, "player_id must be an integer")
    foreign = player(other).player_id
    for player_id in (0, -5, 10**18 - 1, me.player_id, foreign, player(api).player_id):
        refused(me.post(path, {"player_id": player_id}), *nobody)


# list, lookup


def test_a_player_begins_without_friends_and_with_a_tag(api: Api):
    listed = player(api).seen()

    assert list(listed) == ["success", "player_tag", "friends", "incoming", "outgoing"]
    assert re.fullmatch("#[2-9BCDFGHJKLMNPQRSTVWXYZ]{8}", listed["player_tag"])
    assert listed["friends"] == listed["incoming"] == listed["outgoing"] == []


def test_a_player_is_found_by_their_tag_however_it_is_spelled(api: Api):
    me, ada = player(api), player(api, "Ada נעמי 🎮")
    tag = ada.tag()
    wanted = {
        "player_id": ada.player_id,
        "player_name": "Ada נעמי 🎮",
        "player_tag": tag,
        "is_online": True,
        "platform_id": None,
        "relationship": None,
    }
    for spelled in (tag, tag[1:], tag.lower()):
        found = me.done("lookup", {"player_tag": spelled})
        assert found == {"success": True, "player": wanted, "relationship": None}
    assert me.done("lookup", {"player_id": str(ada.player_id)})["player"] == wanted
    mine = me.done("lookup", {"player_tag": me.tag()})
    assert (mine["player"]["player_id"], mine["relationship"]) == (me.player_id, None)


def test_a_tag_counts_more_than_an_id(api: Api):
    me, ada, bob = player(api), player(api), player(api)
    body = {"player_tag": ada.tag(), "player_id": bob.player_id}
    assert me.done("lookup", body)["player"]["player_id"] == ada.player_id


def test_players_of_another_game_do_not_exist(api: Api, other: Api):
    me, stranger = player(api), player(other)
    for path in ("lookup", "request"):
        refused(me.post(path, {"player_tag": stranger.tag()}), *NO_PLAYER)
        refused(me.to(path, stranger), *NO_PLAYER)


def test_lists_show_names_and_presence_as_they_are_now(api: Api, request: pytest.FixtureRequest):
    me, ada, bob = player(api), player(api, "Ada"), player(api, "Bob")
    befriend(me, ada)
    befriend(bob, me)
    api.call("PUT", "/api/game_players.php/rename", {"new_name": "Ada Żółć"}, player=ada.token)
    api.call("POST", "/api/game_players.php/logout", player=bob.token)

    friends = me.seen()["friends"]
    if "spread" in request.node.name:  # two nodes do not draw ids in order of registration
        friends.sort(key=lambda friend: friend["player_name"])
    assert [(friend["player_name"], friend["is_online"]) for friend in friends] == [
        ("Ada Żółć", True),
        ("Bob", False),
    ]
    assert friends[0] == {
        "player_id": ada.player_id,
        "player_name": "Ada Żółć",
        "player_tag": ada.tag(),
        "is_online": True,
        "platform_id": None,
        "relationship": "friend",
    }


# platform


@pytest.mark.parametrize(
    "platform_ids",
    [None, "", "7656", 7656, {}, [7656], [None], ["a", ["b"]], ["a\0"], ["1"] * 101],
)
def test_platform_ids_are_a_list_of_texts(api: Api, platform_ids: object):
    text = "platform_ids must be an array of at most 100 strings"
    refused(player(api).post("platform", {"platform_ids": platform_ids}), 400, text)


@pytest.mark.parametrize("platform_ids", [[], ["76561197960287930"], ["", "🎮", "'"], ["1"] * 100])
def test_nobody_of_the_platform_plays_here(api: Api, platform_ids: list[str]):
    body = {"platform_ids": platform_ids}
    assert player(api).done("platform", body) == {"success": True, "players": []}


# request, accept, decline, remove


def test_a_request_is_sent_and_accepted(api: Api):
    me, ada = player(api), player(api)
    assert me.done("request", {"player_tag": ada.tag()}) == {
        "success": True,
        "status": "pending",
        "player_id": ada.player_id,
    }
    assert between(me, ada) == "outgoing"
    assert ada.done("accept", {"player_id": str(me.player_id)}) == {
        "success": True,
        "message": "Friend request accepted",
        "player_id": me.player_id,
    }
    assert between(me, ada) == "friend"
    assert me.done("remove", {"player_id": ada.player_id}) == {
        "success": True,
        "message": "Friend removed",
        "player_id": ada.player_id,
    }
    assert between(me, ada) is None


def test_a_request_is_declined_and_may_be_sent_again(api: Api):
    me, ada = player(api), player(api)
    for _ in range(2):
        me.done("request", {"player_id": ada.player_id})
        assert ada.done("decline", {"player_id": me.player_id}) == {
            "success": True,
            "message": "Friend request declined",
            "player_id": me.player_id,
        }
        assert between(me, ada) is None


def test_a_mutual_request_accepts(api: Api):
    me, ada = player(api), player(api)
    me.done("request", {"player_id": ada.player_id})
    assert ada.done("request", {"player_tag": me.tag()})["status"] == "accepted"
    assert between(me, ada) == "friend"


def test_nobody_befriends_themselves(api: Api):
    me = player(api)
    refused(me.post("request", {"player_tag": me.tag()}), 400, "You cannot add yourself")
    refused(me.to("request", me), 400, "You cannot add yourself")


def _nothing(_: Player, __: Player) -> None:
    pass


def _outgoing(me: Player, other: Player) -> None:
    me.done("request", {"player_id": other.player_id})


def _incoming(me: Player, other: Player) -> None:
    _outgoing(other, me)


@pytest.mark.parametrize(
    ("prepare", "path", "outcome", "after"),
    [
        (_nothing, "request", "pending", "outgoing"),
        (_nothing, "accept", NO_REQUEST, None),
        (_nothing, "decline", NO_REQUEST, None),
        (_nothing, "remove", NOT_FRIENDS, None),
        (_outgoing, "request", (400, "Friend request already sent"), "outgoing"),
        (_outgoing, "accept", NO_REQUEST, "outgoing"),
        (_outgoing, "decline", NO_REQUEST, "outgoing"),
        (_outgoing, "remove", NOT_FRIENDS, "outgoing"),
        (_incoming, "request", "accepted", "friend"),
        (_incoming, "accept", None, "friend"),
        (_incoming, "decline", None, None),
        (_incoming, "remove", NOT_FRIENDS, "incoming"),
        (befriend, "request", (400, "You are already friends"), "friend"),
        (befriend, "accept", NO_REQUEST, "friend"),
        (befriend, "decline", NO_REQUEST, "friend"),
        (befriend, "remove", None, None),
    ],
)
def test_every_call_from_every_state(
    api: Api,
    prepare: Callable[[Player, Player], None],
    path: str,
    outcome: tuple[int, str] | str | None,
    after: str | None,
):
    me, ada = player(api), player(api)
    prepare(me, ada)
    reply = me.to(path, ada)
    if isinstance(outcome, tuple):
        refused(reply, *outcome)
    else:
        assert (reply.status, reply.json.get("status")) == (200, outcome)
    assert between(me, ada) == after


def test_of_requests_that_cross_one_is_the_answer(api: Api):
    pairs = [(player(api), player(api)) for _ in range(5)]
    with ThreadPoolExecutor(10) as pool:
        sent = [
            (pool.submit(a.to, "request", b), pool.submit(b.to, "request", a)) for a, b in pairs
        ]
        for (one, other), replies in zip(pairs, sent, strict=True):
            assert sorted(r.result().json["status"] for r in replies) == ["accepted", "pending"]
            assert between(one, other) == "friend"


def test_a_banned_player_stays_a_friend_and_may_be_asked(api: Api):
    me, ada, bob = player(api), player(api), player(api)
    befriend(me, ada)
    for who in (ada, bob):
        body = {"player_id": who.player_id, "ban_duration": "forever"}
        api.call("POST", "/api/game_players.php/ban", body, admin=True)
    assert [f["player_id"] for f in me.seen()["friends"]] == [ada.player_id]
    assert me.done("request", {"player_id": bob.player_id})["status"] == "pending"
    assert ada.to("remove", me).status == 403
