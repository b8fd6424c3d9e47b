"""Back up and restore: everything in the database as one consistent archive, while a server runs.

A backup reads all tables in one REPEATABLE READ transaction. The server commits only whole changes,
so the backup has a state that really was. A restore is one transaction, too. It drops our tables,
makes them anew as they were at the time of the backup, fills them and counts; or nothing has
happened.

Both block, and are called in a thread. They call `check_cancelled` to learn of a cancellation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, LiteralString, NamedTuple

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from greenroom import __version__
from greenroom.persistence import migrations
from greenroom.persistence.archive import (
    FORMAT,
    Archive,
    ArchivedTable,
    Manifest,
    Progress,
    create,
    write_manifest,
    write_table,
)
from greenroom.persistence.errors import MigrationError, StorageError, StorageHeld
from greenroom.persistence.nodes.identity import named
from greenroom.persistence.nodes.session import HOLDERS, LOCK_CLASS

TABLES: Final = (
    "schema_migrations",
    "shards",
    "owners",
    "games",
    "players",
    "bans",
    "journal",
    "snapshots",
    "journal_bases",
    "platform_tickets",
    "friendships",
    "game_usage",
    "usage_parts",
    "quarantine",
    "audit",
    "deletions",
)
"""Every table that is saved. Those that others refer to come first."""
UNSAVED_TABLES: Final = ("cluster", "nodes", "old_project_keys", "plan_shares")
"""Tables of what runs now: a restored copy is another installation, and must not take this one's
nodes for its own. And what a trigger fills from the rows of others."""
SEQUENCES: Final = ("owner_ids", "game_ids", "player_ids", "audit_ids", "node_ids", "epochs")
KEPT: Final = frozenset({"audit", "deletions", "audit_ids", "node_ids", "epochs"})
"""Tables and sequences that a restore does not drop. The backup's rows are added to the tables; the
sequences go on from the higher number."""
_KEPT_MIGRATION: Final = "kept"
"""The migration that makes them. A backup of an older schema gets them, too."""
FUNCTIONS: Final = (
    "advance_shard",
    "hold_shard",
    "advance_node",
    "hold_node",
    "end_sessions",
    "take_over",
    "keep_old_project_keys",
    "hand_over",
    "take_shares",
)

_DROPS: Final = (
    (
        sql.SQL("DROP TABLE IF EXISTS {} CASCADE"),
        [n for n in (*TABLES, *UNSAVED_TABLES) if n not in KEPT],
    ),
    (sql.SQL("DROP SEQUENCE IF EXISTS {} CASCADE"), [n for n in SEQUENCES if n not in KEPT]),
    (sql.SQL("DROP FUNCTION IF EXISTS {} CASCADE"), FUNCTIONS),
)

_CHANGED_BY_RESTORE: Final = frozenset({"shards", "audit"})
"""Tables that a restore leaves otherwise than the file has them: the epoch, and the log."""
_CONNECT_SECONDS_MAX = 10
_NAMED_MAX = 8
_SESSION = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET statement_timeout = 0"

_DELETE_AGAIN: Final = {
    "games": (
        "DELETE FROM bans WHERE game_id IN (SELECT id FROM deletions WHERE kind = 'game')",
        "DELETE FROM players WHERE game_id IN (SELECT id FROM deletions WHERE kind = 'game')",
        "DELETE FROM games WHERE game_id IN (SELECT id FROM deletions WHERE kind = 'game')",
    ),
    "players": (
        "DELETE FROM bans WHERE player_id IN (SELECT id FROM deletions WHERE kind = 'player')",
        "DELETE FROM players WHERE player_id IN (SELECT id FROM deletions WHERE kind = 'player')",
    ),
}
_IDS_OF: Final = {"player_ids": "player", "game_ids": "game"}
"""Sequences that must not give an id of a deleted player or game again."""

Row = tuple[Any, ...]
Connection = psycopg.Connection[Row]


class Restored(NamedTuple):
    """The outcome of a restore."""

    manifest: Manifest
    players_deleted_again: int
    games_deleted_again: int
    games_with_older_keys: list[int]
    """Those whose keys were replaced after the backup: the replaced ones work again."""


def back_up(
    conninfo: str, stream: IO[bytes], progress: Progress, check_cancelled: Callable[[], None]
) -> Manifest:
    """Write everything in a database into an archive.

    Args:
        conninfo: the database; a server may use it.
        stream: a file open for writing.
        progress: is told now and then what is done.
        check_cancelled: raises if the backup is to stop.

    Returns:
        The archive's manifest.

    Raises:
        StorageError: the database failed, has no schema, or a schema newer than this code.
        OSError: the file cannot be written.
    """
    try:
        with _connect(conninfo) as connection, create(stream) as archive:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            version = _schema_version(connection)
            if version == 0:
                raise StorageError(
                    f"The {_place(connection)} is empty: there is nothing to back up"
                )
            tables = []
            for name in TABLES:
                if _exists(connection, name):
                    check_cancelled()
                    columns = _columns(connection, name)
                    rows = _copied(connection, name, columns, check_cancelled)
                    tables.append(write_table(archive, name, columns, rows, progress))
            manifest = Manifest(
                format=FORMAT,
                greenroom=__version__,
                schema=version,
                postgres=connection.info.server_version,
                created_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
                tables=tables,
                sequences={
                    name: _last_value(connection, name)
                    for name in SEQUENCES
                    if _exists(connection, name)
                },
            )
            write_manifest(archive, manifest)
            return manifest
    except psycopg.Error as error:
        raise _failed("be backed up", error) from error


def restore(
    conninfo: str,
    path: Path,
    progress: Progress,
    check_cancelled: Callable[[], None],
    *,
    replace: bool,
    by: str,
) -> Restored:
    """Replace a database by a backup; the schema stays that of the backup.

    The audit log and the list of deletions stay, and the backup's rows are added to them. Players
    and games in that list are deleted again.

    Args:
        conninfo: the database; nobody else may use it.
        path: the backup.
        progress: is told now and then what is done, while the file is checked, too.
        check_cancelled: raises if the restore is to stop; then nothing has changed.
        replace: True if games that the database already holds may be lost.
        by: whom the audit log names.

    Returns:
        The archive's manifest, and what came back otherwise than it was before the restore.

    Raises:
        StorageError: the file is damaged or too new, or the database failed or holds games.
        StorageHeld: a server uses the database.
    """
    with closing(Archive(path)) as archive:
        manifest = archive.manifest
        _check_tables(manifest)
        for table in manifest.tables:  # all of it, before anything is changed
            for _ in archive.read_chunks(table, progress):
                check_cancelled()
        try:
            with _connect(conninfo) as connection:
                _take_lock(connection)
                if not replace:
                    _check_empty(connection)
                epoch = _epoch(connection)
                _make_tables(connection, manifest.schema)
                for table in manifest.tables:
                    _fill(connection, table, archive.read_chunks(table, progress), check_cancelled)
                _check_migrations(connection)
                _finish(connection, manifest, epoch)
                again = _delete_again(connection)
                older = _with_older_keys(connection, manifest)
                restored = Restored(manifest, again["players"], again["games"], older)
                _note(connection, restored, by)
        except psycopg.Error as error:
            raise _failed("be restored", error) from error
        return restored


def verify(
    conninfo: str, path: Path, progress: Progress, check_cancelled: Callable[[], None]
) -> Manifest:
    """Restore a backup into a database, and compare each row there with the file.

    Args:
        conninfo: a database that holds nothing, and that nobody else uses.
        path: the backup.
        progress: is told now and then what is done.
        check_cancelled: raises if the work is to stop.

    Returns:
        The archive's manifest.

    Raises:
        StorageError: the file is damaged or too new, the database failed, or it holds other rows
            than the file.
    """
    restored = restore(conninfo, path, progress, check_cancelled, replace=False, by="a drill")
    manifest = restored.manifest
    try:
        with _connect(conninfo) as connection:
            for table in manifest.tables:
                if table.name not in _CHANGED_BY_RESTORE:
                    chunks = _copied(connection, table.name, table.columns, check_cancelled)
                    digest = hashlib.sha256()
                    for chunk in chunks:
                        digest.update(chunk)
                    if digest.hexdigest() != table.sha256:
                        raise StorageError(
                            f"{path} does not come back whole: the rows of {table.name} differ"
                        )
    except psycopg.Error as error:
        raise _failed("be compared", error) from error
    return manifest


def _connect(conninfo: str) -> Connection:
    connection = psycopg.connect(
        make_conninfo(
            conninfo,
            connect_timeout=_CONNECT_SECONDS_MAX,
            application_name="greenroom backup",
            client_encoding="UTF8",
            gssencmode="disable",
        )
    )
    connection.execute(_SESSION)
    connection.commit()
    return connection


def _place(connection: Connection) -> str:
    """Return which database this is, for people; the embedded one's socket is in its directory."""
    return f"database {connection.info.dbname} at {connection.info.host}"


