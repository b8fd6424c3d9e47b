"""Measure what a change leaves on the disk: bytes of the database, and of its log (WAL).

Bytes are counted, not timed. So other work on the machine changes the log a little, because fewer
changes share a commit, and the database not at all.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import processes
import psycopg
import seed
from scenario import Run, Scenario, spread

ROOMS = 500
CALLS = 20_000
CALLS_QUICK = 1_000
CONNECTIONS = 16

ROOM_UPDATE = "small room update"
PLAYER_UPDATE = "player/update of 1 KB"
REGISTER = "register"
_SIZE = "SELECT pg_database_size(current_database()), pg_current_wal_lsn() - '0/0'::pg_lsn"


def measure(run: Run) -> str:
    """Measure and tell."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for number in range(1, run.rounds + 1):
        run.say(f"round {number} of {run.rounds}")
        with processes.fresh_folder() as folder:
            visit(run, folder, found)
    rows = [f"| {name} | {spread(kept)} | {spread(wal)} |" for name, (kept, wal) in found.items()]
    count = CALLS_QUICK if run.is_quick else CALLS
    lines = [
        f"{count:,} calls of each kind over {CONNECTIONS} connections, then a checkpoint. A room",
        "update is `moved` with a number, from the host to the others. The database's growth",
        "counts indexes; rows that are overwritten are reused only after a vacuum.",
        "",
        "| a call | bytes of the database | bytes of WAL |",
        "|---|---|---|",
        *rows,
    ]
    return "\n".join(lines)


def visit(run: Run, folder: Path, found: dict[str, tuple[list[float], list[float]]]) -> None:
    """Make calls of each kind in a world of its own, and note what they leave."""
    with processes.serve(folder):
        url = processes.database_url(folder)
        seed.add_players(url, ROOMS * seed.ROOM_MEMBERS)
        seed.add_rooms(url, ROOMS, 0)
        hosts = seed.give_tokens(url, [seed.host_id(number) for number in range(ROOMS)])
    count = CALLS_QUICK if run.is_quick else CALLS
    with processes.serve(folder) as target, tempfile.TemporaryDirectory() as directory:
        credentials = Path(directory, "hosts")
        credentials.write_text("\n".join(hosts) + "\n")
        small = '{"target_players":"others","type":"moved","data":{"x":1}}'
        kinds = {
            ROOM_UPDATE: ("game_room.php/updates", "POST", small),
            PLAYER_UPDATE: ("game_data.php/player/update", "PUT", "{{json:1024}}"),
            REGISTER: ("game_players.php/register", "POST", '{"player_name":"{{seq}}"}'),
        }
        for name, (path, method, body) in kinds.items():
            before = sizes(folder)
            processes.request(
                run.program,
                target,
                *(
                    "-H",
                    "Content-Type: application/json",
                    "-H",
                    f"X-Api-Token: {target.api_token}",
                    "-H",
                    "X-Game-Player-Token: {{cred}}",
                ),
                *("-url", f"{target.url}/api/{path}", "-method", method, "-body", body),
                *("-creds", str(credentials), "-cred-per-request"),
                *("-n", str(count), "-c", str(CONNECTIONS)),
            )
            kept, wal = found.setdefault(name, ([], []))
            after = sizes(folder)
            kept.append((after[0] - before[0]) / count)
            wal.append((after[1] - before[1]) / count)


def sizes(folder: Path) -> tuple[int, int]:
    """Write everything out; return the size of the database, and how far its log has come."""
    with psycopg.connect(processes.database_url(folder), autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute(_SIZE).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


SCENARIO = Scenario("disk", "bytes on the disk for a change", measure, minutes=2)
