"""A behaviour at work in a real server: polled and connected players, results, kill -9."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from realtime_kit import Client, dial
from server_kit import Api, ServerProcess, serving
from waiting import until

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def studio(new_database: Callable[[], str]) -> Iterator[ServerProcess]:
    """A server that tests may kill if they start it again."""
    entry = ("--database-url", new_database(), "--behaviours", "*/tictactoe=tictactoe:TicTacToe")
    with serving("--behaviours-dir", str(EXAMPLES), *entry) as server:
        yield server


class Table:
    """Two players at one board, the first of whom is to move."""

    def __init__(self, api: Api) -> None:
        self.api = api
        (ann, ann_token), (bob, bob_token) = api.register("Ann"), api.register("Bob")
        self.tokens = {ann: ann_token, bob: bob_token}
        rules = {"type": "tictactoe"}
        made = self.call(ann, "create", {"realtime": True, "rules": rules}).json
        self.room_id = made["room_id"]
        self.call(bob, f"{self.room_id}/join")
        (start,) = self.updates(ann)
        self.first = start["data"]["turn"]
        self.second = next(i for i in self.tokens if i != self.first)

    def call(self, player_id: int, operation: str, body: Any = None, method: str = "POST") -> Any:
        path = f"/api/game_room.php/{operation}"
        return self.api.call(method, path, body, player=self.tokens[player_id])

    def place(self, player_id: int, cell: int) -> Any:
        """Make a move; return what became of it."""
        return self.act(player_id, "place", {"cell": cell})

    def act(self, player_id: int, action_type: str, data: Any = None) -> Any:
        """Send an action; return what became of it."""
        body = {
            "target_players": "host",
            "action_type": action_type,
            "request_data": data or {},
        }
        sent = self.call(player_id, "actions", body)
        if sent.status != 200:
            return sent.json["error"]
        results = self.call(player_id, "actions/poll", method="GET").json["actions"]
        (result,) = [r for r in results if r["action_id"] == sent.json["action_ids"][0]]
        return result["status"], result["response_data"]

    def updates(self, player_id: int) -> list[dict[str, Any]]:
        body = {"from_players": "all"}
        updates: list[dict[str, Any]] = self.call(player_id, "updates/poll", body).json["updates"]
        return updates

    def mint(self, player_id: int) -> str:
        path = "/api/realtime.php/token"
        token: str = self.api.call("POST", path, player=self.tokens[player_id]).json["token"]
        return token


def test_two_who_poll_play_a_game_to_its_end(studio: ServerProcess):
    api = Api(studio.address, studio.new_game())
    table = Table(api)
    moves = [(table.first, 0), (table.second, 3), (table.first, 1), (table.second, 4)]
    for mover, cell in moves:
        assert table.place(mover, cell) == ("completed", {"won": False, "is_over": False})
    assert table.place(table.second, 5) == ("failed", {"error": "It is not your turn"})
    assert table.place(table.first, 9).startswith("Invalid data for place")
    assert table.place(table.first, 2) == ("completed", {"won": True, "is_over": True})
    board = api.call("POST", "/api/leaderboard.php", {"sort_by": ["tictactoe_wins"]})
    winner = board.json["leaderboard"][0]
    assert (winner["player_id"], winner["stats"]) == (table.first, {"tictactoe_wins": 1})


def test_a_third_is_refused_by_the_rules_of_the_game(studio: ServerProcess):
    api = Api(studio.address, studio.new_game())
    table = Table(api)
    _, token = api.register("Eve")
    reply = api.call("POST", f"/api/game_room.php/{table.room_id}/join", player=token)
    assert (reply.status, reply.json["error"]) == (400, "Two are playing already")


async def test_who_is_connected_hears_at_once_what_others_poll(studio: ServerProcess):
    table = Table(Api(studio.address, studio.new_game()))
    async with dial(studio.ready["realtime"], table.mint(table.second)) as client:
        await client.expect("connected")
        table.place(table.first, 4)
        heard = await hear(client, "placed")
        assert heard["cell"] == 4
    assert [u["type"] for u in table.updates(table.first)][-1] == "placed"


def test_a_game_goes_on_after_the_server_was_killed(studio: ServerProcess):
    game = studio.new_game()
    table = Table(Api(studio.address, game))
    assert table.place(table.first, 0)[0] == "completed"
    studio.kill()
    studio.start()
    table.api = Api(studio.address, game)
    assert table.place(table.first, 1) == ("failed", {"error": "It is not your turn"})
    assert table.place(table.second, 0) == ("failed", {"error": "That cell is taken"})
    assert table.place(table.second, 8)[0] == "completed"


async def test_who_was_connected_goes_on_with_their_token_and_what_was_acknowledged_is_there(
    studio: ServerProcess,
):
    game = studio.new_game()
    table = Table(Api(studio.address, game))
    first, second = table.first, table.second
    tokens = {player_id: table.mint(player_id) for player_id in table.tokens}
    async with (
        dial(studio.ready["realtime"], tokens[first]) as one,
        dial(studio.ready["realtime"], tokens[second]) as two,
    ):
        await one.expect("connected")
        await two.expect("connected")
        for mover, cell in ((first, 0), (second, 3), (first, 1), (second, 4)):
            assert table.place(mover, cell)[0] == "completed"
        assert (await hear(two, "placed"))["cell"] == 0
        assert table.place(first, 2) == ("completed", {"won": True, "is_over": True})
        studio.kill()
    studio.start()
    table.api = Api(studio.address, game)
    async with (
        dial(studio.ready["realtime"], tokens[first]) as one,
        dial(studio.ready["realtime"], tokens[second]) as two,
    ):
        for client in (one, two):
            assert (await client.expect("connected"))["data"]["room_id"] == table.room_id
            if not (await client.expect("event"))["data"]["shared"]["turn"]:
                table.act(first, "again")
                await hear(client, "start")
        attempts = {player_id: table.place(player_id, 8)[0] for player_id in (first, second)}
        assert "completed" in attempts.values(), "the next game has begun"
        for client in (one, two):
            placed = await hear(client, "placed")
            assert placed["cell"] == 8
            assert attempts[placed["by"]] == "completed"
        stats = await result_of(table, first)
        assert stats == {"tictactoe_wins": 1}, "the result was written, and once"


async def hear(client: Client, command: str) -> Any:
    """Return the data of the next thing that the room says, which is this."""
    while (message := await client.take())["type"] == "event":
        pass
    assert (message["type"], message["command"]) == ("receive", command), message
    return message["data"]


async def result_of(table: Table, player_id: int) -> Any:
    """Return a player's stats once something is in them."""
    path = "/api/game_data.php/player/get"
    token = table.tokens[player_id]
    return await until(lambda: table.api.call("GET", path, player=token).json.get("stats"))


