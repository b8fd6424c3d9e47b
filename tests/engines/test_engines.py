"""Clients in the languages of game engines, run against a server: examples/clients."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from realtime_kit import dial
from server_kit import Api, ServerProcess

CLIENTS = Path(__file__).parents[2] / "examples" / "clients"
NAME = "Zoë"
SECONDS_MAX = 60.0

pytestmark = pytest.mark.slow


@contextmanager
def running(command: list[str], directory: Path) -> Generator[subprocess.Popen[str]]:
    """A client that ends by itself, and well."""
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, encoding="utf-8")
    try:
        yield process
        assert process.wait(SECONDS_MAX) == 0
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str], word: str) -> str:
    """Return what follows on a word at the beginning of a line, once there is one."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word + " "):
            return line.removeprefix(word + " ").strip()
    raise AssertionError(f"it never said {word!r}")


async def talk_to(process: subprocess.Popen[str], api: Api, server: ServerProcess) -> None:
    """Join its room, and say hello over the realtime channel and over HTTP, then bye."""
    room_id = await trio.to_thread.run_sync(line_of, process, "room")
    player_id, token = api.register("Bob")
    api.call("POST", f"/api/game_room.php/{room_id}/join", player=token)
    minted = api.call("POST", "/api/realtime.php/token", player=token).json["token"]
    async with dial(server.ready["realtime"].rstrip("/") + "/", minted) as client:
        await client.expect("connected")
        greeting = {"text": "grüß dich ✓", "numbers": [1, 2.5], "nested": {"yes": True}}
        await client.say("hello", greeting, "host")
        await client.expect("sent")
        answer = await client.expect("receive")
        assert (answer["command"], answer["data"]) == ("hello_back", {"heard": greeting})
        assert answer["sender"]["player_name"] == NAME
        body = {"target_players": "host", "type": "hello", "data": {"by": "HTTP"}}
        sent = api.call("POST", "/api/game_room.php/updates", body, player=token)
        assert sent.status == 200, sent
        assert (await client.expect("receive"))["data"] == {"heard": {"by": "HTTP"}}
        assert answer["sender"]["game_player_id"] != player_id
        await client.say("bye", None, "host")
        await client.expect("sent")


@pytest.mark.skipif(shutil.which("godot3-server") is None, reason="no godot3-server")
async def test_a_client_in_godot(api: Api, server: ServerProcess, tmp_path: Path):
    command = [
        *("godot3-server", "--script", str(CLIENTS / "godot" / "answering.gd")),
        *("--server=http://{}:{}".format(*api.address), f"--key={api.game.key}", f"--name={NAME}"),
    ]
    with running(command, tmp_path) as process:
        await talk_to(process, api, server)


@pytest.mark.skipif(shutil.which("mcs") is None, reason="no mcs (Mono's compiler)")
async def test_a_client_in_c_sharp(api: Api, server: ServerProcess, tmp_path: Path):
    program = tmp_path / "Answering.exe"
    libraries = ["-r:System.Net.Http", "-r:System.Runtime.Serialization"]
    source = CLIENTS / "csharp" / "Answering.cs"
    subprocess.run(["mcs", "-warnaserror", f"-out:{program}", *libraries, source], check=True)
    command = ["mono", str(program), "http://{}:{}".format(*api.address), api.game.key, NAME]
    with running(command, tmp_path) as process:
        await talk_to(process, api, server)
