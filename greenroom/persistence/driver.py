"""A Postgres connection on trio: psycopg's libpq wrapper, waited on by trio itself.

psycopg 3 writes its protocol as generators that yield "wait until readable / writable". Here trio
does the waiting. There is no cursor, no adaptation and no pool. Parameters and results are binary.
Every call is one pipeline and so one round trip, and statements are prepared when first used.

A connection belongs to one task at a time. A call that is cut off, by its time limit, by
cancellation or otherwise, closes the connection. What the server did is then unknown, and a
connection with half an answer in it is never used again.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import psycopg
import trio
from psycopg import generators, pq
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from greenroom.persistence.connect_advice import NOT_UNDERSTOOD, advise
from greenroom.persistence.errors import (
    DatabaseConnectionLost,
    DatabaseConnectionRefused,
    QueryFailed,
    StorageError,
)

T = TypeVar("T")
Row = tuple[Any, ...]

BOOL, BYTEA, INT8, INT2, INT4, TEXT, JSON, FLOAT8 = 16, 17, 20, 21, 23, 25, 114, 701
"""Type oids of parameters and results. Results of type `void` are dropped."""
VOID = 2278

_DEFAULTS = {
    "client_encoding": "UTF8",
    "connect_timeout": "0",  # ours is in trio
    "application_name": "greenroom",
    "gssencmode": "disable",  # its library may block
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}

HAS_EPOLL = hasattr(select, "epoll")

_unpack_int2 = struct.Struct("!h").unpack
_unpack_int4 = struct.Struct("!i").unpack
_unpack_int8 = struct.Struct("!q").unpack
_unpack_float8 = struct.Struct("!d").unpack

_DECODERS: dict[int, Callable[[bytes], Any]] = {
    BOOL: lambda data: data == b"\x01",
    BYTEA: bytes,
    JSON: bytes,
    INT2: lambda data: _unpack_int2(data)[0],
    INT4: lambda data: _unpack_int4(data)[0],
    INT8: lambda data: _unpack_int8(data)[0],
    FLOAT8: lambda data: _unpack_float8(data)[0],
    TEXT: lambda data: bytes(data).decode(),
    VOID: lambda _: None,
}


class Statement:
    """A parametrized statement: SQL with `$1`…, and the type oid of each parameter."""

    __slots__ = ("formats", "oids", "sql")

    def __init__(self, sql: str, *oids: int) -> None:
        """Take the SQL and the parameters' types. A statement is never built from data."""
        self.sql = sql.encode()
        self.oids = oids
        self.formats = (pq.Format.BINARY,) * len(oids)


class Query(NamedTuple):
    """A statement with its parameters in Postgres's binary form."""

    statement: Statement
    parameters: Sequence[bytes | None] = ()


