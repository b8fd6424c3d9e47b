"""A database in memory whose commits take a moment, can be held up, refused and lost."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from memory_logs import MemoryJournals
from world_kit import Memory

from greenroom.actors.kernel.durability import Batch, Writer
from greenroom.actors.kernel.errors import CommitUnsettled
from greenroom.actors.kernel.message import Event

COMMIT_SECONDS = 0.002
READ_SECONDS = 0.03
"""Longer than a step: so there are calls while an actor is being loaded."""


class SlowJournals(MemoryJournals):
    """Journals whose reading and writing takes a moment."""

    async def _reach(self) -> None:
        await super()._reach()
        await trio.sleep(READ_SECONDS)


class Store(Memory):
    """Commits what is pending a moment after it was submitted, unless `is_held` or away."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic = False
        self.is_held = False
        self.read_seconds = READ_SECONDS
        self.journals = SlowJournals()
        self._woken = trio.Event()

    def submit(self, writer: Writer, events: Sequence[Event]) -> Batch:
        batch = super().submit(writer, events)
        self._woken.set()
        return batch

    async def run(self) -> None:
        """Commit, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            await trio.sleep(COMMIT_SECONDS)
            if not self.is_held and not self.away:
                self.commit()

    def hold(self) -> None:
        """Let nothing be committed but by `commit_first`."""
        self.is_held = True

    def set_away(self, *, is_away: bool) -> None:
        """Take the database away, or bring it back."""
        self.away = self.journals.away = is_away
        self._woken.set()

    def release(self) -> None:
        """Go on as usual."""
        self.is_held = False
        self.set_away(is_away=False)

    def commit_first(self, count: int) -> None:
        """Commit the first of what is pending."""
        later, self.pending = self.pending[count:], self.pending[:count]
        self.commit()
        self.pending = later + self.pending

    def lose_pending(self) -> None:
        """Let nothing that is pending ever become durable: the server has ended."""
        error = CommitUnsettled("the server stopped before the change was durable")
        pending, self.pending = self.pending, []
        for batch, writer, generation, _ in pending:
            batch.settle(error)
            if generation == writer.generation:
                writer.reject(error)