def _one(connection: Connection, query: LiteralString, *parameters: object) -> Any:
    row = connection.execute(query, parameters).fetchone()
    return row[0] if row else None


def _exists(connection: Connection, name: str) -> bool:
    return bool(_one(connection, "SELECT to_regclass(%s) IS NOT NULL", name))


def _schema_version(connection: Connection) -> int:
    """Return the last migration that is applied, 0 for none.

    Raises:
        MigrationError: this code does not know it.
    """
    if not _exists(connection, "schema_migrations"):
        return 0
    version = _one(connection, "SELECT max(version) FROM schema_migrations") or 0
    _check_known(version)
    return int(version)


def _check_known(version: int) -> None:
    known = len(migrations.available())
    if not 0 <= version <= known:
        raise MigrationError(
            f"The schema is version {version}, this Greenroom knows {known}: use a newer Greenroom"
        )


def _columns(connection: Connection, name: str) -> list[str]:
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s)"
        " AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        (name,),
    )
    return [column for (column,) in rows]


def _copied(
    connection: Connection, name: str, columns: list[str], check_cancelled: Callable[[], None]
) -> Iterable[bytes | bytearray | memoryview]:
    statement = _copy(name, columns, sql.SQL("TO STDOUT"))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for chunk in copy:
            check_cancelled()
            yield chunk


