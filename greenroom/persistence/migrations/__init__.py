"""The schema: numbered SQL files, applied in order, each recorded with its checksum.

One process migrates at a time, in one transaction under a lock of its own. Other nodes may run
meanwhile, so what a migration changes is only ever added to. A released file is never edited; a
correction is a new file.
"""

from __future__ import annotations

import hashlib
import re
from importlib import resources

import msgspec

from greenroom.persistence.arrays import int8, text
from greenroom.persistence.driver import BYTEA, INT8, TEXT, DatabaseConnection, Query, Statement
from greenroom.persistence.errors import MigrationError

SERVER_VERSION_MIN = 140000
LOCK_KEY = 0x47524D49
"""The lock's key, `GRMI` in ASCII, so that only one process migrates at a time."""

_NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")

_TABLE_EXISTS = Statement("SELECT to_regclass('schema_migrations') IS NOT NULL")
_APPLIED = Statement("SELECT version, name, checksum FROM schema_migrations ORDER BY version")
_RECORD = Statement(
    "INSERT INTO schema_migrations (version, name, checksum, applied_at)"
    " VALUES ($1, $2, $3, now())",
    INT8,
    TEXT,
    BYTEA,
)
LOCKS = "SET LOCAL lock_timeout = '2s';"
"""A migration that waits for a table makes all who come later wait, other nodes among them."""
CREATE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version bigint PRIMARY KEY,
    name text NOT NULL,
    checksum bytea NOT NULL,
    applied_at timestamptz NOT NULL
)
"""


class Migration(msgspec.Struct, frozen=True):
    """One file: its number, its name, its SQL."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> bytes:
        """Return the SHA-256 of the SQL, independent of the checkout's line ends."""
        return hashlib.sha256(self.sql.replace("\r\n", "\n").encode()).digest()


class MigrationState(msgspec.Struct, frozen=True):
    """One migration as `greenroom db status` shows it."""

    version: int
    name: str
    is_applied: bool


def available() -> list[Migration]:
    """Return the migrations that come with this code, in order, numbered without a gap."""
    found: list[Migration] = []
    for file in resources.files(__name__).iterdir():
        if match := _NAME.match(file.name):
            name = file.name.removesuffix(".sql")
            found.append(Migration(int(match[1]), name, file.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.version)
    assert [migration.version for migration in found] == list(range(1, len(found) + 1))
    return found


def check_server(connection: DatabaseConnection) -> None:
    """Make sure that this Postgres can hold our data.

    Raises:
        MigrationError: it is older than 14, or the database's encoding is not UTF-8.
    """
    version = connection.server_version
    if version < SERVER_VERSION_MIN:
        raise MigrationError(
            f"Greenroom needs Postgres 14 or later; this server is Postgres {version // 10000}"
        )
    encoding = connection.get_parameter("server_encoding")
    if encoding != "UTF8":
        raise MigrationError(
            f"The database's encoding is {encoding}; make one with"
            " CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


async def status(
    connection: DatabaseConnection,
    *,
    migrations: list[Migration] | None = None,
    seconds_max: float = 10.0,
) -> list[MigrationState]:
    """Return every known migration and whether it is applied.

    Raises:
        MigrationError: code and schema do not fit together; the text says how.
        QueryFailed, ConnectionLost: as `Connection.run`.
    """
    known = available() if migrations is None else migrations
    applied = await _check(connection, known, seconds_max)
    return [MigrationState(m.version, m.name, m.version <= applied) for m in known]


async def migrate(
    connection: DatabaseConnection,
    *,
    migrations: list[Migration] | None = None,
    seconds_max: float = 600.0,
) -> list[str]:
    """Bring the schema up to date; return the names of what was applied, in order.

    If it fails, the schema stays as it was.

    Args:
        connection: an idle connection with the right to create tables.
        migrations: other files than those of the package, for tests.
        seconds_max: seconds that each statement may take; a large table takes long.

    Raises:
        MigrationError: code and schema do not fit together, or a file failed.
        QueryFailed, ConnectionLost: as `Connection.run`.
    """
    known = available() if migrations is None else migrations
    check_server(connection)
    names: list[str] = []
    try:
        await connection.script(
            f"BEGIN; SELECT pg_advisory_xact_lock({LOCK_KEY}); {LOCKS} {CREATE}",
            seconds_max=seconds_max,
        )
        applied = await _check(connection, known, seconds_max)
        for migration in known[applied:]:
            await connection.script(migration.sql, seconds_max=seconds_max)
            record = (int8(migration.version), text(migration.name), migration.checksum)
            await connection.run(Query(_RECORD, record), seconds_max=seconds_max)
            names.append(migration.name)
        await connection.script("COMMIT", seconds_max=seconds_max)
    except MigrationError:
        await connection.script("ROLLBACK", seconds_max=seconds_max)
        raise
    return names


async def _check(connection: DatabaseConnection, known: list[Migration], seconds_max: float) -> int:
    """Return how many of the known migrations are applied, after comparing them one by one."""
    ((exists,),) = (await connection.run(Query(_TABLE_EXISTS), seconds_max=seconds_max))[0]
    if not exists:
        return 0
    rows = (await connection.run(Query(_APPLIED), seconds_max=seconds_max))[0]
    if len(rows) > len(known):
        raise MigrationError(
            f"The database's schema is newer than this Greenroom: it has {rows[-1][1]}, this code"
            f" ends at {known[-1].name if known else 'nothing'}; start the newer version"
        )
    for migration, (version, name, checksum) in zip(known, rows, strict=False):
        if (version, name) != (migration.version, migration.name):
            raise MigrationError(
                f"The database was made by another code: its migration {version} is {name},"
                f" ours is {migration.name}"
            )
        if bytes(checksum) != migration.checksum:
            raise MigrationError(
                f"The migration {name} was edited after it had been applied;"
                " restore the file, or undo the change by a new one"
            )
    return len(rows)
