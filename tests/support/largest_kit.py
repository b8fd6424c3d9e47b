"""A world of the largest data that the settings allow, and the largest call of each kind."""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from world_kit import Arena, open_arena, register

from greenroom.actors.flows.register import NewPlayer
from greenroom.actors.friendship.messages import FriendshipAccepted, FriendshipRequested, Pair
from greenroom.actors.game.messages import ChangeGameSettings
from greenroom.actors.world.world import RealtimeAddress
from greenroom.http.describe import openapi
from greenroom.http.describe.mcp import McpEndpoint
from greenroom.http.describe.mcp_tools import make_tools
from greenroom.http.describe.reference import Reference
from greenroom.http.dispatch import Dispatcher
from greenroom.http.endpoints import ENDPOINTS, TOOLS
from greenroom.http.limits import CallLimits, LimitSettings
from greenroom.http.metrics import Metrics
from greenroom.http.request import Answer, Request

MEBIBYTE = 1 << 20
ROOM_DOCUMENT_BYTES = 64 << 10
RUNS = 3
"""Calls of each kind; the quickest counts."""

ROOM = "/api/game_room.php"
LOBBY = "/api/matchmaking.php"
PLAYERS = "/api/game_players.php"
FRIENDS = "/api/friends.php"

_ROW = '{"name": "Sword of dawn", "x": 1.25, "y": -3, "ok": true, "tags": ["a", "b"]}'


def document(size: int, **more: object) -> bytes:
    """Return a JSON object of so many bytes, made of small objects as games have them."""
    head = json.dumps({**more, "rows": []})[:-2]
    rows = (size - len(head) - 2) // (len(_ROW) + 2)
    text = head + ", ".join([_ROW] * rows)
    return (text + " " * (size - len(text) - 2) + "]}").encode()


def plain(fields: dict[str, Any] | None = None, **documents: bytes) -> bytes:
    """Return a body with these members."""
    each = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in (fields or {}).items()]
    each += [f'"{name}":{value.decode()}' for name, value in documents.items()]
    return ("{" + ",".join(each) + "}").encode()


