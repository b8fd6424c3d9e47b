"""Every call as it goes over the wire, against what the server takes."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Literal

import msgspec
import pytest
from client_kit import Asked, Told, playing
from contract_kit import OPERATIONS

from greenroom.client import Friends, Game, Lobby, Player, Room
from greenroom.contract.operation import Operation
from greenroom.http.endpoints import ENDPOINTS

Call = Callable[[Any], Awaitable[Any]]

GAME: dict[str, Call] = {
    "REGISTER": lambda g: g.register(
        "Ada", player_data={}, platform_ticket="ab", platform_identity="x"
    ),
    "GET_GAME": lambda g: g.document(),
    "LIST_ROOMS": lambda g: g.rooms("den", limit=3),
    "LIST_LOBBIES": lambda g: g.lobbies("den", limit=3),
    "LEADERBOARD": lambda g: g.leaderboard(["level"], limit=3),
    "CENSOR": lambda g: g.censor("text"),
    "TIME": lambda g: g.time(offset_hours=-2),
    "LIST_PLAYERS": lambda g: g.admin("private").players(limit=3, after_id=7),
    "BAN": lambda g: g.admin("private").ban(7, "day", reason="rude"),
    "UNBAN": lambda g: g.admin("private").unban(7),
    "STATS": lambda g: g.admin("private").stats(
        7, {"wins": {"increment": 1}}, request_id="order-1"
    ),
    "SET_GAME": lambda g: g.admin("private").set_document({"a": 1}),
}
PLAYER: dict[str, Call] = {
    "LOG_IN": lambda p: p.log_in(),
    "BEAT": lambda p: p.heartbeat(),
    "LOG_OUT": lambda p: p.log_out(),
    "RENAME": lambda p: p.rename("Eve"),
    "ROTATE": lambda p: p.rotate(),
    "GET_PLAYER": lambda p: p.document(),
    "SET_PLAYER": lambda p: p.set_document(b'{"a": 1.0}'),
    "CREATE_ROOM": lambda p: p.create_room(
        "Den",
        password="x",
        max_players=3,
        host_switch=True,
        realtime=True,
        rules={},
        player_data={},
    ),
    "JOIN_ROOM": lambda p: p.join_room("7", password="x", join_token="y", player_data={}),
    "CREATE_LOBBY": lambda p: p.create_lobby(
        3,
        matchmaking_name="Den",
        strict_full=True,
        join_by_requests=True,
        host_switch=True,
        can_leave_room=True,
        realtime_room=True,
        password="x",
        rules={},
        player_data={},
    ),
    "JOIN_LOBBY": lambda p: p.join_lobby("7", password="x", join_token="y", player_data={}),
    "ASK_TO_JOIN": lambda p: p.ask_to_join("7", player_data={}),
    "JOIN_REQUEST": lambda p: p.join_request("7"),
    "MINT_TOKEN": lambda p: p.realtime_token(),
}
ROOM: dict[str, Call] = {
    "ROOM_CURRENT": lambda r: r.current(),
    "ROOM_PLAYERS": lambda r: r.players(),
    "ROOM_BEAT": lambda r: r.heartbeat(),
    "LEAVE_ROOM": lambda r: r.leave(),
    "STOP_ROOM": lambda r: r.stop(),
    "ROOM_KICK": lambda r: r.kick(7),
    "ROOM_PASSWORD": lambda r: r.set_password(""),
    "ROOM_JOIN_TOKEN": lambda r: r.renew_join_token(),
    "SEND_ACTIONS": lambda r: r.ask("move", {}, target="specific", target_ids=[7]),
    "ACTION_RESULTS": lambda r: r.results(),
    "PENDING_ACTIONS": lambda r: r.pending(),
    "COMPLETE_ACTION": lambda r: r.complete("7", {}, status="failed"),
    "SEND_UPDATES": lambda r: r.tell("moved", {}, target="specific", target_ids=[7]),
    "POLL_UPDATES": lambda r: r.poll("7", sources="specific", source_ids=[7]),
}
LOBBY: dict[str, Call] = {
    "LOBBY_CURRENT": lambda y: y.current(),
    "LOBBY_PLAYERS": lambda y: y.players(),
    "LOBBY_BEAT": lambda y: y.heartbeat(),
    "LEAVE_LOBBY": lambda y: y.leave(),
    "START_LOBBY": lambda y: y.start(),
    "STOP_LOBBY": lambda y: y.stop(),
    "REMOVE_LOBBY": lambda y: y.remove(),
    "LOBBY_KICK": lambda y: y.kick(7),
    "LOBBY_PASSWORD": lambda y: y.set_password(""),
    "LOBBY_JOIN_TOKEN": lambda y: y.renew_join_token(),
    "ANSWER_REQUEST": lambda y: y.approve("7"),
}
FRIENDS: dict[str, Call] = {
    "LIST_FRIENDS": lambda f: f.list(),
    "LOOK_UP": lambda f: f.look_up("#22222222"),
    "REQUEST_FRIEND": lambda f: f.request(player_tag="#22222222", player_id=7),
    "ACCEPT_FRIEND": lambda f: f.accept(7),
    "DECLINE_FRIEND": lambda f: f.decline(7),
    "REMOVE_FRIEND": lambda f: f.remove(7),
    "PLATFORM_FRIENDS": lambda f: f.on_platform(["7"]),
    "INVITE": lambda f: f.invite(7),
    "LIST_INVITES": lambda f: f.invites(),
    "ACCEPT_INVITE": lambda f: f.accept_invite("7"),
    "DECLINE_INVITE": lambda f: f.decline_invite("7"),
}
CALLS: list[tuple[str, type, Call]] = [
    (name, kind, call)
    for kind, calls in (
        *((Game, GAME), (Player, PLAYER), (Room, ROOM), (Lobby, LOBBY), (Friends, FRIENDS)),
    )
    for name, call in calls.items()
]
TWO_FORMS = {"LOOK_UP": {"player_id"}}
"""Fields that the server takes besides, and that the client has no use for."""


def smallest(annotation: Any) -> Any:
    """The smallest JSON value that fits a type."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {typing.Union, types.UnionType}:
        return None if type(None) in arguments else smallest(arguments[0])
    if origin is Literal:
        return arguments[0]
    if inspect.isclass(annotation) and issubclass(annotation, msgspec.Struct):
        hints = typing.get_type_hints(annotation)
        required = [f for f in msgspec.structs.fields(annotation) if f.required]
        return {field.name: smallest(hints[field.name]) for field in required} | {"success": True}
    plain: dict[Any, Any] = {bool: False, int: 1, str: "x", datetime: "2026-01-01T00:00:00Z"}
    return plain.get(annotation, [] if origin is list else {})