def _copy(name: str, columns: list[str], direction: sql.SQL) -> sql.Composed:
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    table = sql.Identifier(name)
    return sql.SQL("COPY {} ({}) {}").format(table, listed, direction)


def _last_value(connection: Connection, name: str) -> int:
    """Return the value that a sequence gave last, 0 if it has given none yet."""
    statement = sql.SQL("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {}")
    row = connection.execute(statement.format(sql.Identifier(name))).fetchone()
    assert row is not None
    return int(row[0])


def _check_tables(manifest: Manifest) -> None:
    """Refuse a backup that a newer Greenroom has made."""
    _check_known(manifest.schema)
    unknown = [table.name for table in manifest.tables if table.name not in TABLES]
    unknown += [name for name in manifest.sequences if name not in SEQUENCES]
    if unknown:
        raise MigrationError(f"This Greenroom knows no table {unknown[0]}: use a newer Greenroom")


def _take_lock(connection: Connection) -> None:
    """Keep servers away until the transaction ends."""
    if _one(connection, "SELECT pg_try_advisory_xact_lock(%s, 0)", LOCK_CLASS):
        return
    found = connection.execute(HOLDERS.sql).fetchall() if _exists(connection, "nodes") else []
    by = ", ".join(named(*row[:3]) for row in found[:_NAMED_MAX])
    raise StorageHeld(
        f"A server is at work on the database{f' ({by})' if by else ''}: stop it, then restore"
    )


def _check_empty(connection: Connection) -> None:
    if not _exists(connection, "owners") or not _one(connection, "SELECT count(*) FROM owners"):
        return
    games = _one(connection, "SELECT count(*) FROM games")
    players = _one(connection, "SELECT count(*) FROM players")
    raise StorageError(
        f"The {_place(connection)} holds {games} games and {players} players, which would be lost:"
        " restore into an empty one, or back it up and give --force"
    )


def _epoch(connection: Connection) -> int:
    """Return the highest epoch that a server may still write under."""
    highest = 0
    if _exists(connection, "shards"):
        highest = _one(connection, "SELECT max(epoch) FROM shards") or 0
    if _exists(connection, "epochs"):
        highest = max(highest, _last_value(connection, "epochs"))
    return int(highest)


def _make_tables(connection: Connection, version: int) -> None:
    """Drop our tables and make them anew, empty, as the migrations up to a version do."""
    for drop, names in _DROPS:
        for name in names:
            connection.execute(drop.format(sql.Identifier(name)))
    connection.execute(migrations.CREATE.encode())
    for migration in migrations.available()[:version]:
        connection.execute(migration.sql.encode())
    for migration in migrations.available()[version:]:
        if migration.name.endswith(_KEPT_MIGRATION):
            connection.execute(migration.sql.encode())
    connection.execute("DELETE FROM shards")


def _fill(
    connection: Connection,
    table: ArchivedTable,
    chunks: Iterable[bytes],
    check_cancelled: Callable[[], None],
) -> None:
    if table.name in KEPT:
        _add(connection, table, chunks, check_cancelled)
    else:
        _copy_in(connection, table.name, table, chunks, check_cancelled)


