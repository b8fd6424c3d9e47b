"""A few connections that read: bounded in number, in waiting, and in time.

A caller that is cancelled while waiting for a connection just leaves. A running query is shielded,
with a limit of its own, so that a cancelled caller does not cost the connection.
"""

from __future__ import annotations

import contextlib
import logging

import trio

from greenroom.actors.kernel.errors import StorageRefused, StorageUnavailable
from greenroom.persistence.driver import DatabaseConnection, Query, Row
from greenroom.persistence.errors import DatabaseConnectionLost, DatabaseError, QueryFailed
from greenroom.persistence.nodes.session import PLAN_SESSION, NodeSession, session_name
from greenroom.persistence.read_troubles import Failure, ReadTroubles, failure_of, words_for
from greenroom.persistence.settings import StorageSettings

logger = logging.getLogger(__name__)

_AGAIN_SECONDS_MIN, _AGAIN_SECONDS_MAX = 0.5, 5.0
"""Pauses between the tries of a read that fails."""
_STALE_CLASSES = frozenset({"0A", "25"})
"""SQLSTATE classes that a new connection may not meet: its plans are new, its server another."""

READER_SESSION = (
    PLAN_SESSION
    + """
SET synchronous_commit = on;
SET lock_timeout = '2s';
SET statement_timeout = '{milliseconds}ms';
SET idle_in_transaction_session_timeout = '10s';
"""
)
"""Lets the server give up a query when we do."""


class Loaders:
    """The pool of reading connections, which are opened when needed and kept."""

    def __init__(self, conninfo: str, settings: StorageSettings, session: NodeSession) -> None:
        """Prepare; nothing is opened yet. Connections bear the name of the session's node."""
        self._conninfo = conninfo
        self._session = session
        self._settings = settings
        self._free = trio.Semaphore(settings.loader_connections)
        self._idle: list[DatabaseConnection] = []
        self.troubles = ReadTroubles(settings.gate_seconds)

    @property
    def waiting(self) -> int:
        """Return how many reads wait for a connection."""
        return self._free.statistics().tasks_waiting

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ask again what failed, until cancelled, so that it is known when reads work again."""
        task_status.started()
        seconds = _AGAIN_SECONDS_MIN
        while True:
            if self.troubles.is_empty:
                seconds = _AGAIN_SECONDS_MIN
            reads = await self.troubles.wait()
            await trio.sleep(seconds)
            seconds = min(2 * seconds, _AGAIN_SECONDS_MAX)
            for queries in reads:
                with contextlib.suppress(StorageUnavailable):
                    await self.fetch(*queries)

    async def fetch(self, *queries: Query) -> list[list[Row]]:
        """Run queries that only read, in one round trip; return the rows of each.

        A connection that turns out to be dead is replaced, and the queries are sent again.

        Raises:
            StorageRefused: the database answered, and refuses this read.
            StorageUnavailable: the database is away or overloaded, after at most twice
                `load_seconds_max` and `connect_seconds_max`.
        """
        try:
            rows = await self._run_on_free(queries, tries=2)
        except DatabaseError as error:
            if self.troubles.note_failure(queries, error).is_refusal:
                raise StorageRefused(words_for(error)) from error
            raise StorageUnavailable("the database is away") from error
        self.troubles.note_success(queries)
        return rows

    async def write(self, *queries: Query) -> list[list[Row]]:
        """Run queries that write, as one transaction, once.

        Raises:
            StorageRefused: the database answered, and refuses such changes; nothing was changed.
            StorageUnavailable: the database is away. If it went away during the commit, the change
                may have been made.
            QueryFailed: Postgres refused, and would again; nothing was changed.
        """
        try:
            return await self._run_on_free(queries, tries=1)
        except QueryFailed as error:
            match failure_of(error):
                case Failure.REFUSED | Failure.FULL:
                    self.troubles.note_refused_write(queries, error)
                    raise StorageRefused(words_for(error)) from error
                case Failure.ROW:
                    raise
                case _:
                    raise StorageUnavailable("the database is away") from error
        except DatabaseError as error:
            raise StorageUnavailable("the database is away") from error

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def _run_on_free(self, queries: tuple[Query, ...], tries: int) -> list[list[Row]]:
        """Wait for a free connection, then run, shielded."""
        if self._free.statistics().tasks_waiting >= self._settings.loader_waiters_max:
            raise self.troubles.note_crowded("too many reads wait for the database")
        with trio.move_on_after(self._settings.load_seconds_max) as scope:
            await self._free.acquire()
        if scope.cancelled_caught:
            raise self.troubles.note_crowded("the database is too slow")
        with trio.CancelScope(shield=True):
            try:
                return await self._run(queries, tries)
            finally:
                self._free.release()
        raise AssertionError("nothing cancels a shielded scope")

    async def _run(self, queries: tuple[Query, ...], tries: int) -> list[list[Row]]:
        """Run on an idle connection or a new one. A lost connection uses up one of the tries."""
        while True:
            tries -= 1
            connection = await self._get_connection()
            try:
                return await connection.run(*queries, seconds_max=self._settings.load_seconds_max)
            except DatabaseConnectionLost:
                self.close()
                if not tries:
                    raise
            except QueryFailed as error:
                if error.sqlstate[:2] in _STALE_CLASSES:
                    connection.close()
                raise
            finally:
                if not connection.is_closed:
                    self._idle.append(connection)

    async def _get_connection(self) -> DatabaseConnection:
        """Return a connection that does not look closed."""
        while self._idle:
            connection = self._idle.pop()
            try:
                connection.check()
            except DatabaseConnectionLost:
                continue
            return connection
        connection = await DatabaseConnection.connect(
            self._conninfo, seconds_max=self._settings.connect_seconds_max
        )
        milliseconds = int(self._settings.load_seconds_max * 1000)
        script = READER_SESSION.format(milliseconds=milliseconds)
        script += session_name(self._session.node_id)
        try:
            await connection.script(script, seconds_max=self._settings.load_seconds_max)
        except BaseException:
            connection.close()
            raise
        return connection
