"""Failing reads of the database: they are logged once a minute, counted, and end readiness.

Postgres may answer every change and yet refuse to read: a right is revoked, a table is gone, it has
no more connections. So each statement that fails is remembered, with its parameters, until it
succeeds. Somebody must ask it again meanwhile, because a server that is not ready gets no calls.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

import trio

from greenroom.actors.kernel.errors import StorageUnavailable
from greenroom.persistence.driver import Query, Statement
from greenroom.persistence.errors import (
    DatabaseConnectionRefused,
    DatabaseError,
    QueryFailed,
)

logger = logging.getLogger(__name__)

LOG_SECONDS = 60.0
"""The seconds between two log lines about the same statement and SQLSTATE."""

_AWAY = frozenset({"08000", "08003", "08006", "57P01", "57P02", "57P03"})
_SLOW_CLASSES = frozenset({"40", "55"})
_QUERY_CANCELED, _DISK_FULL = "57014", "53100"
_REFUSING_CLASSES = frozenset({"08", "0A", "25", "28", "3D", "3F", "42", "53", "57", "58", "F0"})
"""SQLSTATE classes that concern the whole database. All others concern the requested rows."""


class Failure(StrEnum):
    """Why a statement failed."""

    AWAY = "away"
    """Nobody answered, or Postgres starts or stops. It may pass."""
    SLOW = "slow"
    """It took too long, or waited too long for a lock. It may pass."""
    CROWDED = "crowded"
    """Too many reads waited for a connection. It may pass."""
    REFUSED = "refused"
    """The database refused the statement. It passes when somebody has acted."""
    FULL = "full"
    """The disk of the database is full. It passes when somebody has made space."""
    ROW = "row"
    """The database could not read the rows of this call; other calls are served."""

    @property
    def is_refusal(self) -> bool:
        """Return whether trying again does not help."""
        return self in {Failure.REFUSED, Failure.FULL, Failure.ROW}


def failure_of(error: DatabaseError) -> Failure:
    """Return the kind of failure of a read's error."""
    if isinstance(error, DatabaseConnectionRefused):
        return Failure.REFUSED
    if not isinstance(error, QueryFailed):
        return Failure.AWAY
    sqlstate = error.sqlstate
    if not sqlstate or sqlstate in _AWAY:
        return Failure.AWAY
    if sqlstate == _DISK_FULL:
        return Failure.FULL
    if sqlstate == _QUERY_CANCELED or sqlstate[:2] in _SLOW_CLASSES:
        return Failure.SLOW
    return Failure.REFUSED if sqlstate[:2] in _REFUSING_CLASSES else Failure.ROW


_Key = tuple[Statement, ...]


class _Trouble:
    """A read that has failed and has not succeeded since."""

    __slots__ = ("failure", "queries", "since")

    def __init__(self, queries: Sequence[Query], since: float) -> None:
        self.queries = queries
        self.since = since
        self.failure = Failure.AWAY


