"""All SDKs against a server that answers nonsense, or says no: one table for all of them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hostile_kit import HostileServer, answer, text_frame
from player_kit import Refused, SdkPlayer, open_player
from program_kit import commands
from waiting import until

from greenroom.client.messages import counts_for_resume, read

ROOM = "7b0d2f4a6c8e41039f5d1b3a7c9e2046"
REGISTER = "/api/game_players.php/register"
TOKEN = "/api/realtime.php/token"
CURRENT = "/api/game_room.php/current"
MOMENT = "2026-03-13T14:01:49Z"
REGISTERED = {
    "success": True,
    "player_id": "17",
    "private_key": "gr_plr_x",
    "player_name": "Ada",
    "player_tag": "#7K2MXQ9B",
    "game_id": 1,
    "auth": "guest",
    "account": "created",
}
HERE = {
    "room_id": ROOM,
    "room_name": "Hall",
    "is_host": True,
    "is_online": True,
    "max_players": 4,
    "current_players": 1,
    "has_password": False,
    "is_active": True,
    "player_name": "Ada",
    "joined_at": MOMENT,
    "last_heartbeat": MOMENT,
    "room_created_at": MOMENT,
    "room_last_activity": MOMENT,
    "join_token": "0123456789abcdef",
    "host_switch": True,
    "can_leave": True,
    "realtime": True,
    "rules": {},
}
IN_ROOM = {
    "success": True,
    "in_room": True,
    "room": HERE,
    "pending_actions": [],
    "pending_updates": [],
}
TOO_LONG = 1_000
"""Seconds to wait, in an answer: longer than any client does."""
HUGE = 1e300
"""Seconds that no type for a span of time can hold."""
WAITING_MAX = 1_024
"""The actions of a channel that may wait for their results."""

HTML = b"<html><body>502 Bad Gateway</body></html>"
NO = {"success": False, "error": "No"}
WAIT = {"success": False, "error": "Too many requests"}
LATER = answer(WAIT | {"retry_after": TOO_LONG}, 429)
ANSWERS: tuple[tuple[str, bytes, str], ...] = (
    ("a page of a proxy", answer(HTML), "UnexpectedAnswer"),
    ("an array", answer([]), "UnexpectedAnswer"),
    ("half an object", answer(b'{"success":tr'), "UnexpectedAnswer"),
    ("nested nonsense", answer(b"[" * 500), "UnexpectedAnswer"),
    ("no UTF-8", answer(b'{"success":"\xff\xfe'), "UnexpectedAnswer"),
    ("neither success nor error", answer({"success": False}), "UnexpectedAnswer"),
    ("a bad gateway", answer(HTML, 502), "ServerError"),
    ("a fault", answer({"success": False, "error": "Internal server error"}, 500), "ServerError"),
    ("an error that is no text", answer(NO | {"error": {"a": []}}, 400), "ApiError"),
    ("a hint that is no text", answer(NO | {"hint": None}, 400), "ApiError"),
    ("a key that is wrong", answer(NO, 401), "Unauthorized"),
    ("a ban that makes no sense", answer(NO | {"ban_info": 7}, 403), "Banned"),
    ("a long wait", LATER, "RateLimited"),
    ("a wait without end", answer(WAIT | {"retry_after": HUGE}, 429), "RateLimited"),
    ("a wait in the header", answer(HTML, 429, Retry_After=str(TOO_LONG)), "RateLimited"),
    (
        "a wait that is no number",
        answer(WAIT | {"retry_after": "soon"}, 429, Retry_After=str(TOO_LONG)),
        "RateLimited",
    ),
    ("no answer", b"", "ConnectionFailed"),
    ("half an answer", answer(REGISTERED)[:-20], "ConnectionFailed"),
    ("another protocol", b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "ConnectionFailed"),
)
"""Answers to a call, each with the kind of error that it must come to. The call is made once."""

ADA = {"player_id": 17, "player_name": "Ada", "room_id": ROOM, "is_host": True}
SERVER = {"host": "127.0.0.1", "port": 1, "protocol": "ws", "udp_port": 0}
TOKENS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nothing", {"token": None, "player_info": None, "realtime_server": None}),
    ("no player", {"player_info": None}),
    ("a player that is none", {"player_info": [7]}),
    ("a room that is none", {"player_info": ADA | {"room_id": 7}}),
    ("a token that is no text", {"token": 7}),
    ("no server", {"realtime_server": None}),
    ("a server that is none", {"realtime_server": "here"}),
    ("a host that is no text", {"realtime_server": SERVER | {"host": 7}}),
    ("a port that is no number", {"realtime_server": SERVER | {"port": "here"}}),
)
"""Tokens that make no sense: a name, and what differs from a good one."""

SENDER = {"is_host": True, "game_player_id": 17, "player_name": "Ada"}
CHAT = {"type": "receive", "command": "chat", "data": 1, "sender": SENDER}
CONNECTED = {
    "type": "connected",
    "data": {
        "connection_id": "c1",
        "player_id": 17,
        "player_name": "Ada",
        "room_id": ROOM,
        "client_type": "json",
    },
}
RESULT: dict[str, Any] = {
    "type": "action_result",
    "action_id": "a",
    "action_type": "x",
    "status": "completed",
    "response_data": {},
    "target_id": 17,
    "is_host": True,
    "processed_at": MOMENT,
}
KEYS = {
    "host": 7,
    "port": [],
    "session": "a0" * 8,
    "suite": "chacha20-poly1305",
    "client_key": "00" * 32,
    "server_key": "ff" * 32,
    "packet_bytes_max": [],
    "ping_seconds": [],
    "silent_seconds_max": "x",
}
FRAMES: tuple[Any, ...] = (
    "",
    '{"type":',
    "[]",
    "null",
    "7",
    "[" * 20_000,
    {"type": 7},
    {"type": "confetti"},
    CHAT,
    CHAT | {"sender": {}},
    CHAT | {"sender": SENDER | {"game_player_id": "x"}},
    CHAT | {"sender": 7},
    CHAT | {"command": 7},
    CHAT | {"unreliable": True},
    {"type": "event"},
    {"type": "event", "event": {}},
    {"type": "event", "event": "member_joined"},
    {"type": "event", "event": "member_joined", "data": 7},
    RESULT,
    RESULT | {"id": None},
    RESULT | {"id": {"a": []}},
    RESULT | {"id": "of nobody"},
    RESULT | {"id": 7},
    {"type": "sent"},
    {"type": "sent", "command": 7, "target_count": "many"},
    {"type": "sent", "command": "chat", "target_count": HUGE},
    {"type": "error"},
    {"type": "error", "data": 7},
    {"type": "error", "data": {"message": 7, "retry_after": "soon"}},
    {"type": "error", "data": {"message": "later", "retry_after": HUGE}},
    {"type": "error", "data": {"message": "later", "retry_after": -HUGE}},
    {"type": "error", "data": {"message": "later"}, "id": {"a": []}},
    {"type": "heartbeat_ack"},
    {"type": "heartbeat_ack", "timestamp": 7},
    {"type": "refused"},
    {"type": "refused", "data": {"message": 7, "hint": 7}},
    {"type": "connected"},
    {"type": "connected", "data": {"connection_id": 7}},
    {"type": "udp"},
    {"type": "udp", "data": 7},
    {"type": "udp", "data": {"host": 7, "port": "here"}},
    {"type": "udp", "data": KEYS},
    {"type": "udp_stats", "data": 7},
)
"""Frames of a room. Those that make no sense are passed over, and do not count."""

WHOLES: tuple[Any, ...] = (None, 7, [], {}, {"version": "x"}, {"version": HUGE}, {"version": -1})
"""Data of the event `state` that makes no sense."""
PATCHES: tuple[Any, ...] = (
    7,
    [],
    {"s": 7},
    {"s": []},
    {"c": 7},
    {"c": {"list": 7}},
    {"c": {"nowhere": {"v": 1}}},
    {"d": 7},
    {"d": [7]},
    {"a": 7},
    {"c": {"list": {"s": {"x": 1}}}},
    {"c": {"list": {"s": {"9": 1}}}},
    {"c": {"list": {"c": {"0": {"s": {}}}}}},
    {"c": {"list": {"n": "x"}}},
    {"c": {"list": {"n": HUGE}}},
    {"c": {"list": {"n": -1}}},
    {"c": {"list": {"a": 7}}},
)
DELTAS: tuple[Any, ...] = (
    None,
    7,
    [],
    {"from": "x", "to": 2},
    {"from": 1},
    {"from": 1, "to": "x"},
    {"from": 1, "to": HUGE},
    *({"from": 1, "to": 2, "shared": patch} for patch in PATCHES),
)
"""Data of the event `delta` that makes no sense after the state `WHOLE`."""
WHOLE = {"version": 1, "shared": {"list": [1, 2]}, "private": None}
LAST = {"version": 9, "shared": {"good": True}, "private": None}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The players' programs by their SDKs' names, of all SDKs whose tools are installed."""
    return commands(tmp_path_factory.mktemp("sdks"))


