"""`greenroom serve --reload`: a studio edits its files while a room plays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server_kit import Api, ServerProcess

GAME = """
import msgspec

from greenroom.behaviour import Member, Room, RoomBehaviour, action
from words import GREETING

class Guests(msgspec.Struct):
    greeted: int = 0

class Greeting(RoomBehaviour[Guests]):
    @action("greet")
    def greet(self, room: Room[Guests], by: Member) -> str:
        room.state.greeted += 1
        return f"{GREETING} {room.state.greeted}"
"""
RENAMED = GAME.replace("greeted", "welcomed").replace(": int = 0", ": int")
MIGRATED = (
    RENAMED
    + """
    state_version = 2

    def migrate(self, old: dict[str, int], version: int) -> Guests:
        return Guests(welcomed=100 * old["greeted"])
"""
)


class Evening:
    """A room whose behaviour is being written."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._api = Api(server.address, server.new_game())
        _, self._token = self._api.register()
        self._call("create", {})

    def _call(self, operation: str, body: Any = None, method: str = "POST") -> Any:
        path = f"/api/game_room.php/{operation}"
        reply = self._api.call(method, path, body, player=self._token)
        assert reply.status == 200, reply
        return reply.json

    def greet(self) -> Any:
        body = {"target_players": "host", "action_type": "greet", "request_data": {}}
        (action_id,) = self._call("actions", body)["action_ids"]
        results = self._call("actions/poll", method="GET")["actions"]
        (result,) = [r for r in results if r["action_id"] == action_id]
        return result["response_data"]

    def write(self, name: str, text: str, said: str) -> None:
        """Save a file, and wait until the server says this."""
        logged = self._server.log.stat().st_size
        (self._folder / name).write_text(text)
        self._server.wait_logged(said, logged)


@pytest.fixture
def evening(data_dir: Path, database_url: str) -> Iterator[Evening]:
    folder = Path(tempfile.mkdtemp(dir=data_dir))
    (folder / "words.py").write_text('GREETING = "Hello"')
    (folder / "greeting.py").write_text(GAME)
    given = ("--behaviours-dir", str(folder), "--behaviours", "greeting:Greeting", "--reload")
    server = ServerProcess(data_dir, "--database-url", database_url, *given).start()
    yield Evening(server, folder)
    assert server.stop() == 0


def test_rooms_go_on_with_what_is_saved_and_never_with_what_is_broken(evening: Evening):
    assert evening.greet() == "Hello 1"
    evening.write("words.py", 'GREETING = "Good evening"', "rooms that go on with them: 1")
    assert evening.greet() == "Good evening 2"
    evening.write("words.py", "GREETING =", "SyntaxError: invalid syntax")
    assert evening.greet() == "Good evening 3"
    evening.write("words.py", "import nowhere", "No module named 'nowhere'")
    assert evening.greet() == "Good evening 4"
    evening.write("words.py", "raise KeyboardInterrupt", "cannot be imported: KeyboardInterrupt")
    assert evening.greet() == "Good evening 5"
    evening.write("words.py", "while True: pass", "importing behaviours was interrupted after")
    assert evening.greet() == "Good evening 6"
    evening.write("words.py", 'GREETING = "Hi"', "rooms that go on with them: 1")
    evening.write("greeting.py", RENAMED, "with the old code: 1")
    assert evening.greet() == "Hi 7"
    evening.write("greeting.py", MIGRATED, "rooms that go on with them: 1")
    assert evening.greet() == "Hi 701"
