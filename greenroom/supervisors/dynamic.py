"""The dynamic supervisor: it loads, serves, restarts and passivates all actors of one kind.

It is also their directory. An actor has no task of its own. One task here drains the mailboxes;
loads and restarts run as tasks of the same nursery. Every actor has a restart budget of its own,
which is OTP's intensity for each child. An actor that keeps crashing is given up for the rest of
the window. Its callers are answered, and no other actor notices.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec
import trio

from greenroom.actors.kernel.actor import Actor
from greenroom.actors.kernel.cell import Cell, CellState
from greenroom.actors.kernel.durability import Batch, Durability
from greenroom.actors.kernel.errors import (
    ActorCrashed,
    ActorError,
    ActorStopped,
    MailboxFull,
    Moved,
    StorageRefused,
    StorageUnavailable,
)
from greenroom.actors.kernel.message import Command
from greenroom.actors.kernel.ref import Ref
from greenroom.actors.kernel.shard_ownership import Ownership
from greenroom.actors.kernel.timers import (
    PASS_SECONDS,
    ActorTimers,
    BeforeTimer,
    TimerQueue,
)
from greenroom.foreign_objects import describe_error
from greenroom.interrupts import is_real_interrupt
from greenroom.supervisors.policy import RestartBudget
from greenroom.supervisors.tree import ACTORS, TreeNode

_logger = logging.getLogger(__name__)

Role = TypeVar("Role")

TROUBLED_MAX = 10
"""Actors that the tree names at most, because people read it."""

Loader = Callable[[Any], Awaitable["Actor[Role] | None"]]


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of a dynamic supervisor, each with what happens beyond it."""

    actors_max: int = 1_000_000
    """Actors in memory. Beyond it, loading another is refused with `MailboxFull` (HTTP 429)."""
    mailbox_max: int = 1_000
    """Commands that wait for one actor. Beyond it: `MailboxFull`."""
    ask_seconds_max: float = 10.0
    """Seconds to wait for a turn while the actor loads or restarts. Beyond it:
    `StorageUnavailable`."""
    turns_per_drain: int = 64
    """Turns of one actor before other actors get theirs."""
    restarts_max: int = 5
    """Restarts of one actor within `window_seconds`. Beyond it, the actor is given up until the
    window is over."""
    window_seconds: float = 10.0
    passivate_seconds_min: float = 30.0
    """Idle seconds before passivation. They are more than any load takes. So a record that was read
    before an actor's last change cannot be adopted after the actor has left memory."""
    passivate_early_seconds_min: float = 15.0
    """The same where space is short. It is also more than any load takes."""
    departed_max: int = 100_000
    """Actors that have left for other nodes within `passivate_seconds_min`, some 20 MB. Beyond it
    no other leaves: `MailboxFull`. It stays, and may be asked to leave again."""


