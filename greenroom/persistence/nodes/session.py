"""The right to write: a session lock on the writer's connection, and a row that may be ended.

A *node* is one start of a server; it has a row in `nodes`, under an id that is never given twice.
Every write checks that row. So a node that was cut off, and that others have taken for dead, finds
out before it writes.

A server that is *alone* holds the lock of the database exclusively. When it starts, it ends all
other nodes and takes every shard. The nodes of a cluster share that lock, and each has a lock of
its own besides; a node owns nothing until it takes shards (see `records`).

Locks belong to the connection that commits. So having them again proves that the old session is
over. Its last transaction has either committed or never will, and the row's sequence says which.
(So the locks need a session of their own: connect to Postgres itself, or through a pooler in
session mode.)
"""

# ruff: noqa: S608 (SQL is put together from constants of this package only)

from __future__ import annotations

import logging
import math
import secrets
import time
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
import trio

from greenroom.actors.kernel.shard_ownership import OwnedShards
from greenroom.actors.kernel.shards import SHARDS
from greenroom.persistence import migrations
from greenroom.persistence.arrays import float8, int8, text
from greenroom.persistence.driver import (
    BOOL,
    BYTEA,
    FLOAT8,
    INT8,
    JSON,
    TEXT,
    DatabaseConnection,
    Query,
    Row,
    Statement,
)
from greenroom.persistence.errors import (
    DatabaseConnectionLost,
    QueryFailed,
    StorageError,
    StorageFenced,
    StorageHeld,
)
from greenroom.persistence.nodes.identity import Installation, NodeIdentity, held_text, named
from greenroom.persistence.settings import StorageSettings

logger = logging.getLogger(__name__)

LOCK_CLASS = 0x47524E52
"""The first half of the key of the database's lock, `GRNR` in ASCII. The second half is 0."""
NODE_LOCK_CLASS = 0x47524E53
"""The first half of the key of a node's lock. The second half is the node's id."""
CLOCK_SECONDS_WARNED, CLOCK_SECONDS_MAX = 1.0, 30.0
"""How far the machine's clock may be from the database's: without a warning, and in a cluster."""

_RETRY_SECONDS = 0.1
_ENDED_KEPT = "7 days"

