"""What the kernel asks of whoever makes events durable. The committer of `persistence` implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import trio

from greenroom.actors.kernel.errors import ActorCrashed, ActorUnavailable, CommitUnsettled
from greenroom.actors.kernel.message import Event


class Writer(Protocol):
    """An actor's side of a commit: who wrote, and how he learns that his row was refused.

    `generation` counts the writer's crashes. A change is queued with the generation it was made
    in; a committer fails, unwritten, every queued change of an older generation.
    """

    @property
    def label(self) -> str:
        """Return kind and id for logs, `player/17`."""
        ...

    @property
    def generation(self) -> int:
        """Return how often this writer has been thrown back to its durable state."""
        ...

    def reject(self, error: Exception) -> None:
        """Be told that the database refused one of this writer's rows (SQLSTATE class 22, 23)."""
        ...


class Batch:
    """All changes that become durable in one transaction, and the callers that wait for it."""

    __slots__ = ("_error", "_event", "_rejected", "settled")

    def __init__(self) -> None:
        """Start open: unsettled, nobody waiting."""
        self.settled = False
        self._error: ActorUnavailable | None = None
        self._rejected: set[int] = set()
        self._event: trio.Event | None = None

    def reject(self, writer: Writer) -> None:
        """Mark one writer's changes in this batch as refused by the database; call before settle."""
        self._rejected.add(id(writer))

    def settle(self, error: ActorUnavailable | None = None) -> None:
        """Say that the batch is durable, or, with an error, that it never will be. Wakes all."""
        self.settled = True
        self._error = error
        if self._event is not None:
            self._event.set()

    async def wait(self, writer: Writer, seconds_max: float) -> None:
        """Wait, shielded from cancellation, until this writer's changes are settled.

        Args:
            writer: whose changes the caller depends on.
            seconds_max: how long to wait at most.

        Raises:
            ActorCrashed: the database refused this writer's rows.
            CommitUnsettled: not settled within `seconds_max`, or given up for good.
        """
        if not self.settled:
            if self._event is None:
                self._event = trio.Event()
            with trio.move_on_after(seconds_max, shield=True):
                await self._event.wait()
        if not self.settled:
            raise CommitUnsettled("the change was not durable in time")
        if self._error is not None:
            raise self._error
        if id(writer) in self._rejected:
            raise ActorCrashed("the database refused the change")


class Durability(Protocol):
    """Takes events from actors, in order, and makes them durable."""

    @property
    def is_open(self) -> bool:
        """Return whether changes are taken now; closed while the database is away."""
        ...

    @property
    def commit_seconds_max(self) -> float:
        """Return how long a caller waits for its change to settle."""
        ...

    def submit(self, writer: Writer, events: Sequence[Event]) -> Batch:
        """Queue events behind everything submitted before; returns the batch they travel in."""
        ...