class DatabaseConnection:
    """One connection to Postgres. A call that is cut off closes it; see the module."""

    def __init__(self, pgconn: PGconn) -> None:
        """Take over a connected, non-blocking libpq connection; use `connect` instead."""
        self._pgconn = pgconn
        self._names: dict[Statement, bytes] = {}
        self._named = 0
        self._busy = False
        self._closed = False

    @classmethod
    async def connect(cls, conninfo: str, *, seconds_max: float) -> DatabaseConnection:
        """Connect to the first address that answers.

        Args:
            conninfo: a URL or a `key=value` string, as libpq takes them.
            seconds_max: the limit for all addresses together. Host names are looked up by trio.

        Raises:
            DatabaseConnectionRefused: an address gave an answer that will not change.
            DatabaseConnectionLost: no address answered, or not yet; the text is libpq's.
            StorageError: `conninfo` is malformed.
        """
        failures: list[str] = []
        with trio.move_on_after(seconds_max):
            for attempt in await _attempts(conninfo):
                try:
                    return cls(await _connect(attempt))
                except psycopg.Error as error:
                    failures.append(_first_line(str(error)))
        if final := [sentence for text in failures if (sentence := advise(text))]:
            raise DatabaseConnectionRefused(final[0])
        if failures:
            raise DatabaseConnectionLost(failures[-1])
        raise DatabaseConnectionLost(f"no answer within {seconds_max:g} s")

    @property
    def is_closed(self) -> bool:
        """Return whether the connection can no longer be used."""
        return self._closed

    @property
    def backend_pid(self) -> int:
        """Return the process id of the server's side."""
        return self._pgconn.backend_pid

    @property
    def server_version(self) -> int:
        """Return the version as libpq gives it: 150018 is 15.18."""
        return self._pgconn.server_version

    def get_parameter(self, name: str) -> str:
        """Return a parameter that the server has reported, such as `server_encoding`."""
        return (self._pgconn.parameter_status(name.encode()) or b"").decode()

    def close(self) -> None:
        """Close at once. Postgres rolls back an open transaction. Closing twice is harmless."""
        if not self._closed:
            self._closed = True
            self._pgconn.finish()

    async def run(self, *queries: Query, seconds_max: float) -> list[list[Row]]:
        """Send all queries in one pipeline; return the rows of each.

        Without a `BEGIN` among them, the queries are one transaction. After a failure the rest is
        skipped and everything is rolled back, explicit transactions included.

        Args:
            queries: what to run, in order.
            seconds_max: the limit for all queries together. Reaching it closes the connection, and
                so does a cancellation. Callers that need the outcome shield this call.

        Raises:
            QueryFailed: Postgres refused one of them; none of them has happened.
            DatabaseConnectionLost: the connection broke or took too long; the outcome is unknown.
        """
        return await self._run_within(self._run_pipeline(queries), seconds_max)

    async def script(self, sql: str, *, seconds_max: float) -> None:
        """Run SQL without parameters, any number of statements.

        It is one transaction unless it has its own. Errors and limits are those of `run`.
        """
        await self._run_within(self._run_simple(sql), seconds_max)

    async def wait_readable(self) -> None:
        """Wait until the idle server sends something. Usually that means that it has gone."""
        await trio.lowlevel.wait_readable(self._pgconn.socket)

    def check(self) -> None:
        """Read what an idle server has sent.

        Raises:
            DatabaseConnectionLost: the server has closed the connection; it is closed here, too.
        """
        try:
            self._pgconn.consume_input()
            while self._pgconn.notifies():
                pass
        except psycopg.Error as error:
            self.close()
            raise DatabaseConnectionLost(_first_line(str(error))) from None

    async def _run_within(self, generator: PQGen[T], seconds_max: float) -> T:
        """Drive a generator to its end within the limit, or close the connection."""
        if self._closed:
            raise DatabaseConnectionLost("the connection is closed")
        assert not self._busy, "a connection belongs to one task at a time"
        self._busy = True
        finished = False
        try:
            with trio.move_on_after(seconds_max):
                result = await _drive(generator, self._pgconn.socket)
                finished = True
                return result
            raise DatabaseConnectionLost(f"no answer within {seconds_max:g} s")
        except QueryFailed:
            finished = True
            raise
        except psycopg.Error as error:
            raise DatabaseConnectionLost(_first_line(str(error))) from None
        finally:
            self._busy = False
            if not finished:
                self.close()

    def _run_pipeline(self, queries: Sequence[Query]) -> PQGen[list[list[Row]]]:
        """Send everything, then read everything up to the sync."""
        pgconn = self._pgconn
        pgconn.enter_pipeline_mode()
        sent: list[Statement | None] = []
        for statement, parameters in queries:
            name = self._names.get(statement)
            if name is None:
                self._named += 1
                name = self._names[statement] = b"s%d" % self._named
                pgconn.send_prepare(name, statement.sql, statement.oids)
                sent.append(statement)
            pgconn.send_query_prepared(name, parameters, statement.formats, pq.Format.BINARY)
            sent.append(None)
        pgconn.pipeline_sync()
        yield from generators.send(pgconn)
        rows: list[list[Row]] = []
        failure: QueryFailed | None = None
        for preparing in sent:
            result = (yield from generators.fetch_many(pgconn))[-1]
            failed = result.status in _FAILED
            if preparing is not None:
                if failed:
                    del self._names[preparing]
            elif not failed:
                rows.append(_decode(result))
            if result.status == pq.ExecStatus.FATAL_ERROR:
                failure = failure or _failure(result)
        while True:  # an error at the sync itself comes before it
            result = (yield from generators.fetch_many(pgconn))[-1]
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                break
            failure = failure or _failure(result)
        pgconn.exit_pipeline_mode()
        if failure is not None:
            yield from self._roll_back()
            raise failure
        return rows

    def _run_simple(self, sql: str) -> PQGen[None]:
        """Run SQL with the simple query protocol."""
        self._pgconn.send_query(sql.encode())
        results = yield from generators.execute(self._pgconn)
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                yield from self._roll_back()
                raise _failure(result)

    def _roll_back(self) -> PQGen[None]:
        """End a transaction that a failure has left open."""
        if self._pgconn.transaction_status != pq.TransactionStatus.IDLE:
            self._pgconn.send_query(b"ROLLBACK")
            yield from generators.execute(self._pgconn)


_FAILED = frozenset({pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED})


async def _drive(generator: PQGen[T], fd: int) -> T:
    """Run a protocol generator, waiting on trio whenever it has to wait."""
    try:
        wait = next(generator)
        while True:
            wait = generator.send(await _ready(fd, wait))
    except StopIteration as done:
        result: T = done.value
        return result


