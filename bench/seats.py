"""Seats in realtime rooms, taken over the API, and a token to connect with for each."""

from __future__ import annotations

from pathlib import Path

import processes
from scenario import Run

CONNECTIONS = 64
ROOM_ID_DIGITS = 32
"""A token begins with its room's id."""


def take(run: Run, target: processes.Target, folder: Path, rooms: int, members: int) -> Path:
    """Fill rooms with new players; return a file with a token for each, room by room.

    Args:
        run: with the generator.
        target: a server.
        folder: where the file goes.
        rooms: how many.
        members: of each room, at most 16.
    """
    office = _Office(run, target, folder)
    count = rooms * members
    register = '{"player_name":"player {{seq}}"}'
    players = office.call("game_players.php/register", register, "private_key", [], count)
    create = f'{{"realtime":true,"max_players":{members}}}'
    hosts = [f"-\t{token}" for token in players[:rooms]]
    ids = office.call("game_room.php/create", create, "room_id", hosts)
    others = [f"{ids[n % rooms]}\t{token}" for n, token in enumerate(players[rooms:])]
    if others:
        office.call("game_room.php/{{cred1}}/join", "{}", "room_id", others)
    everybody = [f"-\t{token}" for token in players]
    tokens = sorted(office.call("realtime.php/token", "{}", "token", everybody))
    for first in range(0, count, members):
        assert len({token[:ROOM_ID_DIGITS] for token in tokens[first : first + members]}) == 1
    file = folder / "realtime-tokens"
    file.write_text("\n".join(tokens) + "\n")
    return file


class _Office:
    """Makes calls, many at a time, and takes one field of each answer."""

    def __init__(self, run: Run, target: processes.Target, folder: Path) -> None:
        self._run, self._target, self._folder = run, target, folder

    def call(
        self, path: str, body: str, field: str, callers: list[str], count: int | None = None
    ) -> list[str]:
        """Call once for each caller, `{{cred2}}` being his token; order is not kept."""
        wanted = len(callers) if count is None else count
        saved, credentials = self._folder / "saved", self._folder / "callers"
        arguments = [
            *("-url", f"{self._target.url}/api/{path}", "-method", "POST", "-body", body),
            *("-H", f"X-Api-Token: {self._target.api_token}"),
            *("-H", "Content-Type: application/json"),
            *("-c", str(min(CONNECTIONS, wanted)), "-n", str(wanted)),
            *("-save", f'"{field}":"([^"]+)"', "-save-out", str(saved)),
        ]
        if callers:
            credentials.write_text("\n".join(callers) + "\n")
            arguments += ["-creds", str(credentials), "-cred-per-request"]
            arguments += ["-H", "X-Game-Player-Token: {{cred2}}"]
        processes.request(self._run.program, self._target, *arguments)
        found = saved.read_text().split()
        assert len(found) == wanted, f"{path}: {len(found)} of {wanted}"
        return found
