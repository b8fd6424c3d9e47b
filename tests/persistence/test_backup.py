"""A backup holds a state that was; a restore brings all of it back, or changes nothing."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio
from postgres_kit import FakeWriter, PostgresProcess, registered
from waiting import until

from greenroom.actors.game.messages import GameCreated
from greenroom.actors.player.messages import (
    PlayerDeleted,
    PlayerDocumentReplaced,
    PlayerStatsChanged,
    ResultsMarked,
)
from greenroom.actors.world.audit import AuditEntry
from greenroom.persistence import migrations
from greenroom.persistence.archive import FORMAT, MANIFEST_NAME
from greenroom.persistence.backup import (
    FUNCTIONS,
    SEQUENCES,
    TABLES,
    UNSAVED_TABLES,
    back_up,
    restore,
)
from greenroom.persistence.errors import MigrationError, StorageError, StorageHeld
from greenroom.persistence.storage import Storage, migrate_database

ODD = b'{"a":"tab\\t line\\n back\\\\ \\u0001 \xd7\xa9\xd7\x9c\xf0\x9f\x8e\xb2"  , "n":1.50}'
PLAYERS = 40
OUR_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"


def nothing(*_: object) -> None:
    """Progress that nobody hears of, and no wish to stop."""


def save(conninfo: str, path: Path) -> Any:
    with path.open("wb") as stream:
        return back_up(conninfo, stream, nothing, nothing)


def load(conninfo: str, path: Path, *, replace: bool = False) -> Any:
    return restore(conninfo, path, nothing, nothing, replace=replace, by="test").manifest


def everything(conninfo: str) -> dict[str, list[Any]]:
    """All rows of all tables, but for the epoch and the audit log, which a restore changes."""
    with psycopg.connect(conninfo) as connection:
        return {
            name: connection.execute(f"SELECT t::text FROM {name} t ORDER BY 1".encode()).fetchall()
            for name in TABLES
            if name not in {"shards", "audit"}
        }


def names_of(conninfo: str, query: str) -> set[str]:
    with psycopg.connect(conninfo) as connection:
        return {name for (name,) in connection.execute(query.encode())}


@pytest.fixture
def other_database(mortal_postgres: PostgresProcess) -> Any:
    name = "test_restored"
    yield mortal_postgres.create_database(name)
    mortal_postgres.drop_database(name)


async def add_players(storage: Storage, *player_ids: int) -> None:
    for player_id in player_ids:
        writer = FakeWriter(f"player/{player_id}")
        event = registered(player_id, player_data=ODD)
        await storage.committer.submit(writer, [event]).wait(writer, 10)


async def test_nothing_that_the_migrations_make_is_left_out(empty_database: str):
    before = names_of(empty_database, "SELECT proname FROM pg_proc")
    await migrate_database(empty_database)

    assert names_of(empty_database, OUR_TABLES) == {*TABLES, *UNSAVED_TABLES}
    sequences = "SELECT sequencename FROM pg_sequences"
    assert names_of(empty_database, sequences) == set(SEQUENCES)
    assert names_of(empty_database, "SELECT proname FROM pg_proc") - before == set(FUNCTIONS)


async def test_what_is_saved_comes_back_to_the_last_byte(
    storage: Storage, empty_database: str, other_database: str, tmp_path: Path
):
    await add_players(storage, 1, 2, 3)
    saved = await trio.to_thread.run_sync(save, empty_database, tmp_path / "b.zip")
    assert {t.name: t.rows for t in saved.tables}["players"] == 3

    await trio.to_thread.run_sync(load, other_database, tmp_path / "b.zip")
    assert everything(other_database) == everything(empty_database)
    with psycopg.connect(other_database) as connection:
        row = connection.execute("SELECT player_data::text FROM players").fetchone()
        assert row == (ODD.decode(),)

    again = Storage(other_database)
    async with trio.open_nursery() as nursery:
        await nursery.start(again.run)
        assert again.epoch > storage.epoch
        await add_players(again, 1001)
        nursery.cancel_scope.cancel()


async def test_a_backup_under_load_holds_what_was_acknowledged_and_no_half_transaction(
    storage: Storage, empty_database: str, other_database: str, tmp_path: Path
):
    await add_players(storage, *range(1, PLAYERS + 1))
    acknowledged = [0] * (PLAYERS + 1)
    tried = [0] * (PLAYERS + 1)

    async def play(player_id: int) -> None:
        writer = FakeWriter(f"player/{player_id}")
        while True:
            await trio.lowlevel.checkpoint()
            number = tried[player_id] = tried[player_id] + 1
            padding = "x" * (number * 37 % 2000)
            document = json.dumps({"n": number, "p": padding}).encode()
            event = PlayerDocumentReplaced(player_id, 1, document, number)
            await storage.committer.submit(writer, [event]).wait(writer, 10)
            acknowledged[player_id] = number

    async with trio.open_nursery() as nursery:
        for player_id in range(1, PLAYERS + 1):
            nursery.start_soon(play, player_id)
        await until(lambda: min(acknowledged[1:]) > 2)
        before = list(acknowledged)
        await trio.to_thread.run_sync(save, empty_database, tmp_path / "b.zip")
        after = list(tried)
        nursery.cancel_scope.cancel()
    await trio.to_thread.run_sync(load, other_database, tmp_path / "b.zip")
    with psycopg.connect(other_database) as connection:
        rows = connection.execute("SELECT player_id, player_data->>'n' FROM players").fetchall()
    assert len(rows) == PLAYERS
    for player_id, number in rows:
        assert before[player_id] <= int(number or 0) <= after[player_id]


@pytest.fixture
async def backup(storage: Storage, empty_database: str, tmp_path: Path) -> Path:
    """A backup of two players."""
    await add_players(storage, 1, 2)
    await trio.to_thread.run_sync(save, empty_database, tmp_path / "b.zip")
    return tmp_path / "b.zip"


def edited(path: Path, member: str, edit: Callable[[bytes], bytes]) -> None:
    """Write an archive anew with one member changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[member] = edit(members[member])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def with_manifest(**changes: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        edited(path, MANIFEST_NAME, lambda old: json.dumps(json.loads(old) | changes).encode())

    return change


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def flip(path: Path) -> None:
    """Change one byte of the players' compressed rows."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("tables/players.copy")
        offset = info.header_offset + 30 + len(info.filename) + info.compress_size // 2
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def swap(path: Path) -> None:
    edited(path, "tables/players.copy", lambda old: old.replace(b"Player 1", b"Player 9"))


def drop(path: Path) -> None:
    edited(path, "tables/players.copy", lambda _: b"")


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (cut, "was cut short"),
        (flip, "is damaged: the rows of players"),
        (swap, "is damaged: the rows of players"),
        (drop, "is damaged: the rows of players"),
        (lambda path: path.write_bytes(b""), "is no backup"),
        (lambda path: path.write_bytes(b"PK" + bytes(1000)), "is no backup"),
        (lambda path: path.unlink(), "Cannot read"),
        (lambda path: edited(path, MANIFEST_NAME, lambda _: b"[]"), "no backup made by"),
        (with_manifest(format=FORMAT + 1), f"has the backup format {FORMAT + 1}"),
        (with_manifest(schema=999), "knows"),
        (with_manifest(sequences={"x": 1}), "no table x"),
        (with_manifest(tables=7), "no backup made by"),
    ],
)
async def test_a_damaged_or_foreign_file_changes_nothing(
    backup: Path, other_database: str, harm: Callable[[Path], None], text: str
):
    harm(backup)
    with pytest.raises(StorageError, match=text):
        await trio.to_thread.run_sync(load, other_database, backup)
    assert names_of(other_database, OUR_TABLES) == set()


async def test_a_database_in_use_or_with_games_is_left_alone(
    storage: Storage, empty_database: str, other_database: str, tmp_path: Path
):
    path = tmp_path / "b.zip"
    await trio.to_thread.run_sync(save, empty_database, path)
    await add_players(storage, 1)
    before = everything(empty_database)
    with pytest.raises(StorageHeld, match="stop it"):
        await trio.to_thread.run_sync(lambda: load(empty_database, path, replace=True))
    await trio.to_thread.run_sync(load, other_database, path)
    with pytest.raises(StorageError, match="holds 1 games and 0 players, which would be lost"):
        await trio.to_thread.run_sync(load, other_database, path)
    assert everything(empty_database) == before


async def test_with_force_the_database_is_what_was_saved_and_no_old_server_writes_there(
    storage: Storage, empty_database: str, other_database: str, tmp_path: Path
):
    path = tmp_path / "b.zip"
    await trio.to_thread.run_sync(save, empty_database, path)
    saved = everything(empty_database)
    other = Storage(other_database)
    async with trio.open_nursery() as nursery:
        await nursery.start(other.run)
        await other.accounts.create_owner("others", "free")
        epoch = other.epoch
        nursery.cancel_scope.cancel()
    await trio.to_thread.run_sync(lambda: load(other_database, path, replace=True))
    assert everything(other_database) == saved
    with psycopg.connect(other_database) as connection:
        row = connection.execute("SELECT epoch FROM shards").fetchone()
    assert row is not None
    assert row[0] > max(epoch, storage.epoch)


async def test_a_backup_of_an_older_schema_is_brought_up_to_date(
    connection: Any, empty_database: str, other_database: str, tmp_path: Path
):
    known = migrations.available()
    await migrations.migrate(connection, migrations=known[:2])
    with psycopg.connect(empty_database) as direct:
        direct.execute("INSERT INTO owners VALUES (1, 'old', 'free', now())")
    path = tmp_path / "b.zip"
    saved = await trio.to_thread.run_sync(save, empty_database, path)
    assert saved.schema == 2
    await trio.to_thread.run_sync(load, other_database, path)
    assert await migrate_database(other_database) == [m.name for m in known[2:]]
    assert names_of(other_database, "SELECT name FROM owners") == {"old"}


@pytest.mark.parametrize("schema", [12, 13, len(migrations.available())])
async def test_replaced_project_keys_come_back_from_a_backup_of_any_schema(
    connection: Any, empty_database: str, other_database: str, tmp_path: Path, schema: int
):
    await migrations.migrate(connection, migrations=migrations.available()[:schema])
    old = {"kind": "project", "key_hash": b"old".hex(), "replaced_at": 1, "expires_at": 2}
    with psycopg.connect(empty_database) as direct:
        direct.execute("INSERT INTO owners VALUES (1, 'Ann', 'free', now())")
        direct.execute(
            "INSERT INTO games (game_id, owner_id, name, api_key_hash, private_key_hash, tag_key,"
            " data, created_at, updated_at, old_keys)"
            " VALUES (7, 1, 'Go', 'api', 'admin', '0123456789abcdef', '{}', now(), now(), %s)",
            (json.dumps([old]),),
        )
    path = tmp_path / "b.zip"
    saved = await trio.to_thread.run_sync(save, empty_database, path)
    assert saved.schema == schema
    await trio.to_thread.run_sync(load, other_database, path)
    for database in (other_database, empty_database):  # in place of what is there, too
        await trio.to_thread.run_sync(partial(load, database, path, replace=True))
        restored = Storage(database)
        async with trio.open_nursery() as nursery:
            await nursery.start(restored.run)
            for key in (b"api", b"old"):
                found = await restored.accounts.find_shards_by_api_key(key)
                assert found is not None, key
                assert found[0] == 7
            nursery.cancel_scope.cancel()


async def test_what_a_restore_with_older_code_left_behind_is_told_and_goes_with_a_restore(
    connection: Any, empty_database: str, tmp_path: Path
):
    known = migrations.available()
    await migrations.migrate(connection, migrations=known[:12])
    with psycopg.connect(empty_database) as direct:
        direct.execute("INSERT INTO owners VALUES (1, 'old', 'free', now())")
        for name in UNSAVED_TABLES:
            direct.execute(f"CREATE TABLE {name} ()".encode())
    path = tmp_path / "b.zip"

    with pytest.raises(StorageError, match=r"already exists .* a restore with older code left it"):
        await migrate_database(empty_database)
    await trio.to_thread.run_sync(save, empty_database, path)
    await trio.to_thread.run_sync(lambda: load(empty_database, path, replace=True))
    assert await migrate_database(empty_database) == [m.name for m in known[12:]]
    assert names_of(empty_database, "SELECT name FROM owners") == {"old"}


async def test_an_empty_database_has_nothing_to_save(empty_database: str, tmp_path: Path):
    with pytest.raises(StorageError, match="nothing to back up"):
        await trio.to_thread.run_sync(save, empty_database, tmp_path / "b.zip")


async def test_a_database_of_another_code_is_not_restored(
    storage: Storage,
    empty_database: str,
    other_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    path = tmp_path / "b.zip"
    await trio.to_thread.run_sync(save, empty_database, path)
    first, *rest = migrations.available()
    edited_first = migrations.Migration(first.version, first.name, first.sql + "-- edited")
    monkeypatch.setattr(migrations, "available", lambda: [edited_first, *rest])
    with pytest.raises(MigrationError, match="another code"):
        await trio.to_thread.run_sync(load, other_database, path)
    assert storage.epoch


@pytest.mark.parametrize("step", range(12))
async def test_a_restore_that_is_cut_off_changes_nothing(
    storage: Storage, empty_database: str, other_database: str, tmp_path: Path, step: int
):
    path = tmp_path / "b.zip"
    await add_players(storage, 1, 2)
    await trio.to_thread.run_sync(save, empty_database, path)
    steps = 0

    def stop() -> None:
        nonlocal steps
        steps += 1
        if steps > step:
            raise KeyboardInterrupt

    def cut_off() -> bool:
        try:
            restore(other_database, path, nothing, stop, replace=False, by="test")
        except KeyboardInterrupt:
            return True
        return False

    if await trio.to_thread.run_sync(cut_off):
        assert names_of(other_database, OUR_TABLES) == set()
    else:
        assert everything(other_database) == everything(empty_database)


async def delete_player(storage: Storage, player_id: int) -> None:
    writer = FakeWriter(f"player/{player_id}")
    await storage.committer.submit(writer, [PlayerDeleted(player_id, 1)]).wait(writer, 10)


def rows_of(conninfo: str, query: str) -> list[Any]:
    with psycopg.connect(conninfo) as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.fixture
async def with_deletions(empty_database: str, settings: Any, tmp_path: Path) -> Path:
    """A backup, and a database in which a player of it, and a later one, were deleted since."""
    path = tmp_path / "b.zip"
    async with trio.open_nursery() as nursery:
        storage = Storage(empty_database, settings)
        await nursery.start(storage.run)
        await storage.accounts.create_owner("local", "unlimited")
        for number in (1, 2):
            game = GameCreated(number, 1, "G", b"a%d" % number, b"b%d" % number, b"0" * 16, 1)
            writer = FakeWriter(f"game/{number}")
            await storage.committer.submit(writer, [game]).wait(writer, 10)
        await add_players(storage, 1, 2, 3)
        await trio.to_thread.run_sync(save, empty_database, path)
        await add_players(storage, 12_345)
        for player_id in (2, 12_345):
            await delete_player(storage, player_id)
        for game_id in (1, 2):
            await storage.audit.begin(
                AuditEntry(actor="anna", action="game.rotate_keys", game_id=game_id)
            )
        await storage.accounts.delete_game(2)
        nursery.cancel_scope.cancel()
    return path


async def test_what_was_deleted_since_a_backup_is_deleted_again(
    with_deletions: Path, empty_database: str
):
    def restore_it() -> Any:
        return restore(empty_database, with_deletions, nothing, nothing, replace=True, by="anna")

    for _ in range(2):  # the list stays
        restored = await trio.to_thread.run_sync(restore_it)
        assert restored[1:] == (1, 1, [1])
        players = rows_of(empty_database, "SELECT player_id FROM players ORDER BY 1")
        assert players == [(1,), (3,)]
        assert rows_of(empty_database, "SELECT game_id FROM games") == [(1,)]
    following = rows_of(empty_database, "SELECT nextval('player_ids'), nextval('game_ids')")
    assert following[0][0] > 12_345, "no id of a deleted player is given again"
    assert following[0][1] > 2
    noted = (
        "SELECT actor, action, details->>'players_deleted_again' FROM audit"
        " WHERE action = 'restore'"
    )
    log = rows_of(empty_database, noted)
    assert log == [("anna", "restore", "1")] * 2


async def change_stats(storage: Storage, player_id: int, wins: int) -> None:
    """Have a room's result written: the stats, and the mark that it counts no second time."""
    writer = FakeWriter(f"player/{player_id}")
    changed = PlayerStatsChanged(player_id, 1, b'{"wins":%d}' % wins, ODD)
    marked = ResultsMarked(player_id, f"room:{wins}")
    await storage.committer.submit(writer, [changed, marked]).wait(writer, 10)


async def test_stats_come_back_with_their_marks_and_not_those_of_who_was_deleted(
    empty_database: str, settings: Any, tmp_path: Path
):
    path = tmp_path / "b.zip"
    async with trio.open_nursery() as nursery:
        storage = Storage(empty_database, settings)
        await nursery.start(storage.run)
        await storage.accounts.create_owner("local", "unlimited")
        game = GameCreated(1, 1, "G", b"a", b"b", b"0" * 16, 1)
        await storage.committer.submit(FakeWriter("game/1"), [game]).wait(FakeWriter("game/1"), 10)
        await add_players(storage, 1, 2)
        for player_id in (1, 2):
            await change_stats(storage, player_id, 70 + player_id)
        await trio.to_thread.run_sync(save, empty_database, path)
        await change_stats(storage, 1, 99)
        await delete_player(storage, 2)
        nursery.cancel_scope.cancel()

    await trio.to_thread.run_sync(lambda: load(empty_database, path, replace=True))
    async with trio.open_nursery() as nursery:
        storage = Storage(empty_database, settings)
        await nursery.start(storage.run)
        player = await storage.accounts.load_player(1)
        assert player is not None
        assert (player.stats, player.results) == (b'{"wins":71}', "room:71")
        assert await storage.accounts.load_player(2) is None
        nursery.cancel_scope.cancel()
    later = tmp_path / "later.zip"
    await trio.to_thread.run_sync(save, empty_database, later)
    with zipfile.ZipFile(later) as archive:
        held = b"".join(archive.read(name) for name in archive.namelist())
    assert b'{"wins":71}' in held.replace(b'\\"', b'"')
    assert b'{"wins":72}' not in held.replace(b'\\"', b'"')


async def test_a_backup_made_after_a_deletion_takes_the_list_along(
    with_deletions: Path, empty_database: str, other_database: str, tmp_path: Path
):
    later = tmp_path / "later.zip"
    await trio.to_thread.run_sync(save, empty_database, later)
    await trio.to_thread.run_sync(load, other_database, later)
    await trio.to_thread.run_sync(lambda: load(other_database, with_deletions, replace=True))
    assert rows_of(other_database, "SELECT player_id FROM players ORDER BY 1") == [(1,), (3,)]


async def test_old_entries_of_the_list_are_removed(storage: Storage, empty_database: str):
    await add_players(storage, 1)
    await delete_player(storage, 1)
    assert rows_of(empty_database, "SELECT kind, id FROM deletions") == [("player", 1)]
    assert await storage.deletions.remove(0) == 0
    assert await storage.deletions.remove(2**33) == 1
    assert rows_of(empty_database, "SELECT * FROM deletions") == []