def answer(asked: Asked) -> Told:
    by_path = {(each.method, each.path): each for each in OPERATIONS.values()}
    path = "/".join("{}" if part == "7" else part for part in asked.path.split("/"))
    found = next(
        each
        for (method, known), each in by_path.items()
        if method == asked.method and plain(known) == path
    )
    return Told(smallest(found.reply))


def plain(path: str) -> str:
    return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))


def test_every_operation_is_called_here() -> None:
    assert sorted(name for name, _, _ in CALLS) == sorted(OPERATIONS)


@pytest.mark.parametrize(("name", "kind", "call"), CALLS, ids=[name for name, _, _ in CALLS])
async def test_a_call_sends_what_the_server_takes(name: str, kind: type, call: Call) -> None:
    operation = OPERATIONS[name]
    async with playing(answer) as (game, stub):
        subject: Any = game
        if kind is not Game:
            subject = player = await game.register("Ada")
            if kind is Friends:
                subject = player.friends
            elif kind in {Room, Lobby}:
                subject = kind(player, "7", None)
        await call(subject)
    asked = stub.asked[-1]
    assert (asked.method, asked.path) == (
        operation.method,
        operation.path.replace("room_id", "7")
        .replace("action_id", "7")
        .replace("matchmaking_id", "7")
        .replace("request_id", "7")
        .replace("{", "")
        .replace("}", ""),
    )
    check_tokens(
        asked, kind, is_admin=name in {"LIST_PLAYERS", "BAN", "UNBAN", "STATS", "SET_GAME"}
    )
    check_fields(name, operation, asked)


def check_tokens(asked: Asked, kind: type, *, is_admin: bool) -> None:
    assert asked.headers["x-api-token"] == "key"
    assert ("x-game-player-token" in asked.headers) == (kind is not Game)
    assert ("x-api-private-token" in asked.headers) == is_admin


def check_fields(name: str, operation: Operation[Any], asked: Asked) -> None:
    for endpoint in ENDPOINTS:
        if (endpoint.method, endpoint.path) == (operation.method, operation.path):
            if endpoint.document_body:
                assert asked.json == {"a": 1}
                continue
            taken = endpoint.body or endpoint.query
            fields = {f.encode_name for f in msgspec.structs.fields(taken)} if taken else set()
            sent = set(json.loads(asked.body)) if asked.body else set()
            sent |= {pair.partition("=")[0] for pair in asked.query.split("&") if pair}
            assert sent == fields - TWO_FORMS.get(name, set())


async def test_tokens_do_not_show_when_answers_are_printed() -> None:
    told = smallest(OPERATIONS["REGISTER"].reply) | {"private_key": "gr_plr_secret"}
    async with playing([Told(told), Told(smallest(OPERATIONS["MINT_TOKEN"].reply))]) as (game, _):
        player = await game.register("Ada")
        token = await player.realtime_token()
        assert "secret" not in repr(player)
        assert repr(token) == "TokenReply(…)"


async def test_the_answer_is_there_byte_for_byte_too() -> None:
    raw = b'{"success":true,"type":"game","game_id":1,"data":{"big": 1e400, "twice": 1.0}}'
    async with playing([Told(raw)]) as (game, _):
        document = await game.document()
        assert document.raw == raw
        assert list(document.data) == ["big", "twice"]


async def test_a_document_of_bytes_goes_out_as_it_is() -> None:
    async with playing(answer) as (game, stub):
        await game.admin("private").set_document(b'{"b": 1.0,  "a": 2}')
        assert stub.asked[-1].body == b'{"b": 1.0,  "a": 2}'
        player = await game.register("Ada", player_data=b'{"b": 1.00}')
        assert b'{"b": 1.00}' in stub.asked[-1].body
        await player.rotate()
        await player.document()
        assert stub.asked[-1].headers["x-game-player-token"] == player.token
