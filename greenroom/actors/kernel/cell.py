"""A cell is one actor's place in the server: its mailbox, its present incarnation, its turns.

The promises of the kernel, and where they are kept:

1. One command at a time, to completion, in order. Handlers are synchronous, and `run_turn` is only
   called by the code that found the mailbox empty or has just taken the command out of it.
2. A command whose caller is cancelled before it ran never runs (`_abort` takes it back). If the
   caller is cancelled later, the wait for durability is shielded, and the reply stands.
3. A refusal leaves the state as it was. Anything else that is raised throws the incarnation away;
   `host.restart` brings up the next from the database, which serves the commands that wait.
4. A reply leaves when the state that it saw is durable.
5. A timer's command that the closed gate refused is repeated until it is accepted, stopped or
   replaced, or its actor crashes (`ActorTimers.try_again`). So is a command that is told with
   `again`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec
import trio

from greenroom.actors.kernel.actor import Actor
from greenroom.actors.kernel.errors import (
    ActorCrashed,
    ActorUnavailable,
    CommitUnsettled,
    Moved,
    ReadOnlyCopy,
    Refused,
    StorageRefused,
    StorageUnavailable,
)
from greenroom.actors.kernel.mailbox import Envelope, Mailbox
from greenroom.actors.kernel.message import Changed, Command, Reply
from greenroom.interrupts import is_real_interrupt

if TYPE_CHECKING:
    from greenroom.actors.kernel.durability import Batch, Durability

Role = TypeVar("Role")


class CellState(enum.Enum):
    """The stages of a cell's life."""

    LOADING = "loading"
    """There is no incarnation: it is being read from the database, at first or after a crash."""
    UP = "up"
    STOPPED = "stopped"
    """The cell has ended: passivated, stopped, not found, or given up."""


class ActorStatistics(msgspec.Struct, frozen=True):
    """How one actor fares: the length of its mailbox, and counts since it came to memory."""

    state: CellState
    queued: int
    handled: int
    refused: int
    crashed: int


class CellHost(Protocol):
    """The supervisor of a cell, as the cell uses it."""

    @property
    def durability(self) -> Durability:
        """Return the service that makes events durable."""
        ...

    @property
    def mailbox_max(self) -> int:
        """Return the bound of the mailbox for commands that users send."""
        ...

    @property
    def ask_seconds_max(self) -> float:
        """Return how many seconds an ask waits for its turn if the actor is not ready at once."""
        ...

    def schedule(self, cell: Cell[Any]) -> None:
        """See to it that `cell.drain` is called soon, in a task of the supervisor."""
        ...

    def restart(self, cell: Cell[Any]) -> None:
        """Start the cell's next incarnation, or give the cell up."""
        ...

    def report(self, cell: Cell[Any], what: str, error: BaseException) -> None:
        """Log a crash at `what`: never the contents of a command, which may hold secrets."""
        ...


