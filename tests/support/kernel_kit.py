"""A counter to run the kernel with, and a committer whose commits the test gives by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from greenroom.actors.kernel.actor import Actor, handles
from greenroom.actors.kernel.durability import Batch, Writer
from greenroom.actors.kernel.errors import ActorUnavailable, Refused, StorageUnavailable
from greenroom.actors.kernel.message import Changed, Command, Event


class CounterRole:
    """Marks commands that counters take."""


class Added(Event, frozen=True):
    """The sum grew."""

    amount: int


class Add(Command[CounterRole, int], frozen=True):
    """Add; answers the new sum. Negative amounts are refused, 13 is a bug before, 31 one after."""

    amount: int


class Read(Command[CounterRole, int], frozen=True):
    """Answer the sum."""


class Remind(Command[CounterRole, None], frozen=True):
    """Add `amount` by oneself after `seconds`."""

    name: str
    seconds: float
    amount: int


class StopReminding(Command[CounterRole, None], frozen=True):
    """Forget a reminder."""

    name: str


class Forward(Command[CounterRole, None], frozen=True):
    """Tell another counter to add."""

    to: Any
    amount: int


class Negative(Refused):
    """Counters only grow."""

    text = "amounts are positive"


class Counter(Actor[CounterRole]):
    """Counts; its record is the sum of what was committed."""

    kind = "counter"

    def __init__(self, total: int, log: list[str] | None = None) -> None:
        """Begin with what the record says."""
        self.total = total
        self.log = [] if log is None else log

    def on_start(self) -> None:
        self.log.append(f"start {self.total}")

    def on_stop(self) -> None:
        self.log.append(f"stop {self.total}")

    def apply(self, event: Event) -> None:
        assert isinstance(event, Added)
        self.total += event.amount
        if event.amount == 31:
            raise RuntimeError("a bug while applying")

    @handles(Add)
    def add(self, command: Add) -> int | Changed[int]:
        if command.amount < 0:
            raise Negative
        if command.amount == 13:
            self.total = -1  # half-done work that must not survive
            raise RuntimeError("a bug")
        if command.amount == 17:
            raise GeneratorExit  # of code that is not ours
        return Changed(self.total + command.amount, Added(amount=command.amount))

    @handles(Read)
    def read(self, command: Read) -> int:
        return self.total

    @handles(Remind)
    def remind(self, command: Remind) -> None:
        self.timers.start(command.name, command.seconds, Add(amount=command.amount))

    @handles(StopReminding)
    def stop_reminding(self, command: StopReminding) -> None:
        self.timers.stop(command.name)

    @handles(Forward)
    def forward(self, command: Forward) -> Changed[None]:
        return Changed(None, tells=((command.to, Add(amount=command.amount)),))


class HandCommitter:
    """A `Durability` that keeps records in memory and commits when the test says so."""

    def __init__(self, *, automatic: bool = True) -> None:
        """With `automatic`, every submit is durable at once."""
        self.is_open = True
        self.refuses = False
        self.commit_seconds_max = 10.0
        self.automatic = automatic
        self.records: dict[str, int] = {}
        self.loads: list[str] = []
        self.load_error: Exception | None = None
        self._open: list[tuple[Batch, Writer, int, Sequence[Event]]] = []

    def submit(self, writer: Writer, events: Sequence[Event]) -> Batch:
        """Queue; see `Durability.submit`."""
        batch = Batch()
        self._open.append((batch, writer, writer.generation, events))
        if self.automatic:
            self.commit()
        return batch

    def commit(self, error: ActorUnavailable | None = None) -> None:
        """Settle everything queued, durable unless `error`."""
        pending, self._open = self._open, []
        for batch, writer, generation, events in pending:
            if generation != writer.generation:
                batch.reject(writer)
            elif error is None:
                added = sum(e.amount for e in events if isinstance(e, Added))
                self.records[writer.label] = self.records.get(writer.label, 0) + added
            batch.settle(error)

    def reject_first(self) -> None:
        """Let the database refuse the first queued change, and its writer's later ones with it."""
        batch, writer, _, _ = self._open.pop(0)
        writer.reject(ValueError("refused by the database"))
        batch.reject(writer)
        batch.settle()

    async def load(self, key: object) -> Counter | None:
        """Read a counter's record; keys below zero do not exist."""
        await trio.sleep(1)
        self.loads.append(f"counter/{key}")
        if self.load_error is not None:
            raise self.load_error
        if isinstance(key, int) and key < 0:
            return None
        return Counter(self.records.get(f"counter/{key}", 0))


AWAY = StorageUnavailable("the database is away")
