"""Lobbies whose rooms have a behaviour: it is asked before there is a room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from server_kit import Api, ServerProcess, data_directory

BLUFF = """
import msgspec

from greenroom.behaviour import Joining, Member, Refused, Room, RoomBehaviour, action

SEATS_MAX = 4


class Table(msgspec.Struct):
    seats: int
    joined: list[int] = []


class Bluff(RoomBehaviour[Table]):
    def initial_state(self, rules):
        seats = rules.get("seats", 2)
        if seats == "crash":
            raise RuntimeError("no table for this")
        while seats == "hang":
            pass
        if not 2 <= seats <= SEATS_MAX:
            raise Refused(f"seats must be from 2 to {SEATS_MAX}")
        return Table(seats)

    def can_join(self, room: Room[Table], joining: Joining) -> None:
        if len(room.members) >= room.state.seats:
            raise Refused("The table is full")
        if joining.player_data.get("crash"):
            raise RuntimeError("nobody like this")

    def on_join(self, room: Room[Table], member: Member) -> None:
        room.state.joined.append(member.player_id)
        room.broadcast("seated", {"by": member.player_id})

    @action("call")
    def call(self, room: Room[Table], by: Member) -> list[int]:
        return room.state.joined
"""
FULL, SEATS = "The table is full", "seats must be from 2 to 4"
ROOMS, LOBBIES = "/api/game_room.php", "/api/matchmaking.php"


class Den:
    """A server with the behaviour, and players."""

    def __init__(self, data_dir: Path, database_url: str) -> None:
        self._folder = data_dir / "studio"
        self._folder.mkdir()
        self.write(BLUFF)
        self.server = ServerProcess(
            data_dir,
            *("--database-url", database_url),
            "--behaviours-dir",
            str(self._folder),
            "--behaviours",
            "*/bluff=bluff:Bluff",
            "--reload",
            GREENROOM_HOOK_SECONDS_MAX="0.2",
        ).start()
        self._game = self.server.new_game()
        self.api = Api(self.server.address, self._game)

    def write(self, text: str) -> None:
        (self._folder / "bluff.py").write_text(text)

    def edit(self, text: str) -> None:
        """Save the file, and wait until the server has it."""
        logged = self.server.log.stat().st_size
        self.write(text)
        self.server.wait_logged("behaviours reloaded", logged)

    def restart(self) -> None:
        self.server.kill()
        self.server.start()
        self.api = Api(self.server.address, self._game)

    def player(self) -> tuple[int, str]:
        return self.api.register()

    def ask(self, token: str, path: str, method: str = "POST", **body: Any) -> Any:
        return self.api.call(method, path, body if method == "POST" else None, player=token)

    def create(self, token: str, where: str = LOBBIES, **fields: Any) -> Any:
        rules = {"type": "bluff", **fields.pop("rules", {})}
        return self.ask(token, f"{where}/create", max_players=4, rules=rules, **fields)

    def lobby(self, **fields: Any) -> tuple[str, dict[str, Any]]:
        """Open a lobby; return its host's token, and what its creation answered."""
        _, token = self.player()
        made = self.create(token, **fields)
        assert made.status == 200, made
        return token, made.json

    def join(self, token: str, lobby_id: str, **body: Any) -> Any:
        return self.ask(token, f"{LOBBIES}/{lobby_id}/join", **body)

    def members(self, token: str) -> int:
        return len(self.ask(token, f"{LOBBIES}/players", "GET").json["players"])

    def called(self, token: str) -> Any:
        """Return what the behaviour answers to the action `call`."""
        sent = self.ask(
            token, f"{ROOMS}/actions", target_players="host", action_type="call", request_data={}
        )
        assert sent.status == 200, sent
        (result,) = self.ask(token, f"{ROOMS}/actions/poll", "GET").json["actions"]
        assert result["status"] == "completed"
        return result["response_data"]


@pytest.fixture(scope="module")
def den(new_database: Callable[[], str]) -> Iterator[Den]:
    """For all tests: whoever edits the behaviour puts it back."""
    with data_directory() as directory:
        den = Den(directory, new_database())
        yield den
        assert den.server.stop() == 0


def said(reply: Any) -> tuple[int, str]:
    return reply.status, reply.json["error"]


def test_a_lobby_is_created_with_rules_that_its_room_would_take(den: Den):
    _, token = den.player()
    for where in (ROOMS, LOBBIES):
        assert said(den.create(token, where, rules={"seats": 9})) == (400, SEATS)
    assert den.ask(token, f"{LOBBIES}/current", "GET").json["in_matchmaking"] is False
    assert den.create(token, rules={"seats": 4}).status == 200, "they may try again at once"


@pytest.mark.parametrize("fault", ["crash", "hang"])
def test_a_lobby_whose_behaviour_fails_is_not_created(den: Den, fault: str):
    _, token = den.player()
    assert den.create(token, rules={"seats": fault}).status == 500
    assert den.ask(token, f"{LOBBIES}/current", "GET").json["in_matchmaking"] is False
    text = "no table for this" if fault == "crash" else "initial_state was interrupted"
    assert text in den.server.log.read_text()
    assert den.create(token).status == 200


