"""Group commit: all waiting changes become durable in one transaction, in the order given.

There is one queue, one connection, and one transaction at a time. While one is under way, the next
is collected. Each transaction is one round trip: the fence, which also counts it, then one
statement for each kind of event (see `staging`). These failures are handled:

- Postgres is away, restarts, is full, or times out. The same transaction is tried again until it
  passes. An unknown outcome is looked up by its sequence after reconnecting, never repeated
  blindly.
- A row is refused. The transaction is halved until the row is alone. Its writer is told, what that
  writer has queued since fails with it, and no other writer notices.
- The fence refuses, because this node has been ended. Everything queued fails, and `run` raises.

Bounds: at a number of rows or bytes in the queue, the gate shuts. Changes that nobody waits for
(presence) wait separately, one for each row. A few of them are written whenever nothing else is
left. Beyond their bound they are dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import trio

from greenroom.actors.kernel.durability import Batch, Writer
from greenroom.actors.kernel.errors import CommitUnsettled, Moved
from greenroom.actors.kernel.message import Event
from greenroom.actors.kernel.shard_ownership import OwnedShards
from greenroom.histogram import Histogram
from greenroom.persistence.arrays import ENCODING_ERRORS
from greenroom.persistence.driver import Query
from greenroom.persistence.errors import (
    DatabaseConnectionLost,
    DatabaseError,
    QueryFailed,
    StorageFenced,
)
from greenroom.persistence.nodes.records import ShardHandedOver, is_moved
from greenroom.persistence.nodes.session import NodeSession, boot_seconds
from greenroom.persistence.read_troubles import Failure, failure_of, words_for
from greenroom.persistence.settings import StorageSettings
from greenroom.persistence.staging import plan
from greenroom.persistence.statements import TARGETS

logger = logging.getLogger(__name__)

COMMIT_SECONDS_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Upper bounds: a disk that syncs quickly takes the first, a database that comes back the last."""
_BACKOFF_SECONDS_MIN, _BACKOFF_SECONDS_MAX = 0.05, 1.0


class CommitterStatistics(msgspec.Struct, frozen=True):
    """Counts of the committer since it was made."""

    queued_rows: int
    """Events that wait to become durable."""
    queued_bytes: int
    background_rows: int
    """Events that nobody waits for and that have not been written yet."""
    committed: int
    """Events made durable."""
    refused: int
    """Changes that the database refused."""
    batches: int
    """Transactions committed."""
    is_open: bool
    reconnects: int


class QueuedTurn(NamedTuple):
    """The changes of one turn of one actor. All of them become durable, or none."""

    writer: Writer
    generation: int
    events: Sequence[Event]


class QueuedBatch(Batch):
    """A batch with its entries."""

    __slots__ = ("bytes", "entries", "rows")

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self.entries: list[QueuedTurn] = []
        self.rows = 0
        self.bytes = 0


class _RowRefusedError(Exception):
    """The transaction has a row that the database will never accept."""


Settling = Callable[[float], Awaitable[None]]
Observer = Callable[[Iterable[Event]], None]
"""A function that is told of events once they are durable. It is synchronous and may not fail."""


class _Nobody:
    """The writer of what no actor has written: a hand-over."""

    label, generation, shard = "hand-over", 0, None

    def reject(self, error: Exception) -> None:
        """Do nothing: whoever waits is told."""


_NOBODY, _DURABLE_ALREADY = _Nobody(), Batch()
_DURABLE_ALREADY.settle()


