"""Hostile messages to a room with a behaviour: no number and no nesting stops the room."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from realtime_kit import dial
from server_kit import Api, Reply, ServerProcess, serving_modules

ROOMS, LOBBIES = "/api/game_room.php", "/api/matchmaking.php"
ECHO = '''"""A behaviour that looks at all that is sent, keeps it and shows it."""

from typing import Any

import msgspec

from greenroom.behaviour import (
    Action, Complete, Forward, Joining, Member, Message, Replace, Room, RoomBehaviour, Update,
    Verdict,
)


class Heard(msgspec.Struct):
    last: Any = None


class Echo(RoomBehaviour[Heard]):
    def can_join(self, room: Room[Heard], joining: Joining) -> None:
        room.state.last = joining.player_data

    def on_action(self, room: Room[Heard], by: Member, action: Action) -> Verdict:
        room.state.last = action.request_data
        return Complete({"heard": action.request_data})

    def on_update(self, room: Room[Heard], by: Member, update: Update) -> Verdict:
        return Replace({"heard": update.data})

    def on_message(self, room: Room[Heard], by: Member, message: Message) -> Verdict:
        room.state.last = message.data
        return Forward()

    def shared(self, room: Room[Heard]) -> object:
        return room.state.last
'''
HOSTILE = {
    "beyond every float": b"1e999",
    "below every float": b"-1e999",
    "of 4,000 digits": b"9" * 4_000,
    "of 40 digits": b"-" + b"9" * 40,
    "nearly nothing": b"1e-99999",
    "nested": b"[" * 400 + b"]" * 400,
    "nested in names": b'{"a":' * 400 + b"1" + b"}" * 400,
    "text of every kind": rb'"\u0000\ud83d\ude00\u202e"',
}
DEEP = (
    b"[" * 500 + b"]" * 500,
    b"[" * 900 + b"]" * 900,
    b"[" * 980 + b"]" * 980,
    b"[" * 20_000 + b"]" * 20_000,
)


@pytest.fixture(scope="module")
def studio(new_database: Callable[[], str]) -> Iterator[ServerProcess]:
    entry = ("--database-url", new_database(), "--behaviours", "*/echo=echo:Echo")
    with serving_modules({"echo": ECHO}, *entry, GREENROOM_RATE_LIMIT_FACTOR="1000") as server:
        yield server


@pytest.fixture
def echo(studio: ServerProcess) -> Api:
    return Api(studio.address, studio.new_game())


def sent(api: Api, token: str, path: str, **parts: bytes) -> Reply:
    """A call with a body of raw parts."""
    body = b",".join(b'"%b":%b' % (name.encode(), value) for name, value in parts.items())
    return api.call("POST", path, b"{" + body + b"}", player=token)


def room_of_two(api: Api, data: bytes) -> tuple[str, str, str]:
    """A room whose rules and members' data hold something; the room's id, both tokens."""
    (_, host), (_, guest) = api.register("Ann"), api.register("Bob")
    rules = b'{"type":"echo","x":%b}' % data
    held = b'{"x":%b}' % data
    made = sent(api, host, f"{ROOMS}/create", realtime=b"true", rules=rules, player_data=held)
    assert made.status == 200, made
    room_id: str = made.json["room_id"]
    joined = sent(api, guest, f"{ROOMS}/{room_id}/join", player_data=held)
    assert joined.status == 200, joined
    return room_id, host, guest


@pytest.mark.parametrize("name", HOSTILE)
async def test_whatever_json_says_reaches_the_behaviour_and_stops_nothing(
    studio: ServerProcess, echo: Api, name: str
):
    size = studio.log.stat().st_size
    data = HOSTILE[name]
    _, _, guest = room_of_two(echo, data)
    held = b'{"x":%b}' % data
    to_host = {"target_players": b'"host"'}
    acted = sent(echo, guest, f"{ROOMS}/actions", action_type=b'"a"', request_data=held, **to_host)
    assert acted.status == 200, acted
    told = sent(echo, guest, f"{ROOMS}/updates", type=b'"u"', data=held, **to_host)
    assert told.status == 200, told
    token = echo.call("POST", "/api/realtime.php/token", player=guest).json["token"]
    async with dial(studio.ready["realtime"].rstrip("/") + "/", token) as client:
        await client.expect("connected")
        text = b'{"type":"send","command":"c","target":"all","data":%b}' % data
        await client.connection.send_message(text.decode())
        while (kind := (await client.take())["type"]) != "sent":
            assert kind == "event"
    assert b'"level":"error"' not in studio.log.read_bytes()[size:]


async def test_what_nests_too_deep_crashes_no_room(studio: ServerProcess, echo: Api):
    size = studio.log.stat().st_size
    _, _, guest = room_of_two(echo, b"1")
    token = echo.call("POST", "/api/realtime.php/token", player=guest).json["token"]
    async with dial(studio.ready["realtime"].rstrip("/") + "/", token) as client:
        for data in DEEP:
            text = b'{"type":"send","command":"c","target":"all","data":%b}' % data
            await client.connection.send_message(text.decode())
        for _ in DEEP:
            while (kind := (await client.take())["type"]) != "error":
                assert kind in {"connected", "event"}
    for data in DEEP:
        reply = sent(
            echo,
            guest,
            f"{ROOMS}/actions",
            action_type=b'"a"',
            request_data=b'{"x":%b}' % data,
            target_players=b'"host"',
        )
        assert (reply.status, reply.json["error"]) == (400, "Invalid JSON body")
    assert b"crashed" not in studio.log.read_bytes()[size:]


def test_what_takes_long_to_decode_reaches_no_behaviour(studio: ServerProcess, echo: Api):
    _, _, guest = room_of_two(echo, b"1")

    def act(data: bytes) -> list[Reply]:
        to_host = {"target_players": b'"host"'}
        told = sent(echo, guest, f"{ROOMS}/updates", type=b'"u"', data=data, **to_host)
        path, named = f"{ROOMS}/actions", {"action_type": b'"a"', "request_data": data}
        return [told, sent(echo, guest, path, **named, **to_host)]

    largest = b'{"x":[%b]}' % (b"[]," * 21_842 + b"12")
    assert len(largest) == 64 << 10
    assert [reply.status for reply in act(largest)] == [200, 200]
    text = "The data must be at most 65536 bytes in this room"
    refused = act(largest.replace(b"12", b"123"))
    assert [(reply.status, reply.json["error"]) for reply in refused] == [(400, text)] * 2


@pytest.mark.parametrize("name", HOSTILE)
def test_a_lobby_whose_members_bring_it_starts(studio: ServerProcess, echo: Api, name: str):
    size = studio.log.stat().st_size
    (_, host), (_, guest) = echo.register("Ann"), echo.register("Bob")
    held = b'{"x":%b}' % HOSTILE[name]
    rules = b'{"type":"echo","x":%b}' % HOSTILE[name]
    made = sent(echo, host, f"{LOBBIES}/create", max_players=b"4", rules=rules, player_data=held)
    lobby_id = made.json["matchmaking_id"]
    assert sent(echo, guest, f"{LOBBIES}/{lobby_id}/join", player_data=held).status == 200
    assert sent(echo, host, f"{LOBBIES}/start").status == 200
    assert echo.call("GET", f"{ROOMS}/players", player=guest).status == 200
    assert b'"level":"error"' not in studio.log.read_bytes()[size:]


def test_rooms_come_back_with_what_they_hold(studio: ServerProcess):
    game = studio.new_game()
    api = Api(studio.address, game)
    rooms = {name: room_of_two(api, data) for name, data in HOSTILE.items()}
    size = studio.log.stat().st_size
    studio.kill()
    studio.start()
    api = Api(studio.address, game)
    for name, (_, host, guest) in rooms.items():
        for token in (host, guest):
            reply = api.call("GET", f"{ROOMS}/current", player=token)
            assert (name, reply.status, b'"in_room":true' in reply.body) == (name, 200, True)
        acted = sent(api, guest, f"{ROOMS}/actions", action_type=b'"a"', target_players=b'"host"')
        assert (name, acted.status) == (name, 200)
    assert b'"level":"error"' not in studio.log.read_bytes()[size:]
