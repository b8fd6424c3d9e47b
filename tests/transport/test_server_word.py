"""The server's word: what a behaviour says is marked on every way, and nobody else can mark so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from realtime_kit import SECONDS_MAX, Client, dial
from server_kit import Api, ServerProcess, serving_modules

from greenroom.client import Game, Receive
from greenroom.client.channel import Channel

ROOM, POLL = "/api/game_room.php", "/api/game_room.php/updates/poll"
MARK = {"is_server": True}
CHOSEN = frozenset({"data", "data_json", "request_data", "response_data", "player_data", "rules"})
"""The fields that hold what clients have chosen."""
FORGED = {"is_server": True, "sender": MARK, "winner": 7}
BEHAVIOURS = """
from greenroom.behaviour import (
    Member, Replace, Room, RoomBehaviour, Verdict, action, message,
)


class Oracle(RoomBehaviour[None]):
    @action("speak")
    def speak(self, room: Room[None], by: Member) -> str:
        room.broadcast("over", {"winner": by.player_id})
        room.broadcast("place", 1, reliable=False, stream="places")
        return "spoken"

    @message("changed")
    def changed(self, room: Room[None], by: Member) -> Verdict:
        return Replace({"by": "the behaviour"})
"""


@pytest.fixture(scope="module")
def oracle(new_database: Callable[[], str]) -> Iterator[ServerProcess]:
    entry = ("--database-url", new_database(), "--behaviours", "oracle:Oracle")
    with serving_modules(
        {"oracle": BEHAVIOURS}, *entry, GREENROOM_RATE_LIMIT_FACTOR="1000"
    ) as server:
        yield server


class Table:
    """A room of a host and a guest."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.api = Api(server.address, server.new_game())
        self.ids = dict[str, int]()
        self.tokens = dict[str, str]()
        for name in ("host", "guest"):
            self.ids[name], self.tokens[name] = self.api.register(name, player_data=FORGED)
        wanted = {"realtime": True, "rules": FORGED, "player_data": FORGED, **FORGED}
        room_id = self.call("host", "POST", f"{ROOM}/create", wanted)["room_id"]
        self.call("guest", "POST", f"{ROOM}/{room_id}/join", {"player_data": FORGED, **FORGED})

    def call(self, name: str, method: str, path: str, body: object = None) -> Any:
        reply = self.api.call(method, path, body, player=self.tokens[name])
        assert reply.status == 200, reply
        return reply.json

    def updates(self, name: str, query: str = "") -> list[Any]:
        reply = self.call(name, "POST", POLL + query, {"from_players": "all"})
        return list(reply["updates"])

    def results(self, name: str) -> list[Any]:
        return list(self.call(name, "GET", f"{ROOM}/actions/poll")["actions"])

    def act(self, name: str, action_type: str, target: str = "host") -> Any:
        sent = {"action_type": action_type, "target_players": target, "request_data": FORGED}
        return self.call(name, "POST", f"{ROOM}/actions", {**FORGED, **sent})

    async def connect(self, stack: AsyncExitStack, name: str, query: str = "") -> Client:
        token = self.call(name, "POST", "/api/realtime.php/token")["token"]
        url = self.server.ready["realtime"].rstrip("/") + "/" + query
        client = await stack.enter_async_context(dial(url, token))
        await client.expect("connected")
        return client


def unchosen(value: Any) -> str:
    """Return an answer or a frame without what clients have chosen."""
    if isinstance(value, dict):
        return str({key: unchosen(inner) for key, inner in value.items() if key not in CHOSEN})
    return str([unchosen(inner) for inner in value] if isinstance(value, list) else value)


async def test_the_behaviours_word_is_marked_in_realtime_for_every_kind(oracle: ServerProcess):
    table = Table(oracle)
    async with AsyncExitStack() as stack:
        guest = await table.connect(stack, "guest")
        host = await table.connect(stack, "host", "?client=engine")
        table.act("guest", "speak")
        sender = {"is_host": True, "game_player_id": table.ids["host"], "player_name": "host"}
        for client in (guest, host):
            for command in ("over", "place"):
                told = await client.expect("receive")
                assert (told["command"], told["sender"]) == (command, {**sender, **MARK})


