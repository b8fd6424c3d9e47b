"""Bounds on what one address, and all of them, may make a server hold and write.

On servers with little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from server_kit import Api, Game, Reply, ServerProcess

from greenroom.control.admin.messages import CreateGame, CreateOwner, DeleteGame, ShowOwner
from greenroom.control.client import call
from greenroom.control.errors import OperationRefused
from greenroom.control.protocol import socket_path

ROOMS = "/api/game_room.php"
LOBBIES = "/api/matchmaking.php"
DOCUMENT = "/api/game_data.php/player/update"
DATA = {"x": "x" * 50_000}
ROOMS_BYTES_MAX = 1_600_000
WRITTEN_BYTES_MAX = 2_000_000
CALLS_MAX = 60

Serve = Callable[..., ServerProcess]


@pytest.fixture
def serve(data_dir: Path, database_url: str) -> Iterator[Serve]:
    """Starts a server that takes this machine for a proxy of everybody."""
    made: list[ServerProcess] = []

    def start(**settings: int | str) -> ServerProcess:
        given = {f"GREENROOM_{name.upper()}": str(value) for name, value in settings.items()}
        given["GREENROOM_TRUSTED_PROXIES"] = "127.0.0.1"
        made.append(ServerProcess(data_dir, "--database-url", database_url, **given))
        return made[-1].start()

    yield start
    for server in made:
        server.kill()


class Guest:
    """A player who calls from an address."""

    def __init__(self, api: Api, address: str) -> None:
        self.api = api
        self.address = address
        reply = self.call("POST", "/api/game_players.php/register", {"player_name": "Ada"})
        assert reply.status == 200, reply
        self.token = reply.json["private_key"]

    def call(self, method: str, path: str, body: object = None) -> Reply:
        headers = {"X-Forwarded-For": self.address}
        token = getattr(self, "token", None)
        return self.api.call(method, path, body, player=token, headers=headers)


def assert_refused(reply: Reply, text: str, seconds_max: int) -> None:
    assert (reply.status, reply.json["error"]) == (429, text), reply
    assert 1 <= reply.json["retry_after"] <= seconds_max
    assert reply.headers["retry-after"] == str(reply.json["retry_after"])


def open_all(
    api: Api, address: str, path: str = ROOMS, **body: Any
) -> tuple[list[Guest], Guest, Reply]:
    """Open rooms from an address until one is refused; return the hosts, and who was refused."""
    hosts: list[Guest] = []
    for _ in range(CALLS_MAX):
        guest = Guest(api, address)
        reply = guest.call("POST", f"{path}/create", {"rules": DATA, **body})
        if reply.status == 429:
            return hosts, guest, reply
        assert reply.status == 200, reply
        hosts.append(guest)
    raise AssertionError(f"{CALLS_MAX} were opened from {address}")


def metric(api: Api, name: str) -> float:
    page = api.call("GET", "/metrics").body.decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
    assert found is not None, f"{name} is not in /metrics"
    return float(found[1])


TOO_MUCH = "Rooms and lobbies hold too much; try again later"


def test_rooms_and_lobbies_are_refused_before_they_take_more_than_they_may(serve: Serve):
    server = serve(rooms_bytes_max=ROOMS_BYTES_MAX)
    api = Api(server.address, server.new_game())
    by_address = ROOMS_BYTES_MAX // 4 // len(str(DATA))

    hosts, refused, reply = open_all(api, "203.0.113.1")
    assert_refused(reply, TOO_MUCH, 60)
    assert by_address - 2 <= len(hosts) <= by_address
    _, _, reply = open_all(api, "203.0.113.2", LOBBIES, max_players=2)
    assert_refused(reply, TOO_MUCH, 60)
    assert hosts[0].call("POST", f"{ROOMS}/stop").status == 200
    assert refused.call("POST", f"{ROOMS}/create", {"rules": DATA}).status == 200

    last = [open_all(api, f"203.0.113.{number}") for number in (3, 4, 5)][-1]
    assert_refused(last[2], TOO_MUCH, 60)
    assert 0.9 * ROOMS_BYTES_MAX < metric(api, "greenroom_rooms_bytes") <= ROOMS_BYTES_MAX
    by_server = 'greenroom_refused_calls_total{reason="room bytes by server"}'
    assert metric(api, by_server) >= 1

    body = {"target_players": "all", "type": "big", "dataJson": DATA, "data": DATA}
    assert_refused(hosts[1].call("POST", f"{ROOMS}/updates", body), TOO_MUCH, 60)
    ask = {"target_players": "all", "action_type": "big", "request_data": DATA}
    assert_refused(hosts[1].call("POST", f"{ROOMS}/actions", ask), TOO_MUCH, 60)
    assert hosts[1].call("GET", f"{ROOMS}/players").status == 200
    assert hosts[1].call("POST", f"{ROOMS}/leave").status == 200


def test_one_head_from_two_addresses_counts_for_each(serve: Serve):
    server = serve(written_bytes_per_day_max=WRITTEN_BYTES_MAX)
    game = server.new_game()
    here, there = (Api(server.address, game, here=f"127.0.0.{n}") for n in (2, 3))
    _, token = here.register()

    count = 0
    while (reply := here.call("PUT", DOCUMENT, DATA, player=token)).status == 200:
        count += 1
        assert count < CALLS_MAX
    assert count > 3  # so the caller was known long before
    assert_refused(reply, "Too much has been written today", 86_400)
    for _ in range(4):
        assert there.call("PUT", DOCUMENT, DATA, player=token).status == 200
    assert here.call("PUT", DOCUMENT, DATA, player=token).status == 429


def test_who_joins_others_rooms_fills_them_from_their_own_share(serve: Serve):
    server = serve(rooms_bytes_max=ROOMS_BYTES_MAX)
    api = Api(server.address, server.new_game())
    hosts = [Guest(api, f"203.0.113.{number}") for number in range(1, 9)]
    bots: list[Guest] = []
    for host in hosts:
        made = host.call("POST", f"{ROOMS}/create", {"max_players": 2}).json
        bot = Guest(api, "198.51.100.1")
        joined = bot.call("POST", f"{ROOMS}/{made['room_id']}/join", {"player_data": {}})
        assert joined.status == 200, joined
        bots.append(bot)
    body = {"target_players": "host", "type": "big", "data": DATA}
    replies = [bot.call("POST", f"{ROOMS}/updates", body) for bot in bots * 4]

    taken = [reply for reply in replies if reply.status == 200]
    assert len(taken) == (ROOMS_BYTES_MAX // 4 - 8 * 2_048) // len(str(DATA))
    assert_refused(replies[-1], TOO_MUCH, 60)
    answer = {"target_players": "all", "type": "big", "data": DATA}
    assert all(host.call("POST", f"{ROOMS}/updates", answer).status == 200 for host in hosts)
    for bot in bots:
        assert bot.call("POST", f"{ROOMS}/leave").status == 200
    reply = bots[0].call("POST", f"{ROOMS}/create", {"rules": DATA})
    assert_refused(reply, TOO_MUCH, 60)
    assert open_all(api, "203.0.113.100")[0]


def test_what_rooms_hold_is_counted_again_after_a_crash(serve: Serve):
    server = serve(rooms_bytes_max=ROOMS_BYTES_MAX)
    game = server.new_game()
    api = Api(server.address, game)
    for number in range(1, 6):
        open_all(api, f"203.0.113.{number}")
    held = metric(api, "greenroom_rooms_bytes")
    rooms = metric(api, "greenroom_rooms")
    server.kill()

    again = Api(serve(rooms_bytes_max=ROOMS_BYTES_MAX).address, game)
    assert metric(again, "greenroom_rooms") == rooms
    assert metric(again, "greenroom_rooms_bytes") == held
    guest = Guest(again, "203.0.113.9")
    assert_refused(guest.call("POST", f"{ROOMS}/create", {"rules": DATA}), TOO_MUCH, 60)


def test_an_address_writes_its_share_of_a_day_and_others_write_on(serve: Serve):
    server = serve(written_bytes_per_day_max=WRITTEN_BYTES_MAX)
    api = Api(server.address, server.new_game())
    greedy, other = Guest(api, "203.0.113.1"), Guest(api, "203.0.113.2")

    count = 0
    while (reply := greedy.call("PUT", DOCUMENT, DATA)).status == 200 and count < CALLS_MAX:
        count += 1
    assert_refused(reply, "Too much has been written today", 86_400)
    assert count == WRITTEN_BYTES_MAX // 4 // len(str(DATA))
    assert greedy.call("GET", "/api/game_data.php/player/get").json["data"] == DATA
    assert greedy.call("POST", "/api/game_players.php/logout").status == 200
    assert other.call("PUT", DOCUMENT, DATA).status == 200
    assert metric(api, "greenroom_written_bytes_today") < WRITTEN_BYTES_MAX / 3


def test_a_plan_allows_so_many_rooms_and_its_owner_is_shown_what_is_used(serve: Serve):
    server = serve(free_rooms_max=4)
    path = socket_path(server.data_dir)
    call(path, CreateOwner(owner="Studio", plan="free"))
    keys = call(path, CreateGame(game="game", owner="Studio"))
    api = Api(server.address, Game(keys.game_id, keys.api_token, keys.api_private_token))
    hosts, refused, reply = open_all(api, "203.0.113.1")
    assert len(hosts) == 1
    assert_refused(reply, "Too many rooms and lobbies for this plan", 60)
    Guest(api, "203.0.113.2").call("POST", f"{LOBBIES}/create", {"max_players": 2})

    used = call(path, ShowOwner(owner="Studio"))
    assert (used.rooms.used, used.rooms.limit) == (2, 4)
    assert len(str(DATA)) < used.rooms_bytes.used < (used.rooms_bytes.limit or 0)
    assert 2 * len(str(DATA)) < used.written_bytes_today.used < 4 * len(str(DATA))
    assert hosts[0].call("POST", f"{ROOMS}/leave").status == 200
    assert refused.call("POST", f"{ROOMS}/create").status == 200


# What players in memory hold.

PLAYERS_BYTES_MAX = 2 << 20
LARGE = {"x": "x" * 100_000}
PLAYERS_TOO_MUCH = "Players in memory hold too much; try again later, or store less"


def store_all(api: Api, address: str, guests: int) -> tuple[list[Guest], list[Guest]]:
    """Register guests who each store a large document; return who did, and who was refused."""
    stored: list[Guest] = []
    refused: list[Guest] = []
    for _ in range(guests):
        guest = Guest(api, address)
        reply = guest.call("PUT", DOCUMENT, LARGE)
        if reply.status != 200:
            assert_refused(reply, PLAYERS_TOO_MUCH, 60)
        (stored if reply.status == 200 else refused).append(guest)
    return stored, refused


def test_what_players_hold_is_bounded_and_another_address_plays_on(serve: Serve):
    settings = {"players_bytes_max": PLAYERS_BYTES_MAX, "rate_limit_factor": 100}
    server = serve(**settings)
    game = server.new_game()
    api = Api(server.address, game)
    other = Guest(api, "203.0.113.2")

    stored, refused = store_all(api, "203.0.113.1", 60)
    assert len(stored) == PLAYERS_BYTES_MAX * 3 // 4 // 4 // len(str(LARGE))
    assert other.call("PUT", DOCUMENT, LARGE).status == 200
    body = {"player_name": "Ada", "player_data": LARGE}
    path, headers = "/api/game_players.php/register", {"X-Forwarded-For": "203.0.113.1"}
    assert_refused(api.call("POST", path, body, headers=headers), PLAYERS_TOO_MUCH, 60)
    for guest, data in ((stored[0], LARGE), (refused[0], {}), (other, LARGE)):
        assert guest.call("GET", "/api/game_data.php/player/get").json["data"] == data
    assert refused[0].call("PUT", DOCUMENT, {"small": 1}).status == 200
    for number in range(3, 9):
        store_all(api, f"203.0.113.{number}", 5)
    held = metric(api, "greenroom_players_bytes")
    assert PLAYERS_BYTES_MAX / 2 < held <= PLAYERS_BYTES_MAX
    for reason in ("address", "server"):
        name = f'greenroom_refused_calls_total{{reason="player bytes by {reason}"}}'
        assert metric(api, name) >= 1
    assert other.call("PUT", DOCUMENT, {"small": 1}).status == 200
    held = metric(api, "greenroom_players_bytes")
    server.kill()

    again = Api(serve(**settings).address, game)
    assert metric(again, "greenroom_players_bytes") == held
    for guest in (*stored, *refused, other):
        guest.api = again
    assert stored[0].call("GET", "/api/game_data.php/player/get").json["data"] == LARGE
    assert_refused(refused[0].call("PUT", DOCUMENT, LARGE), PLAYERS_TOO_MUCH, 60)
    assert other.call("PUT", DOCUMENT, {"small": 2}).status == 200
    assert Guest(again, "203.0.113.9").call("PUT", DOCUMENT, {"small": 3}).status == 200


GAMES_TOO_MUCH = "Game documents hold too much; store less, or raise games_bytes_max"


def test_what_the_documents_of_all_games_hold_is_bounded(serve: Serve):
    server = serve(games_bytes_max=250_000)
    games = [server.new_game() for _ in range(3)]
    path = "/api/game_data.php/game/update"

    def store(number: int, data: object) -> Reply:
        return Api(server.address, games[number]).call("PUT", path, data, admin=True)

    large = {"map": "x" * 100_000}
    assert [store(number, large).status for number in (0, 1, 0)] == [200] * 3
    assert_refused(store(2, large), GAMES_TOO_MUCH, 60)
    assert store(1, {"small": 1}).status == 200
    assert store(2, large).status == 200
    api = Api(server.address, games[0])
    assert 200_000 < metric(api, "greenroom_games_bytes") <= 250_000
    assert metric(api, 'greenroom_refused_calls_total{reason="game bytes by server"}') == 1
    held = metric(api, "greenroom_games_bytes")
    server.kill()

    server = serve(games_bytes_max=120_000)
    api = Api(server.address, games[0])
    assert metric(api, "greenroom_games_bytes") == held
    read = api.call("GET", "/api/game_data.php/game/get")
    assert read.json["data"] == large, "what is there is served"
    assert_refused(store(1, large), GAMES_TOO_MUCH, 60)
    with pytest.raises(OperationRefused, match=GAMES_TOO_MUCH):
        server.new_game()
    socket = socket_path(server.data_dir)
    call(socket, DeleteGame(game_id=games[2].game_id))
    assert store(0, {}).status == 200
    server.new_game()
    owner = call(socket, ShowOwner(owner="local"))
    assert owner.games_bytes.used == metric(api, "greenroom_games_bytes") < 20_000
