"""The protocol of the service that makes events durable; `persistence.committer` implements it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import trio
from trio.lowlevel import Abort, Task

from greenroom.actors.kernel.errors import ActorCrashed, ActorUnavailable, CommitUnsettled
from greenroom.actors.kernel.message import Event


class Writer(Protocol):
    """An actor's side of a commit: its identity, and what is called when its row is refused.

    `generation` counts how often the actor was thrown back to its record. A change is queued with
    the generation it was made in. A committer fails every queued change of an older generation
    without writing it.
    """

    @property
    def label(self) -> str:
        """Return kind and id for logs, `player/17`."""
        ...

    @property
    def generation(self) -> int:
        """Return how often this writer has been thrown back to its durable state."""
        ...

    @property
    def shard(self) -> int | None:
        """Return the shard of this writer; None on a server without other nodes."""
        ...

    def reject(self, error: Exception) -> None:
        """Go back to the record: the database refused a row (SQLSTATE class 22 or 23)."""
        ...


class Batch:
    """All changes that become durable in one transaction, and the callers that wait for it.

    One of the waiting callers keeps the time for all, and the others are parked. If its time runs
    out, the next one takes over. A cancel scope for each of hundreds of waiters would cost more
    than everything else that they do.
    """

    __slots__ = (
        "_error",
        "_followers",
        "_keeper",
        "_keeper_deadline",
        "_parked",
        "_rejected",
        "_timed",
        "settled",
    )

    def __init__(self) -> None:
        """Begin a batch that is not settled and that nobody waits for."""
        self.settled = False
        self._error: ActorUnavailable | None = None
        self._rejected: set[int] | None = None
        self._keeper: Task | None = None
        self._keeper_deadline = math.inf
        self._parked: list[Task] = []
        self._timed: set[Task] = set()
        self._followers: list[tuple[Writer, Callable[[], None]]] = []

    def follow(self, writer: Writer, act: Callable[[], None]) -> None:
        """Call `act` once this writer's changes are durable; never if they are lost.

        Args:
            writer: who made the changes.
            act: called in the order of the changes, before the waiting callers run; may not raise.
        """
        if not self.settled:
            self._followers.append((writer, act))
        elif self._is_durable_for(writer):
            act()

    def _is_durable_for(self, writer: Writer) -> bool:
        rejected = self._rejected
        return self._error is None and (rejected is None or id(writer) not in rejected)

    def reject(self, writer: Writer) -> None:
        """Mark one writer's changes as refused by the database. Call it before `settle`."""
        assert not self.settled, "a settled batch rejects nobody"
        if self._rejected is None:
            self._rejected = set()
        self._rejected.add(id(writer))

    def settle(self, error: ActorUnavailable | None = None) -> None:
        """Wake all callers: the batch is durable or, with an error, never will be."""
        assert not self.settled, "a batch settles once"
        self.settled = True
        self._error = error
        for task in (*self._timed, *self._parked):
            trio.lowlevel.reschedule(task)
        self._timed.clear()
        self._parked.clear()
        followers, self._followers = self._followers, []
        for writer, act in followers:
            if self._is_durable_for(writer):
                act()

    async def wait(self, writer: Writer, seconds_max: float) -> None:
        """Wait, shielded from cancellation, until this writer's changes are settled.

        Args:
            writer: whose changes the caller depends on.
            seconds_max: how long to wait at most. All callers that wait for a batch should pass the
                same; a shorter one may be stretched to that of another caller.

        Raises:
            ActorCrashed: the database refused this writer's rows.
            CommitUnsettled: not settled within `seconds_max`, or given up for good.
        """
        if not self.settled:
            await self._wait(trio.current_time() + seconds_max)
        if not self.settled:
            raise CommitUnsettled("the change was not durable in time")
        if self._error is not None:
            raise self._error.copy()
        if self._rejected is not None and id(writer) in self._rejected:
            raise ActorCrashed("the database refused the change")

    async def _wait(self, deadline: float) -> None:
        """Return when the batch is settled, or at `deadline` (trio's time, in seconds)."""
        task = trio.lowlevel.current_task()
        if self._keeper is not None and self._keeper_deadline <= deadline:
            self._parked.append(task)
            await trio.lowlevel.wait_task_rescheduled(_keep_waiting)
            if self.settled:
                return
        if self._keeper is None:
            self._keeper, self._keeper_deadline = task, deadline
        self._timed.add(task)

        def run_out(_: Any) -> Abort:
            self._timed.remove(task)
            return Abort.SUCCEEDED

        with trio.CancelScope(deadline=deadline, shield=True):
            await trio.lowlevel.wait_task_rescheduled(run_out)
        if self._keeper is task:
            self._keeper = None
            if self._parked:
                trio.lowlevel.reschedule(self._parked.pop(0))


def _keep_waiting(_: Any) -> Abort:
    """Leave a parked task parked: its wait is shielded, and another task keeps the time."""
    return Abort.FAILED


class Durability(Protocol):
    """Takes events from actors, in order, and makes them durable."""

    @property
    def is_open(self) -> bool:
        """Return whether changes are accepted now; they are not while the database is away."""
        ...

    @property
    def refuses(self) -> bool:
        """Return whether the database answers, and takes no changes until somebody has acted."""
        ...

    @property
    def commit_seconds_max(self) -> float:
        """Return how long a caller waits for its change to settle."""
        ...

    def submit(self, writer: Writer, events: Sequence[Event]) -> Batch:
        """Queue events behind all that were submitted before; return the batch that they are in.

        Raises:
            Moved: they are of a shard that is another node's; nothing is written.
        """
        ...
