"""Seats in realtime rooms, taken over the API, and a token to connect with for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import processes
from scenario import Run


@dataclass(frozen=True)
class Place:
    """The rooms or lobbies in which players have seats."""

    path: str
    id_field: str
    create: str
    """The body that makes one."""


ROOM = Place("game_room.php", "room_id", '{"realtime":true,"max_players":MEMBERS}')
LOBBY = Place("matchmaking.php", "matchmaking_id", '{"strict_full":true,"max_players":MEMBERS}')

TOKEN = '"token":"([^"]+)"'
TOKEN_AND_PORT = TOKEN + r'.*"realtime_server":{"host":"[^"]*","port":(\d+)'
"""The port is that of the worker that has the room."""

CONNECTIONS = 64
ROOM_ID_DIGITS = 32
"""A token begins with its room's id."""


def take(
    run: Run,
    target: processes.Target,
    folder: Path,
    rooms: int,
    members: int,
    *,
    wanted: str = TOKEN,
) -> Path:
    """Fill rooms with new players; return a file with a token for each, room by room.

    Args:
        run: with the generator.
        target: a server.
        folder: where the file goes.
        rooms: how many.
        members: of each room, at most 16.
        wanted: what of an answer goes into a line, the token first.
    """
    everybody = [f"-\t{token}" for token in fill(run, target, folder, rooms, members)]
    tokens = sorted(
        call(
            run,
            target,
            folder,
            path="api/realtime.php/token",
            body="{}",
            wanted=wanted,
            callers=everybody,
        )
    )
    for first in range(0, len(tokens), members):
        assert len({token[:ROOM_ID_DIGITS] for token in tokens[first : first + members]}) == 1
    file = folder / "realtime-tokens"
    file.write_text("\n".join(tokens) + "\n")
    return file


def fill(
    run: Run,
    target: processes.Target,
    folder: Path,
    count: int,
    members: int,
    *,
    place: Place = ROOM,
) -> list[str]:
    """Fill so many rooms or lobbies with new players; return their tokens, hosts first."""

    def ask(path: str, body: str, name: str, callers: Sequence[str] = ()) -> list[str]:
        return call(
            run,
            target,
            folder,
            path=f"api/{path}",
            body=body,
            wanted=field(name),
            callers=callers,
            count=count * members,
        )

    register = '{"player_name":"player {{seq}}"}'
    players = ask("game_players.php/register", register, "private_key")
    hosts = [f"-\t{token}" for token in players[:count]]
    create = place.create.replace("MEMBERS", str(members))
    ids = ask(f"{place.path}/create", create, place.id_field, hosts)
    others = [f"{ids[n % count]}\t{token}" for n, token in enumerate(players[count:])]
    if others:
        ask(f"{place.path}/{{{{cred1}}}}/join", "{}", place.id_field, others)
    return players


def field(name: str) -> str:
    """Return what a text in an answer is found by."""
    return f'"{name}":"([^"]+)"'


def call(
    run: Run,
    target: processes.Target,
    folder: Path,
    *,
    path: str,
    body: str,
    wanted: str,
    callers: Sequence[str] = (),
    count: int = 0,
) -> list[str]:
    """Make calls, many at a time, and take something of each answer.

    Args:
        run: with the generator.
        target: a server.
        folder: for files.
        path: what is called, a template.
        body: likewise.
        wanted: what of the answer, a regular expression with groups.
        callers: each calls once, with `{{cred2}}` as the token.
        count: how many calls, where nobody calls by name.

    Returns:
        What was found, tabs between groups; in any order.
    """
    total = len(callers) or count
    saved, credentials = folder / "saved", folder / "callers"
    arguments = [
        *("-url", f"{target.url}/{path}", "-method", "POST", "-body", body),
        *("-H", f"X-Api-Token: {target.api_token}", "-H", "Content-Type: application/json"),
        *("-c", str(min(CONNECTIONS, total)), "-n", str(total)),
        *("-save", wanted, "-save-out", str(saved)),
    ]
    if callers:
        credentials.write_text("\n".join(callers) + "\n")
        arguments += ["-creds", str(credentials), "-cred-per-request"]
        arguments += ["-H", "X-Game-Player-Token: {{cred2}}"]
    processes.request(run.program, target, *arguments)
    found = saved.read_text().splitlines()
    assert len(found) == total, f"{path}: {len(found)} of {total}"
    return found
