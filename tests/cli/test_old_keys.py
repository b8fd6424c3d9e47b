"""Replaced keys that are kept open every door of a running server, over a restart and a restore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from server_kit import Api, Game, ServerProcess

from greenroom.cli.main import main
from greenroom.control.admin.messages import RevokeKeys, RotateKeys
from greenroom.control.client import call
from greenroom.control.protocol import socket_path

GET, UPDATE = "/api/game_data.php/game/get", "/api/game_data.php/game/update"
DAY_SECONDS = 86_400


def statuses(server: ServerProcess, old: Game) -> dict[str, int]:
    """Return the status that the old keys get at each door where keys are asked for."""
    api = Api(server.address, old)
    tool: dict[str, Any] = {"name": "game_document"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
    mcp = api.call("POST", "/mcp", message)
    assert mcp.status == 200
    register = api.call("POST", "/api/game_players.php/register", {"player_name": "Ada"})
    return {
        "read": api.call("GET", GET).status,
        "register": register.status,
        "admin": api.call("PUT", UPDATE, {"season": 2}, admin=True).status,
        "mcp": 401 if mcp.json["result"].get("isError") else 200,
    }


def test_old_keys_open_every_door_until_they_are_revoked(data_dir: Path, tmp_path: Path) -> None:
    server = ServerProcess(data_dir).start()
    try:
        old = server.new_game()
        rotate = RotateKeys(game_id=old.game_id, keep_seconds=DAY_SECONDS)
        new = call(socket_path(data_dir), rotate)
        assert new.api_token != old.key
        open_doors = statuses(server, old)
        assert set(open_doors.values()) == {200}, open_doors
        backup = data_dir / "backup.zip"
        assert main(["backup", str(backup), "--data-dir", str(data_dir)]) == 0
        call(socket_path(data_dir), RevokeKeys(game_id=old.game_id))
        assert set(statuses(server, old).values()) == {401}
        assert server.stop() == 0
        arguments = ["restore", str(backup), "--force", "--data-dir", str(data_dir)]
        assert main(arguments) == 0
        server.start()
        assert statuses(server, old) == open_doors
    finally:
        server.kill()
