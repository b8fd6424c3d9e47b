"""Every secret of a whole session, looked for wherever it must not be."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
import trio
from psycopg import sql
from secret_kit import BUGGY, METRICS_TOKEN, Session, files_of, found_in
from server_kit import serving
from steam_kit import SteamServer

from greenroom.control.admin.lobby_messages import ListLobbies
from greenroom.control.admin.messages import (
    ChangeGameSettings,
    ListGames,
    ListPlayers,
    Operation,
    ShowDatabaseAddress,
    ShowGame,
    ShowPlayer,
    ShowTree,
)
from greenroom.control.admin.player_messages import ExportPlayer
from greenroom.control.admin.room_messages import ListRooms, ShowRoom, ShowRoomHistory
from greenroom.persistence.backup import TABLES, UNSAVED_TABLES

SECONDS_MAX = 120.0
IN_THE_DATABASE = {"publisher key", "join token", "lobby join token"}
"""Steam must be given the one; members may read the others (docs/reference/attacks.md)."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session that has been played, on a server with its own Postgres, which runs on."""
    studio = tmp_path_factory.mktemp("studio")  # not in the data directory, which is searched
    (studio / "buggy.py").write_text(BUGGY)
    with (
        SteamServer() as steam,
        serving(
            *("--behaviours-dir", str(studio), "--behaviours", "*/buggy=buggy:Buggy"),
            GREENROOM_LOG_LEVEL="debug",
            GREENROOM_STEAM_BASE_URL=steam.url,
            GREENROOM_METRICS_TOKEN=METRICS_TOKEN,
            GREENROOM_SNAPSHOT_SECONDS="0.2",
        ) as server,
    ):
        played = Session(server, steam, server.new_game())
        played.play()
        trio.run(played.connect)
        yield played


def first_game(session: Session) -> dict[str, str]:
    """The secrets that the first start has made and told."""
    kept = json.loads((session.server.data_dir / "first-game.json").read_bytes())
    return {name: kept[name] for name in ("api_token", "api_private_token")}


def run(session: Session, *arguments: str) -> bytes:
    """A command of an operator, and all that it prints."""
    data_dir = str(session.server.data_dir)
    line = [sys.executable, "-m", "greenroom", *arguments, "--data-dir", data_dir]
    root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": root, "GREENROOM_METRICS_TOKEN": METRICS_TOKEN}
    done = subprocess.run(
        line, env=environment, capture_output=True, timeout=SECONDS_MAX, check=False
    )
    assert done.returncode == 0, done
    return done.stdout + done.stderr


def test_a_search_finds_what_is_there() -> None:
    secrets = {"token": "gr_plr_0123456789", "hex": "0f" * 32}
    for shown in (b"gr_plr_0123456789", b"gr_plr_0123456789".hex().encode(), b"GR_PLR_0123456789"):
        assert found_in(b"x" + shown + b"y", secrets) == {"token"}
    assert found_in(b"a" + bytes.fromhex("0f" * 32), secrets) == {"hex"}
    assert found_in(hashlib.sha256(b"gr_plr_0123456789").digest(), secrets) == set()


def test_no_log_line_holds_a_secret_at_whatever_level(session: Session) -> None:
    lines = session.server.log.read_bytes().splitlines()
    records = [line for line in lines if line.startswith(b"{")]
    for bug in (b"a bug of the studio", b"a bug of the server"):
        assert any(bug in line for line in records)
    everything = session.secrets | first_game(session)
    assert found_in(b"\n".join(records), everything) == set()
    told = b"\n".join(line for line in lines if line not in records)
    assert found_in(told, everything) == set()  # first keys are printed on a terminal alone


def test_an_answer_holds_a_secret_only_where_it_is_given_out(session: Session) -> None:
    tokens = {name for name in session.secrets if name.startswith(("token", "rotated"))}
    joins = {"join token", "lobby join token"}
    given_out = {
        "POST /api/game_players.php/register": tokens,
        "POST /api/game_players.php/rotate": tokens,
        "POST /api/realtime.php/token": {"realtime token", "realtime token of Bob"},
        **{
            f"{call}.php/{operation}": joins
            for call in ("POST /api/game_room", "POST /api/matchmaking")
            for operation in ("create", "current")
        },
        "GET /api/game_room.php/current": joins,
        "GET /api/matchmaking.php/current": joins,
    }
    statuses = set()
    for call, reply in session.replies:
        statuses.add(reply.status)
        head = "\n".join(f"{name}: {value}" for name, value in reply.headers.items()).encode()
        found = found_in(head + b"\n" + reply.body, session.secrets)
        allowed = given_out.get(call, set()) if reply.status == 200 else set()
        assert (call, reply.status, found - allowed) == (call, reply.status, set())
    assert statuses >= {200, 400, 401, 403, 404, 429, 500}


