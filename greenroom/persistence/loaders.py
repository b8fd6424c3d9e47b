"""A few connections that read: bounded in number, in waiting, and in time.

A caller that is cancelled while waiting for a connection just leaves. A running query is shielded,
with a limit of its own, so that a cancelled caller does not cost the connection.
"""

from __future__ import annotations

import logging

import trio

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.persistence.driver import DatabaseConnection, Query, Row
from greenroom.persistence.errors import DatabaseConnectionLost, DatabaseError, QueryFailed
from greenroom.persistence.lease import PLAN_SESSION, is_passing
from greenroom.persistence.settings import StorageSettings

logger = logging.getLogger(__name__)

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

    def __init__(self, conninfo: str, settings: StorageSettings) -> None:
        """Prepare; nothing is opened yet."""
        self._conninfo = conninfo
        self._settings = settings
        self._free = trio.Semaphore(settings.loader_connections)
        self._idle: list[DatabaseConnection] = []

    async def fetch(self, *queries: Query) -> list[list[Row]]:
        """Run queries that only read, in one round trip; return the rows of each.

        A connection that turns out to be dead is replaced, and the queries are sent again.

        Raises:
            StorageUnavailable: the database is away or overloaded, after at most twice
                `load_seconds_max` and `connect_seconds_max`.
        """
        try:
            return await self._with_connection(queries, tries=2)
        except DatabaseError as error:
            if isinstance(error, QueryFailed) and not is_passing(error):
                logger.error("the database refused a read: %s", error)  # noqa: TRY400 said by it
            raise StorageUnavailable("the database is away") from error

    async def write(self, *queries: Query) -> list[list[Row]]:
        """Run queries that write, as one transaction, once.

        Raises:
            StorageUnavailable: the database is away. If it went away during the commit, the change
                may have been made.
            QueryFailed: Postgres refused, and would again; nothing was changed.
        """
        try:
            return await self._with_connection(queries, tries=1)
        except QueryFailed as error:
            if is_passing(error):
                raise StorageUnavailable("the database is away") from error
            raise
        except DatabaseError as error:
            raise StorageUnavailable("the database is away") from error

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def _with_connection(self, queries: tuple[Query, ...], tries: int) -> list[list[Row]]:
        """Wait for a free connection, then run, shielded."""
        if self._free.statistics().tasks_waiting >= self._settings.loader_waiters_max:
            raise StorageUnavailable("too many reads wait for the database")
        with trio.move_on_after(self._settings.load_seconds_max) as scope:
            await self._free.acquire()
        if scope.cancelled_caught:
            raise StorageUnavailable("the database is too slow")
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
            connection = await self._connection()
            try:
                return await connection.run(*queries, seconds_max=self._settings.load_seconds_max)
            except DatabaseConnectionLost:
                self.close()
                if not tries:
                    raise
            finally:
                if not connection.is_closed:
                    self._idle.append(connection)

    async def _connection(self) -> DatabaseConnection:
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
        try:
            await connection.script(
                READER_SESSION.format(milliseconds=milliseconds),
                seconds_max=self._settings.load_seconds_max,
            )
        except BaseException:
            connection.close()
            raise
        return connection