_UNKNOWN = "".join(f'"unknown{number:06}":12,' for number in range(MEBIBYTE // 19)).encode()


def body(fields: dict[str, Any] | None = None, **documents: bytes) -> bytes:
    """Return a body with these members, filled up to a MiB with members that nobody asks for."""
    known = plain(fields, **documents)
    left = (MEBIBYTE - 100 - len(known)) // 19 * 19
    return b"{%b%b" % (_UNKNOWN[: max(0, left)], known[1:] if len(known) > 2 else b'"":0}')


class Largest:
    """The calls, and what they are made to."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._limits = CallLimits(LimitSettings(rate_limit_factor=1e6))
        rows = (*ENDPOINTS, *TOOLS)
        self.dispatcher = Dispatcher(
            arena.world,
            rows,
            limits=self._limits,
            metrics=Metrics(),
            requests_in_flight_max=1_000,
        )
        reference = Reference(openapi.build(ENDPOINTS))
        tools = make_tools(TOOLS, self.dispatcher, reference)
        self.mcp = McpEndpoint(tools, "1.0.0", self._limits.large_work)
        self.calls: dict[str, Callable[[], Awaitable[Sequence[Request]]]] = {}

    # Setting up.

    def request(
        self,
        method: str,
        path: str,
        data: bytes = b"",
        *,
        by: NewPlayer | None = None,
        query: str = "",
    ) -> Request:
        """Return a call by a player; every other call has the admin key beside the project key."""
        headers = {"x-api-token": self.arena.keys.api_token, "host": "example.org"}
        if by is None:
            headers["x-api-private-token"] = self.arena.keys.api_private_token
        else:
            headers["x-game-player-token"] = by.token
        return Request(method, path, query, headers, data, "203.0.113.7")

    async def do(
        self, method: str, path: str, data: bytes = b"", *, by: NewPlayer | None = None
    ) -> Any:
        """Make a call that succeeds; return what it answers."""
        answer = await self.dispatcher.answer(self.request(method, path, data, by=by))
        assert answer.status == 200, (path, answer.body)
        return json.loads(answer.body)

    async def newcomers(self, count: int, data: bytes = b"{}") -> list[NewPlayer]:
        return [await register(self.arena, f"Player {number}", data) for number in range(count)]

    async def room(
        self, members: int = 1, bytes_each: int = 2, **fields: Any
    ) -> tuple[str, list[NewPlayer]]:
        """Open a room of the largest rules with so many members; return its id and them."""
        host, *guests = await self.newcomers(members)
        seat = document(bytes_each) if bytes_each > 2 else b"{}"
        wanted = plain(
            {"max_players": 16, "realtime": True, **fields}, rules=_LARGE, player_data=seat
        )
        room_id: str = (await self.do("POST", f"{ROOM}/create", wanted, by=host))["room_id"]
        for guest in guests:
            await self.do("POST", f"{ROOM}/{room_id}/join", plain(player_data=seat), by=guest)
        return room_id, [host, *guests]

    async def lobby(
        self, members: int = 1, bytes_each: int = 2, **fields: Any
    ) -> tuple[str, list[NewPlayer]]:
        """The same for a lobby."""
        host, *guests = await self.newcomers(members)
        seat = document(bytes_each) if bytes_each > 2 else b"{}"
        wanted = plain({"max_players": 16, **fields}, rules=_LARGE, player_data=seat)
        lobby_id: str = (await self.do("POST", f"{LOBBY}/create", wanted, by=host))[
            "matchmaking_id"
        ]
        for guest in guests:
            await self.do("POST", f"{LOBBY}/{lobby_id}/join", plain(player_data=seat), by=guest)
        return lobby_id, [host, *guests]

    def again(self, name: str, data: bytes = b"", *, by: NewPlayer | None = None) -> None:
        """Note a call that may be repeated; behind method and path may stand what is special."""
        method, path = name.split()[:2]

        async def requests() -> Sequence[Request]:
            return [self.request(method, path, data, by=by)] * RUNS

        self.calls[name] = requests

    def each(self, name: str, make: Callable[[], Awaitable[Request]]) -> None:
        """Note a call that needs something new each time."""

        async def requests() -> Sequence[Request]:
            return [await make() for _ in range(RUNS)]

        self.calls[name] = requests

    def each_by(
        self,
        name: str,
        arrange: Callable[[], Awaitable[tuple[NewPlayer, str, bytes]]],
    ) -> None:
        """Note a call of somebody who is arranged for: who, what stands in the path, the body."""
        method, path = name.split()[:2]

        async def make() -> Request:
            by, argument, data = await arrange()
            head, _, rest = path.partition("{")
            whole = head + argument + rest.partition("}")[2] if rest else path
            return self.request(method, whole, data, by=by)

        self.each(name, make)


_LARGE = document(ROOM_DOCUMENT_BYTES)


@asynccontextmanager
async def open_largest() -> AsyncGenerator[Largest]:
    """Run the world; what is common to many calls is in it."""
    async with open_arena() as arena:
        arena.world.realtime_address = lambda: RealtimeAddress(
            host=None, port=1, protocol="ws", udp_port=1
        )
        largest = Largest(arena)
        await _documents(largest)
        await _accounts(largest)
        await _lists(largest)
        await _room(largest)
        await _coming_and_going(largest)
        await _exchange(largest)
        await _lobby(largest)
        await _lobby_hosts(largest)
        await _friends(largest)
        await _invites(largest)
        await _the_rest(largest)
        gc.freeze()  # who collects garbage between calls need not look at all this again
        try:
            yield largest
        finally:
            gc.unfreeze()


async def _documents(on: Largest) -> None:
    whole = document(MEBIBYTE - 100)
    (player,) = await on.newcomers(1)
    on.again("PUT /api/game_data.php/game/update", whole)
    on.again("PUT /api/game_data.php/player/update", whole, by=player)
    await on.do("PUT", "/api/game_data.php/game/update", whole)
    await on.do("PUT", "/api/game_data.php/player/update", whole, by=player)
    on.again("GET /api/game_data.php/game/get")
    on.again("GET /api/game_data.php/player/get", by=player)
    on.again("POST /mcp/game_document")
    names = [f"{number}".rjust(32, "s") for number in range(32)]
    declared = json.dumps({name: {} for name in names})
    game = on.arena.game.game
    await game.ask(ChangeGameSettings({"stats": declared}, ()))
    changes = {name: {"increment": 1, "if_less_than": 10**9} for name in names}
    on.again(
        "POST /api/game_data.php/player/stats",
        body({"player_id": player.player_id, "changes": changes}),
    )


async def _accounts(on: Largest) -> None:
    (player, banned) = await on.newcomers(2, document(MEBIBYTE - 100))
    for operation in ("PUT login", "POST heartbeat"):
        method, word = operation.split()
        on.again(f"{method} {PLAYERS}/{word}", body(), by=player)
    on.again(
        f"POST {PLAYERS}/register", body({"player_name": "A" * 50}, player_data=document(900_000))
    )
    engine = {"player_name": "A" * 50, "player_data_json": document(850_000).decode()}
    on.again(f"POST {PLAYERS}/register with a document in a string", plain(engine))
    on.again(f"PUT {PLAYERS}/rename", body({"new_name": "é" * 50}), by=player)
    on.again(
        f"POST {PLAYERS}/ban",
        body({"player_id": banned.player_id, "ban_duration": "day", "ban_reason": "é" * 1_000}),
    )
    on.again(f"POST {PLAYERS}/unban", body({"player_id": banned.player_id}))

    async def somebody() -> tuple[NewPlayer, str, bytes]:
        (new,) = await on.newcomers(1, document(MEBIBYTE - 100))
        return new, "", body()

    on.each_by(f"POST {PLAYERS}/rotate", somebody)
    on.each_by(f"POST {PLAYERS}/logout", somebody)
    await on.newcomers(500)
    on.again(f"GET {PLAYERS}/list")


async def _lists(on: Largest) -> None:
    """A hundred rooms and lobbies, and as many players, whose documents are a MiB together."""
    small = document(MEBIBYTE // 100 - 100)
    for area in (ROOM, LOBBY):
        for host in await on.newcomers(100):
            wanted = b'{"max_players":2,"rules":%b}' % small
            await on.do("POST", f"{area}/create", wanted, by=host)
        on.again(f"POST {area}/list", body({"limit": 100}))
    for number in range(100):
        await register(on.arena, f"Best {number}", document(len(small), level=number))
    sort_by = ["level", *(f"field{number}" for number in range(15))]
    on.again("POST /api/leaderboard.php", body({"sort_by": sort_by, "limit": 100}))
    on.again("POST /mcp/leaderboard", body({"sort_by": sort_by, "limit": 100}))
    on.again("POST /mcp/rooms", body({"limit": 100}))
    on.again("POST /mcp/lobbies", body({"limit": 100}))


async def _room(on: Largest) -> None:
    _, seated = await on.room(16, ROOM_DOCUMENT_BYTES)
    host, guest = seated[:2]
    on.again(f"GET {ROOM}/players", by=guest)
    on.again(f"POST {ROOM}/heartbeat", body(), by=guest)
    on.again(f"POST {ROOM}/password", body({"password": "secret" * 20}), by=host)
    on.again(f"POST {ROOM}/join_token", body(), by=host)
    on.again("POST /api/realtime.php/token", body(), by=guest)


async def _coming_and_going(on: Largest) -> None:
    async def newcomer() -> tuple[NewPlayer, str, bytes]:
        (new,) = await on.newcomers(1)
        fields = {"max_players": 16, "room_name": "é" * 120, "password": "p" * 100}
        return new, "", body(fields, rules=_LARGE, player_data=_LARGE)

    async def comer() -> tuple[NewPlayer, str, bytes]:
        room_id, _ = await on.room(15, ROOM_DOCUMENT_BYTES)
        (new,) = await on.newcomers(1)
        return new, room_id, body(player_data=_LARGE)

    async def host() -> tuple[NewPlayer, str, bytes]:
        _, seated = await on.room(16, ROOM_DOCUMENT_BYTES, host_switch=True)
        return seated[0], "", body({"player_id": seated[1].player_id})

    on.each_by(f"POST {ROOM}/create", newcomer)
    on.each_by(f"POST {ROOM}/{{room_id}}/join", comer)
    for operation in ("leave", "stop", "kick"):
        on.each_by(f"POST {ROOM}/{operation}", host)


async def _exchange(on: Largest) -> None:
    _, (host, guest, *_) = await on.room(16, ROOM_DOCUMENT_BYTES)
    told = {"target_players": "others", "type": "t" * 100}
    asked = {"target_players": "others", "action_type": "t" * 100}
    on.again(f"POST {ROOM}/updates", body(told, data=document(900_000)), by=host)

    async def asker() -> tuple[NewPlayer, str, bytes]:
        _, seated = await on.room(16)
        return seated[0], "", body(asked, request_data=document(250_000))

    async def asked_one() -> tuple[NewPlayer, str, bytes]:
        _, seated = await on.room(2)
        sent = await on.do("POST", f"{ROOM}/actions", plain(asked), by=seated[0])
        done = body({"status": "completed"}, response_data=document(900_000))
        return seated[1], sent["action_ids"][0], done

    on.each_by(f"POST {ROOM}/actions", asker)
    on.each_by(f"POST {ROOM}/actions/{{action_id}}/complete", asked_one)
    await _fill(on, host, guest)
    on.again(f"GET {ROOM}/actions/pending", by=guest)
    on.again(f"GET {ROOM}/actions/poll", by=host)
    on.again(f"GET {ROOM}/current", by=guest)
    on.again(f"POST {ROOM}/updates/poll", body(), by=guest)


async def _fill(on: Largest, host: NewPlayer, guest: NewPlayer) -> None:
    """Let actions, results and updates wait for more than one answer holds."""
    specific = {"target_players": "specific", "target_players_ids": [guest.player_id]}
    large = document(MEBIBYTE // 45)
    asked = {**specific, "action_type": "t"}
    for _ in range(50):
        sent = await on.do("POST", f"{ROOM}/actions", plain(asked), by=host)
        done = plain({"status": "completed"}, response_data=large)
        path = f"{ROOM}/actions/{sent['action_ids'][0]}/complete"
        await on.do("POST", path, done, by=guest)
    for _ in range(50):
        await on.do("POST", f"{ROOM}/actions", plain(asked, request_data=large), by=host)
        told = plain({**specific, "type": "t"}, data=large)
        await on.do("POST", f"{ROOM}/updates", told, by=host)


async def _lobby(on: Largest) -> None:
    _, seated = await on.lobby(16, ROOM_DOCUMENT_BYTES)
    on.again(f"GET {LOBBY}/players", by=seated[1])
    on.again(f"POST {LOBBY}/heartbeat", body(), by=seated[1])
    on.again(f"POST {LOBBY}/password", body({"password": "secret" * 20}), by=seated[0])
    on.again(f"POST {LOBBY}/join_token", body(), by=seated[0])
    asked_id, (host,) = await on.lobby(join_by_requests=True)
    seat = document(MEBIBYTE // 100 - 10)
    for requester in await on.newcomers(99):
        sent = await on.do(
            "POST", f"{LOBBY}/{asked_id}/request", plain(player_data=seat), by=requester
        )
    on.again(f"GET {LOBBY}/current", by=host)

    async def status() -> tuple[NewPlayer, str, bytes]:
        return requester, sent["request_id"], b""

    on.each_by(f"GET {LOBBY}/{{request_id}}/status", status)


async def _lobby_hosts(on: Largest) -> None:
    async def newcomer() -> tuple[NewPlayer, str, bytes]:
        (new,) = await on.newcomers(1)
        fields = {"max_players": 16, "matchmaking_name": "é" * 120, "password": "p" * 100}
        return new, "", body(fields, rules=_LARGE, player_data=_LARGE)

    async def host() -> tuple[NewPlayer, str, bytes]:
        _, seated = await on.lobby(16, ROOM_DOCUMENT_BYTES)
        return seated[0], "", body({"player_id": seated[1].player_id})

    async def comer() -> tuple[NewPlayer, str, bytes]:
        lobby_id, _ = await on.lobby(15, ROOM_DOCUMENT_BYTES)
        (new,) = await on.newcomers(1)
        return new, lobby_id, body(player_data=_LARGE)

    async def requester() -> tuple[NewPlayer, str, bytes]:
        lobby_id, _ = await on.lobby(join_by_requests=True)
        (new,) = await on.newcomers(1)
        return new, lobby_id, body(player_data=_LARGE)

    async def asked_host() -> tuple[NewPlayer, str, bytes]:
        lobby_id, (first,) = await on.lobby(join_by_requests=True)
        (new,) = await on.newcomers(1)
        data = plain(player_data=_LARGE)
        sent = await on.do("POST", f"{LOBBY}/{lobby_id}/request", data, by=new)
        return first, sent["request_id"], body({"action": "approve"})

    on.each_by(f"POST {LOBBY}/create", newcomer)
    for operation in ("leave", "remove", "start", "stop", "kick"):
        on.each_by(f"POST {LOBBY}/{operation}", host)
    on.each_by(f"POST {LOBBY}/{{matchmaking_id}}/join", comer)
    on.each_by(f"POST {LOBBY}/{{matchmaking_id}}/request", requester)
    on.each_by(f"POST {LOBBY}/{{request_id}}/response", asked_host)


async def _friends(on: Largest) -> None:
    """A player with 500 friends, and as many requests each way; the rows are the database's."""
    (popular, stranger) = await on.newcomers(2)
    rows, game_id = on.arena.memory.friendships, on.arena.game.game_id
    for number, other in enumerate(await on.newcomers(1_500)):
        pair = Pair.make(game_id, popular.player_id, other.player_id)
        asker = (popular if number % 3 else other).player_id
        rows.write(FriendshipRequested(*pair, asker, 1))
        if number % 3 == 2:
            rows.write(FriendshipAccepted(*pair, 2))
    on.again(f"GET {FRIENDS}/list", by=popular)
    on.again(f"POST {FRIENDS}/lookup", body({"player_tag": stranger.player_tag}), by=popular)
    on.again("POST /mcp/player_by_tag", body({"player_tag": stranger.player_tag}))
    on.again(f"POST {FRIENDS}/platform", body({"platform_ids": ["7" * 600] * 100}), by=popular)

    async def two(*done: str) -> tuple[NewPlayer, str, bytes]:
        one, other = await on.newcomers(2)
        for operation in done:
            by, whom = (other, one) if operation == "request" else (one, other)
            whom_body = plain({"player_id": whom.player_id})
            await on.do("POST", f"{FRIENDS}/{operation}", whom_body, by=by)
        return one, "", body({"player_id": other.player_id})

    on.each_by(f"POST {FRIENDS}/request", two)
    on.each_by(f"POST {FRIENDS}/accept", lambda: two("request"))
    on.each_by(f"POST {FRIENDS}/decline", lambda: two("request"))
    on.each_by(f"POST {FRIENDS}/remove", lambda: two("request", "accept"))


async def _invites(on: Largest) -> None:
    """A player whom 64 friends invite, each to a room of the longest name."""
    (wanted,) = await on.newcomers(1)

    async def invited(to: NewPlayer) -> tuple[NewPlayer, str]:
        _, (host,) = await on.room(room_name="é" * 120)
        await on.do("POST", f"{FRIENDS}/request", plain({"player_id": to.player_id}), by=host)
        await on.do("POST", f"{FRIENDS}/accept", plain({"player_id": host.player_id}), by=to)
        sent = await on.do("POST", f"{FRIENDS}/invite", plain({"player_id": to.player_id}), by=host)
        return host, sent["invite_id"]

    async def inviting() -> tuple[NewPlayer, str, bytes]:
        (friend,) = await on.newcomers(1)
        _, (host,) = await on.room(room_name="é" * 120)
        await on.do("POST", f"{FRIENDS}/request", plain({"player_id": friend.player_id}), by=host)
        await on.do("POST", f"{FRIENDS}/accept", plain({"player_id": host.player_id}), by=friend)
        return host, "", body({"player_id": friend.player_id})

    async def answering() -> tuple[NewPlayer, str, bytes]:
        (friend,) = await on.newcomers(1)
        _, invite_id = await invited(friend)
        return friend, "", body({"invite_id": invite_id})

    for _ in range(64):
        await invited(wanted)
    on.again(f"GET {FRIENDS}/invites", by=wanted)
    on.each_by(f"POST {FRIENDS}/invite", inviting)
    on.each_by(f"POST {FRIENDS}/invites/accept", answering)
    on.each_by(f"POST {FRIENDS}/invites/decline", answering)


async def _the_rest(on: Largest) -> None:
    on.again("POST /api/censor.php", body({"text": "f u c k 4 5 5 é " * 62}))
    on.again("GET /api/time.php")
    on.again("POST /mcp/server_time", body({"utc": "3"}))


def in_engine_form(request: Request) -> Request:
    """Return the same call, asking for documents as strings."""
    return Request(
        request.method,
        request.path,
        "format=engine",
        request.headers,
        request.body,
        request.address,
    )


def tool_call(row_path: str, request: Request) -> Request:
    """Return the call of a tool as a client of POST /mcp makes it."""
    arguments = request.body or b"{}"
    name = row_path.removeprefix("/mcp/").encode()
    data = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":%b}}'
        % (name, arguments)
    )
    return Request("POST", "/mcp", "", request.headers, data, request.address)


async def answer(on: Largest, request: Request) -> Answer:
    """Return the answer to a request of either kind."""
    if request.path == "/mcp":
        return await on.mcp.answer(request)
    return await on.dispatcher.answer(request)
