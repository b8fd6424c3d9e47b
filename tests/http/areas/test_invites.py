"""Every row about invites, every text and status, over a real socket to either server."""

from __future__ import annotations

from typing import Any

import pytest
from lobby_http_kit import AREA as LOBBIES
from lobby_http_kit import HEX, ROOMS, Player, lobby, player
from server_kit import Api, Reply

FRIENDS = "/api/friends.php"
NOT_FOUND = (404, "Invite not found")
NOT_FRIENDS = (400, "You are not friends with this player")


def refused(reply: Reply, status: int, text: str) -> None:
    assert (reply.status, reply.json) == (status, {"success": False, "error": text})


def befriend(one: Player, other: Player) -> None:
    one.done("request", {"player_id": other.player_id}, FRIENDS)
    other.done("accept", {"player_id": one.player_id}, FRIENDS)


def friends(api: Api, host: Player, count: int = 1, name: str = "Bea") -> list[Player]:
    """New friends of a player."""
    made = [player(api, name) for _ in range(count)]
    for friend in made:
        befriend(host, friend)
    return made


def room(api: Api, **fields: object) -> tuple[str, Player]:
    """A room with a password, and its host."""
    host = player(api, "Ada Żółć 🎮")
    wanted = {"password": "sesame", "host_switch": True, "room_name": "Den נעמי", **fields}
    return host.done("create", wanted, ROOMS)["room_id"], host


def invite(host: Player, friend: Player) -> str:
    answer = host.done("invite", {"player_id": friend.player_id}, FRIENDS)
    assert list(answer) == ["success", "invite_id", "status"]
    assert answer["status"] == "pending"
    assert HEX.fullmatch(answer["invite_id"])
    return str(answer["invite_id"])


def try_invite(host: Player, friend: Player) -> Reply:
    return host.post("invite", {"player_id": friend.player_id}, FRIENDS)


def invited_to(who: Player) -> Any:
    return who.seen("invites", FRIENDS)["invites"]


def answer(who: Player, invite_id: str, word: str) -> Reply:
    return who.post(f"invites/{word}", {"invite_id": invite_id}, FRIENDS)


def join(who: Player, room_id: str) -> Reply:
    return who.post(f"{room_id}/join", None, ROOMS)


# Bodies.


@pytest.mark.parametrize("path", ["invites/accept", "invites/decline"])
@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (None, 400, "Missing required field: invite_id"),
        ({"invite_id": ""}, 400, "Missing required field: invite_id"),
        ({"invite_id": 7}, 400, "invite_id must be a string"),
        ({"invite_id": ["x"]}, 400, "invite_id must be a string"),
        (b"[]", 400, "Invalid JSON body"),
        ({"invite_id": "0" * 32}, *NOT_FOUND),
        ({"invite_id": "🎮" * 1000}, *NOT_FOUND),
    ],
)
def test_what_is_no_invite_is_not_answered(
    api: Api, path: str, body: object, status: int, text: str
):
    refused(player(api).post(path, body, FRIENDS), status, text)


def test_whom_to_invite_must_be_said_rightly(api: Api):
    _, host = room(api)
    for body in (None, {}, {"player_id": ""}):
        refused(host.post("invite", body, FRIENDS), 400, "Missing required field: player_id")
    values: list[object] = ["seven", True, [], 10**18]
    for nonsense in values:
        reply = host.post("invite", {"player_id": nonsense}, FRIENDS)
        refused(reply, 400, "player_id must be an integer")
    for player_id in (0, -1, 10**18 - 1, host.player_id, player(api).player_id):
        refused(host.post("invite", {"player_id": player_id}, FRIENDS), *NOT_FRIENDS)


# Rooms.


