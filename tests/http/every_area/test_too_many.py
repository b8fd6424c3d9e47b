"""Too much of it: what a limit answers, and what it comes before. On servers with tiny limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from server_kit import Api, Reply, ServerProcess

REGISTER = "/api/game_players.php/register"
CENSOR = "/api/censor.php"
CALLS_MAX = 500


@pytest.fixture(params=["greenroom", "hypercorn"])
def strict(
    request: pytest.FixtureRequest, data_dir: Path, database_url: str
) -> Iterator[ServerProcess]:
    """A server that bears very little."""
    arguments = ("--database-url", database_url, "--server", request.param)
    server = ServerProcess(data_dir, *arguments, GREENROOM_RATE_LIMIT_FACTOR="0.005")
    try:
        yield server.start()
        assert server.stop() == 0
    finally:
        server.kill()


def assert_too_many(reply: Reply) -> None:
    seconds = reply.json["retry_after"]
    assert (reply.status, reply.json) == (
        429,
        {"success": False, "error": "Too many requests", "retry_after": seconds},
    )
    assert type(seconds) is int
    assert seconds >= 1
    assert reply.headers["retry-after"] == str(seconds)
    assert reply.headers["access-control-expose-headers"] == "Retry-After"


def until_refused(api: Api, path: str, body: object, **headers: str | None) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    for _ in range(CALLS_MAX):
        reply = api.call("POST", path, body, headers=sent)
        if reply.status == 429:
            return reply
    raise AssertionError(f"{CALLS_MAX} calls of {path} were let pass")


def test_registering_is_limited_by_address_before_the_key_is_looked_at(strict: ServerProcess):
    api = Api(strict.address, strict.new_game())
    assert api.call("POST", REGISTER, {"player_name": "Ada"}).status == 200
    assert_too_many(until_refused(api, REGISTER, {"player_name": "Ada"}))
    for key in (None, "nonsense"):
        assert_too_many(api.call("POST", REGISTER, b"{", headers={"X-Api-Token": key}))
    assert api.call("GET", "/api/time.php").status == 200


def test_the_censor_is_limited_by_game_and_address(strict: ServerProcess):
    api, other = (Api(strict.address, strict.new_game(name)) for name in ("a", "b"))
    assert api.call("POST", CENSOR, {"text": "hello"}).status == 200
    assert_too_many(until_refused(api, CENSOR, {"text": "hello"}))
    assert_too_many(api.call("POST", CENSOR, b"{"))
    assert other.call("POST", CENSOR, {"text": "hello"}).status == 200


def test_wrong_tokens_are_limited_by_address(strict: ServerProcess):
    api = Api(strict.address, strict.new_game())
    body = {"text": "hello"}
    assert_too_many(until_refused(api, "/api/game_room.php/list", body, X_Api_Token="nonsense"))
    unknown = api.call("GET", "/api/nothing.php")
    assert (unknown.status, unknown.json["error"]) == (404, "Invalid endpoint")