def test_a_behaviour_that_cannot_be_loaded_is_said_at_the_start(data_dir: Path):
    server = ServerProcess(data_dir, "--behaviours", "nowhere:Nothing")
    server.begin()
    assert server.wait() == 1
    assert "behaviours: nowhere cannot be imported" in server.log.read_text()


FAULTY = """
from greenroom.behaviour import Member, Room, RoomBehaviour, action

class Faulty(RoomBehaviour[dict[str, int]]):
    @action("good")
    def good(self, room: Room[dict[str, int]], by: Member) -> int:
        room.state["n"] = room.state.get("n", 0) + 1
        return room.state["n"]

    @action("loop")
    def loop(self, room: Room[dict[str, int]], by: Member) -> None:
        room.state["n"] = 1_000
        while True:
            pass

    @action("crash")
    def crash(self, room: Room[dict[str, int]], by: Member) -> None:
        room.state["n"] = 1_000
        raise SystemExit("no server ends by this")
"""


def test_a_hook_that_loops_or_crashes_harms_its_own_room_alone(data_dir: Path, database_url: str):
    (data_dir / "faulty.py").write_text(FAULTY)
    given = ("--behaviours-dir", str(data_dir), "--behaviours", "faulty:Faulty")
    database = ("--database-url", database_url)
    server = ServerProcess(data_dir, *database, *given, GREENROOM_HOOK_SECONDS_MAX="0.1").start()
    try:
        api = Api(server.address, server.new_game())
        tokens = [api.register(name)[1] for name in ("Ann", "Bob")]
        for token in tokens:
            api.call("POST", "/api/game_room.php/create", {}, player=token)
        ann, bob = tokens

        def send(token: str, kind: str) -> Any:
            body = {"target_players": "host", "action_type": kind, "request_data": {}}
            return api.call("POST", "/api/game_room.php/actions", body, player=token)

        def act(token: str, kind: str) -> int:
            return int(send(token, kind).status)

        assert [act(ann, "good"), act(ann, "crash"), act(ann, "good")] == [200, 500, 200]
        polled = api.call("GET", "/api/game_room.php/actions/poll", player=ann).json["actions"]
        assert sorted(result["response_data"] for result in polled) == [1, 2]
        assert act(ann, "loop") == 500
        logged = server.log.read_text()
        assert "SystemExit: no server ends by this" in logged
        assert "loop was interrupted after" in logged
        assert "faulty.py" in logged.split("loop was interrupted after", 1)[1]
        assert "the room does without for 1 s" in logged
        assert [act(ann, "good"), act(ann, "loop"), act(bob, "good")] == [429, 429, 200]
        assert server.log.read_text().count("was interrupted after") == logged.count(
            "was interrupted after"
        ), "who loops holds the others up once"
        reply = send(ann, "good")
        assert (reply.json["error"], reply.json["retry_after"]) == ("Too many requests", 1)
        assert reply.headers["retry-after"] == "1"
        assert api.call("POST", "/api/game_room.php/leave", player=ann).status == 200
    finally:
        assert server.stop() == 0
