"""The right to write: a session lock on the writer's connection, and an epoch raised at each start.

The lock keeps two servers from starting on one database. The epoch catches what a lock cannot: a
server that was cut off, lost its session and so its lock, and comes back after another has begun.
The lock belongs to the connection that commits, so having it again proves that the old session is
over. Its last transaction has either committed or never will, and the shard's sequence says which.
(So the lock needs a session of its own: connect to Postgres itself, or through a pooler in session
mode.)
"""

# ruff: noqa: S608 (SQL is put together from constants of this package only)

from __future__ import annotations

import datetime as dt
import logging
import os
import socket

import msgspec
import trio

from greenroom.persistence import migrations
from greenroom.persistence.arrays import int8, text
from greenroom.persistence.driver import INT8, TEXT, DatabaseConnection, Query, Row, Statement
from greenroom.persistence.errors import (
    DatabaseConnectionLost,
    QueryFailed,
    StorageFenced,
    StorageHeld,
)
from greenroom.persistence.settings import StorageSettings

logger = logging.getLogger(__name__)

SHARD = 0
"""There is one shard now, with one owner."""
LOCK_CLASS = 0x47524E52
"""The first half of the advisory lock's key, `GRNR` in ASCII. The second half is the shard."""

_RETRY_SECONDS = 0.1