_TRY_ALONE = Statement(f"SELECT pg_try_advisory_lock({LOCK_CLASS}, 0)")
_UNLOCK_ALONE = Statement(f"SELECT pg_advisory_unlock({LOCK_CLASS}, 0)")
_TRY_SHARED = Statement(f"SELECT pg_try_advisory_lock_shared({LOCK_CLASS}, 0)")
_TRY_NODE = Statement(f"SELECT pg_try_advisory_lock({NODE_LOCK_CLASS}, $1::integer)", INT8)
NODE_LOCKS = (
    "(SELECT objid::bigint AS node_id, pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
    f" AND classid = {NODE_LOCK_CLASS} AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)
"""SQL for the nodes whose sessions hold their locks."""
_END_OLD_SESSION = Statement(
    f"SELECT pg_terminate_backend(pid) FROM {NODE_LOCKS} AS l"
    " WHERE node_id = $1 AND pid <> pg_backend_pid()",
    INT8,
)
_TABLES = Statement("SELECT to_regclass('nodes') IS NOT NULL, to_regclass('shards') IS NOT NULL")
HOLDERS = Statement(
    "SELECT name, host, nodes.pid::bigint, extract(epoch FROM started_at)::bigint, is_alone"
    " FROM nodes"
    f" JOIN {NODE_LOCKS} AS l USING (node_id) ORDER BY node_id"
)
"""Name, host, process id, start and whether it is alone, of each node that has its lock."""
_KNOWS_LEASES = Statement(
    "SELECT EXISTS (SELECT FROM pg_attribute"
    " WHERE attrelid = to_regclass('nodes') AND attname = 'lease_until')"
)
_LEASED = Statement(
    "SELECT name, host, pid::bigint, extract(epoch FROM started_at)::bigint, is_alone FROM nodes"
    " WHERE ended_at IS NULL AND NOT is_alone AND lease_until > clock_timestamp()"
    " ORDER BY node_id"
)
"""The same of each node of a cluster that has a lease, be its session there or not."""
_OLD_HOLDER = Statement(
    "SELECT holder_host, holder_host, holder_pid::bigint, extract(epoch FROM held_since)::bigint,"
    " true FROM shards WHERE shard = 0 AND holder_host <> ''"
)
_TIME = Statement("SELECT extract(epoch FROM clock_timestamp())::float8")
_NUMBERS = Statement("SELECT nextval('node_ids'), nextval('epochs')")
_MAKE_INSTALLATION = Statement(
    "INSERT INTO cluster (installation_id, key) VALUES ($1, $2) ON CONFLICT DO NOTHING", TEXT, BYTEA
)
_INSTALLATION = Statement("SELECT installation_id, key FROM cluster")
_FORGET_ENDED = Statement(
    f"DELETE FROM nodes AS n WHERE ended_at < now() - interval '{_ENDED_KEPT}'"
    " AND NOT EXISTS (SELECT FROM shards AS s WHERE s.node_id = n.node_id)"
)
_BEGIN = Statement(
    """
    INSERT INTO nodes (node_id, name, host, pid, version, protocol, is_alone, addresses, behaviours,
        state, writer_pid, lease, lease_until, started_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, 'starting', pg_backend_pid(), l, now() + l, now()
    FROM make_interval(secs => $10) AS l
    """,
    *(INT8, TEXT, TEXT, INT8, TEXT, INT8, BOOL, JSON, TEXT, FLOAT8),
)
_END_SESSIONS = Statement(
    "SELECT end_sessions(node_id) FROM nodes WHERE ended_at IS NULL AND node_id <> $1", INT8
)
_LOCK_OTHERS = Statement(
    "SELECT FROM nodes WHERE ended_at IS NULL AND node_id <> $1 FOR UPDATE", INT8
)
_END_OTHERS = Statement(
    "UPDATE nodes SET ended_at = clock_timestamp() WHERE ended_at IS NULL AND node_id <> $1", INT8
)
_TAKE_ALL = Statement(
    "UPDATE shards SET node_id = $1, epoch = $2 RETURNING shard::bigint, epoch", INT8, INT8
)
_END = Statement(
    "UPDATE nodes SET ended_at = clock_timestamp() WHERE node_id = $1 AND ended_at IS NULL", INT8
)
_ADVANCE = Statement("SELECT advance_node($1, $2)", INT8, INT8)
_HOLD = Statement("SELECT hold_node($1)", INT8)
_POSITION = Statement("SELECT sequence, ended_at IS NOT NULL FROM nodes WHERE node_id = $1", INT8)
_SUCCESSOR = Statement(
    "SELECT name, host, pid::bigint FROM nodes WHERE node_id > $1 AND ended_at IS NULL"
    " ORDER BY is_alone DESC, node_id DESC LIMIT 1",
    INT8,
)
_OWN_SHARDS = Statement("SELECT shard::bigint, epoch FROM shards WHERE node_id = $1", INT8)

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


def session_name(node_id: int) -> str:
    """Return SQL that names a session after its node, so that others can end it."""
    return f"SET application_name = 'greenroom node {node_id}';"


boot_seconds: Final = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)
"""Returns seconds since the machine started, those of its suspensions included, where it can."""