def test_whoever_joins_a_lobby_is_let_in_by_the_behaviour(den: Den):
    host, lobby = den.lobby(password="open")
    lobby_id, key = lobby["matchmaking_id"], lobby["join_token"]
    (_, second), (_, third) = den.player(), den.player()
    assert said(den.join(second, lobby_id)) == (400, "Incorrect password"), "rules come first"
    assert den.join(second, lobby_id, password="open", player_data={"crash": True}).status == 500
    assert "nobody like this" in den.server.log.read_text()
    assert den.members(host) == 1
    assert den.join(second, lobby_id, password="open").status == 200
    for body in ({"password": "open"}, {"join_token": key}):
        assert said(den.join(third, lobby_id, **body)) == (400, FULL)
    assert den.members(host) == 2
    assert den.create(third).status == 200, "a refusal leaves no seat"


def test_an_invite_opens_no_lobby_that_the_behaviour_keeps_closed(den: Den):
    (host_id, host), (_, second), (third_id, third) = den.player(), den.player(), den.player()
    lobby_id = den.create(host, password="open").json["matchmaking_id"]
    assert den.join(second, lobby_id, password="open").status == 200
    for token, operation, player_id in (
        (host, "request", third_id),
        (third, "accept", host_id),
        (host, "invite", third_id),
    ):
        done = den.ask(token, f"/api/friends.php/{operation}", player_id=player_id)
        assert done.status == 200, done
    assert said(den.join(third, lobby_id)) == (400, FULL)


def test_a_request_that_the_behaviour_refuses_stays(den: Den):
    host, lobby = den.lobby(join_by_requests=True)
    requests = []
    for _ in range(2):
        _, token = den.player()
        path = f"{LOBBIES}/{lobby['matchmaking_id']}/request"
        requests.append((token, den.ask(token, path).json["request_id"]))
    (second, first_id), (third, other_id) = requests

    def approve(request_id: str) -> Any:
        return den.ask(host, f"{LOBBIES}/{request_id}/response", action="approve")

    assert approve(first_id).status == 200
    assert said(approve(other_id)) == (400, FULL)
    status = den.ask(third, f"{LOBBIES}/{other_id}/status", "GET").json
    assert status["request"]["status"] == "pending"
    assert den.ask(second, f"{LOBBIES}/leave").status == 200
    assert approve(other_id).status == 200


def test_a_start_is_refused_whole_where_the_behaviour_has_changed_its_mind(den: Den):
    host, lobby = den.lobby(rules={"seats": 3})
    guests = [den.player()[1] for _ in range(2)]
    for guest in guests:
        assert den.join(guest, lobby["matchmaking_id"]).status == 200
    for change, told in (
        (BLUFF.replace("SEATS_MAX = 4", "SEATS_MAX = 2"), (400, "seats must be from 2 to 2")),
        (BLUFF.replace(">= room.state.seats", ">= 2"), (400, FULL)),
        (BLUFF.replace("room.state.joined.append", "room.state.gone.append"), (500, None)),
    ):
        den.edit(change)
        reply = den.ask(host, f"{LOBBIES}/start")
        assert reply.status == told[0], reply
        if told[1]:
            assert said(reply) == told
        current = den.ask(guests[1], f"{LOBBIES}/current", "GET").json["matchmaking"]
        assert (current["is_started"], den.members(host)) == (False, 3)
        assert den.ask(host, f"{ROOMS}/current", "GET").json["in_room"] is False
    assert "has no attribute 'gone'" in den.server.log.read_text()
    den.edit(BLUFF)
    assert den.ask(host, f"{LOBBIES}/start").status == 200
    assert len(den.called(guests[0])) == 3


def test_the_room_of_a_lobby_begins_with_its_members_in_their_order(den: Den):
    (host_id, host), (guest_id, guest) = den.player(), den.player()
    lobby_id = den.create(host).json["matchmaking_id"]
    assert den.join(guest, lobby_id).status == 200
    den.restart()
    started = den.ask(host, f"{LOBBIES}/start")
    assert (started.status, started.json["players_transferred"]) == (200, 2)
    assert den.called(guest) == [host_id, guest_id]
    updates = den.ask(guest, f"{ROOMS}/updates/poll", from_players="all").json["updates"]
    assert [update["data"]["by"] for update in updates] == [host_id, guest_id]
    _, third = den.player()
    assert said(den.ask(third, f"{ROOMS}/{started.json['room_id']}/join")) == (400, FULL)
    den.restart()
    assert den.called(host) == [host_id, guest_id]


def test_rules_that_name_no_behaviour_make_a_plain_room(den: Den):
    (_, host), (_, guest) = den.player(), den.player()
    rules = {"type": "chess", "seats": 9}
    made = den.ask(host, f"{LOBBIES}/create", max_players=2, rules=rules)
    assert den.join(guest, made.json["matchmaking_id"]).status == 200
    assert den.ask(host, f"{LOBBIES}/start").status == 200
    sent = den.ask(
        guest, f"{ROOMS}/actions", target_players="host", action_type="call", request_data={}
    )
    assert sent.status == 200
    pending = den.ask(host, f"{ROOMS}/actions/pending", "GET").json["actions"]
    assert [one["action_type"] for one in pending] == ["call"], "the host's client decides"