def test_an_invite_is_listed_accepted_and_opens_the_room(api: Api):
    room_id, host = room(api)
    (friend,) = friends(api, host)
    assert friend.seen("invites", FRIENDS) == {"success": True, "invites": []}
    refused(join(friend, room_id), 400, "Incorrect password")
    invite_id = invite(host, friend)

    assert invited_to(friend) == [
        {
            "invite_id": invite_id,
            "kind": "room",
            "name": "Den נעמי",
            "from_player": {
                "player_id": host.player_id,
                "player_name": "Ada Żółć 🎮",
                "player_tag": host.seen("list", FRIENDS)["player_tag"],
            },
        }
    ]
    assert answer(friend, invite_id, "accept").json == {
        "success": True,
        "status": "accepted",
        "invite_id": invite_id,
        "matchmaking_id": None,
        "room_id": room_id,
    }
    assert invited_to(friend) == []
    assert join(friend, room_id).status == 200


def test_an_open_invite_opens_the_room_and_is_shown_no_more(api: Api):
    room_id, host = room(api)
    (friend,) = friends(api, host)
    invite_id = invite(host, friend)
    assert join(friend, room_id).status == 200
    assert invited_to(friend) == []
    refused(answer(friend, invite_id, "accept"), *NOT_FOUND)
    friend.done("leave", None, ROOMS)
    assert join(friend, room_id).status == 200


def test_a_declined_invite_opens_nothing(api: Api):
    room_id, host = room(api)
    (friend,) = friends(api, host)
    invite_id = invite(host, friend)
    assert answer(friend, invite_id, "decline").json == {
        "success": True,
        "message": "Invite declined",
        "status": "declined",
        "invite_id": invite_id,
    }
    assert invited_to(friend) == []
    refused(join(friend, room_id), 400, "Incorrect password")


@pytest.mark.parametrize("first", ["accept", "decline"])
@pytest.mark.parametrize("then", ["accept", "decline"])
def test_an_invite_is_answered_once_and_may_come_again(api: Api, first: str, then: str):
    _, host = room(api)
    (friend,) = friends(api, host)
    invite_id = invite(host, friend)
    assert answer(friend, invite_id, first).status == 200
    refused(answer(friend, invite_id, then), *NOT_FOUND)
    again = invite(host, friend)
    assert again != invite_id
    refused(answer(friend, invite_id, then), *NOT_FOUND)
    assert answer(friend, again, then).status == 200


def test_an_invite_is_answered_by_the_invited_alone(api: Api):
    _, host = room(api)
    friend, other = friends(api, host, 2)
    invite_id = invite(host, friend)
    for who in (host, other):
        for word in ("accept", "decline"):
            refused(answer(who, invite_id, word), *NOT_FOUND)
    assert len(invited_to(friend)) == 1


def test_what_stands_against_an_invite_is_said_in_order(api: Api):
    room_id, host = room(api)
    (friend,) = friends(api, host)
    stranger, guest = player(api), player(api)
    refused(try_invite(stranger, friend), *NOT_FRIENDS)
    befriend(stranger, friend)
    refused(try_invite(stranger, friend), 400, "You are not in a room or lobby")
    guest.done(f"{room_id}/join", {"password": "sesame"}, ROOMS)
    befriend(guest, friend)
    invite(host, friend)
    for member in (host, guest):
        refused(try_invite(member, friend), 400, "Invite already sent")
    join(friend, room_id)
    refused(try_invite(host, friend), 400, "Player is already in a room or lobby")
    befriend(host, guest)
    refused(try_invite(host, guest), 400, "Player is already in a room or lobby")


def test_a_friend_with_a_seat_elsewhere_is_not_invited(api: Api):
    _, host = room(api)
    first, second = friends(api, host, 2)
    first.done("create", None, ROOMS)
    second.done("create", {"max_players": 2})
    for friend in (first, second):
        refused(try_invite(host, friend), 400, "Player is already in a room or lobby")


def test_who_was_kicked_does_not_return_by_their_invite(api: Api):
    room_id, host = room(api)
    (friend,) = friends(api, host)
    invite(host, friend)
    join(friend, room_id)
    host.done("kick", {"player_id": friend.player_id}, ROOMS)
    refused(join(friend, room_id), 400, "Incorrect password")


