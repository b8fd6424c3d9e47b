"""Storage as one service: connect, migrate, take the locks, then commit until told to stop.

    Storage
    ├── session     the right to write, and the connection that has it
    ├── nodes       who else is there, and how shards change hands
    ├── committer   the kernel's `Durability`
    ├── accounts    the flows' `Accounts`      ┐
    ├── journal     snapshots and entries      │ over a few connections
    └── usage       what games use of plans    ┘ that read

Another server may end this node; then it stops.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

from greenroom.persistence import migrations
from greenroom.persistence.accounts import DatabaseAccounts
from greenroom.persistence.committer import Committer, CommitterStatistics
from greenroom.persistence.driver import DatabaseConnection
from greenroom.persistence.errors import (
    DatabaseConnectionLost,
    DatabaseConnectionRefused,
    DatabaseError,
    QueryFailed,
    StorageError,
)
from greenroom.persistence.friendships import DatabaseFriendships
from greenroom.persistence.journal import JournalStore
from greenroom.persistence.loaders import Loaders
from greenroom.persistence.migrations import MigrationState, rights
from greenroom.persistence.nodes.identity import NodeIdentity
from greenroom.persistence.nodes.records import NodeRecords
from greenroom.persistence.nodes.session import NodeSession
from greenroom.persistence.operators.audit import DatabaseAudit
from greenroom.persistence.operators.old_rows import OldRows
from greenroom.persistence.operators.partitions import Partitions
from greenroom.persistence.operators.quarantine import Quarantine
from greenroom.persistence.read_troubles import Failure
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.usage.games import UsageStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_SECONDS = 0.25
_END_SECONDS_MAX = 1.0
_CLASSES_AT_START = frozenset({"08", "25", "40", "53", "55", "57"})
"""SQLSTATE classes for which a start waits. For a missing permission, say, it does not."""
_INSUFFICIENT_PRIVILEGE, _LOCK_NOT_AVAILABLE = "42501", "55P03"
_EXISTING = frozenset({"42P07", "42723"})
"""A table or a function that is to be made is there already."""


class Storage:
    """The database as the rest of the server sees it; it may be run again."""

    def __init__(
        self,
        conninfo: str,
        settings: StorageSettings | None = None,
        identity: NodeIdentity | None = None,
        *,
        alone: bool = True,
    ) -> None:
        """Prepare; nothing is opened before `run`.

        Args:
            conninfo: a URL or `key=value` string, as libpq takes them.
            settings: bounds and time limits; the defaults if not given.
            identity: whom others see in the database; this process if not given.
            alone: False for a node of a cluster, which owns no shards at first.
        """
        self.settings = settings or StorageSettings()
        self.session = NodeSession(conninfo, self.settings, identity, alone=alone)
        self.nodes = NodeRecords(conninfo, self.settings, self.session)
        self.loaders = Loaders(conninfo, self.settings, self.session)
        self.committer = Committer(self.settings)
        self.accounts = DatabaseAccounts(self.loaders, self.session)
        self.friendships = DatabaseFriendships(self.loaders)
        self.journal = JournalStore(self.loaders, self.session)
        self.usage = UsageStore(self.loaders, self.session)
        self.quarantine = Quarantine(self.loaders, self.session)
        self.partitions = Partitions(self.loaders, self.session)
        self.audit = DatabaseAudit(self.loaders, self.session)
        self.deletions = OldRows("deletions", "deleted_at", self.loaders, self.session)

    @property
    def epoch(self) -> int:
        """Return the epoch that this server drew when it began, or 0 before it has one."""
        return self.session.epoch

    @property
    def is_ready(self) -> bool:
        """Return whether changes are accepted, and what is asked for is read."""
        return self.committer.is_open and self.loaders.troubles.is_well

    @property
    def failures(self) -> set[Failure]:
        """Return why storage is not ready; empty while it is, starts or stops."""
        found = self.committer.failure
        return self.loaders.troubles.kinds | ({found} if found else set())

    def read_statistics(self) -> CommitterStatistics:
        """Return the committer's counts; `is_open` says whether changes are accepted."""
        return self.committer.read_statistics()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start, report started once changes are accepted, and serve until cancelled.

        On cancellation the queue is committed, for `drain_seconds_max` at most. If the database
        goes away while it serves, it waits for it and reconnects by itself.

        Raises:
            StorageHeld: another process holds the database.
            MigrationError: code and schema do not fit together, or Postgres is too old.
            StorageFenced: another server has ended this node; it must stop.
            StorageError: the database cannot be reached or refuses us; one sentence says why.
        """
        await _patiently(self.session.open, self.settings.start_seconds_max)
        try:
            logger.info("storage is open as node %d", self.session.node_id)
            await self.committer.run(self.session, task_status=task_status)
        finally:
            with trio.move_on_after(_END_SECONDS_MAX, shield=True):
                await self.session.end()
            self.session.close()
            self.nodes.close()
            self.loaders.close()


async def migrate_database(conninfo: str, settings: StorageSettings | None = None) -> list[str]:
    """Bring a database's schema up to date, under the lock that a server would hold.

    Returns the names of the applied migrations. Raises the errors of `Storage.run`.
    """
    settings = settings or StorageSettings()
    session = NodeSession(conninfo, settings)
    return await _patiently(session.migrate, settings.start_seconds_max)


async def database_status(
    conninfo: str, settings: StorageSettings | None = None
) -> list[MigrationState]:
    """Return every migration and whether it is applied; takes no lock. Errors as `Storage.run`."""
    settings = settings or StorageSettings()

    async def look() -> list[MigrationState]:
        connection = await DatabaseConnection.connect(
            conninfo, seconds_max=settings.connect_seconds_max
        )
        try:
            migrations.check_server(connection)
            return await migrations.status(connection)
        finally:
            connection.close()

    return await _patiently(look, settings.start_seconds_max)


async def missing_rights(
    conninfo: str, names: Sequence[str], settings: StorageSettings | None = None
) -> list[str]:
    """Return the statements that would give the URL's role the rights that it lacks.

    Args:
        conninfo: the database, and the role in it.
        names: Greenroom's tables and sequences.
        settings: how long to try.

    Raises:
        StorageError: the database cannot be reached.
    """
    settings = settings or StorageSettings()

    async def look() -> list[str]:
        connection = await DatabaseConnection.connect(
            conninfo, seconds_max=settings.connect_seconds_max
        )
        try:
            return await rights.missing_rights(connection, names)
        finally:
            connection.close()

    return await _patiently(look, settings.start_seconds_max)


async def _patiently(attempt: Callable[[], Awaitable[T]], seconds_max: float) -> T:
    """Try until it works or cannot work. A database that starts beside us may need a moment.

    Raises:
        StorageError: it cannot work, or the time is up.
    """
    deadline = trio.current_time() + seconds_max
    is_told = False
    while True:
        try:
            return await attempt()
        except StorageError:
            raise
        except DatabaseConnectionRefused as error:
            raise StorageError(str(error)) from error
        except (DatabaseConnectionLost, QueryFailed) as error:
            if isinstance(error, QueryFailed) and error.sqlstate[:2] not in _CLASSES_AT_START:
                raise StorageError(_refused_text(error)) from error
            if trio.current_time() >= deadline:
                raise StorageError(_away_text(error)) from error
            if not is_told:
                logger.info("the database does not answer; trying for %.0f s", seconds_max)
                is_told = True
        await trio.sleep(_RETRY_SECONDS)


def _away_text(error: DatabaseError) -> str:
    """Return the sentence for a database that did not answer in time."""
    if isinstance(error, QueryFailed):
        return _refused_text(error)
    return f"The database cannot be reached: {error}; check that it runs, and the database URL"


def _refused_text(error: QueryFailed) -> str:
    """Return the sentence for a database that does not let us make our tables."""
    advice = ""
    if error.sqlstate == _INSUFFICIENT_PRIVILEGE:
        advice = "; greenroom doctor says which right the URL's user needs"
    if error.sqlstate == _LOCK_NOT_AVAILABLE:
        advice = "; a session holds a table that is to be changed: end it, then start again"
    if error.sqlstate in _EXISTING:
        advice = (
            "; if a restore with older code left it behind, back up with that code,"
            " and restore that backup with this one: greenroom restore FILE --force"
        )
    return f"The database refused to be set up: {error}{advice}"