class NodeSession:
    """The writer's connection with the locks on it, and what this node owns."""

    def __init__(
        self,
        conninfo: str,
        settings: StorageSettings,
        identity: NodeIdentity | None = None,
        *,
        alone: bool = True,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            conninfo: the database.
            settings: bounds and time limits.
            identity: whom others see; this process if not given.
            alone: False for a node of a cluster.
        """
        self._conninfo = conninfo
        self._settings = settings
        self.identity = identity or NodeIdentity.describe_this_process()
        self.alone = alone
        self._connection: DatabaseConnection | None = None
        self.node_id = 0
        self.epoch = 0
        """Drawn at the start. A node that is alone owns all shards under it."""
        self.sequence = 0
        """Transactions that this node committed, as far as we know."""
        self.shards = OwnedShards()
        """The shards that are this node's now, as of its last opening. It stays the same object."""
        self.written_epochs: dict[int, int] = {}
        """The epoch of each shard that is or was this node's: what was queued for a shard that has
        just been handed over is still written under it."""
        self.renewed_at = -math.inf
        """When the last renewal of the lease that succeeded was sent, in `boot_seconds`."""
        self.installation = Installation("", b"")
        self.booted_at = time.time() - boot_seconds()
        """When the machine started, in Unix seconds: by the database's calendar once it has been
        told, by the machine's before."""

    @property
    def connection(self) -> DatabaseConnection | None:
        """Return the connection that holds the locks, None while there is none."""
        connection = self._connection
        return None if connection is None or connection.is_closed else connection

    def read_calendar(self) -> float:
        """Return the database's time in Unix seconds, as it goes on since it was last told.

        It is reckoned by a clock that nobody can set.
        """
        return self.booted_at + boot_seconds()

    @property
    def seconds_behind(self) -> float:
        """Return how far the machine's calendar is behind the database's."""
        return self.read_calendar() - time.time()

    def note_time(self, asked_at: float, theirs: float) -> None:
        """Take note of the database's time, which has just come.

        What the answer has taken leaves some room. The calendar moves only as far as it must, so it
        does not tremble.

        Args:
            asked_at: what `boot_seconds` said before the database was asked.
            theirs: its calendar, in Unix seconds.
        """
        lowest, highest = theirs - boot_seconds(), theirs - asked_at
        self.booted_at = min(max(self.booted_at, lowest), highest)

    def hold(self) -> Query:
        """Return a query that refuses its transaction if this node has been ended."""
        return Query(_HOLD, (int8(self.node_id),))

    def advance(self) -> Query:
        """Return the query that begins the next transaction of the committer: fence and count."""
        return Query(_ADVANCE, (int8(self.node_id), int8(self.sequence + 1)))

    def gain(self, taken: Mapping[int, int]) -> None:
        """Note that shards are this node's from now on, each under its epoch."""
        for shard, epoch in taken.items():
            self.shards.gain(shard, epoch)
        self.written_epochs.update(taken)

    async def open(self) -> None:
        """Take the lock, bring the schema up to date, begin a node; alone, take all shards.

        Raises:
            StorageHeld: another server has the lock, and runs alone or wants to.
            MigrationError: code and schema do not fit together.
            StorageError: this machine's clock is too wrong for a cluster.
            ConnectionLost, QueryFailed: it could not be done; the lock is not held.
        """
        connection = await self._connect()
        try:
            await self._migrate(connection)
            await self._compare_clocks(connection)
            await connection.script(WRITER_SESSION, seconds_max=self._settings.query_seconds_max)
            await self._begin(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

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
            StorageFenced: this node was ended, or the database has gone back in time.
            ConnectionLost, QueryFailed: not possible yet; try again.
        """
        self.close()
        connection = await self._connect()
        try:
            await self._lock_again(connection)
            sequence = await self._read_position(connection)
            await self._check_shards(connection)
            if sequence not in (self.sequence, self.sequence + 1):
                raise StorageFenced(_LOST)
            settings = WRITER_SESSION + session_name(self.node_id)
            await connection.script(settings, seconds_max=self._settings.query_seconds_max)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return sequence == self.sequence + 1

    async def end(self) -> None:
        """End this node in an orderly way: it will not write any more, and others need not wait.

        Nothing is raised: if the database does not answer, others find out by themselves.
        """
        connection = self.connection
        if connection is not None:
            try:
                await self._run(connection, _END, int8(self.node_id))
            except (DatabaseConnectionLost, QueryFailed) as error:
                logger.info("node %d could not be ended in the database: %s", self.node_id, error)

    def close(self) -> None:
        """Release the locks by closing the connection. The session can be opened again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

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

    async def _begin(self, connection: DatabaseConnection) -> None:
        """Add this node's row under a new id; alone, end all others and take every shard."""
        ((node_id, epoch),) = await self._run(connection, _NUMBERS)
        name = session_name(node_id)
        await connection.script(name, seconds_max=self._settings.query_seconds_max)
        await self._run(connection, _TRY_NODE, int8(node_id))
        ours, sent_at = int8(node_id), boot_seconds()
        others = [
            Query(statement, (ours,)) for statement in (_END_SESSIONS, _LOCK_OTHERS, _END_OTHERS)
        ]
        installation = (text(uuid.uuid4().hex), secrets.token_bytes(32))
        *_, ((installation_id, key),), taken = await connection.run(
            *(others if self.alone else ()),
            Query(_FORGET_ENDED),
            Query(_BEGIN, (ours, *self._make_columns())),
            Query(_MAKE_INSTALLATION, installation),
            Query(_INSTALLATION),
            Query(_TAKE_ALL if self.alone else _OWN_SHARDS, (ours, int8(epoch))[: 1 + self.alone]),
            seconds_max=self._settings.query_seconds_max,
        )
        if self.alone and len(taken) != SHARDS:
            raise StorageError(
                f"The table shards has {len(taken)} rows instead of {SHARDS}; restore a backup"
            )
        self.node_id, self.epoch, self.sequence, self.renewed_at = node_id, epoch, 0, sent_at
        self.installation = Installation(installation_id, key)
        self.shards.lose_all()
        self.written_epochs = {}
        self.gain(dict(taken))

    def _make_columns(self) -> list[bytes | None]:
        """Return the row of this node as parameters of `_BEGIN`, after the id."""
        identity = self.identity
        return [
            text(identity.name),
            text(identity.host),
            int8(identity.pid),
            text(identity.version),
            int8(identity.protocol),
            bytes([self.alone]),
            msgspec.json.encode(identity.addresses),
            text(identity.behaviours),
            float8(self._settings.lease_seconds),
        ]

    async def _compare_clocks(self, connection: DatabaseConnection) -> None:
        """Compare the machine's calendar with the database's.

        Raises:
            StorageError: they are too far apart for a cluster.
        """
        asked_at = boot_seconds()
        ((theirs,),) = await self._run(connection, _TIME)
        self.note_time(asked_at, theirs)
        behind = self.seconds_behind
        if abs(behind) <= CLOCK_SECONDS_WARNED:
            return
        side = "behind" if behind > 0 else "ahead of"
        words = f"The clock of this machine is {abs(behind):.1f} s {side} the database's"
        if abs(behind) > CLOCK_SECONDS_MAX and not self.alone:
            raise StorageError(
                f"{words}, and nodes of a cluster may differ by {CLOCK_SECONDS_MAX:.0f} s;"
                " set both by NTP, then start again"
            )
        logger.warning("%s; set both by NTP", words)

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
        deadline = trio.current_time() + self._settings.lock_seconds_max
        while not (await self._try_lock(connection) and await self._may_end_others(connection)):
            if trio.current_time() >= deadline:
                raise StorageHeld(await self._explain_held(connection))
            await trio.sleep(_RETRY_SECONDS)

    async def _may_end_others(self, connection: DatabaseConnection) -> bool:
        """Return whether no cluster lives whose sessions are away for a moment; else let it be.

        A server that is alone ends all others. A restart of Postgres, say, takes the locks of a
        cluster away, but not the leases.
        """
        if not self.alone:
            return True
        ((knows_leases,),) = await self._run(connection, _KNOWS_LEASES)
        if not knows_leases or not await self._run(connection, _LEASED):
            return True
        await self._run(connection, _UNLOCK_ALONE)
        return False

    async def _try_lock(self, connection: DatabaseConnection) -> bool:
        """Try to take the lock of the database; return whether it is held now."""
        ((locked,),) = await self._run(connection, _TRY_ALONE if self.alone else _TRY_SHARED)
        return bool(locked)

    async def _explain_held(self, connection: DatabaseConnection) -> str:
        """Return the sentence that says who has the lock."""
        ((has_nodes, has_shards),) = await self._run(connection, _TABLES)
        holders: list[Row] = []
        if has_nodes:
            holders = await self._run(connection, HOLDERS) or await self._run(connection, _LEASED)
        if has_shards and not has_nodes:
            holders = await self._run(connection, _OLD_HOLDER)
        return held_text(holders, wants_alone=self.alone)

    async def _lock_again(self, connection: DatabaseConnection) -> None:
        """Take the locks from our own lost session, which is ended if it still exists."""
        deadline = trio.current_time() + self._settings.lock_seconds_max
        ours = int8(self.node_id)
        while True:
            await self._read_position(connection)  # nobody waits for a lock that is lost for good
            ((locked,),) = await self._run(connection, _TRY_NODE, ours)
            if locked and await self._try_lock(connection):
                return
            await self._run(connection, _END_OLD_SESSION, ours)
            if trio.current_time() >= deadline:
                raise DatabaseConnectionLost("a lock is still held by a session that does not end")
            await trio.sleep(_RETRY_SECONDS)

    async def _read_position(self, connection: DatabaseConnection) -> int:
        """Return the sequence in this node's row.

        Raises:
            StorageFenced: the node has ended, or the database does not know it.
        """
        rows = await self._run(connection, _POSITION, int8(self.node_id))
        if not rows:
            raise StorageFenced(_LOST)
        ((sequence, has_ended),) = rows
        if has_ended:
            found = await self._run(connection, _SUCCESSOR, int8(self.node_id))
            by = "".join(f" ({named(*row)})" for row in found)
            raise StorageFenced(
                f"Another server{by} has taken over from node {self.node_id}; this one stops"
            )
        return int(sequence)

    async def _check_shards(self, connection: DatabaseConnection) -> None:
        """Make sure that the database has every shard that we own as ours.

        It may have more: some may be about to come, or to be handed over.

        Raises:
            StorageFenced: it does not; a standby may have missed that we took one.
        """
        rows = await self._run(connection, _OWN_SHARDS, int8(self.node_id))
        if not self.shards.epochs.items() <= dict(rows).items():
            await self._read_position(connection)  # just now others may have taken over from us
            raise StorageFenced(_LOST)


_LOST = (
    "The database has lost changes that were acknowledged (it was restored, or a standby took"
    " over); restart the server to go on from what it holds"
)
