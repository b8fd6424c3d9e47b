"""A simulated node's way to the simulated database, and the connections over it.

What was sent takes effect a moment later, whatever has become of the sender by then; the answer
finds the sender, or nobody. So it happens that a transaction is durable, and its answer lost.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Generic, TypeVar
from unittest.mock import patch

import trio
from sim_database import WRITE, Backend, SimDatabase

from greenroom.persistence.driver import Query, Row
from greenroom.persistence.errors import DatabaseConnectionLost, QueryFailed

WAY_SECONDS = (0.0001, 0.0015)
LINGER_SECONDS = 25.0
"""How long the database believes in a connection whose other end has lost its power."""

Result = TypeVar("Result")


class SimServer:
    """The process of the database: all lines lead to it. It runs beside the nodes' processes.

    What is on its way is a function to call at a time. A task for each of them would take three
    quarters of a run's time.
    """

    def __init__(self, database: SimDatabase, dice: random.Random) -> None:
        self.database = database
        self.dice = dice
        self.is_silent = False
        self.is_shut = False
        """True while a connection to it is refused."""
        self._waiting: list[Callable[[], None]] = []
        """Calls that have come while it stood still."""
        self._arrivals: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._scope = trio.CancelScope()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Do what arrives, until cancelled."""
        task_status.started()
        while True:
            with trio.CancelScope(deadline=self._find_deadline()) as self._scope:
                await trio.sleep_forever()
            while self._find_deadline() <= trio.current_time():
                _, _, act = heapq.heappop(self._arrivals)
                act()

    def _find_deadline(self) -> float:
        return self._arrivals[0][0] if self._arrivals else math.inf

    def call_after(self, seconds: float, act: Callable[[], None]) -> None:
        """Have something done outside of the process that asks for it, so many seconds later."""
        at = trio.current_time() + seconds
        heapq.heappush(self._arrivals, (at, next(self._order), act))
        self._scope.deadline = self._find_deadline()

    def call_after_way(self, act: Callable[[], None], late_seconds: float = 0.0) -> None:
        """Have something done that takes the way first, to or fro."""
        self.call_after(late_seconds + self.dice.uniform(*WAY_SECONDS), act)

    def call_when_awake(self, act: Callable[[], None]) -> None:
        """Do something, or have it done at `mend` while the database stands still."""
        if self.is_silent:
            self._waiting.append(act)
        else:
            act()

    def go_silent(self) -> None:
        """Stand still: answer nobody until `mend`."""
        self.is_silent = True

    def shut(self) -> None:
        """Stop: end all sessions, and refuse new ones until `mend`."""
        self.is_shut = True
        self.database.end_all()

    def mend(self) -> None:
        """Answer again."""
        self.is_silent = self.is_shut = False
        waiting, self._waiting = self._waiting, []
        for act in waiting:
            self.call_after(0.0, partial(self.call_when_awake, act))


def _do_nothing() -> None: ...


class SimLine:
    """The way of one node to the database."""

    def __init__(self, server: SimServer) -> None:
        self.server = server
        self.is_cut = False
        """True while everything on it vanishes, both ways."""
        self.mended = trio.Event()
        """Set, and replaced, when it is not cut any more."""
        self.late_seconds = 0.0
        """How much later than usual everything arrives that leaves now."""
        self.when_writing: Callable[[], None] = _do_nothing
        """Called just before a transaction with events is sent."""
        self._held: list[Callable[[], None]] | None = None
        """Calls that may not leave yet; None if everything leaves at once."""
        self.is_over = False
        """True once the process of the node has ended."""
        self.backends: list[Backend] = []
        """The database's ends of all connections that are open here."""
        self._lost: list[Backend] = []
        """Sessions that the database has not been told the end of."""

    async def exchange(
        self, work: Callable[[], Result], backend: Backend | None, seconds_max: float
    ) -> Result:
        """Have the database do something, and return what comes of it.

        Args:
            work: what it does, in one step.
            backend: the session that it does it in, if there is one already.
            seconds_max: how long the answer is waited for.

        Raises:
            QueryFailed: it refused.
            DatabaseConnectionLost: there is no answer; it may have done it.
        """
        if self.is_over:
            await trio.lowlevel.checkpoint()
            raise DatabaseConnectionLost("the process has ended")
        exchange = Exchange(self, work, backend)
        if self._held is None:
            exchange.leave()
        else:
            self._held.append(exchange.leave)
        with trio.move_on_after(seconds_max):
            await exchange.done.wait()
        if exchange.result is None:
            raise DatabaseConnectionLost(f"no answer within {seconds_max:g} s")
        (result,) = exchange.result
        if isinstance(result, Exception):
            raise result
        return result

    def never_left(self) -> bool:
        """Return whether something was still here when the process ended; that is chance."""
        return self.is_over and self.server.dice.random() < 0.5

    def is_heard(self) -> bool:
        """Return whether an answer finds somebody."""
        return not (self.is_cut or self.is_over)

    def hang_up(self, backend: Backend) -> None:
        """Tell the database that a connection is closed, once that reaches it."""
        self.backends.remove(backend)
        if self.is_cut or self.late_seconds:
            self._lost.append(backend)
        else:
            self.server.database.end(backend)

    def cut(self) -> None:
        """Have everything vanish until `mend`."""
        self.is_cut = True

    def hold(self) -> None:
        """Let nothing leave that is sent from now on, until `release`."""
        self._held = []

    def release(self) -> None:
        """Stop what `hold` began: what was sent leaves now."""
        held, self._held = self._held, None
        for leave in held or []:
            leave()

    def mend(self) -> None:
        """Stop what `cut` began, and all delay."""
        self.is_cut, self.late_seconds = False, 0.0
        self.mended.set()
        self.mended = trio.Event()
        lost, self._lost = self._lost, []
        for backend in lost:
            self.server.database.end(backend)

    def end(self) -> None:
        """Note that the process has ended, with all its connections."""
        self.is_over = True
        for backend in list(self.backends):
            self.hang_up(backend)
        if self.is_cut:  # nobody tells the database, until it notices
            self.server.call_after(LINGER_SECONDS, self.mend)