async def _ready(fd: int, wait: Wait) -> Ready:
    """Wait until the socket is readable, writable, or one of both."""
    if wait == Wait.R:
        await trio.lowlevel.wait_readable(fd)
        return Ready.R
    if wait == Wait.W:
        await trio.lowlevel.wait_writable(fd)
        return Ready.W
    return await (_both_ready if HAS_EPOLL else _either_ready)(fd)


async def _both_ready(fd: int) -> Ready:
    """Wait until a socket is readable, writable, or both, in one task.

    A large change is sent in many parts, and whoever waits for its commit waits for each of them.
    Tasks for each of the two would take some passes of the scheduler for every part.
    """
    with select.epoll(1) as either:
        either.register(fd, select.EPOLLIN | select.EPOLLOUT)
        await trio.lowlevel.wait_readable(either.fileno())
        ready = Ready.NONE
        for _, events in either.poll(0):
            if events & ~select.EPOLLOUT:
                ready = Ready(ready | Ready.R)
            if events & ~select.EPOLLIN:
                ready = Ready(ready | Ready.W)
    return ready


async def _either_ready(fd: int) -> Ready:
    """Wait like `_both_ready`, where there is no epoll."""
    ready = Ready.NONE
    async with trio.open_nursery() as nursery:

        async def wait_one(wait_for: Callable[[int], Any], which: Ready) -> None:
            nonlocal ready
            await wait_for(fd)
            ready = Ready(ready | which)
            nursery.cancel_scope.cancel()

        nursery.start_soon(wait_one, trio.lowlevel.wait_readable, Ready.R)
        nursery.start_soon(wait_one, trio.lowlevel.wait_writable, Ready.W)
    return ready


async def _connect(conninfo: str) -> PGconn:
    """Connect to one address; the socket may change until it stands."""
    generator = generators.connect(conninfo)
    try:
        fd, wait = next(generator)
        while True:
            fd, wait = generator.send(await _ready(fd, wait))
    except StopIteration as done:
        pgconn: PGconn = done.value
        pgconn.notice_handler = None
        return pgconn


async def _attempts(conninfo: str) -> list[str]:
    """Return a conninfo for each address; host names are looked up here, for libpq blocks."""
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(conninfo).items()}
    except psycopg.Error:  # its text may quote the password
        raise StorageError(NOT_UNDERSTOOD) from None
    parameters = _DEFAULTS | given
    hosts = (parameters.get("host") or os.environ.get("PGHOST", "")).split(",")
    if parameters.get("hostaddr") or hosts == [""]:
        return [make_conninfo("", **parameters)]
    ports = (parameters.get("port") or os.environ.get("PGPORT", "") or "5432").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    if any("@" in host[1:] for host in hosts) or not all(map(_is_port, ports)):
        raise StorageError(NOT_UNDERSTOOD)  # both may be parts of a password
    attempts: list[str] = []
    failures: list[DatabaseConnectionLost] = []
    for host, port in zip(hosts, ports, strict=False):
        one = parameters | {"host": host, "port": port or "5432"}
        if host.startswith(("/", "@")) or not host:
            attempts.append(make_conninfo("", **one))
            continue
        try:
            addresses = await _look_up(host)
        except DatabaseConnectionLost as error:
            failures.append(error)
            continue
        attempts.extend(make_conninfo("", **one, hostaddr=address) for address in addresses)
    if not attempts:
        passing = (each for each in failures if not isinstance(each, DatabaseConnectionRefused))
        raise next(passing, failures[0])
    return attempts


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 1 << 16)


_UNKNOWN_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
"""A name server said that there is no such name, or no address of it."""


async def _look_up(host: str) -> list[str]:
    """Return the addresses of a host name.

    Raises:
        DatabaseConnectionRefused: there is no such name.
        DatabaseConnectionLost: nobody could tell.
    """
    try:
        found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if isinstance(error, UnicodeError) or error.errno in _UNKNOWN_NAME:
            text = f"The host name {host} of the database is not known; check the database URL"
            raise DatabaseConnectionRefused(text) from None
        raise DatabaseConnectionLost(
            f"{host} cannot be looked up: {error.strerror or error}"
        ) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _decode(result: PGresult) -> list[Row]:
    """Return the rows of a binary result as Python values."""
    columns = range(result.nfields)
    decoders = [_DECODERS[result.ftype(column)] for column in columns]
    get = result.get_value
    return [
        tuple(
            None if (value := get(row, column)) is None else decoders[column](value)
            for column in columns
        )
        for row in range(result.ntuples)
    ]


def _failure(result: PGresult) -> QueryFailed:
    """Return the error of a failed result: code and primary message, without data."""
    sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
    return QueryFailed(sqlstate, message or _first_line(result.get_error_message()))


def _first_line(text: str) -> str:
    """Return a message without the lines that libpq adds for people."""
    return " ".join(text.split("\n", 1)[0].split())
