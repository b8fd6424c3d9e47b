"""Tables of the examples on a real server: a lobby, its room, its two members, and a stranger."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import trio
from realtime_kit import Client, dial
from server_kit import Api, Game, Reply, ServerProcess, serving
from udp_kit import FastClient, udp_socket

EXAMPLES = Path(__file__).parents[3] / "examples"
CLASSES = {
    "arena": "arena:Arena",
    "bluff": "bluff:Bluff",
    "cards": "cards:Cards",
    "comets": "greenroom.demo.comets:Comets",
    "guessing": "greenroom.cli.starter.game:Game",
    "noughts": "greenroom.demo.noughts:Noughts",
    "race": "race:Racing",
    "relay": "relay:Relay",
    "skirmish": "skirmish:Skirmish",
    "tictactoe": "tictactoe:TicTacToe",
}
"""The examples, the games of the demo, and the one of `greenroom new`."""
RULES: dict[str, dict[str, Any]] = {
    "arena": {"seconds": 60},
    "bluff": {"seats": 2},
    "comets": {"ships": 2},  # no bots, so nothing moves by itself
    "skirmish": {"points": 1},
}
STATS = {
    "arena": "arena_wins",
    "bluff": "bluff_wins",
    "cards": "cards_wins",
    "comets": "comets_points",
    "guessing": "guessing_wins",
    "noughts": "noughts_wins",
    "race": "races_won",
    "skirmish": "skirmish_wins",
    "tictactoe": "tictactoe_wins",
}
"""The stat by which the leaderboard of an example is sorted; the relay has none."""
ROOMS, LOBBIES, DATA = "/api/game_room.php", "/api/matchmaking.php", "/api/game_data.php"
PASSWORD = "friends"
TABLE_SECONDS_MAX = 100.0
"""A table that lasts longer has been forgotten."""

_ids = itertools.count(1)


@contextmanager
def serving_examples(database_url: str) -> Iterator[ServerProcess]:
    """A server whose rooms play the examples, and no others, while this lasts."""
    entries = ",".join(f"*/{kind}={name}" for kind, name in CLASSES.items())
    with serving(
        *("--database-url", database_url),
        *("--behaviours-dir", str(EXAMPLES), "--behaviours", entries),
        GREENROOM_UNKNOWN_BEHAVIOUR_NAMES="refuse",
        GREENROOM_RATE_LIMIT_FACTOR="1000",
    ) as server:
        yield server


class TableServer(Protocol):
    """A server that has games of its own for tables."""

    @property
    def address(self) -> tuple[str, int]:
        """Return host and port of HTTP."""
        ...

    @property
    def ready(self) -> dict[str, Any]:
        """Return its addresses."""
        ...

    def new_game(self) -> Game:
        """Return a game to play."""
        ...


class Seat:
    """A player with a connection, who remembers every frame that came over it."""

    def __init__(self, table: Table, name: str) -> None:
        self.table = table
        self.player_id, self.token = table.api.register(name)
        self.frames: list[Any] = []
        self.received: list[str] = []
        """Everything that came, over HTTP and over the connection."""
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        assert self._client is not None
        return self._client

    def call(self, method: str, path: str, body: object = None) -> Reply:
        reply = self.table.api.call(method, path, body, player=self.token)
        self.received.append(reply.body.decode())
        return reply

    def done(self, method: str, path: str, body: object = None) -> Any:
        """Call what is not refused; return the answer."""
        reply = self.call(method, path, body)
        assert reply.status == 200, reply
        return reply.json

    def ask(self, action_type: str, data: object = None, **more: Any) -> Reply:
        """Send an action to the host, as every client may."""
        sent = {"action_type": action_type, "target_players": "host", "request_data": data or {}}
        return self.call("POST", f"{ROOMS}/actions", {**more, **sent})

    def act(self, action_type: str, data: object = None) -> Any:
        """Return what the server answers an action that it settles at once."""
        reply = self.ask(action_type, data)
        assert reply.status == 200, reply
        (result,) = reply.json["results"]
        assert result["sender"] == {"is_server": True}
        return result["response_data"]

    def updates(self) -> list[Any]:
        """Return all updates that are stored for the player."""
        found = self.done("POST", f"{ROOMS}/updates/poll", {"from_players": "all"})
        return list(found["updates"])

    async def connect(self, stack: AsyncExitStack) -> None:
        url = self.table.server.ready["realtime"].rstrip("/") + "/"
        token = self.done("POST", "/api/realtime.php/token")["token"]
        self._client = await stack.enter_async_context(dial(url, token, TABLE_SECONDS_MAX))
        await self.client.expect("connected")

    async def send(self, *messages: object) -> list[Any]:
        """Send frames; return what came until the answer to a heartbeat behind them."""
        before = len(self.frames)
        for message in messages:
            await self.client.send(message)
        await self.client.send({"type": "heartbeat"})
        await self._take("type", "heartbeat_ack")
        return self.frames[before:-1]

    async def told(self, message: dict[str, Any]) -> Any:
        """Send a frame with an id; return the one that answers it, whenever it comes."""
        await self.client.send(message)
        return await self._take("id", message["id"])

    async def say(self, command: str, data: object, **more: Any) -> Any:
        """Say something to all; return `sent` or `error`, which may wait for the next tick."""
        message = {**more, "type": "send", "command": command, "target": "all", "data": data}
        return await self.told({**message, "id": next(_ids)})

    async def act_connected(self, action_type: str, data: object, **more: Any) -> Any:
        """Send an action over the connection; return `action_result` or `error`."""
        message = {"type": "action", "action_type": action_type, "request_data": data}
        return await self.told({"id": next(_ids), **message, **more})

    async def _take(self, key: str, value: object) -> Any:
        """Return the next frame that has a value at a key; remember those before."""
        while True:
            frame = await self.client.take()
            self.frames.append(frame)
            self.received.append(json.dumps(frame))
            if frame.get(key) == value:
                return frame

    @asynccontextmanager
    async def lane(self) -> AsyncGenerator[FastClient]:
        """A fast lane of the player's, open and up."""
        await self.client.send({"type": "udp_open"})
        keys = (await self._take("type", "udp"))["data"]
        async with udp_socket(keys["port"]) as udp:
            lane = FastClient(keys, udp)
            await lane.show_address()
            yield lane

    async def view(self) -> Any:
        """Return the state that the player is shown; None in a room that shows none."""
        frames = await self.send({"type": "state"})
        shown = [frame["data"] for frame in frames if frame.get("event") == "state"]
        return (shown[-1]["shared"], shown[-1]["private"]) if shown else None

    async def unmarked(self) -> list[Any]:
        """Return what the player heard that is not marked as the server's word."""
        await self.send()
        heard = [frame for frame in self.frames if frame["type"] == "receive"]
        return [frame for frame in heard if "is_server" not in frame["sender"]]


