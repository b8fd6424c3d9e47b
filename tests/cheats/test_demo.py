"""`greenroom demo` itself: its rooms are strict, and there are none that nobody decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from demo_kit import DemoProcess
from server_kit import Api, data_directory

MARK = {"is_server": True}


@pytest.fixture(scope="module")
def demo(new_database: Callable[[], str]) -> Iterator[DemoProcess]:
    with data_directory() as directory:
        flags = ("--host", "127.0.0.1", "--database-url", new_database())
        server = DemoProcess(directory, *flags)
        try:
            server.start()
            yield server
            assert server.stop() == 0, server.log.read_text()
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"type": "comet"}, '"comet": did you mean "comets"?'),
        ({"type": "noughts "}, '"noughts ": did you mean "noughts"?'),
        ({"type": "tictactoe"}, '"tictactoe" is unknown.'),
        ({"type": 1}, "The type in the rules must be a string."),
        ({"type": "comets", "ships": 99}, "The arena takes other rules: "),
    ],
)
def test_no_room_or_lobby_is_made_that_nobody_decides(
    demo: DemoProcess, rules: dict[str, Any], text: str
):
    api = Api(demo.address, demo.new_game())
    _, token = api.register()
    for path in ("/api/game_room.php/create", "/api/matchmaking.php/create"):
        reply = api.call("POST", path, {"rules": rules, "max_players": 2}, player=token)
        assert reply.status == 400, reply
        assert reply.json["error"].startswith(text)


@pytest.mark.parametrize("kind", ["comets", "noughts"])
def test_no_host_speaks_for_the_server(demo: DemoProcess, kind: str):
    api = Api(demo.address, demo.new_game())
    _, token = api.register()
    room = {"rules": {"type": kind}, "realtime": True, "max_players": 2}
    assert api.call("POST", "/api/game_room.php/create", room, player=token).status == 200
    for word in ("over", "places", "boom", "star"):
        update = {**MARK, "sender": MARK, "target_players": "all", "type": word, "data": MARK}
        reply = api.call("POST", "/api/game_room.php/updates", update, player=token)
        assert (reply.status, reply.json["error"].startswith(f'"{word}"')) == (400, True), reply