def test_an_invite_outlives_the_friendship_and_the_inviters_stay(api: Api):
    room_id, host = room(api)
    guest = player(api)
    guest.done(f"{room_id}/join", {"password": "sesame"}, ROOMS)
    (friend,) = friends(api, guest)
    invite_id = invite(guest, friend)
    guest.done("remove", {"player_id": friend.player_id}, FRIENDS)
    guest.done("leave", None, ROOMS)
    assert answer(friend, invite_id, "accept").json["room_id"] == room_id
    assert join(friend, room_id).status == 200
    assert host.seen("current", ROOMS)["room"]["current_players"] == 2


def test_invites_end_with_their_room(api: Api):
    _, host = room(api)
    (friend,) = friends(api, host)
    invite_id = invite(host, friend)
    host.done("stop", None, ROOMS)
    assert invited_to(friend) == []
    refused(answer(friend, invite_id, "accept"), *NOT_FOUND)


# Lobbies.


def test_an_invite_opens_a_lobby_without_password_or_approval(api: Api):
    for fields in ({"join_by_requests": True}, {"password": "sesame"}):
        lobby_id, (host,) = lobby(api, 0, matchmaking_name="Duel", **fields)
        (friend,) = friends(api, host)
        text = friend.post(f"{lobby_id}/join").json["error"]
        assert text.startswith(("This matchmaking lobby requires", "Incorrect password"))
        invite_id = invite(host, friend)
        (entry,) = invited_to(friend)
        assert (entry["kind"], entry["name"]) == ("matchmaking", "Duel")
        accepted = answer(friend, invite_id, "accept").json
        assert (accepted["matchmaking_id"], accepted["room_id"]) == (lobby_id, None)
        friend.done(f"{lobby_id}/join")
        refused(try_invite(host, friend), 400, "Player is already in a room or lobby")


def test_a_declined_or_kicked_player_needs_approval_again(api: Api):
    lobby_id, (host,) = lobby(api, 0, join_by_requests=True)
    first, second = friends(api, host, 2)
    answer(first, invite(host, first), "decline")
    invite(host, second)
    second.done(f"{lobby_id}/join")
    host.done("kick", {"player_id": second.player_id})
    for friend in (first, second):
        assert friend.post(f"{lobby_id}/join").json["error"] == (
            "This matchmaking lobby requires host approval. Use /request endpoint instead."
        )


def test_a_lobbys_invites_move_on_into_its_room(api: Api):
    _, (host, guest) = lobby(api, 1, matchmaking_name="Duel", can_leave_room=True, max_players=6)
    first, second, third = friends(api, host, 3)
    ids = [invite(host, friend) for friend in (first, second, third)]
    answer(second, ids[1], "accept")
    answer(third, ids[2], "decline")
    room_id = host.done("start")["room_id"]
    host.done("password", {"password": "sesame"}, ROOMS)

    (entry,) = invited_to(first)
    assert (entry["invite_id"], entry["kind"], entry["name"]) == (ids[0], "room", "Duel")
    accepted = answer(first, ids[0], "accept").json
    assert (accepted["matchmaking_id"], accepted["room_id"]) == (None, room_id)
    assert [join(who, room_id).status for who in (first, second)] == [200, 200]
    refused(join(third, room_id), 400, "Incorrect password")
    assert guest.seen("current", LOBBIES)["matchmaking"]["room_id"] == room_id
    late = friends(api, guest)[0]
    invite(guest, late)
    assert invited_to(late)[0]["kind"] == "room"


def test_invites_end_with_their_lobby(api: Api):
    _, (host,) = lobby(api, 0)
    (friend,) = friends(api, host)
    invite_id = invite(host, friend)
    host.done("stop")
    assert invited_to(friend) == []
    refused(answer(friend, invite_id, "decline"), *NOT_FOUND)