def test_metrics_hold_no_secret(session: Session) -> None:
    authorization = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    reply = session.api.call("GET", "/metrics", headers=authorization)
    assert reply.status == 200
    assert b"greenroom_" in reply.body
    assert found_in(reply.body, session.secrets | first_game(session)) == set()


def test_what_operators_are_shown_holds_no_secret(session: Session) -> None:
    game_id, room_id = session.api.game.game_id, session.room_id
    shown: list[Operation[object]] = [
        ChangeGameSettings(game_id=game_id),
        ListGames(),
        ListLobbies(game_id=None, limit=100),
        ListPlayers(game_id=game_id, after_id=0, limit=100),
        ListRooms(game_id=None, limit=100),
        ShowGame(game_id=game_id),
        ShowRoom(room_id=room_id),
        ShowRoomHistory(room_id=room_id, after=0, limit=1000, at=1),
        ShowTree(),
        *(ExportPlayer(player_id=i) for i in session.player_ids),
        *(ShowPlayer(player_id=i) for i in session.player_ids),
    ]
    for operation in shown:
        told = msgspec.json.encode(session.operate(operation))
        assert len(told) > 20
        assert (operation, found_in(told, session.secrets)) == (operation, set())
    for command in (("config", "show"), ("tree",), ("room", "history", room_id)):
        found = found_in(run(session, *command), session.secrets | first_game(session))
        assert (command, found) == (command, set())


def test_a_dump_of_the_database_opens_nothing(session: Session) -> None:
    url = session.operate(ShowDatabaseAddress()).url
    everything = session.secrets | first_game(session)
    found: dict[str, set[str]] = {}
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        )
        tables = {name for (name,) in names}
        assert tables == {*TABLES, *UNSAVED_TABLES}
        for table in tables:
            query = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))
            with connection.cursor().copy(query) as copy:
                rows = b"".join(copy)
            if table in {"games", "players", "journal", "snapshots", "platform_tickets"}:
                assert (table, bool(rows)) == (table, True)
            found[table] = found_in(rows, everything)
            if table == "players":  # this is how tokens lie there
                token = session.secrets["token of Ada"].encode()
                assert hashlib.sha256(token).hexdigest().encode() in rows
    allowed = {"games": {"publisher key"}}
    allowed |= dict.fromkeys(("journal", "snapshots", "journal_bases"), IN_THE_DATABASE)
    for table, names_found in found.items():
        assert (table, names_found - allowed.get(table, set())) == (table, set())
    assert found["games"] == {"publisher key"}


def test_a_backup_opens_nothing_and_is_its_owners_alone(session: Session) -> None:
    file = session.server.data_dir / "backup.zip"
    run(session, "backup", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with zipfile.ZipFile(file) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    found = found_in(content, session.secrets | first_game(session))
    assert found >= {"publisher key"}
    assert found <= IN_THE_DATABASE


def test_no_file_of_the_data_directory_is_for_others(session: Session) -> None:
    data_dir = session.server.data_dir
    ours = {session.server.log, data_dir / "ready.json", data_dir}
    for path in files_of(data_dir):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path not in ours:
            assert (path, oct(mode & 0o066)) == (path, "0o0")
        if path.is_file() and path != session.server.log:
            assert (path, oct(mode & 0o022)) == (path, "0o0")
    ready = found_in((data_dir / "ready.json").read_bytes(), first_game(session))
    assert ready == set()


def test_files_hold_only_what_they_must(session: Session) -> None:
    data_dir = session.server.data_dir
    session.rotate_keys()
    assert session.server.stop() == 0
    everything = session.secrets | first_game(session)
    kept = {"api_token", "api_private_token"}
    for path in files_of(data_dir):
        if path.is_file() and path != session.server.log:
            is_first_game = path.name == "first-game.json"
            allowed = kept if is_first_game else IN_THE_DATABASE
            found = found_in(path.read_bytes(), everything)
            assert (path, found - allowed) == (path, set())
    records = [
        line for line in session.server.log.read_bytes().splitlines() if line.startswith(b"{")
    ]
    assert found_in(b"\n".join(records), everything) == set()