class ReadTroubles:
    """The reads that fail now, and how many ever did.

    It is bounded by the number of statements that there are, and of SQLSTATEs: each statement is
    remembered once, and each of its SQLSTATEs is logged for itself.
    """

    def __init__(self, gate_seconds: float) -> None:
        """Start without a failing read.

        Args:
            gate_seconds: the seconds that a read may fail, for a reason that may pass, before
                readiness ends.
        """
        self._gate_seconds = gate_seconds
        self._open: dict[_Key, _Trouble] = {}
        self._begun = trio.Event()
        self._told: dict[tuple[_Key, str], tuple[float, int]] = {}
        self._failed: Counter[Failure] = Counter(dict.fromkeys(Failure, 0))
        self.writes_refused = 0
        """Changes outside of the committer that the database refused."""

    @property
    def is_empty(self) -> bool:
        """Return whether no read fails."""
        return not self._open

    @property
    def kinds(self) -> set[Failure]:
        """Return the kinds of failures that end readiness now."""
        return {each.failure for each in self._open.values() if self._is_unready(each)}

    @property
    def is_well(self) -> bool:
        """Return whether no read is refused, and none has failed for `gate_seconds`."""
        return not self._open or not self.kinds

    def _is_unready(self, trouble: _Trouble) -> bool:
        if trouble.failure.is_refusal:
            return True
        return trio.current_time() - trouble.since >= self._gate_seconds

    def count_failed_by_kind(self) -> dict[str, int]:
        """Return how many reads ever failed, by the name of the kind of failure."""
        return {kind.value: count for kind, count in self._failed.items()}

    def note_success(self, queries: Sequence[Query]) -> None:
        """Note that a read has succeeded; it costs nothing while nothing is wrong."""
        if self._open and self._open.pop(_key(queries), None) is not None:
            logger.info("the database reads again what it did not")

    def note_failure(self, queries: Sequence[Query], error: DatabaseError) -> Failure:
        """Count a failure, remember the read, and log it at most once a minute."""
        failure = failure_of(error)
        self._failed[failure] += 1
        key = _key(queries)
        self._tell(key, failure, error)
        if failure is not Failure.ROW:
            trouble = self._open.setdefault(key, _Trouble(queries, trio.current_time()))
            trouble.queries, trouble.failure = queries, failure
            self._begun.set()
        return failure

    def note_refused_write(self, queries: Sequence[Query], error: DatabaseError) -> None:
        """Count and log a change that the database refuses. It is not tried again."""
        self.writes_refused += 1
        if (
            left_out := self._count_left_out(_key(queries), f"write {_sqlstate(error)}")
        ) is not None:
            logger.error("the database refused a write: %s", words_for(error) + left_out)

    def note_crowded(self, text: str) -> StorageUnavailable:
        """Count a read that got no connection in time; return the error to raise."""
        self._failed[Failure.CROWDED] += 1
        if (left_out := self._count_left_out((), Failure.CROWDED)) is not None:
            logger.warning("a read of the database failed: %s", text + left_out)
        return StorageUnavailable(text)

    async def wait(self) -> list[Sequence[Query]]:
        """Wait until a read fails; return all failing reads, to be tried again.

        Cancellation just ends the wait.
        """
        while not self._open:
            self._begun = trio.Event()
            await self._begun.wait()
        return [trouble.queries for trouble in self._open.values()]

    def _tell(self, key: _Key, failure: Failure, error: DatabaseError) -> None:
        """Log the database's own words, and what to do about them."""
        left_out = self._count_left_out(key, f"{failure} {_sqlstate(error)}")
        if left_out is None:
            return
        if failure.is_refusal:
            logger.error("the database refused a read: %s", words_for(error) + left_out)
        else:
            logger.warning("a read of the database failed: %s", words_for(error) + left_out)

    def _count_left_out(self, key: _Key, what: str) -> str | None:
        """Return how many lines were left out, in words; None if this line is left out, too."""
        now = trio.current_time()
        last, count = self._told.get((key, what), (-math.inf, 0))
        if now - last < LOG_SECONDS:
            self._told[key, what] = last, count + 1
            return None
        self._told[key, what] = now, 0
        return f" ({count} more within the last {now - last:.0f} s)" if count else ""


def _sqlstate(error: DatabaseError) -> str:
    """Return the SQLSTATE, empty if Postgres has not told any."""
    return error.sqlstate if isinstance(error, QueryFailed) else ""


def _key(queries: Sequence[Query]) -> _Key:
    return tuple(query.statement for query in queries)


_ADVICE = (
    ("42501", "give the server's role its rights back (GRANT … ON … TO …)"),
    ("42", "was the schema changed by hand? see `greenroom db status`, and undo the change"),
    ("3F", "was the schema changed by hand? see `greenroom db status`, and undo the change"),
    ("0A", "was the schema changed by hand? see `greenroom db status`"),
    ("28", "check the role and the password in the database URL, and pg_hba.conf"),
    ("3D", "check the database's name in the database URL"),
    ("25", "Postgres is read-only; let the database URL name the primary"),
    ("53100", "free space on the disk of Postgres"),
    ("53200", "give Postgres more memory"),
    ("53300", "raise max_connections of Postgres, or close connections of others"),
    ("57014", "Postgres took too long; look at its load, and at locks that others hold"),
    ("55", "another session holds a lock for too long; see pg_stat_activity"),
)
"""Advice by the beginning of the SQLSTATE. The first that fits counts."""


def words_for(error: DatabaseError) -> str:
    """Return the database's own words, and what an operator can do."""
    if isinstance(error, DatabaseConnectionRefused):
        return str(error)  # it says what to do
    sqlstate = _sqlstate(error)
    fitting = (advice for start, advice in _ADVICE if sqlstate.startswith(start))
    return f"{error}; {next(fitting, 'the log of Postgres says more')}"
