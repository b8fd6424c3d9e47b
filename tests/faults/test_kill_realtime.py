"""Realtime rooms go on after the server was killed: tokens, stored messages, waiting clients."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from realtime_kit import dial
from server_kit import Api, ServerProcess
from waiting import until

from greenroom.client import Event, Game, Receive, Sent
from greenroom.client.channel import Channel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def mint(api: Api, token: str) -> str:
    minted: str = api.call("POST", "/api/realtime.php/token", player=token).json["token"]
    return minted


async def test_tokens_outlive_a_killed_server(data_dir: Path, database_url: str) -> None:
    server = ServerProcess(data_dir, "--database-url", database_url)
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


async def until_heard(channel: Channel, command: str) -> list[object]:
    """Return what came up to a message, and that."""
    came: list[object] = []
    async for message in channel:
        came.append(message)
        if isinstance(message, Receive) and message.command == command:
            break
    return came


async def until_sent(channel: Channel, command: str) -> None:
    """Wait until a message of ours has been taken, durably where it had to be stored."""
    async for message in channel:
        if isinstance(message, Sent) and message.command == command:
            break


async def test_clients_come_back_by_themselves_and_go_on(data_dir: Path, database_url: str) -> None:
    database = ("--database-url", database_url)
    server = ServerProcess(data_dir, *database).start()
    host, port = server.address
    url, key = f"http://{host}:{port}", server.new_game().key
    try:
        with trio.fail_after(120):
            async with Game.connect(url, key) as game:
                ada, bob, eve = [await game.register(name) for name in ("Ada", "Bob", "Eve")]
                room = await ada.create_room(realtime=True)
                seats = [await player.join_room(room.room_id) for player in (bob, eve)]
                updates = seats[1].updates(poll_seconds=0.05)
                async with ada.realtime(room) as one, bob.realtime(seats[0]) as two:
                    assert await one.open_udp()
                    assert await two.open_udp()
                    await one.send("before", 1, target="others")
                    await until_heard(two, "before")
                    assert (await anext(updates)).data == 1
                    await one.send("unread", 2, target="others")
                    await until_sent(one, "unread")
                    server.kill()
                    # the API where it was, the realtime ports anywhere
                    again = ServerProcess(data_dir, "--port", str(port), *database)
                    server = await trio.to_thread.run_sync(again.start)
                    await until(lambda: {c.statistics.connections for c in (one, two)} == {2})
                    await one.send("after", 3, target="others")
                    came = await until_heard(two, "after")
                    assert Event("replay_gap", {"missed": None}) in came
                    assert [(await anext(updates)).data for _ in range(2)] == [2, 3]
                    assert updates.missed == 0
                    assert await one.open_udp(seconds_max=10)
                    assert await two.open_udp(seconds_max=10)
                    assert await two.send_fast("fast", 4, target="host")
                    assert (await until_heard(one, "fast"))[-1] == Receive(
                        "fast", 4, bob.player_id, False, is_fast=True
                    )
        assert server.stop() == 0
    finally:
        server.stop()