class Table:
    """A room that began as a lobby. The host and the guest are in it; the stranger is not."""

    def __init__(self, server: TableServer, kind: str, **rules: Any) -> None:
        self.server = server
        self.kind = kind
        self.rules = {"type": kind, **RULES.get(kind, {}), **rules}
        self.api = Api(server.address, server.new_game())
        self.host, self.guest = Seat(self, "Host"), Seat(self, "Guest")
        self.stranger = Seat(self, "Stranger")
        self.room_id = ""
        self.lobby_id = self.host.done(
            "POST",
            f"{LOBBIES}/create",
            {"rules": self.rules, "max_players": 4, "realtime_room": True, "password": PASSWORD},
        )["matchmaking_id"]

    @property
    def seats(self) -> dict[int, Seat]:
        """Return both members by their ids."""
        return {seat.player_id: seat for seat in (self.host, self.guest)}

    def other(self, seat: Seat) -> Seat:
        return self.guest if seat is self.host else self.host

    def start(self) -> None:
        """Let the guest into the lobby, and start it."""
        path = f"{LOBBIES}/{self.lobby_id}/join"
        self.guest.done("POST", path, {"password": PASSWORD})
        self.room_id = self.host.done("POST", f"{LOBBIES}/start", {})["room_id"]

    def stats(self) -> dict[int, Any]:
        """Return everybody's stats, as the game's own services read them."""
        found = {}
        for player_id in (*self.seats, self.stranger.player_id):
            path, body = f"{DATA}/player/stats", {"player_id": player_id}
            reply = self.api.call("POST", path, body, admin=True)
            assert reply.status == 200, reply
            found[player_id] = reply.json["stats"]
        return found

    def leaderboard(self) -> list[Any]:
        """Return the game's leaderboard, by the stat of the example."""
        body = {"sort_by": [STATS[self.kind]]}
        reply = self.api.call("POST", "/api/leaderboard.php", body)
        assert reply.status == 200, reply
        return list(reply.json["leaderboard"])

    async def look(self) -> Any:
        """Return all that may change: what each member is shown, the members, and all stats."""
        members = self.host.done("GET", f"{ROOMS}/players")["players"]
        ids = [member["player_id"] for member in members]
        return await self.host.view(), await self.guest.view(), ids, self.stats()


def begin(server: TableServer, kind: str, **rules: Any) -> Table:
    """Start a game. If the number to guess is 1, start another: nothing changes by guessing 1."""
    while True:
        table = Table(server, kind, **rules)
        table.start()
        if kind != "guessing" or table.host.act("guess", {"number": 1}) == {"it_is": "higher"}:
            return table


@asynccontextmanager
async def open_table(server: TableServer, kind: str, **rules: Any) -> AsyncGenerator[Table]:
    """A table whose game has begun, with both members connected."""
    table = begin(server, kind, **rules)
    async with AsyncExitStack() as stack:
        for seat in table.seats.values():
            await seat.connect(stack)
        if kind == "cards":
            table.host.act("deal")
        await settle(table)
        yield table


async def settle(table: Table) -> None:
    """Wait until the results of the start are written, and all have been shown the table."""
    before = None
    while (now := await table.look()) != before:
        before = now
        await trio.sleep(0.05)