class Exchange(Generic[Result]):
    """Something that the database is to do, on its way there, and its answer on the way back."""

    def __init__(self, line: SimLine, work: Callable[[], Result], backend: Backend | None) -> None:
        """Prepare; see `SimLine.exchange`."""
        self._line, self._server = line, line.server
        self._work = work
        self._backend = backend
        self._found: Result | Exception
        self.done = trio.Event()
        self.result: tuple[Result | Exception] | None = None
        """The answer once it has arrived."""

    def leave(self) -> None:
        """Go on the way."""
        self._server.call_after_way(self._arrive, self._line.late_seconds)

    def _arrive(self) -> None:
        self._server.call_when_awake(self._do)

    def _do(self) -> None:
        if self._line.is_cut or self._line.never_left():
            return
        if self._server.is_shut or self._is_over:
            self._found = DatabaseConnectionLost("the database has closed the connection")
        else:
            try:
                self._found = self._work()
            except QueryFailed as error:
                self._found = error
        self._server.call_after_way(self._return)

    def _return(self) -> None:
        if not self._line.is_heard():
            return
        if self._is_over:
            self._found = DatabaseConnectionLost("the connection broke")
        self.result = (self._found,)
        self.done.set()

    @property
    def _is_over(self) -> bool:
        return self._backend is not None and self._backend.is_over


class SimConnection:
    """The node's end of a connection: `DatabaseConnection`, as far as nodes use it."""

    def __init__(self, line: SimLine, backend: Backend) -> None:
        self._line = line
        self._backend = backend
        self._is_closed = False
        line.backends.append(backend)

    @classmethod
    async def connect(cls, conninfo: Any, *, seconds_max: float) -> SimConnection:
        """Connect over the line that a node was given for the address of the database."""
        line: SimLine = conninfo
        backend = await line.exchange(line.server.database.begin, None, seconds_max)
        return cls(line, backend)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if self._backend in self._line.backends:  # else the end of the process has closed it
                self._line.hang_up(self._backend)

    async def run(self, *queries: Query, seconds_max: float) -> list[list[Row]]:
        if any(query.statement is WRITE for query in queries):
            self._line.when_writing()
        work = partial(self._line.server.database.transact, self._backend, queries)
        return await self._guarded(work, seconds_max)

    async def script(self, sql: str, *, seconds_max: float) -> None:
        work = partial(self._line.server.database.name, self._backend, sql)
        await self._guarded(work, seconds_max)

    async def _guarded(self, work: Callable[[], Result], seconds_max: float) -> Result:
        """Have something done within the limit, or close the connection."""
        if self._is_closed:
            raise DatabaseConnectionLost("the connection is closed")
        try:
            return await self._line.exchange(work, self._backend, seconds_max)
        except QueryFailed:
            raise
        except BaseException:
            self.close()
            raise

    async def wait_readable(self) -> None:
        """Wait until the database has closed the connection, and that has been heard here."""
        await self._backend.ended.wait()
        while self._line.is_cut:
            await self._line.mended.wait()

    def check(self) -> None:
        if self._backend.is_over and not self._line.is_cut:
            self.close()
            raise DatabaseConnectionLost("the database has closed the connection")


def _queries_of(events: Any, epochs: Any) -> list[Query]:
    """Return the query that writes the events of queued turns."""
    parameters: Any = [events], dict(epochs)
    return [Query(WRITE, parameters)]


async def _migrate(_: object) -> list[str]:
    return []


@contextmanager
def connections_simulated() -> Iterator[None]:
    """Let everything that connects with a database connect with a simulated one."""
    migrations = SimpleNamespace(check_server=lambda _: None, migrate=_migrate)
    with ExitStack() as stack:
        for module in ("session", "records"):
            name = f"greenroom.persistence.nodes.{module}.DatabaseConnection"
            stack.enter_context(patch(name, SimConnection))
        stack.enter_context(patch("greenroom.persistence.nodes.session.migrations", migrations))
        stack.enter_context(patch("greenroom.persistence.committer._queries", _queries_of))
        yield
