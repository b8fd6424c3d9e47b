"""A room whose behaviour is being written, on a server with `--reload`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

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


def studio_folder(data_dir: Path) -> tuple[Path, tuple[str, ...]]:
    """Return a folder with a behaviour, and the arguments of a server that reloads it."""
    folder = Path(tempfile.mkdtemp(dir=data_dir))
    (folder / "words.py").write_text('GREETING = "Hello"')
    (folder / "greeting.py").write_text(GAME)
    given = ("--behaviours-dir", str(folder), "--behaviours", "greeting:Greeting", "--reload")
    return folder, given