def _add(
    connection: Connection,
    table: ArchivedTable,
    chunks: Iterable[bytes],
    check_cancelled: Callable[[], None],
) -> None:
    """Add a table's rows to those that are there already."""
    ours, theirs = sql.Identifier(table.name), sql.Identifier(f"restored_{table.name}")
    make = sql.SQL("CREATE TEMPORARY TABLE {} (LIKE {}) ON COMMIT DROP")
    connection.execute(make.format(theirs, ours))
    _copy_in(connection, f"restored_{table.name}", table, chunks, check_cancelled)
    listed = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    add = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT DO NOTHING")
    connection.execute(add.format(ours, listed, listed, theirs))


def _copy_in(
    connection: Connection,
    name: str,
    table: ArchivedTable,
    chunks: Iterable[bytes],
    check_cancelled: Callable[[], None],
) -> None:
    statement = _copy(name, table.columns, sql.SQL("FROM STDIN"))
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for chunk in chunks:
                check_cancelled()
                copy.write(chunk)
        if cursor.rowcount != table.rows:
            raise StorageError(
                f"The database took {cursor.rowcount} rows of {table.name} instead of {table.rows}"
            )


def _check_migrations(connection: Connection) -> None:
    """Refuse a backup whose migrations differ from this code's."""
    rows = connection.execute("SELECT version, name, checksum FROM schema_migrations ORDER BY 1")
    known = migrations.available()
    for (version, name, checksum), ours in zip(rows, known, strict=False):
        if (version, name, bytes(checksum)) != (ours.version, ours.name, ours.checksum):
            raise MigrationError(f"The backup was made by another code: its {name} is not ours")


def _finish(connection: Connection, manifest: Manifest, epoch: int) -> None:
    for name, value in manifest.sequences.items():
        highest = max(value, _last_value(connection, name) if name in KEPT else 0)
        if name in _IDS_OF:
            deleted = "SELECT coalesce(max(id), 0) FROM deletions WHERE kind = %s"
            highest = max(highest, _one(connection, deleted, _IDS_OF[name]))
        if highest:
            connection.execute("SELECT setval(%s, %s)", (name, highest))
    following = max(epoch, _epoch(connection)) + 1
    connection.execute(
        "UPDATE shards SET epoch = %s, sequence = 0, holder_host = '', holder_pid = 0", (following,)
    )
    if "node_id" in _columns(connection, "shards"):
        connection.execute("UPDATE shards SET node_id = NULL")
        connection.execute("SELECT setval('epochs', %s)", (following,))
    connection.execute("ANALYZE")


def _delete_again(connection: Connection) -> dict[str, int]:
    """Delete the players and games in the list of deletions; return how many there were."""
    return {
        what: [connection.execute(statement.encode()).rowcount for statement in statements][-1]
        for what, statements in _DELETE_AGAIN.items()
    }


def _with_older_keys(connection: Connection, manifest: Manifest) -> list[int]:
    """Return the games whose keys were replaced after the backup, as the audit log has it."""
    replaced = """
        SELECT DISTINCT game_id FROM audit JOIN games USING (game_id)
        WHERE action IN ('game.rotate_keys', 'game.revoke_keys') AND outcome <> 'refused'
            AND at >= %s::timestamptz
        ORDER BY game_id
    """
    rows = connection.execute(replaced, (manifest.created_at,)).fetchall()
    return [game_id for (game_id,) in rows]


def _note(connection: Connection, restored: Restored, by: str) -> None:
    """Write the restore into the audit log."""
    facts: dict[str, object] = {
        "saved_at": restored.manifest.created_at,
        "players_deleted_again": restored.players_deleted_again,
        "games_deleted_again": restored.games_deleted_again,
        "games_with_older_keys": len(restored.games_with_older_keys),
    }
    connection.execute(
        "INSERT INTO audit (audit_id, at, actor, action, details, outcome)"
        " VALUES (nextval('audit_ids'), now(), %s, 'restore', %s, 'done')",
        (by, msgspec.json.encode(facts).decode()),
    )


def _failed(what: str, error: psycopg.Error) -> StorageError:
    """Return an error with only the primary message, because details may have a row's content."""
    reason = error.diag.message_primary or str(error).partition("\n")[0]
    return StorageError(f"The database could not {what}: {reason}")
