"""Shares of a plan for each address: what one address spends leaves the others theirs."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from server_kit import KINDS, Api, Game, Reply, ServerProcess, serving

from greenroom.control.admin.messages import CreateGame, CreateOwner, OwnerDetails, ShowOwner
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

PLAN = {
    "GREENROOM_FREE_CALLS_PER_DAY_MAX": "40",  # a quarter is ten
    "GREENROOM_FREE_PLAYERS_ONLINE_MAX": "8",  # a quarter is two
    "GREENROOM_FREE_STORAGE_BYTES_MAX": "400000",  # a quarter is 100 KB
}
SPENT = "Too many requests from this address for this plan: its share is used up for today"
FULL = "Too many concurrent players from this address for this plan: log one of them out"
STORED = "Too much stored from this address for this plan: its share is used up for today"
HERE, STRANGER, PLAYER = "127.0.0.1", "127.0.0.2", "127.0.0.3"
UPDATE: tuple[str, str, object] = ("PUT", "/api/game_data.php/player/update", {})
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    with serving("--database-url", new_database(), "--server", request.param, **PLAN) as process:
        yield process


class Studio:
    """An owner with the small plan, and their game."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._owner = f"studio {next(_numbers)}"
        path = socket_path(server.data_dir)
        call(path, CreateOwner(owner=self._owner, plan="free"))
        keys = call(path, CreateGame(game="game", owner=self._owner))
        self._game = Game(keys.game_id, keys.api_token, keys.api_private_token)

    def at(self, here: str) -> Api:
        """A client at one of this machine's addresses."""
        return Api(self._server.address, self._game, here)

    def used(self) -> OwnerDetails:
        return call(socket_path(self._server.data_dir), ShowOwner(owner=self._owner))


@pytest.fixture
def studio(server: ServerProcess) -> Studio:
    return Studio(server)


def tell_time(api: Api) -> Reply:
    return api.call("GET", "/api/time.php")


def register(api: Api) -> Reply:
    return api.call("POST", "/api/game_players.php/register", {"player_name": "Ada"})


def log_out(api: Api, token: str) -> None:
    assert api.call("POST", "/api/game_players.php/logout", player=token).status == 200


def test_a_stranger_spends_their_share_of_a_days_calls_and_the_player_plays_on(studio: Studio):
    _, ada = studio.at(PLAYER).register()
    statuses = Counter(tell_time(studio.at(STRANGER)).status for _ in range(60))
    refused = tell_time(studio.at(STRANGER))
    until_midnight = 86_400 - int(time.time()) % 86_400

    assert statuses == {200: 10, 429: 50}
    assert refused.status == 429
    assert refused.json == {
        "success": False,
        "error": SPENT,
        "retry_after": refused.json["retry_after"],
    }
    assert abs(refused.json["retry_after"] - until_midnight) <= 5
    assert refused.headers["retry-after"] == str(refused.json["retry_after"])
    read = studio.at(PLAYER).call("GET", "/api/game_data.php/player/get", player=ada)
    assert read.status == 200


def test_bots_take_their_addresss_share_of_the_players_online_and_newcomers_come_in(
    studio: Studio,
):
    bots = [register(studio.at(STRANGER)) for _ in range(8)]

    assert [bot.status for bot in bots] == [200] * 2 + [429] * 6
    assert bots[-1].json == {"success": False, "error": FULL, "retry_after": 60}
    assert register(studio.at(PLAYER)).status == 200
    log_out(studio.at(STRANGER), bots[0].json["private_key"])
    assert register(studio.at(STRANGER)).status == 200
    back = studio.at(STRANGER).call(
        "PUT", "/api/game_players.php/login", player=bots[0].json["private_key"]
    )
    assert (back.status, back.json["error"]) == (429, FULL)


def test_a_banned_player_leaves_room_for_another_in_the_plan(studio: Studio):
    bots = [register(studio.at(STRANGER)) for _ in range(2)]
    assert register(studio.at(STRANGER)).status == 429
    ban = {"player_id": int(bots[0].json["player_id"]), "ban_duration": "day"}
    api = studio.at(STRANGER)
    assert api.call("POST", "/api/game_players.php/ban", ban, admin=True).status == 200

    assert register(studio.at(STRANGER)).status == 200


def test_this_machine_itself_may_use_the_whole_plan_and_then_the_plan_refuses(studio: Studio):
    players = [register(studio.at(HERE)).status for _ in range(9)]
    calls = [tell_time(studio.at(HERE)).status for _ in range(33)]

    assert players == [200] * 8 + [429]
    assert calls == [200] * 32 + [429]
    assert tell_time(studio.at(HERE)).json["error"] == "Too many requests"


def test_what_the_owner_calls_with_the_admin_key_counts_for_no_address(studio: Studio):
    _, ada = studio.at(STRANGER).register()
    listed = [
        studio.at(STRANGER).call("GET", "/api/game_players.php/list", admin=True).status
        for _ in range(12)
    ]
    written = [studio.at(STRANGER).call(*UPDATE, player=ada, admin=True).status for _ in range(12)]
    own = [studio.at(STRANGER).call(*UPDATE, player=ada).status for _ in range(10)]

    assert (set(listed), set(written)) == ({200}, {200})
    assert own == [200] * 9 + [429]
    assert studio.used().calls_today.used == 1 + 24 + 9


def test_a_call_that_is_refused_with_come_back_later_is_no_call_of_the_day(studio: Studio):
    for number in range(8):
        assert register(studio.at(f"127.0.1.{number}")).status == 200
    refused = register(studio.at("127.0.2.1"))

    assert (refused.status, refused.json["error"]) == (
        429,
        "Too many concurrent players for this plan",
    )
    assert studio.used().calls_today.used == 8


def test_a_registration_beyond_the_share_is_no_call_of_the_day(studio: Studio):
    for _ in range(20):
        register(studio.at(STRANGER))

    assert studio.used().calls_today.used == 2
    assert [tell_time(studio.at(STRANGER)).status for _ in range(9)] == [200] * 8 + [429]


def test_a_stranger_fills_their_share_of_the_storage_and_players_store_on(studio: Studio):
    """One address filled all of a plan's storage, for good, with a day's share of its calls."""
    mallory_token, ada = (studio.at(here).register()[1] for here in (STRANGER, PLAYER))

    def store(here: str, token: str, size: int, *, admin: bool = False) -> Reply:
        method, path, _ = UPDATE
        return studio.at(here).call(method, path, {"a": "b" * size}, player=token, admin=admin)

    filled = [store(STRANGER, mallory_token, size) for size in (80_000, 90_000, 120_000)]
    with_data = {"player_name": "Bob", "player_data": {"a": "b" * 30_000}}
    registered = studio.at(STRANGER).call("POST", "/api/game_players.php/register", with_data)

    assert [reply.status for reply in filled] == [200, 200, 429]
    for refused in (filled[-1], registered):
        assert refused.status == 429
        assert refused.json["error"] == STORED
        assert 0 < refused.json["retry_after"] <= 86_400
    assert store(PLAYER, ada, 90_000).status == 200
    assert store(STRANGER, mallory_token, 120_000, admin=True).status == 200
    assert store(STRANGER, mallory_token, 10).status == 200
    assert store(STRANGER, mallory_token, 90_000).status == 200