class Facing:
    """A hostile server, and a player of one SDK that does what we say."""

    def __init__(self, server: HostileServer, player: SdkPlayer) -> None:
        self.server = server
        self.player = player

    async def try_to(self, verb: str, **order: Any) -> str:
        """Have the player do something; return the kind of the error, "" if there is none."""
        try:
            await self.player.do(verb, **order)
        except Refused as refused:
            return str(refused.about["kind"])
        return ""

    async def register(self) -> str:
        """Have the player register."""
        url = f"http://127.0.0.1:{self.server.port}"
        return await self.try_to("register", url=url, api_token="gr_api_x", name="Ada")

    async def enter(self, *frames: Any) -> None:
        """Have the player register, and connect to a room where these frames come at once."""
        self.say(*frames)
        assert await self.register() == ""
        assert await self.try_to("connect", room_id=ROOM) == ""

    def say(self, *frames: Any) -> None:
        """Let the next connection hear these frames."""
        self.server.sessions.append([text_frame(frame) for frame in (CONNECTED, *frames)])

    async def hears(self, command: str) -> None:
        """Wait until the player has got a message."""

        async def has_come() -> bool:
            messages = (await self.player.do("messages"))["messages"]
            return any(message["command"] == command for message in messages)

        await until(has_come)


@pytest.fixture(params=["python", "typescript", "csharp", "godot"])
async def facing(
    request: pytest.FixtureRequest, programs: dict[str, list[str]], tmp_path: Path
) -> AsyncGenerator[Facing]:
    """Each SDK whose tools are installed; its log must have no errors of its own."""
    sdk: str = request.param
    if sdk not in programs:
        pytest.skip(f"no tools for {sdk}")
    async with open_facing(sdk, programs[sdk], tmp_path) as facing:
        yield facing