class Cell(Generic[Role]):
    """One actor's place; it implements `Writer` for the committer."""

    __slots__ = (
        "_batch",
        "_host",
        "_mailbox",
        "_stopped",
        "actor",
        "crashed",
        "draining",
        "generation",
        "given_up",
        "handled",
        "key",
        "kind",
        "refused",
        "shard",
        "timers",
    )

    def __init__(self, host: CellHost, kind: str, key: Any, after: Batch | None = None) -> None:
        """Make a cell that is loading.

        Args:
            host: the supervisor.
            kind: the kind of actor, as `player`.
            key: which one of its kind.
            after: the last change of an earlier cell of this actor, if it is not durable yet.
        """
        self._host = host
        self._mailbox: Mailbox | None = None
        self._batch = after
        self._stopped: trio.Event | None = None
        self.kind = kind
        self.key = key
        self.actor: Actor[Role] | None = None
        self.draining = False
        self.generation = 0
        self.given_up: ActorUnavailable | None = None
        self.timers: dict[str, Any] | None = None
        self.shard: int | None = None
        """The shard that the actor has come up in; None if there are no other nodes."""
        self.handled = 0
        self.refused = 0
        self.crashed = 0

    # What the supervisor asks.

    @property
    def label(self) -> str:
        """Return kind and key, for logs."""
        return f"{self.kind}/{self.key}"

    @property
    def state(self) -> CellState:
        """Return where the cell is in its life."""
        if self.given_up is not None:
            return CellState.STOPPED
        return CellState.LOADING if self.actor is None else CellState.UP

    @property
    def is_new(self) -> bool:
        """Return whether there has been no incarnation yet, and nothing stands against one."""
        return self.awaits_load(is_first=True) and self.in_flight is None

    def awaits_load(self, *, is_first: bool) -> bool:
        """Return whether a load is still wanted; the first one is until there is an incarnation."""
        return self.state is CellState.LOADING and not (is_first and self.crashed)

    @property
    def queued(self) -> int:
        """Return how many commands wait in the mailbox."""
        return 0 if self._mailbox is None else len(self._mailbox)

    @property
    def in_flight(self) -> Batch | None:
        """Return the batch of the last change that has not settled, None when all have."""
        batch = self._batch
        if batch is not None and batch.settled:
            self._batch = batch = None
        return batch

    @property
    def is_idle(self) -> bool:
        """Return whether no command waits, every change is durable, and no timer runs."""
        return not self.queued and not self.timers and self.in_flight is None

    def read_statistics(self) -> ActorStatistics:
        """Return the cell's counts."""
        return ActorStatistics(self.state, self.queued, self.handled, self.refused, self.crashed)

    def come_up(self, actor: Actor[Role]) -> None:
        """Begin an incarnation and serve the commands that waited; `on_start` has run."""
        self.actor = actor
        if self.queued:
            self._schedule()

    def give_up(self, error: ActorUnavailable) -> None:
        """End the cell: answer every queued command, and every later one, with `error`."""
        self.given_up = error
        self.retire()
        self._answer_all(error)

    def part(self, error: ActorUnavailable) -> Actor[Role] | None:
        """Do what `give_up` does, but return the incarnation, for `stop` to be called with it."""
        self.given_up = error
        actor = self._end_incarnation()
        self._answer_all(error)
        return actor

    def _answer_all(self, error: ActorUnavailable) -> None:
        mailbox, self._mailbox = self._mailbox, None
        while mailbox:
            envelope = mailbox.take()
            envelope.error = error.copy()
            envelope.answer()
        if self._stopped is not None:
            self._stopped.set()

    def fail_waiting(self, error: ActorUnavailable) -> None:
        """Answer everybody who waits with `error`. The cell goes on, and what was told waits."""
        for envelope in () if self._mailbox is None else self._mailbox.take_asked():
            envelope.error = error.copy()
            envelope.answer()

    def retire(self) -> None:
        """End the incarnation, if there is one: stop its timers and call `on_stop`."""
        actor = self._end_incarnation()
        if actor is not None:
            self.stop(actor)

    def _end_incarnation(self) -> Actor[Role] | None:
        """End the incarnation, if there is one, and its timers; return it, still to be stopped."""
        actor, self.actor, self.timers = self.actor, None, None
        if actor is not None:
            actor.has_ended = True
        return actor

    def stop(self, actor: Actor[Role]) -> None:
        """Call `on_stop` of an incarnation that has ended."""
        try:
            actor.on_stop()
        except BaseException as error:  # a bug in a hook must not reach others
            if is_real_interrupt(error):
                raise
            self._host.report(self, "on_stop", error)

    async def wait_stopped(self) -> ActorUnavailable:
        """Wait until the cell has ended; return why. Cancellation just ends the wait."""
        if self.given_up is None:
            if self._stopped is None:
                self._stopped = trio.Event()
            await self._stopped.wait()
        assert self.given_up is not None
        return self.given_up

    # Asking and telling.

    async def ask(self, command: Command[Role, Reply], seconds_max: float | None) -> Reply:
        """Run one command and return its reply once durable; see `Ref.ask`."""
        if self.actor is None or self._mailbox:
            return await self._ask_queued(command, seconds_max)
        changed = False
        try:
            result = self.run_turn(command)
            if type(result) is Changed:
                changed = True
                result = result.reply
        except Refused:
            if self._batch is not None:
                await self._settle(self.in_flight, changed=False)
            raise
        if self._batch is not None:
            await self._settle(self.in_flight, changed=changed)
        return result  # type: ignore[no-any-return]

    async def settle(self) -> None:
        """Wait until all that this cell has changed is durable; errors as of `Ref.ask`."""
        await self._settle(self.in_flight, changed=True)

    def tell(self, command: Command[Role, Any], again: str | None = None) -> None:
        """Queue one command; see `Ref.tell`."""
        self._put(Envelope(command, timer=again))

    def post(self, command: Command[Role, Any]) -> None:
        """Run one command without a reply, at once if it can be; see `Ref.post`."""
        if self.actor is None or self._mailbox:
            self._put(Envelope(command))
        else:
            self.run_turn(command)

    def wake(self, command: Command[Role, Any], timer: str) -> None:
        """Run the command of a timer that is due: at once, or before everything that users sent."""
        envelope = Envelope(command, timer=timer)
        if self.actor is not None and not self._mailbox:
            self._serve(envelope)
        elif self.given_up is None:
            self._make_mailbox().put_system(envelope)
            self._schedule()

    async def _ask_queued(self, command: Command[Role, Reply], seconds_max: float | None) -> Reply:
        """Wait in the mailbox for a turn that the supervisor's drain gives."""
        envelope = Envelope(command, trio.lowlevel.current_task())
        self._put(envelope)
        seconds = self._host.ask_seconds_max if seconds_max is None else seconds_max

        def abort(_: Any) -> trio.lowlevel.Abort:
            assert self._mailbox is not None
            self._mailbox.take_back(envelope)
            return trio.lowlevel.Abort.SUCCEEDED

        with trio.move_on_after(seconds) as scope:
            await trio.lowlevel.wait_task_rescheduled(abort)
        if scope.cancelled_caught:
            raise StorageUnavailable(f"{self.label} was not ready within {seconds} s")
        if envelope.error is None or isinstance(envelope.error, Refused):
            await self._settle(envelope.batch, changed=envelope.changed)
        if envelope.error is not None:
            raise envelope.error
        return envelope.reply  # type: ignore[no-any-return]

    def _put(self, envelope: Envelope) -> None:
        """Queue a command. It is refused if the mailbox is full or the cell has ended."""
        if self.given_up is not None:
            raise self.given_up.copy()
        self._make_mailbox().put(envelope)
        self._schedule()

    def _make_mailbox(self) -> Mailbox:
        """Return the mailbox, which is made when first needed: an idle actor has none."""
        if self._mailbox is None:
            self._mailbox = Mailbox(self._host.mailbox_max)
        return self._mailbox

    def _schedule(self) -> None:
        """Ask for a drain, unless one is scheduled or no incarnation could serve the mailbox."""
        if not self.draining and self.actor is not None:
            self.draining = True
            self._host.schedule(self)

    # Turns.

    def run_turn(self, command: Command[Role, Any]) -> Any:
        """Run one command to completion; return the reply, or the `Changed` that was carried out.

        Raises:
            Refused: the handler said no.
            StorageUnavailable: it would have changed something while the gate is closed.
            Moved: it would have changed something of a shard that has just been handed over.
            ReadOnlyCopy: it is a copy, and would have been changed.
            ActorCrashed: a bug; the incarnation is gone and the next is being brought up.
        """
        actor = self.actor
        assert actor is not None
        self.handled += 1
        try:
            result = actor.handlers[type(command)](actor, command)
            if type(result) is Changed:
                self._carry_out(actor, result)
            return result
        except Refused:
            self.refused += 1
            raise
        except (StorageUnavailable, ReadOnlyCopy):
            raise
        except BaseException as error:
            if is_real_interrupt(error):
                raise
            self._crash(type(command).__name__, error)
            if isinstance(error, Moved):  # it came too late: nothing will be written
                raise
            raise ActorCrashed(f"{self.label} crashed") from error

    def _carry_out(self, actor: Actor[Role], change: Changed[Any]) -> None:
        """Apply the events, hand them to the committer, and send what is to be told."""
        events, follow = change.events, change.once_durable
        if events:
            durability = self._host.durability
            if not durability.is_open:
                actor.on_refused()
                raise self._make_unavailable("the database is away")
            for event in events:
                actor.apply(event)
            batch = durability.submit(self, events)
            if not batch.settled:  # background events are, while an earlier change is in flight
                self._batch = batch
            if actor.put_off:
                for act in actor.put_off:
                    batch.follow(self, partial(self._follow, act))
                actor.put_off = ()
            if follow is not None:
                batch.follow(self, partial(self._follow, follow))
        elif follow is not None:
            self._follow(follow)
        for ref, command in change.tells:
            try:
                ref.tell(command)
            except ActorUnavailable as error:
                self._host.report(self, f"telling {type(command).__name__}", error)

    def _follow(self, act: Callable[[], None]) -> None:
        """Run the follow-up of a durable change. An exception is reported and goes no further."""
        try:
            act()
        except BaseException as error:  # the committer must go on, whatever it is
            if is_real_interrupt(error):
                raise
            self._host.report(self, "what follows a change", error)

    def drain(self, turns_max: int) -> None:
        """Give waiting commands their turns, at most `turns_max`; then ask for another drain."""
        self.draining = False
        for _ in range(turns_max):
            mailbox = self._mailbox
            if self.actor is None or mailbox is None:
                return
            if not mailbox:
                self._mailbox = None
                return
            self._serve(mailbox.take())
        self._schedule()

    def _serve(self, envelope: Envelope) -> None:
        """Run one queued command and wake the caller that asked."""
        try:
            result = self.run_turn(envelope.command)
            envelope.changed = type(result) is Changed
            envelope.reply = result.reply if type(result) is Changed else result
        except StorageUnavailable as error:
            envelope.error = error
            if envelope.timer is not None and self.actor is not None:
                self.actor.timers.try_again(envelope.timer, envelope.command)
        except Exception as error:  # noqa: BLE001 - it is the asker's, if there is one
            envelope.error = error
        envelope.batch = self.in_flight
        envelope.answer()

    async def _settle(self, batch: Batch | None, *, changed: bool) -> None:
        """Wait until the state that a reply saw is durable.

        Raises:
            CommitUnsettled: a change was not settled in time; it may yet become durable.
            StorageUnavailable: the state that a read saw was not settled in time.
        """
        if batch is None:
            return
        try:
            await batch.wait(self, self._host.durability.commit_seconds_max)
        except CommitUnsettled as error:
            if changed:
                raise
            raise self._make_unavailable(str(error)) from None

    def _make_unavailable(self, text: str) -> StorageUnavailable:
        """Return the error of a database that is away, or that refuses changes."""
        if self._host.durability.refuses:
            return StorageRefused("the database takes no changes; see the log")
        return StorageUnavailable(text)

    # Crashes.

    def _crash(self, what: str, error: BaseException) -> None:
        """Throw the incarnation away and have the next one brought up."""
        self.crashed += 1
        self._host.report(self, what, error)
        if self.actor is not None:  # else the next one is on its way already
            self.retire()
            self._host.restart(self)

    def reject(self, error: Exception) -> None:
        """Go back to the durable record: the database refused a row, so later changes are void."""
        self.generation += 1
        if self.given_up is None:
            self._crash("a change that could not be stored", error)
