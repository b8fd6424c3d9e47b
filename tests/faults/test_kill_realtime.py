"""Tokens and what was said to polling members are there after the server was killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from realtime_kit import dial
from server_kit import Api, ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def mint(api: Api, token: str) -> str:
    minted: str = api.call("POST", "/api/realtime.php/token", player=token).json["token"]
    return minted


async def test_tokens_outlive_a_killed_server(data_dir: Path) -> None:
    server = ServerProcess(data_dir)
    server.start()
    api = Api(server.address, server.new_game())
    (_, host), (_, guest), (_, reader) = (api.register(f"Player {n}") for n in range(3))
    room = {"realtime": True, "host_switch": True}
    room_id = api.call("POST", "/api/game_room.php/create", room, player=host).json["room_id"]
    for each in (guest, reader):
        api.call("POST", f"/api/game_room.php/{room_id}/join", player=each)
    tokens = [mint(api, token) for token in (host, guest)]
    try:
        url = server.ready["realtime"].rstrip("/") + "/"
        async with dial(url, tokens[0]) as one, dial(url, tokens[1]) as two:
            await one.expect("connected")
            await two.expect("connected")
            await one.say("c", {"n": 1})
            assert (await one.expect("sent"))["target_count"] == 2
            api.call("POST", "/api/game_room.php/leave", player=guest)
            server.kill()
        server.start()
        api = Api(server.address, api.game)
        url = server.ready["realtime"].rstrip("/") + "/"
        async with dial(url, tokens[0]) as one, dial(url, tokens[1]) as two:
            assert (await one.expect("connected"))["data"]["room_id"] == room_id
            assert await two.closed() == (1008, "Token invalidated")
        polled = api.call(
            "POST", "/api/game_room.php/updates/poll", {"from_players": "all"}, player=reader
        )
        assert [update["data"] for update in polled.json["updates"]] == [{"n": 1}]
        assert server.stop() == 0
    finally:
        server.stop()
