"""Leaderboards that strangers ask for, over sockets: charged, refused, and in nobody's way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from server_kit import KINDS, Api, Reply, ServerProcess, serving

from greenroom.control.admin.messages import ChangeGameSettings
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

STRANGER, PLAYER = "127.0.0.2", "127.0.0.3"
SMALL = {
    "GREENROOM_LEADERBOARD_BYTES_PER_SECOND_ADDRESS": "20000",  # 400,000 at once: some six builds
}


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, new_database: Callable[[], str]
) -> Iterator[ServerProcess]:
    with serving("--database-url", new_database(), "--server", request.param, **SMALL) as process:
        yield process


def rank(api: Api, *fields: str) -> Reply:
    return api.call("POST", "/api/leaderboard.php", {"sort_by": fields})


def junk(number: int) -> list[str]:
    return [f"f{number}_{n}" for n in range(16)]


def test_a_stranger_builds_as_much_as_their_allowance_and_the_games_own_board_stays(
    server: ServerProcess,
):
    game = server.new_game()
    player, stranger = Api(server.address, game, PLAYER), Api(server.address, game, STRANGER)
    player.register(player_data={"score": 1})
    own = [rank(player, "score").status for _ in range(2)]
    replies = []
    for number in range(40):
        replies.append(rank(stranger, *junk(number)))
        own.append(rank(player, "score").status)

    statuses = Counter(reply.status for reply in replies)
    assert set(own) == {200}
    assert set(statuses) == {200, 429}
    assert 4 <= statuses[200] <= 12
    refused = next(reply for reply in reversed(replies) if reply.status == 429)
    assert refused.json == {
        "success": False,
        "error": "Too many requests",
        "retry_after": refused.json["retry_after"],
    }
    assert 1 <= refused.json["retry_after"] <= 10
    assert rank(player, "level").status == 200
    assert rank(stranger, "score").status == 200
    page = player.call("GET", "/metrics").body.decode()
    assert 'greenroom_refused_calls_total{reason="leaderboard builds by address"}' in page


def test_a_game_may_declare_its_leaderboards_and_refuses_others(server: ServerProcess):
    game = server.new_game()
    api = Api(server.address, game)
    api.register(player_data={"score": 1})
    assert rank(api, "junk").status == 200
    boards = '[["score"],["level","xp"]]'
    path = socket_path(server.data_dir)
    shown = call(
        path,
        ChangeGameSettings(game_id=game.game_id, assigned={"leaderboards": boards}, removed=[]),
    )

    assert shown.leaderboards == [["score"], ["level", "xp"]]
    assert rank(api, "score").json["total"] == 1
    assert rank(api, "level", "x!p", "level").status == 200
    refused = rank(api, "junk")
    assert refused.status == 400
    assert refused.json["error"] == (
        'There is no leaderboard by these fields: this game has those by ["score"], ["level", "xp"]'
    )
    call(path, ChangeGameSettings(game_id=game.game_id, assigned={}, removed=["leaderboards"]))
    assert rank(api, "junk").status == 200