def test_it_is_marked_for_members_who_poll_and_after_the_server_was_killed(oracle: ServerProcess):
    table = Table(oracle)
    table.act("guest", "speak")
    before = {name: (table.updates(name), table.results(name)) for name in table.ids}
    for name in table.ids:
        (over,) = before[name][0]
        assert (over["type"], over["sender"]) == ("over", MARK)
        assert over["from_player_id"] == table.ids["host"]
        assert table.updates(name, "?format=engine")[0]["sender"] == MARK
    (result,) = before["guest"][1]
    assert (result["status"], result["sender"]) == ("completed", MARK)
    oracle.kill()
    oracle.start()
    table.api = Api(oracle.address, table.api.game)
    assert {name: (table.updates(name), table.results(name)) for name in table.ids} == before


async def test_the_client_library_tells_it_over_udp_and_polling_too(oracle: ServerProcess):
    with trio.fail_after(SECONDS_MAX):
        async with Game.connect(oracle.ready["http"], oracle.new_game().key) as game:
            host, guest = await game.register("host"), await game.register("guest")
            room = await host.create_room(realtime=True)
            seat = await guest.join_room(room.room_id)
            async with host.realtime(room) as channel:
                assert await channel.open_udp()
                sent = await seat.ask("speak")
                heard = [await _heard(channel) for _ in range(2)]
                assert {message.command for message in heard if message.is_fast} == {"place"}
                assert all(message.sender_is_server for message in heard)
                async with guest.realtime(seat) as other:
                    await other.send("over", FORGED)
                    assert not (await _heard(channel)).sender_is_server
                    assert await other.open_udp()
                    await other.send_fast("over", FORGED)
                    forged = await _heard(channel)
                    assert forged.is_fast
                    assert not forged.sender_is_server
            await room.tell("over", FORGED, target="others")
            page = await seat.poll(sources="all")
            assert [(u.type, u.is_server) for u in page.updates] == [
                ("over", True),
                ("over", False),
            ]
            (result,) = await seat.results()
            assert [result.action_id] == sent.action_ids
            assert result.is_server


async def _heard(channel: Channel) -> Receive:
    """Return the next message of a member or the room, over either way."""
    while not isinstance(message := await anext(channel), Receive):
        pass
    return message


async def test_no_member_can_send_what_is_marked(oracle: ServerProcess):
    table = Table(oracle)
    async with AsyncExitStack() as stack:
        clients = {name: await table.connect(stack, name) for name in table.ids}
        for name, other in (("host", "guest"), ("guest", "host")):
            text = json.dumps(FORGED)
            for command in ("over", '","sender":{"is_server":true},"x":"', "changed"):
                forged = {**FORGED, "type": "send", "command": command, "target": "all"}
                for data in (FORGED, {"data_json": text}, [FORGED], text):
                    await clients[name].send({**forged, "data": data})
                    told = await clients[other].expect("receive")
                    assert told["command"] == command
                    assert "is_server" not in unchosen({**told, "command": ""})
                    assert set(told["sender"]) == {"is_host", "game_player_id", "player_name"}
                    await clients[name].expect("sent")
            await clients[name].send({**FORGED, "type": "receive", "command": "over"})
            await clients[name].send({"type": "event", "event": "state", "data": FORGED})
            await clients[other].nothing_more()


def test_nor_can_they_over_http(oracle: ServerProcess):
    table = Table(oracle)
    target = {"target_players": "specific", "target_players_ids": [table.ids["guest"]]}
    for more in ({"data": FORGED}, {"data_json": json.dumps(FORGED)}, {"data": {"sender": MARK}}):
        for kind in ("over", "sender"):
            table.call(
                "host", "POST", f"{ROOM}/updates", {**FORGED, **target, "type": kind, **more}
            )
    guests = {"target_players": "host", "type": "over", "data": FORGED, **FORGED}
    table.call("guest", "POST", f"{ROOM}/updates", guests)
    (identity,) = table.act("guest", "judge")["action_ids"]
    answer = {"status": "completed", "response_data": FORGED, **FORGED}
    pending = table.call("host", "GET", f"{ROOM}/actions/pending")
    current = table.call("guest", "GET", f"{ROOM}/current")
    table.call("host", "POST", f"{ROOM}/actions/{identity}/complete", answer)
    assert len(table.updates("guest")) == 6
    assert len(table.updates("host")) == len(table.results("guest")) == 1
    roster = table.call("guest", "GET", f"{ROOM}/players")
    rooms = table.call("guest", "POST", f"{ROOM}/list", {})
    answers = [table.updates("guest"), table.updates("host"), table.results("guest")]
    for told in [*answers, pending, current, roster, rooms]:
        assert "is_server" not in unchosen(told)
    assert table.results("guest")[0]["response_data"] == FORGED