class Committer:
    """Implements the kernel's `Durability` on a session."""

    def __init__(self, settings: StorageSettings) -> None:
        """Make a committer. Its gate is shut until it runs."""
        self._settings = settings
        self._observers: list[Observer] = []
        self._queue: deque[QueuedBatch] = deque()
        self._writing: QueuedBatch | None = None
        self._background: dict[tuple[int, Any], QueuedTurn] = {}
        self._session: NodeSession | None = None
        self._owned: OwnedShards | None = None
        self._running = False
        self._stopping = False
        self._idle: trio.CancelScope | None = None
        self._busy_since: float | None = None
        self._backoff_seconds = 0.0
        self._failure: Failure | None = None
        self._rows = 0
        self._bytes = 0
        self._taken_bytes = 0
        self._committed = 0
        self._refused = 0
        self._batches = 0
        self.commit_seconds = Histogram(COMMIT_SECONDS_BOUNDS)
        """How long each batch took to become durable; one entry for all changes in it."""
        self._reconnects = 0

    # The kernel's side.

    @property
    def is_open(self) -> bool:
        """Return whether changes are accepted: it runs, is not full, and the database answers."""
        if not self._running or (self._failure is not None and self.refuses):
            return False
        settings, since = self._settings, self._busy_since
        if self._rows >= settings.queue_rows_max or self._bytes >= settings.queue_bytes_max:
            return False
        return since is None or trio.current_time() - since < settings.gate_seconds

    @property
    def refuses(self) -> bool:
        """Return whether the database answers, and takes no changes until somebody has acted."""
        return self._failure is not None and self._failure.is_refusal

    @property
    def failure(self) -> Failure | None:
        """Return why the database takes no changes, None while it does or may yet."""
        if self.is_open or not self._running or self._busy_since is None:
            return None
        return self._failure or Failure.AWAY

    @property
    def commit_seconds_max(self) -> float:
        """Return how long a caller waits for its change to settle, in seconds."""
        return self._settings.commit_seconds_max

    def submit(self, writer: Writer, events: Sequence[Event]) -> Batch:
        """Queue one turn's events behind everything submitted before; never blocks.

        If no event is `durable`, they are set aside to be written in the background. The batch
        returned for them is settled already.

        Raises:
            Moved: they are of a shard that is not this node's (any more).
        """
        if not self._running:
            given_up = Batch()
            given_up.settle(CommitUnsettled("the server is stopping"))
            return given_up
        if self._owned is not None and is_moved(writer, events, self._owned):
            raise Moved("its shard is another node's now")
        entry = QueuedTurn(writer, writer.generation, events)
        batch: Batch = _DURABLE_ALREADY
        if True in [event.durable for event in events]:
            batch = self._enqueue(entry)
        else:
            for event in events:
                self._put_aside(QueuedTurn(writer, entry.generation, (event,)), event)
        self._wake()
        return batch

    def hand_over(self, shard: int, epoch: int, to_node_id: int) -> Settling:
        """Queue that a shard is another node's from here on, behind all that was submitted.

        What is submitted for the shard after this call is refused with `Moved`.

        Args:
            shard: one of this node's.
            epoch: the new owner's, drawn while the shard was already this node's.
            to_node_id: the new owner.

        Returns:
            A function that waits so many seconds until that is durable. It raises `CommitUnsettled`
            if that is not known by then, `ActorCrashed` if the database refused.

        Raises:
            Moved: the shard is not this node's.
        """
        session = self._session
        if session is None or not session.shards.owns(shard):
            raise Moved("only its owner hands a shard over")
        self._queue_background(shard)
        event = ShardHandedOver(shard, epoch, session.node_id, to_node_id)
        writer = _Nobody()  # of its own: if one is refused, others in the batch are not
        batch = self._enqueue(QueuedTurn(writer, 0, (event,)))
        session.shards.lose(shard)
        self._wake()
        return partial(batch.wait, writer)

    async def flush(self) -> None:
        """Wait until all that has been submitted so far is durable, presence included.

        Raises:
            CommitUnsettled: that is not known within `commit_seconds_max`, or was given up.
        """
        self._queue_background()
        self._wake()
        await self.wait_settled()

    async def wait_settled(self) -> None:
        """Wait until all changes that callers wait for, and that were submitted, are durable.

        Raises:
            CommitUnsettled: that is not known within `commit_seconds_max`, or was given up.
        """
        batch = self._queue[-1] if self._queue else self._writing
        if batch is not None:
            await batch.wait(_NOBODY, self._settings.commit_seconds_max)

    def _wake(self) -> None:
        """Wake the worker if it rests."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def read_progress(self) -> tuple[int, int]:
        """Return the bytes that have ever been submitted, and how many of them are not settled."""
        return self._taken_bytes, self._bytes

    def read_statistics(self) -> CommitterStatistics:
        """Return the counts of the committer."""
        return CommitterStatistics(
            queued_rows=self._rows,
            queued_bytes=self._bytes,
            background_rows=len(self._background),
            committed=self._committed,
            refused=self._refused,
            batches=self._batches,
            is_open=self.is_open,
            reconnects=self._reconnects,
        )

    def observe(self, observer: Observer) -> None:
        """Call an observer with every transaction's events, in order.

        It is called once they are durable, and before any answer leaves that waits for them. It is
        never called with what the database refuses.
        """
        self._observers.append(observer)

    # Queueing.

    def _enqueue(self, entry: QueuedTurn) -> QueuedBatch:
        """Put an entry into the last batch, or a new one when that is full."""
        weight = 0
        for event in entry.events:
            target = TARGETS[type(event)]
            weight += target.estimate_bytes(event)
            if self._background:
                self._overtake(target.table, target.key_of(event))
        rows = len(entry.events)
        batch = self._open_batch()
        assert not batch.settled, "a change is queued before its batch settles"
        batch.entries.append(entry)
        batch.rows += rows
        batch.bytes += weight
        self._rows += rows
        self._bytes += weight
        self._taken_bytes += weight
        return batch

    def _open_batch(self) -> QueuedBatch:
        """Return the batch that new entries go into."""
        if self._queue:
            batch = self._queue[-1]
            if (
                batch.rows < self._settings.transaction_rows_max
                and batch.bytes < self._settings.transaction_bytes_max
            ):
                return batch
        batch = QueuedBatch()
        self._queue.append(batch)
        return batch

    def _overtake(self, table: int, key: Any) -> None:
        """Queue a row's background event now, because a newer event of that row is about to be."""
        entry = self._background.pop((table, key), None)
        if entry is not None:
            self._enqueue(entry)

    def _queue_background(self, shard: int | None = None) -> None:
        """Queue background events, of one shard or of all, ahead of what is queued next."""
        for row, entry in list(self._background.items()):
            if shard is None or entry.writer.shard == shard:
                self._enqueue(self._background.pop(row))

    def _put_aside(self, entry: QueuedTurn, event: Event) -> None:
        """Store the latest background event of a row."""
        target = TARGETS[type(event)]
        key = target.key_of(event)
        aside = self._background.get((target.table, key))
        if aside is not None and not (target.overwrites and type(aside.events[0]) is type(event)):
            self._overtake(target.table, key)
        elif aside is None and len(self._background) >= self._settings.background_rows_max:
            return
        self._background[target.table, key] = entry

    def _take(self) -> QueuedBatch | None:
        """Take the next batch off the queue, or background events if nothing else is left."""
        batch = self._queue.popleft() if self._queue else None
        if self._background and not self._queue:
            batch = batch or QueuedBatch()
            for row in list(self._background)[: self._settings.background_rows_per_transaction]:
                batch.entries.append(self._background.pop(row))
        assert batch is not None or self._rows == self._bytes == 0, "the books do not balance"
        return batch

    # Running.

    async def run(
        self, session: NodeSession, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Commit what is submitted until cancelled; then commit the queue, within a bounded time.

        Args:
            session: open; it is opened again here whenever its connection is lost.
            task_status: is called once changes are accepted.

        Raises:
            StorageFenced: another server has taken over; nothing more was written.
        """
        self._running, self._stopping, self._busy_since = True, False, None
        self._session, self._owned = session, None if session.alone else session.shards
        scope = trio.CancelScope(shield=True)
        fenced: list[StorageFenced] = []
        try:
            async with trio.open_nursery() as nursery:

                async def work() -> None:
                    try:
                        await self._work(session, scope)
                    except StorageFenced as error:  # alone, not in a group
                        fenced.append(error)
                        nursery.cancel_scope.cancel()

                nursery.start_soon(work)
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    self._stop(scope)
        finally:
            self._give_up(CommitUnsettled("the server stopped before the change was durable"))
        raise fenced[0]

    def _stop(self, scope: trio.CancelScope) -> None:
        """Let the worker commit the queue until the time for that is up."""
        self._stopping = True
        scope.deadline = trio.current_time() + self._settings.drain_seconds_max
        self._wake()

    async def _work(self, session: NodeSession, scope: trio.CancelScope) -> None:
        """Commit batch after batch; return when told to stop and nothing is left."""
        with scope:
            while True:
                batch = self._take()
                if batch is not None:
                    self._writing = batch
                    try:
                        await self._settle(session, batch)
                    finally:
                        self._writing = None
                        if not batch.settled:
                            self._queue.appendleft(batch)  # for `_give_up`
                    # callers that have just been answered may have more for the next batch
                    await trio.lowlevel.cancel_shielded_checkpoint()
                elif self._stopping:
                    return
                else:
                    await self._rest(session)

    async def _rest(self, session: NodeSession) -> None:
        """Wait for something to do, and check the connection meanwhile."""
        connection = session.connection
        if connection is None:
            await self._reopen(session)
            if session.connection is not None:
                self._note_well()
            return
        with trio.CancelScope() as self._idle:
            await connection.wait_readable()
            try:
                connection.check()
            except DatabaseConnectionLost as error:
                self._note_trouble(error)
        self._idle = None

    async def _settle(self, session: NodeSession, batch: QueuedBatch) -> None:
        """Make a batch durable, without the entries that the database refuses."""
        started = trio.current_time()
        parts = [batch.entries]
        while parts:
            if not (part := self._keep_valid(parts.pop(), batch)):
                continue
            events = [event for entry in part for event in entry.events]
            try:
                await self._commit(session, events)
                for observer in self._observers:
                    observer(events)
            except _RowRefusedError as refusal:
                self._note_well()  # that was an answer
                if len(part) == 1:
                    self._refuse(part[0], batch, refusal)
                else:
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
        seconds = trio.current_time() - started
        self.commit_seconds.observe(seconds)
        if seconds >= self._settings.commit_seconds_max:
            logger.warning(
                "a commit of %d changes took %.1f s, longer than commit_seconds_max: whoever"
                " waited was told that the outcome is not known",
                batch.rows,
                seconds,
            )
        self._release(batch)
        batch.settle()

    def _keep_valid(self, entries: list[QueuedTurn], batch: QueuedBatch) -> list[QueuedTurn]:
        """Return the entries whose writers have not been thrown back since."""
        living = [entry for entry in entries if entry.generation == entry.writer.generation]
        if len(living) < len(entries):
            for writer, generation, _ in entries:
                if generation != writer.generation:
                    batch.reject(writer)
        return living

    def _refuse(self, entry: QueuedTurn, batch: QueuedBatch, refusal: _RowRefusedError) -> None:
        """Tell a writer that one of its changes can never be stored."""
        writer = entry.writer
        self._refused += 1
        logger.error("the database refused a change of %s: %s", writer.label, refusal)
        batch.reject(writer)
        _throw_back(writer, refusal)

    def _release(self, batch: QueuedBatch) -> None:
        """Subtract a settled batch from the counts."""
        self._rows -= batch.rows
        self._bytes -= batch.bytes
        assert self._rows >= 0 <= self._bytes, "more was released than queued"
        batch.entries = []

    # One transaction.

    async def _commit(self, session: NodeSession, events: list[Event]) -> None:
        """Write events in one transaction, however long that takes.

        Raises:
            _RowRefusedError: nothing was written, because of at least one row.
            StorageFenced: nothing was written, because another server is the writer now.
        """
        if self._busy_since is None:
            self._busy_since = trio.current_time()
        queries = _queries(events, session.written_epochs)
        position, ours = (session.node_id, session.sequence), session.advance()
        while not await self._try(session, ours, queries):
            pass
        assert position == (session.node_id, session.sequence), (
            "somebody else advanced the sequence"
        )
        session.sequence += 1
        self._note_well()
        self._batches += 1
        self._committed += len(events)

    async def _try(self, session: NodeSession, ours: Query, queries: list[Query]) -> bool:
        """Try a transaction once; return whether it is durable now."""
        connection = session.connection
        if connection is None:
            return await self._reopen(session)
        sent_at = boot_seconds()
        try:
            await connection.run(ours, *queries, seconds_max=self._settings.query_seconds_max)
        except QueryFailed as error:
            if error.is_fence:
                raise StorageFenced("Another server has taken over this database") from None
            if not error.is_passing:
                raise _RowRefusedError(str(error)) from None
            if error.is_elsewhere:
                session.close()
            await self._pause(error)
            return False
        except DatabaseConnectionLost as error:
            self._note_trouble(error)
            return False
        session.renewed_at = max(session.renewed_at, sent_at)
        return True

    async def _reopen(self, session: NodeSession) -> bool:
        """Try to connect again; return whether the unanswered commit had happened."""
        try:
            happened = await session.reopen()
        except StorageFenced:
            raise
        except DatabaseError as error:
            await self._pause(error)
            return False
        self._reconnects += 1
        return happened

    async def _pause(self, error: DatabaseError) -> None:
        """Wait before the next try; the pauses grow."""
        self._note_trouble(error)
        self._backoff_seconds = min(
            max(self._backoff_seconds * 2, _BACKOFF_SECONDS_MIN), _BACKOFF_SECONDS_MAX
        )
        await trio.sleep(self._backoff_seconds)

    def _note_trouble(self, error: DatabaseError) -> None:
        """Note that the database is away, or refuses. That is logged once, not at every try."""
        if self._busy_since is None:
            self._busy_since = trio.current_time()
        failure = failure_of(error)
        if self._backoff_seconds and failure is self._failure:
            return
        self._backoff_seconds = self._backoff_seconds or _BACKOFF_SECONDS_MIN
        self._failure = failure
        if failure.is_refusal:
            words = words_for(error)
            logger.error("the database refuses changes, trying until it takes them: %s", words)
        else:
            logger.warning("the database does not answer, trying until it does: %s", error)

    def _note_well(self) -> None:
        """Note that the database answers."""
        self._busy_since = None
        if self._backoff_seconds:
            self._backoff_seconds, self._failure = 0.0, None
            logger.info("the database answers again")

    def _give_up(self, error: CommitUnsettled) -> None:
        """Fail everything queued, and throw the writers back."""
        self._running = False
        self._background.clear()
        while self._queue:
            batch = self._queue.popleft()
            entries = batch.entries
            self._release(batch)
            batch.settle(error)
            for entry in entries:
                if entry.generation == entry.writer.generation:
                    _throw_back(entry.writer, error)


def _queries(events: list[Event], epochs: Mapping[int, int]) -> list[Query]:
    """Return the statements that write events, in order; `epochs` by shard."""
    try:
        return [
            query
            for kind, group in plan(events)
            for query in TARGETS[kind].make_queries(group, epochs)
        ]
    except ENCODING_ERRORS as error:
        raise _RowRefusedError(f"{type(error).__name__}: a value fits no column") from None


def _throw_back(writer: Writer, error: Exception) -> None:
    """Tell a writer that its changes are void; an error of the writer is only logged."""
    try:
        writer.reject(error)
    except Exception:
        logger.exception("%s could not be thrown back", writer.label)