@asynccontextmanager
async def open_facing(sdk: str, command: list[str], directory: Path) -> AsyncGenerator[Facing]:
    """A hostile server, and a player of an SDK."""
    server = HostileServer()
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        await nursery.start(server.listen)
        server.usual = {
            REGISTER: answer(REGISTERED),
            TOKEN: answer(token(server.port)),
            CURRENT: answer(IN_ROOM),
        }
        async with stack:
            opening = open_player(sdk, command, directory)
            yield Facing(server, await stack.enter_async_context(opening))
        nursery.cancel_scope.cancel()
    log = (directory / f"{sdk}.log").read_text(errors="replace")
    assert "SCRIPT ERROR" not in log, log


def token(port: int, **changes: Any) -> dict[str, Any]:
    """Return a good answer to the call for a token, with changes."""
    good = {
        "success": True,
        "token": "7" * 64,
        "player_info": ADA,
        "realtime_server": SERVER | {"port": port},
    }
    return good | changes


async def test_answers_that_make_no_sense_are_errors_of_the_right_kind(facing: Facing):
    found = {}
    for name, said, _ in ANSWERS:
        facing.server.answers = {REGISTER: deque([said])}
        before = len(facing.server.calls)
        found[name] = await facing.register()
        assert len(facing.server.calls) == before + 1, f"{name}: it was called again"
    assert found == {name: kind for name, _, kind in ANSWERS}


