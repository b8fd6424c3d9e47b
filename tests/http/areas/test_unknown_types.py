"""Rooms and lobbies of a type that no entry names, in a server that refuses them, and a reload."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_kit import Api, ServerProcess

DUEL = """
from greenroom.behaviour import Member, Room, RoomBehaviour, action

class Duel(RoomBehaviour[None]):
    strict = True

    @action("draw")
    def draw(self, room: Room[None], by: Member) -> str:
        return "drawn"
"""


@pytest.fixture
def file() -> Iterator[Path]:
    """The file of a behaviour."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "duel.py")
        file.write_text(DUEL)
        yield file


@pytest.fixture
def studio(data_dir: Path, database_url: str, file: Path) -> Iterator[ServerProcess]:
    entry = ("--behaviours-dir", str(file.parent), "--behaviours", "*/duel=duel:Duel")
    refuse = {"GREENROOM_UNKNOWN_BEHAVIOUR_NAMES": "refuse"}
    options = ("--database-url", database_url, "--reload")
    server = ServerProcess(data_dir, *options, *entry, **refuse)
    yield server.start()
    server.stop()


def test_rooms_and_lobbies_of_an_unknown_type_are_refused_with_the_nearest(studio: ServerProcess):
    api = Api(studio.address, studio.new_game())
    _, token = api.register()
    body = {"max_players": 2, "rules": {"type": "duell"}}
    for area in ("game_room.php", "matchmaking.php"):
        for _ in range(2):
            reply = api.call("POST", f"/api/{area}/create", body, player=token)
            assert (reply.status, reply.json["success"]) == (400, False)
            assert (
                reply.json["error"] == '"duell": did you mean "duel"? Rooms have the types "duel"'
            )
    body["rules"] = {"type": "duel"}
    assert api.call("POST", "/api/game_room.php/create", body, player=token).status == 200


def test_a_strict_room_says_over_http_what_it_takes(studio: ServerProcess):
    api = Api(studio.address, studio.new_game())
    _, token = api.register()
    api.call("POST", "/api/game_room.php/create", {"rules": {"type": "duel"}}, player=token)
    action = {"action_type": "drwa", "target_players": "host", "request_data": {}}
    reply = api.call("POST", "/api/game_room.php/actions", action, player=token)
    text = '"drwa": did you mean "draw"? This room takes the actions "draw"'
    assert (reply.status, reply.json["error"]) == (400, text)
    update: dict[str, object]
    for target in ("all", "host", "others"):
        update = {"type": "draw", "target_players": target, "data": {}}
        reply = api.call("POST", "/api/game_room.php/updates", update, player=token)
        assert (reply.status, reply.json["error"]) == (
            400,
            '"draw" is an action here, not an update',
        )


def test_a_reload_with_a_misspelt_hook_changes_nothing_and_says_why(
    studio: ServerProcess, file: Path
):
    file.write_text(DUEL + "\n    def on_jion(self, room, member): ...\n")
    studio.wait_logged("Duel.on_jion is no hook: did you mean on_join?")
    studio.wait_logged(f"({file}, line 11)")
    assert "behaviours stay as they were" in studio.log.read_text()
