"""Every refusal of limits and plans, status, text and header, over sockets to either server."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from server_kit import KINDS, Api, Game, Reply, ServerProcess, TrioClient, serving

from greenroom.control.admin.messages import CreateGame, CreateOwner, SetPlan, ShowOwner
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

STRICT = {
    "GREENROOM_TRUSTED_PROXIES": "127.0.0.1",
    "GREENROOM_RATE_BURST_SECONDS": "60",  # so that 0.05 a second is three at once
    "GREENROOM_ACCOUNT_CALLS_PER_SECOND_PLAYER": "0.05",
    "GREENROOM_REGISTER_CALLS_PER_SECOND_ADDRESS": "0.05",
    "GREENROOM_LIST_CALLS_PER_SECOND_ADDRESS": "0.05",
    "GREENROOM_LEADERBOARD_CALLS_PER_SECOND_ADDRESS": "0.05",
    "GREENROOM_CENSOR_CALLS_PER_SECOND_GAME_ADDRESS": "0.05",
    "GREENROOM_ADMIN_CALLS_PER_SECOND_ADDRESS": "0.05",
    "GREENROOM_FAILED_TOKENS_PER_SECOND_ADDRESS": "0.05",
    "GREENROOM_WRONG_PASSWORDS_PER_SECOND_ADDRESS": "0.05",
    "GREENROOM_FREE_CALLS_PER_DAY_MAX": "5",
    "GREENROOM_STANDARD_PLAYERS_ONLINE_MAX": "2",
    "GREENROOM_PRO_STORAGE_BYTES_MAX": "1000",
    "GREENROOM_PLAN_SHARE_PER_ADDRESS": "1",
    "GREENROOM_METRICS_TOKEN": "secret",
}
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=KINDS)
def strict(
    request: pytest.FixtureRequest, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    """A server with small limits that believes what its clients say of their address."""
    with serving("--database-url", new_database(), "--server", request.param, **STRICT) as process:
        yield process


class Client(Api):
    """A client of a game, at an address of its own until it moves."""

    def __init__(self, server: ServerProcess, plan: Any = "unlimited") -> None:
        self.owner = f"owner {next(_numbers)}"
        self.path = socket_path(server.data_dir)
        call(self.path, CreateOwner(owner=self.owner, plan=plan))
        keys = call(self.path, CreateGame(game="game", owner=self.owner))
        super().__init__(server.address, Game(keys.game_id, keys.api_token, keys.api_private_token))
        self.move()

    def move(self) -> None:
        """Go to another address."""
        number = next(_numbers)
        self.here = f"198.51.{number >> 8}.{number & 255}"

    def call(self, method: str, path: str, body: object = None, **more: Any) -> Reply:
        headers = {"X-Forwarded-For": self.here} | more.pop("headers", {})
        return super().call(method, path, body, headers=headers, **more)

    def get(self, player: str) -> Reply:
        return self.call("GET", "/api/game_data.php/player/get", player=player)

    def put(self, player: str, document: object) -> Reply:
        return self.call("PUT", "/api/game_data.php/player/update", document, player=player)


def assert_too_many(reply: Reply, seconds_min: int, seconds_max: int) -> None:
    retry_after = reply.json["retry_after"]
    assert reply.status == 429
    assert reply.json == {
        "success": False,
        "error": "Too many requests",
        "retry_after": retry_after,
    }
    assert seconds_min <= retry_after <= seconds_max
    assert reply.headers["retry-after"] == str(retry_after)


@pytest.mark.parametrize(
    ("method", "path", "body", "admin"),
    [
        ("POST", "game_players.php/register", {"player_name": "Ada"}, False),
        ("POST", "game_room.php/list", {}, False),
        ("POST", "matchmaking.php/list", {}, False),
        ("POST", "leaderboard.php", {"sort_by": ["a"]}, False),
        ("POST", "censor.php", {"text": "hello"}, False),
        ("GET", "game_players.php/list", None, True),
    ],
)
def test_an_address_may_call_as_often_as_the_class_says(
    strict: ServerProcess, method: str, path: str, body: object, admin: bool
):
    client = Client(strict)
    replies = [client.call(method, f"/api/{path}", body, admin=admin) for _ in range(4)]

    assert [reply.status for reply in replies] == [200, 200, 200, 429]
    assert_too_many(replies[3], 10, 20)
    client.move()
    assert client.call(method, f"/api/{path}", body, admin=admin).status == 200


def test_a_player_may_call_as_often_as_the_class_says_from_wherever(strict: ServerProcess):
    client = Client(strict)
    _, ada = client.register("Ada")
    _, bob = client.register("Bob")
    replies = []
    for _ in range(4):
        client.move()
        replies.append(client.call("PUT", "/api/game_players.php/login", player=ada))

    assert [reply.status for reply in replies] == [200, 200, 200, 429]
    assert_too_many(replies[3], 10, 20)
    assert client.get(ada).status == 200
    assert client.call("PUT", "/api/game_players.php/login", player=bob).status == 200


def test_wrong_tokens_shut_their_address_out_before_any_token_is_looked_at(
    strict: ServerProcess,
):
    client = Client(strict)
    _, ada = client.register()
    wrong = [client.get("nonsense").status for _ in range(3)]

    assert wrong == [401, 401, 401]
    assert_too_many(client.get(ada), 10, 20)
    assert_too_many(client.call("GET", "/api/time.php", headers={"X-Api-Token": None}), 10, 20)
    client.move()
    assert client.get(ada).status == 200


def test_the_calls_of_a_day_are_the_owners_and_another_plan_counts_at_once(
    strict: ServerProcess,
):
    client = Client(strict, "free")
    replies = [client.call("GET", "/api/time.php") for _ in range(6)]
    until_midnight = 86_400 - int(time.time()) % 86_400

    assert [reply.status for reply in replies] == [200] * 5 + [429]
    assert_too_many(replies[5], until_midnight - 5, until_midnight + 5)
    used = call(client.path, ShowOwner(owner=client.owner))
    assert (used.calls_today.used, used.calls_today.limit) == (5, 5)
    call(client.path, SetPlan(owner=client.owner, plan="standard"))
    assert client.call("GET", "/api/time.php").status == 200


def test_one_player_more_than_the_plan_has_waits_while_the_others_play(strict: ServerProcess):
    client = Client(strict, "standard")
    _, ada = client.register("Ada")
    client.register("Bob")
    refused = client.call("POST", "/api/game_players.php/register", {"player_name": "Eve"})

    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    assert refused.json == {
        "success": False,
        "error": "Too many concurrent players for this plan",
        "retry_after": 60,
    }
    assert client.get(ada).status == 200
    assert client.call("POST", "/api/game_players.php/logout", player=ada).status == 200
    client.move()
    client.register("Eve")
    assert (client.get(ada).status, client.get(ada).json) == (429, refused.json)


def test_two_hundred_race_for_two_slots(strict: ServerProcess):
    client = Client(strict, "standard")
    statuses: Counter[int] = Counter()

    def register(number: int) -> None:
        reply = client.call(
            "POST",
            "/api/game_players.php/register",
            {"player_name": "Ada"},
            headers={"X-Forwarded-For": f"203.0.113.{number}"},
        )
        statuses[reply.status] += 1

    threads = [threading.Thread(target=register, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == {200: 2, 429: 198}


def test_what_grows_beyond_the_storage_is_refused_and_what_shrinks_is_not(
    strict: ServerProcess,
):
    client = Client(strict, "pro")
    _, ada = client.register("Ada", player_data={"a": 1})
    full = {"success": False, "error": "Storage limit reached. Delete data or upgrade the plan."}
    large = {"x": "y" * 2_000}
    for reply in (
        client.put(ada, large),
        client.call("PUT", "/api/game_data.php/game/update", large, admin=True),
        client.call(
            "POST",
            "/api/game_players.php/register",
            {"player_name": "Bob", "player_data": large},
        ),
    ):
        assert (reply.status, reply.json) == (400, full)
    assert client.put(ada, {"x": "y" * 600}).status == 200
    rename = client.call("PUT", "/api/game_players.php/rename", {"new_name": "A" * 50}, player=ada)
    assert rename.status == 200
    refused = client.call("POST", "/api/game_players.php/register", {"player_name": "Bob"})
    assert (refused.status, refused.json) == (400, full)
    assert client.put(ada, {}).status == 200
    assert client.get(ada).json["data"] == {}
    used = call(client.path, ShowOwner(owner=client.owner)).storage_bytes
    assert (used.used, used.limit) == (2 + 256 + 50 + 2, 1_000)


def test_refusals_are_counted_by_their_reason(strict: ServerProcess):
    client = Client(strict)
    for _ in range(5):
        client.call("POST", "/api/leaderboard.php", {"sort_by": ["a"]})
    page = client.call("GET", "/metrics", headers={"Authorization": "Bearer secret"}).body.decode()
    lines = [line for line in page.splitlines() if 'reason="leaderboard by address"' in line]
    assert len(lines) == 1
    assert float(lines[0].rpartition(" ")[2]) >= 2


async def test_the_start_burst_passes_with_the_limits_as_they_come(data_dir: Path):
    """Sixteen members poll `current` as they do when a lobby starts, their room beside it."""
    server = ServerProcess(data_dir)
    try:
        await trio.to_thread.run_sync(server.start)
        api = Api(server.address, server.new_game())
        tokens = [api.register(f"member {number}")[1] for number in range(16)]
        statuses: Counter[int] = Counter()

        async def poll(token: str) -> None:
            client = TrioClient(server, api.game.key)
            for _ in range(60):  # three seconds' worth, faster than anybody polls
                for area in ("matchmaking", "game_room"):
                    status, _ = await client.call("GET", f"/api/{area}.php/current", player=token)
                    statuses[status] += 1
            await client.close()

        async with trio.open_nursery() as nursery:
            for token in tokens:
                nursery.start_soon(poll, token)
        assert statuses == {200: 16 * 60 * 2}
        assert await trio.to_thread.run_sync(server.stop) == 0
    finally:
        server.kill()


def test_a_large_answer_is_charged_by_its_size(strict: ServerProcess):
    client = Client(strict)
    _, host = client.register("Ada")
    rules = {"map": "x" * 60_000}
    body = {"max_players": 4, "rules": rules}
    reply = client.call("POST", "/api/game_room.php/create", body, player=host)
    assert reply.status == 200
    for path in ("/api/game_room.php/list?format=engine", "/api/game_room.php/list"):
        client.move()
        reply = client.call("POST", path, {})
        assert len(reply.body) > 60_000  # four calls of the three that there are
        assert_too_many(client.call("POST", path, {}), 30, 60)


AREAS = {"game_room.php": "room_id", "matchmaking.php": "matchmaking_id"}


@pytest.mark.parametrize("area", AREAS)
def test_wrong_passwords_are_slowed_where_they_come_from(strict: ServerProcess, area: str):
    api = Client(strict)
    (_, host), (_, guest), (_, guesser) = (api.register(name) for name in ("Ann", "Bob", "Eve"))
    wanted = {"password": "4711", "max_players": 4}
    made = api.call("POST", f"/api/{area}/create", wanted, player=host).json
    path = f"/api/{area}/{made[AREAS[area]]}/join"

    def join(player: str, **body: str) -> Reply:
        return api.call("POST", path, body, player=player)

    api.move()
    for body in ({"password": "0000"}, {"join_token": "f" * 16}, {"password": "0001"}):
        assert join(guesser, **body).json["error"] == "Incorrect password"
    assert join(guesser).json["error"] == "Incorrect password", "no guess at all"
    reply = join(guesser, password="4711")
    assert (reply.status, reply.json["error"]) == (429, "Too many wrong passwords")
    assert 0 < reply.json["retry_after"] <= 20
    assert reply.headers["retry-after"] == str(reply.json["retry_after"])
    assert join(guesser, join_token=made["join_token"]).status == 200
    api.move()
    assert join(guest, password="4711").status == 200, "a stranger's guesses are in nobody's way"


@pytest.mark.parametrize("area", AREAS)
def test_a_host_has_another_join_token_and_the_old_one_is_dead(strict: ServerProcess, area: str):
    api = Client(strict)
    (_, host), (guest_id, guest) = api.register("Ann"), api.register("Bob")
    wanted = {"password": "4711", "max_players": 4}
    made = api.call("POST", f"/api/{area}/create", wanted, player=host).json
    path = f"/api/{area}/{made[AREAS[area]]}/join"

    def join(token: str) -> Reply:
        return api.call("POST", path, {"join_token": token}, player=guest)

    def renew(player: str) -> Reply:
        return api.call("POST", f"/api/{area}/join_token", player=player)

    refused = renew(guest)
    none = {"game_room.php": "any room", "matchmaking.php": "a matchmaking lobby"}
    assert (refused.status, refused.json["error"]) == (400, f"You are not in {none[area]}")
    assert join(made["join_token"]).status == 200
    refused = renew(guest)
    assert (refused.status, refused.json["error"]) == (400, "Only host can renew the join token")
    renewed = renew(host)
    assert renewed.status == 200
    assert renewed.json == {"success": True, "join_token": renewed.json["join_token"]}
    kicked = api.call("POST", f"/api/{area}/kick", {"player_id": guest_id}, player=host)
    assert kicked.status == 200
    assert join(made["join_token"]).json["error"] == "Incorrect password"
    assert join(renewed.json["join_token"]).status == 200