async def test_a_token_that_makes_no_sense_is_an_error_at_once(facing: Facing):
    assert await facing.register() == ""
    found = {}
    for name, changes in TOKENS:
        said = answer(token(facing.server.port, **changes))
        facing.server.answers = {TOKEN: deque([said])}
        found[name] = await facing.try_to("connect", room_id=ROOM)
    assert found == {name: "UnexpectedAnswer" for name, _ in TOKENS}
    facing.say(CHAT)
    assert await facing.try_to("connect", room_id=ROOM) == ""
    await facing.hears("chat")


async def test_frames_that_make_no_sense_are_passed_over(facing: Facing):
    texts = [each if isinstance(each, str) else json.dumps(each) for each in FRAMES]
    count = sum(counts_for_resume(read(text)) for text in texts)
    await facing.enter(*FRAMES, CHAT | {"command": "last"})
    await facing.hears("last")
    facing.say(CHAT | {"command": "again"})
    facing.server.cut()
    await facing.hears("again")
    assert facing.server.queries[-1].endswith(f"&resume=c1.{count + 1}")


async def test_a_state_that_makes_no_sense_does_not_stay(facing: Facing):
    frames = []
    for event, broken in (("state", WHOLES), ("delta", DELTAS)):
        for data in broken:
            frames.append({"type": "event", "event": "state", "data": WHOLE})
            frames.append({"type": "event", "event": event, "data": data})
    frames.append({"type": "event", "event": "state", "data": LAST})
    await facing.enter(*frames)

    async def is_good() -> bool:
        return bool((await facing.player.do("state"))["shared"] == LAST["shared"])

    await until(is_good)


async def test_a_lost_connection_is_not_opened_before_the_server_wants_it(facing: Facing):
    await facing.enter()
    facing.server.usual[TOKEN] = LATER
    before = facing.server.calls.count(TOKEN)
    facing.server.cut()

    async def is_over() -> str:
        return str((await facing.player.do("closed"))["kind"])

    assert await until(is_over) in ("ChannelLost", "ConnectionLost")
    assert facing.server.calls.count(TOKEN) == before + 1


async def test_the_actions_that_wait_for_a_result_are_bounded(facing: Facing):
    await facing.enter()
    await facing.player.do("flood", count=WAITING_MAX, bytes=1)
    refused = await facing.try_to("action", action_type="more", request_data={})
    assert refused == "ActionRefused"
    await until(lambda: len(facing.server.heard) == WAITING_MAX)


async def test_many_large_actions_are_asked_for_again(facing: Facing):
    await facing.enter()
    for _ in range(20):
        await facing.player.do("flood", count=1, bytes=500_000)
    await until(lambda: len(facing.server.heard) >= 2)
    facing.server.is_deaf = True
    facing.say(CHAT | {"command": "deaf"})
    facing.server.cut()
    await facing.hears("deaf")
    facing.server.is_deaf = False
    facing.say(CHAT | {"command": "again"})
    facing.server.cut()
    await facing.hears("again")
    await until(lambda: any(frame.get("again") for frame in facing.server.heard))


def first_id(server: HostileServer) -> Any:
    """Return the id of the first frame that has come; None before that."""
    return server.heard[0]["id"] if server.heard else None


async def test_no_two_clients_have_the_same_ids(
    facing: Facing, programs: dict[str, list[str]], tmp_path: Path
):
    name = facing.player.name
    other_directory = tmp_path / "other"
    other_directory.mkdir()
    async with open_facing(name, programs[name], other_directory) as other:
        ids = set()
        for each in (facing, other):
            await each.enter()
            await each.player.do("flood", count=1, bytes=1)
            ids.add(await until(partial(first_id, each.server)))
        assert len(ids) == 2