class DynamicSupervisor(Generic[Role]):
    """Holds and supervises all actors of one kind; implements `Directory` and `CellHost`."""

    def __init__(
        self,
        kind: str,
        load: Loader[Role],
        durability: Durability,
        bounds: Bounds | None = None,
        before_timer: BeforeTimer | None = None,
        *,
        ownership: Ownership | None = None,
    ) -> None:
        """Start without active actors.

        Args:
            kind: the name of the actors' kind, for labels and the tree.
            load: reads one actor from the database; None when there is no such actor. It may raise
                `StorageUnavailable`, and is then tried again, or `MailboxFull` where there is no
                space for the actor: whoever waits for it gets that error.
            durability: the destination of events.
            bounds: see `Bounds`.
            before_timer: called before each turn that a timer of an actor causes.
            ownership: the shards whose actors may come to memory; None where there are no other
                nodes, and no shard is looked at.
        """
        self.kind = kind
        self.durability = durability
        self.bounds = bounds or Bounds()
        self.mailbox_max = self.bounds.mailbox_max
        self.ask_seconds_max = self.bounds.ask_seconds_max
        self.restarts = 0
        self.given_up = 0
        self._load = load
        self._ownership = ownership
        self._by_shard: dict[int, dict[Any, Cell[Role]]] = {}
        """The cells of actors that have come up, by shard, where there are other nodes."""
        self._past_turns: dict[int, int] = {}
        """The turns of actors that have left memory, by shard, where there are other nodes."""
        self._cells: dict[Any, Cell[Role]] = {}
        self._ready: deque[Cell[Any]] = deque()
        self._wake = trio.Event()
        self.timers = TimerQueue(before_timer)
        self._budgets: dict[Any, RestartBudget] = {}
        self._idle_since: dict[Any, tuple[int, float]] = {}
        self._departed: OrderedDict[Any, float] = OrderedDict()
        """Actors that have left for another node, and when, for longer than any load takes."""
        self._parted: dict[Any, tuple[Cell[Role], Actor[Role]]] = {}
        """Actors whose shard has left, and whose `on_stop` is still to be called."""
        self._left_behind: dict[Any, Batch] = {}
        """Changes of discarded actors that the database does not hold yet, by key."""
        self._nursery: trio.Nursery | None = None

    # The service.

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve mailboxes, timers, loads and restarts until cancelled.

        When it ends, everybody queued is answered with `ActorStopped`.
        """
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(self.timers.run)
                self._nursery = nursery
                for cell in self._cells.values():
                    if cell.state is CellState.LOADING:
                        nursery.start_soon(self._load_first, cell)
                task_status.started()
                await self._drain_forever()
        finally:
            self._nursery = None
            self.stop_parted(len(self._parted))
            for key in list(self._cells):
                self.discard(key)

    def list_branches(self) -> list[TreeNode]:
        """Return one node that sums up all actors, and below it some of those in trouble."""
        troubled: list[TreeNode] = []
        waiting = 0
        for cell in self._cells.values():
            queued = cell.queued
            waiting += queued
            if (queued or cell.crashed) and len(troubled) < TROUBLED_MAX:
                troubled.append(TreeNode(cell.label, cell.state.value, cell.crashed, queued))
        state = f"{len(self._cells)} active"
        return [TreeNode(ACTORS, state, self.restarts, waiting, troubled)]

    async def _drain_forever(self) -> None:
        """Give actors with waiting commands their turns, and let other tasks run in between."""
        while True:
            self._wake = trio.Event()
            while self._ready:
                until = time.perf_counter() + PASS_SECONDS
                while self._ready and time.perf_counter() < until:
                    self._ready.popleft().drain(self.bounds.turns_per_drain)
                await trio.lowlevel.checkpoint()
            await self._wake.wait()

    # The directory.

    def get_cell(self, key: Any) -> Cell[Role]:
        """Return the actor's cell, and load the actor if it is passive; see `Cells.get_cell`."""
        cell = self._cells.get(key)
        if cell is not None and (cell.given_up is None or not self._may_try_again(cell)):
            return cell
        cell = self._make_cell(key)
        if self._nursery is not None:
            self._nursery.start_soon(self._load_first, cell)
        return cell

    def find_active(self, key: Any) -> Ref[Role] | None:
        """Return a reference to an actor in memory, or None."""
        return Ref(self, key) if key in self._cells else None

    def get_ref(self, key: Any) -> Ref[Role]:
        """Return a reference. Asking it loads a passive actor first."""
        return Ref(self, key)

    def adopt(
        self, key: Any, actor: Actor[Role], *, shard: int | None = None, as_of: int | None = None
    ) -> Ref[Role]:
        """Add an actor whose state the caller has at hand; see `Directory.adopt`."""
        cell = self._cells.get(key)
        if cell is not None and not cell.is_new:
            return Ref(self, key)
        left = self._left_behind.get(key)
        if left is not None and not left.settled:  # what was read may be older than that
            return Ref(self, key)
        ownership = self._ownership
        if ownership is not None:
            if self._has_left_lately(key):  # what was read may be older than that
                return Ref(self, key)
            if as_of is not None and as_of != ownership.version:
                return Ref(self, key)
            shard = actor.shard if shard is None else shard
            if shard is None or not ownership.owns(shard):
                raise Moved(f"{self.kind}/{key} is another node's", shard=shard)
        self._start(self._make_cell(key) if cell is None else cell, actor, shard)
        return Ref(self, key)

    def adopt_together(self, actors: Mapping[Any, Actor[Role]], shard: int) -> None:
        """Add many actors of a shard; see `Directory.adopt_together`."""
        new = dict(actors)
        for known in (self._cells, self._departed, self._left_behind, self._parted):
            for key in filter(known.__contains__, actors):
                new.pop(key, None)
        if len(self._cells) + len(new) > self.bounds.actors_max:
            new = {}
        for key in actors.keys() - new.keys():
            self.adopt(key, actors[key], shard=shard)
        if not new:
            return
        if self._ownership is not None and not self._ownership.owns(shard):
            raise Moved(f"this {self.kind} is another node's", shard=shard)
        cells: dict[Any, Cell[Role]] = {}
        for key, actor in new.items():
            cell: Cell[Role] = Cell(self, self.kind, key)
            cells[key] = cell
            actor.timers = ActorTimers(self.timers, cell)
            cell.actor = actor
            if self._ownership is not None:
                cell.shard = shard
        self._cells.update(cells)
        if self._ownership is not None:
            self._by_shard.setdefault(shard, {}).update(cells)
        try:
            type(next(iter(new.values()))).start_together(new.values())
        except BaseException as error:  # a bug in one actor's hook harms no other shard
            if is_real_interrupt(error):
                raise
            self.report(next(iter(cells.values())), "start_together", error)
            for cell in cells.values():
                self._forget(cell, ActorCrashed(f"{cell.label} cannot start"))

    def passivate(self, key: Any, *, early: bool = False) -> bool:
        """Take an actor out of memory if it has long been idle; see `Directory.passivate`."""
        cell = self._cells.get(key)
        if cell is None:
            return True
        if cell.given_up is not None:
            return self._may_try_again(cell)
        if not cell.is_idle or cell.state is not CellState.UP:
            return False
        now = trio.current_time()
        handled, since = self._idle_since.get(key, (-1, now))
        if handled != cell.handled:
            self._idle_since[key] = (cell.handled, now)
            return False
        bounds = self.bounds
        idle_seconds_min = (
            bounds.passivate_early_seconds_min if early else bounds.passivate_seconds_min
        )
        if now - since < idle_seconds_min:
            return False
        self.discard(key)
        return True

    def discard(self, key: Any) -> None:
        """Take an actor out of memory at once. Its queued commands get `ActorStopped`."""
        cell = self._cells.get(key)
        if cell is not None:
            self._note_left_behind(cell)
            self._forget(cell, ActorStopped(f"{cell.label} is not there"))

    def drop(self, key: Any) -> None:
        """Take an actor out of memory at once, to be loaded anew; see `Directory.drop`."""
        cell = self._cells.get(key)
        if cell is not None:
            self._note_left_behind(cell)
            self._forget(cell, Moved(f"{cell.label} is being loaded anew"))

    def _note_left_behind(self, cell: Cell[Role]) -> None:
        """Keep in mind what is not durable yet of an actor that leaves: nobody loads it before."""
        batch = cell.in_flight
        if batch is not None and self._nursery is not None:  # otherwise no actor will be loaded
            left = {key: b for key, b in self._left_behind.items() if not b.settled}
            self._left_behind = {**left, cell.key: batch}

    def find_shard(self, key: Any) -> int | None:
        """Return the shard of an actor that has come up; see `Directory.find_shard`."""
        cell = self._cells.get(key)
        return None if cell is None else cell.shard

    def list_keys_of(self, shard: int) -> list[Any]:
        """Return the keys of the active actors of a shard; none if there are no other nodes."""
        return list(self._by_shard.get(shard, ()))

    def has_any(self, shard: int) -> bool:
        """Return whether any actor of a shard is active."""
        return shard in self._by_shard

    def count_turns(self, shard: int) -> int:
        """Return the turns of a shard's actors here; see `Directory.count_turns`."""
        past, cells = self._past_turns.get(shard, 0), self._by_shard.get(shard)
        return past if cells is None else past + sum([cell.handled for cell in cells.values()])

    async def move(self, key: Any, command: Command[Role, Any], shard: int) -> None:
        """Move an actor of this supervisor to another shard; see `Directory.move`."""
        cell = self.get_cell(key)
        if self._ownership is None:
            await cell.ask(command, None)
            return
        if cell.actor is None:
            raise StorageUnavailable(f"{cell.label} is just coming up")
        is_here = self._ownership.owns(shard)
        if not is_here:
            self._check_departed(cell)
        cell.run_turn(command)
        if is_here:
            self._live_in(cell, shard)
        else:
            self._send_away(cell, shard)
        await cell.settle()

    def _send_away(self, cell: Cell[Role], shard: int) -> None:
        """Take an actor out of memory that lives on another node once its changes are durable.

        Until then nobody loads it anew. What was read of it before is never adopted.
        """
        self._note_left_behind(cell)
        self._departed.pop(cell.key, None)
        self._departed[cell.key] = trio.current_time()
        self._forget(cell, Moved(f"{cell.label} is another node's", shard=shard))

    def _check_departed(self, cell: Cell[Role]) -> None:
        """Check that one more actor may leave for another node, and forget who left long ago."""
        before = trio.current_time() - self.bounds.passivate_seconds_min
        while self._departed and next(iter(self._departed.values())) < before:
            self._departed.popitem(last=False)
        if len(self._departed) >= self.bounds.departed_max:
            raise MailboxFull(f"{cell.label} cannot leave, because so many have just left")

    def _has_left_lately(self, key: Any) -> bool:
        """Return whether an actor has left for another node while a read of it may go on."""
        left_at = self._departed.get(key)
        if left_at is None:
            return False
        return trio.current_time() - left_at < self.bounds.passivate_seconds_min

    def part_with(self, shard: int) -> None:
        """Put all actors of a shard out of reach in one step; see `Directory.part_with`."""
        left = {key: batch for key, batch in self._left_behind.items() if not batch.settled}
        error = Moved(f"this {self.kind} is another node's")
        cells = self._by_shard.pop(shard, {})
        for key, cell in cells.items():
            del self._cells[key]
            self._idle_since.pop(key, None)
            self._budgets.pop(key, None)
            if (batch := cell.in_flight) is not None:
                left[key] = batch
            if cell.given_up is None and (actor := cell.part(error)) is not None:
                self._parted[key] = cell, actor
        self._left_behind = left
        turns = sum([cell.handled for cell in cells.values()])
        self._past_turns[shard] = self._past_turns.get(shard, 0) + turns

    def stop_parted(self, actors_max: int) -> bool:
        """Stop actors that were parted with, and free what they held; see `Directory`."""
        for key in list(islice(self._parted, actors_max)):
            self._stop_parted(key)
        if not self._parted:
            self.timers.tidy()
        return bool(self._parted)

    def _stop_parted(self, key: Any) -> None:
        cell, actor = self._parted.pop(key)
        cell.stop(actor)

    def run_now(self, key: Any, command: Command[Role, Any]) -> None:
        """Have an actor that is up run a command before all that waits, whatever comes of it."""
        cell = self._cells.get(key)
        if cell is not None and cell.actor is not None:
            with suppress(ActorError):
                cell.run_turn(command)

    def iterate_keys(self) -> Iterator[Any]:
        """Iterate over the keys of all active actors, as of now."""
        return iter(list(self._cells))

    def __len__(self) -> int:
        """Return how many actors are active."""
        return len(self._cells)

    def _make_cell(self, key: Any) -> Cell[Role]:
        """Make a cell for an actor."""
        if len(self._cells) >= self.bounds.actors_max:
            raise MailboxFull(f"{self.bounds.actors_max} actors are in memory already")
        cell: Cell[Role] = Cell(self, self.kind, key, self._left_behind.pop(key, None))
        self._cells[key] = cell
        return cell

    # The host of cells.

    def schedule(self, cell: Cell[Any]) -> None:
        """Queue a cell to be drained soon."""
        self._ready.append(cell)
        self._wake.set()

    def restart(self, cell: Cell[Any]) -> None:
        """Bring up the next incarnation of a cell whose actor crashed, or give it up."""
        self.restarts += 1
        budget = self._budgets.get(cell.key)
        if budget is None:
            budget = RestartBudget(self.bounds.restarts_max, self.bounds.window_seconds)
            self._budgets[cell.key] = budget
        if not budget.spend(trio.current_time()):
            self.given_up += 1
            _logger.error("%s is given up: it keeps crashing", cell.label)
            cell.give_up(ActorCrashed(f"{cell.label} keeps crashing"))
        elif self._nursery is not None:
            self._nursery.start_soon(self._bring_up, cell)

    def report(self, cell: Cell[Any], what: str, error: BaseException) -> None:
        """Log a crash; see `CellHost.report`."""
        _logger.error("%s crashed at %s", cell.label, what, exc_info=describe_error(error))

    def _may_try_again(self, cell: Cell[Role]) -> bool:
        """Return whether an actor that was given up has rested for the whole window.

        Its changes must have settled, too. Otherwise its record would be read before it is whole.
        """
        budget = self._budgets.get(cell.key)
        rested = budget is None or budget.is_fresh(trio.current_time())
        if not rested or cell.in_flight is not None:
            return False
        self.discard(cell.key)
        return True

    # Loading.

    async def _load_first(self, cell: Cell[Role]) -> None:
        """Load an actor into a new cell, unless it is given a state before."""
        await self._bring_up(cell, is_first=True)

    async def _bring_up(self, cell: Cell[Role], *, is_first: bool = False) -> None:
        """Load an actor into its cell once all its earlier changes have settled."""
        delay_seconds = 0.05
        while cell.awaits_load(is_first=is_first):
            if cell.in_flight is None:
                try:
                    await self._load_into(cell, is_first=is_first)
                    return
                except StorageRefused as error:  # whoever waits need not wait for that
                    cell.fail_waiting(error)
                except StorageUnavailable:
                    pass
                except MailboxFull as error:  # there is no space for it
                    self._forget(cell, error)
                    return
                except Exception as error:  # noqa: BLE001 - a broken record is one actor's alone
                    self.report(cell, "its loading", error)
                    self._forget(cell, ActorCrashed(f"{cell.label} cannot be loaded"))
                    return
            await trio.sleep(delay_seconds)
            delay_seconds = min(delay_seconds * 2, 1.0)

    async def _load_into(self, cell: Cell[Role], *, is_first: bool) -> None:
        """Read the actor and start it. If there is no such actor here, the cell ends.

        Whatever comes of the read is dropped if the cell has been given a state meanwhile.
        """
        try:
            actor = await self._read(cell.key)
        except Exception:
            if cell.awaits_load(is_first=is_first):
                raise
            return
        if not cell.awaits_load(is_first=is_first):
            return
        ownership = self._ownership
        shard = None if actor is None or ownership is None else actor.shard
        if actor is None:
            self._forget(cell, ActorStopped(f"{cell.label} is not there"))
        elif ownership is None or (shard is not None and ownership.owns(shard)):
            self._start(cell, actor, shard)
        else:
            self._forget(cell, Moved(f"{cell.label} is another node's", shard=shard))

    async def _read(self, key: Any) -> Actor[Role] | None:
        """Read an actor; again if a shard was gained or lost meanwhile, for another may write then.

        Which shard the actor is of is known only once it has been read.
        """
        ownership = self._ownership
        if ownership is None:
            return await self._load(key)
        while True:
            version = ownership.version
            actor = await self._load(key)
            if ownership.version == version:
                return actor

    def _forget(
        self, cell: Cell[Role], error: ActorStopped | ActorCrashed | MailboxFull | Moved
    ) -> None:
        """End a cell and forget it. The next ask for its actor loads anew."""
        if self._cells.get(cell.key) is cell:
            del self._cells[cell.key]
            self._idle_since.pop(cell.key, None)
            self._budgets.pop(cell.key, None)
            if cell.shard is not None:
                self._leave(cell, cell.shard)
        if cell.given_up is None:
            cell.give_up(error)

    def _leave(self, cell: Cell[Role], shard: int) -> None:
        """Take a cell out of its shard; its turns stay counted."""
        cells = self._by_shard[shard]
        del cells[cell.key]
        if not cells:
            del self._by_shard[shard]
        self._past_turns[shard] = self._past_turns.get(shard, 0) + cell.handled

    def _live_in(self, cell: Cell[Role], shard: int) -> None:
        """Enter a cell in its shard, and in no other."""
        before = cell.shard
        if before is not None and before != shard:
            self._leave(cell, before)
        cell.shard = shard
        self._by_shard.setdefault(shard, {})[cell.key] = cell

    def _start(self, cell: Cell[Role], actor: Actor[Role], shard: int | None) -> None:
        """Start an incarnation, in a shard where there are other nodes."""
        if cell.key in self._parted:  # it has come back already; what it entered comes after
            self._stop_parted(cell.key)
        if self._ownership is not None and shard is not None:
            self._live_in(cell, shard)
        actor.timers = ActorTimers(self.timers, cell)
        try:
            actor.on_start()
        except BaseException as error:  # a bug in one actor's hook harms no other actor
            if is_real_interrupt(error):
                raise
            self.report(cell, "on_start", error)
            self._forget(cell, ActorCrashed(f"{cell.label} cannot start"))
            return
        cell.come_up(actor)