_TRY_LOCK = Statement(f"SELECT pg_try_advisory_lock({LOCK_CLASS}, {SHARD})")
_LOCK_PID = Statement(
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
    f" AND classid = {LOCK_CLASS} AND objid = {SHARD} AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_TERMINATE = Statement("SELECT pg_terminate_backend($1::integer)", INT8)
_SHARDS_EXIST = Statement("SELECT to_regclass('shards') IS NOT NULL")
_HOLDER = Statement(
    "SELECT holder_host, holder_pid, extract(epoch FROM held_since)::bigint FROM shards"
    f" WHERE shard = {SHARD}"
)
_HOLD = Statement(f"SELECT hold_shard({SHARD}, $1)", INT8)
_POSITION = Statement(f"SELECT epoch, sequence FROM shards WHERE shard = {SHARD}")
_RAISE_EPOCH = Statement(
    "UPDATE shards SET epoch = epoch + 1, sequence = 0, holder_host = $1,"
    f" holder_pid = $2::integer, held_since = now() WHERE shard = {SHARD} RETURNING epoch",
    TEXT,
    INT8,
)

PLAN_SESSION = """
SET jit = off;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
"""
"""Settings that make every statement use an index. Plans are made when the tables are still empty,
and are kept. The cheapest plan then, a scan of everything, would be far too slow a minute later."""

WRITER_SESSION = f"""{PLAN_SESSION}
SET synchronous_commit = on;
SET statement_timeout = 0;
SET idle_session_timeout = 0;
SET lock_timeout = '5s';
SET idle_in_transaction_session_timeout = '10s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
"""
"""Settings of the session: durable commits, no time limits but ours, whatever the server's defaults
are, and a server that soon notices if our machine has died."""


class Holder(msgspec.Struct, frozen=True):
    """The holder of the lock, as written for others to read."""

    host: str
    pid: int

    @classmethod
    def this_process(cls) -> Holder:
        """Return this process as a holder."""
        return cls(socket.gethostname(), os.getpid())


class Lease:
    """The writer's connection with the lock on it, and the epoch under which it writes."""

    def __init__(
        self, conninfo: str, settings: StorageSettings, holder: Holder | None = None
    ) -> None:
        """Prepare; nothing is opened yet. Others are told of `holder`, or of this process."""
        self._conninfo = conninfo
        self._settings = settings
        self._holder = holder or Holder.this_process()
        self._connection: DatabaseConnection | None = None
        self._backend_pid = 0
        self.epoch = 0
        self.sequence = 0
        """Transactions committed under this epoch, as far as we know."""

    @property
    def connection(self) -> DatabaseConnection | None:
        """Return the connection that holds the lock, None while there is none."""
        connection = self._connection
        return None if connection is None or connection.is_closed else connection

    def hold(self) -> Query:
        """Return a query that refuses its transaction if another server has raised the epoch."""
        return Query(_HOLD, (int8(self.epoch),))

    async def open(self) -> None:
        """Take the lock, bring the schema up to date, raise the epoch.

        Raises:
            StorageHeld: another process has the lock.
            MigrationError: code and schema do not fit together.
            ConnectionLost, QueryFailed: it could not be done; the lock is not held.
        """
        connection = await self._connect()
        try:
            await self._migrate(connection)
            await connection.script(WRITER_SESSION, seconds_max=self._settings.query_seconds_max)
            holder = (text(self._holder.host), int8(self._holder.pid))
            ((self.epoch,),) = await self._run(connection, _RAISE_EPOCH, *holder)
        except BaseException:
            connection.close()
            raise
        self.sequence = 0
        self._adopt(connection)

    async def migrate(self) -> list[str]:
        """Bring the schema up to date under the lock, and return the names of what was applied.

        Raises the errors of `open`. The lock is not held afterwards.
        """
        connection = await self._connect()
        try:
            return await self._migrate(connection)
        finally:
            connection.close()

    async def reopen(self) -> bool:
        """Connect again after the connection was lost, and settle its unanswered commit.

        Returns:
            True if the transaction after `sequence` did commit.

        Raises:
            StorageFenced: another server has taken over, or the database has gone back in time.
            ConnectionLost, QueryFailed: not possible yet; try again.
        """
        self.close()
        connection = await self._connect()
        try:
            await self._lock_again(connection)
            ((_, sequence),) = await self._position(connection)
            await connection.script(WRITER_SESSION, seconds_max=self._settings.query_seconds_max)
        except BaseException:
            connection.close()
            raise
        if sequence not in (self.sequence, self.sequence + 1):
            connection.close()
            raise StorageFenced(
                "The database has lost changes that were acknowledged (it was restored, or a"
                " standby took over); restart the server to go on from what it holds"
            )
        self._adopt(connection)
        return bool(sequence == self.sequence + 1)

    def close(self) -> None:
        """Release the lock by closing the connection. The lease can be opened again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _adopt(self, connection: DatabaseConnection) -> None:
        """Keep a connection on which we hold the lock."""
        self._connection = connection
        self._backend_pid = connection.backend_pid

    async def _connect(self) -> DatabaseConnection:
        """Open a connection."""
        return await DatabaseConnection.connect(
            self._conninfo, seconds_max=self._settings.connect_seconds_max
        )

    async def _migrate(self, connection: DatabaseConnection) -> list[str]:
        """Take the lock and bring the schema up to date."""
        migrations.check_server(connection)
        await self._lock_at_start(connection)
        applied = await migrations.migrate(connection)
        for name in applied:
            logger.info("applied migration %s", name)
        return applied

    async def _run(
        self, connection: DatabaseConnection, statement: Statement, *parameters: bytes | None
    ) -> list[Row]:
        """Run one statement and return its rows."""
        (rows,) = await connection.run(
            Query(statement, parameters), seconds_max=self._settings.query_seconds_max
        )
        return rows

    async def _lock_at_start(self, connection: DatabaseConnection) -> None:
        """Take the lock. Wait a moment for the lock of a server that was killed just now."""
        deadline = trio.current_time() + self._settings.lease_seconds_max
        while True:
            ((locked,),) = await self._run(connection, _TRY_LOCK)
            if locked:
                return
            if trio.current_time() >= deadline:
                raise StorageHeld(await self._held_text(connection))
            await trio.sleep(_RETRY_SECONDS)

    async def _held_text(self, connection: DatabaseConnection) -> str:
        """Return the sentence that says who has the lock."""
        ((exists,),) = await self._run(connection, _SHARDS_EXIST)
        holders = await self._run(connection, _HOLDER) if exists else []
        if not holders or not holders[0][0]:
            return "The database is held by another process that is just starting; try again"
        host, pid, since = holders[0]
        when = dt.datetime.fromtimestamp(since, dt.UTC)
        return (
            f"The database is held by host {host}, pid {pid} since {when:%Y-%m-%d %H:%M:%S} UTC;"
            " only one server may write to it"
        )

    async def _lock_again(self, connection: DatabaseConnection) -> None:
        """Take the lock from our own lost session, which is ended if it still exists."""
        deadline = trio.current_time() + self._settings.lease_seconds_max
        while True:
            ((locked,),) = await self._run(connection, _TRY_LOCK)
            ((epoch, _),) = await self._position(connection)
            if epoch != self.epoch:
                raise StorageFenced(
                    "Another server has taken over this database"
                    f" (its epoch is {epoch}, ours was {self.epoch}); this one stops"
                )
            if locked:
                return
            for (pid,) in await self._run(connection, _LOCK_PID):
                if pid == self._backend_pid:
                    await self._run(connection, _TERMINATE, int8(pid))
            if trio.current_time() >= deadline:
                raise DatabaseConnectionLost(
                    "the lock is still held by a session that does not end"
                )
            await trio.sleep(_RETRY_SECONDS)

    async def _position(self, connection: DatabaseConnection) -> list[Row]:
        """Return the shard's epoch and sequence."""
        rows = await self._run(connection, _POSITION)
        if not rows:
            raise StorageFenced("The database no longer has its row in shards; restore it")
        return rows


CLASSES_THAT_PASS = frozenset({"08", "25", "28", "3D", "40", "42", "53", "55", "57", "58", "F0"})
"""SQLSTATE classes that do not concern a row; the transaction is repeated until they pass. With any
other class a row is at fault, and is isolated."""


def is_passing(error: QueryFailed) -> bool:
    """Return whether the same transaction may succeed later."""
    return error.sqlstate[:2] in CLASSES_THAT_PASS or not error.sqlstate


def is_elsewhere(error: QueryFailed) -> bool:
    """Return whether this server is read-only (a standby), so that another one may be found."""
    return error.sqlstate[:2] == "25"


def is_fence(error: QueryFailed) -> bool:
    """Return whether the fence has refused us."""
    return error.sqlstate == "GR001"
