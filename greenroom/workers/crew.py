"""The workers of one machine, kept up: each restarted on its own, and told about the others."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle
from typing import Any, Final

import msgspec
import trio

from greenroom.control.errors import ControlError
from greenroom.control.ready import FirstGame
from greenroom.supervisors.channel import Channel, ChannelClosed
from greenroom.supervisors.policy import RestartBudget
from greenroom.supervisors.processes import ChildProcess, Conversation, ProcessEnded
from greenroom.supervisors.spec import Hopeless
from greenroom.supervisors.tree import TreeNode
from greenroom.workers.messages import (
    Alive,
    Begin,
    CrewMessage,
    Drawn,
    DrawTree,
    FromWorker,
    HandedOver,
    LeaveCluster,
    Leaving,
    NodeEnded,
    NotStarted,
    ParentTold,
    ServeAlso,
    Started,
    TookOver,
    encode,
    from_worker,
)

_logger = logging.getLogger(__name__)

RESTARTS_MAX: Final = 5
WINDOW_SECONDS: Final = 60.0
"""A worker that ends more than `RESTARTS_MAX` times within the window rests for its length."""
AGAIN_SECONDS: Final = 1.0
"""How long after its end a worker that was lost is started again, if siblings serve meanwhile.

A start takes a core for about so long, and they need it to bring its shards up.
"""
START_SECONDS_MAX: Final = 300.0
"""Seconds that a worker may take to start: as long as Postgres may take after a crash."""
SILENT_SECONDS_MAX: Final = 2.5
"""A worker that gives no sign of life for so long counts as away: its siblings accept for it."""
HUNG_SECONDS_MAX: Final = 30.0
"""A worker that gives none for so long is killed, and started again.

It is killed earlier if a sibling has taken its shards over: then it can only end, and whoever is
connected to it waits for nothing.
"""
LEAVE_SECONDS_MAX: Final = 40.0
"""Seconds that all workers may take to hand over to other machines; they have 30 themselves."""
DRAW_SECONDS_MAX: Final = 2.0
"""Seconds that a worker may take to draw its tree."""


class WorkerNotStarted(ControlError):
    """A worker has not started. The text is its own sentence."""


class WorkersGivenUp(ControlError, Hopeless):
    """All workers end again and again."""


class WorkerState(msgspec.Struct, frozen=True):
    """A worker, as the parent knows it."""

    number: int
    pid: int | None
    state: str
    restarts: int
    node_id: int
    """Its node at present, 0 while it has none."""


class Worker:
    """One worker: its process, what it has said, whether it can be given work."""

    def __init__(
        self,
        number: int,
        begin: Callable[[int], Begin],
        process: Callable[[int, Conversation], ChildProcess],
        changed: Callable[[], None],
        *,
        node_ended: Callable[[int], None],
        node_replaced: Callable[[int], None],
        parent_tells: Callable[[], ParentTold],
        siblings_serve: Callable[[], bool],
    ) -> None:
        """Prepare; nothing is spawned before `run`.

        Args:
            number: which worker it is.
            begin: makes its first message, anew for each start.
            process: makes the process for a number and a conversation.
            changed: called when the worker has come or gone.
            node_ended: called with its node once its process has ended for certain.
            node_replaced: called with the node whose shards it has taken over.
            parent_tells: returns what its metrics show of the parent.
            siblings_serve: returns whether any other worker serves.
        """
        self._parent_tells = parent_tells
        self._siblings_serve = siblings_serve
        self.number = number
        self.restarts = 0
        self.state = "stopped"
        self.node_id = 0
        self.first_game: FirstGame | None = None
        self.database_fails = False
        """True if the database fails it, as it has said last."""
        self._begin = begin
        self._changed = changed
        self._node_ended = node_ended
        self._node_replaced = node_replaced
        self._is_replaced = self._was_lost = False
        self._patience: trio.CancelScope | None = None
        """How long it may still be silent, while it is."""
        self._process = process(number, self._talk)
        self._channel: Channel | None = None
        self._budget = RestartBudget(RESTARTS_MAX, WINDOW_SECONDS)
        self._last_node_id = 0
        """The node of the process before this one, 0 if there was none."""
        self._handed_over = trio.Event()
        self._drawings: list[trio.MemorySendChannel[TreeNode]] = []

    @property
    def name(self) -> str:
        """Return its name in the tree."""
        return f"worker {self.number}"

    @property
    def pid(self) -> int | None:
        """Return the id of its process, if one runs."""
        return self._process.pid

    @property
    def is_up(self) -> bool:
        """Return whether it serves, and has lately given a sign of life."""
        return self.state == "running"

    @property
    def is_resting(self) -> bool:
        """Return whether it is not started, because it has ended too often."""
        return self.state == "resting"

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Keep it up until cancelled; started once it serves for the first time.

        Raises:
            WorkerNotStarted: it did not start for the first time.
        """
        first = _Once(task_status)
        while True:
            self.state = "restarting" if first.said else "starting"
            try:
                await self._process.run(task_status=first)
                ended: Exception = ProcessEnded(f"{self.name} has ended")
            except (ProcessEnded, WorkerNotStarted, OSError) as error:
                ended = error
            if not first.said:
                raise WorkerNotStarted(f"{ended}") from None
            self._note_gone(ended)
            await self._rest()
            self.restarts += 1

    async def _rest(self) -> None:
        """Wait before the next start: for long if there were too many."""
        if not self._budget.spend(trio.current_time()):
            self._become("resting")
            _logger.error("%s keeps ending: it is started again in %g s", self.name, WINDOW_SECONDS)
            await trio.sleep(WINDOW_SECONDS)
        elif self._was_lost and self._siblings_serve():
            await trio.sleep(AGAIN_SECONDS)

    def _note_gone(self, how: Exception) -> None:
        """Note that its process has ended."""
        self._was_lost = self.state != "leaving" or self._is_replaced
        if not self._was_lost:  # somebody has told it to stop
            _logger.info("%s, as it was told; it is started again", how)
        else:
            _logger.warning("%s", how)
        if self.node_id:
            self._node_ended(self.node_id)
            self._last_node_id = self.node_id
        self.node_id, self._is_replaced, self.database_fails = 0, False, False
        self._handed_over.set()
        self._become("stopped")

    def note_replaced(self) -> None:
        """Note that a sibling has taken its shards over: it can only end."""
        self._is_replaced = True
        if self._patience is not None:
            self._patience.cancel()
        if self.is_up:
            self._become("leaving")

    async def tell(self, message: CrewMessage, descriptors: Sequence[int] = ()) -> bool:
        """Send it a message; return whether that could be done.

        Cancellation: it is sent whole, or not at all.
        """
        channel = self._channel
        if channel is None:
            return False
        try:
            await channel.send(encode(message), descriptors)
        except ChannelClosed:
            return False
        return True

    async def hand_over(self) -> None:
        """Ask it to hand over to other machines, and wait until it has, or has ended."""
        self._handed_over = trio.Event()
        if self.is_up and await self.tell(LeaveCluster()):
            await self._handed_over.wait()

    async def draw(self) -> TreeNode:
        """Return its tree, as far as it answers in time."""
        found: list[TreeNode] = []
        if self.is_up:
            giving, taking = trio.open_memory_channel[TreeNode](1)
            self._drawings.append(giving)
            with trio.move_on_after(DRAW_SECONDS_MAX):
                if await self.tell(DrawTree()):
                    found = (await taking.receive()).children
            if giving in self._drawings:
                self._drawings.remove(giving)
        return self.make_node(found)

    def make_node(self, below: Sequence[TreeNode] = ()) -> TreeNode:
        """Return it as a node of the tree, with what is below it."""
        pid, queued = self.pid, sum(one.mailbox for one in below)
        state = self.state if pid is None else f"{self.state}, pid {pid}"
        return TreeNode(self.name, state, self.restarts, queued, list(below))

    def describe(self) -> WorkerState:
        """Return what is known of it."""
        return WorkerState(self.number, self.pid, self.state, self.restarts, self.node_id)

    # What is said.

    async def _talk(self, channel: Channel, pid: int, *, task_status: trio.TaskStatus[Any]) -> None:
        """Tell it what to serve, and take what it says; see `Conversation`."""
        self._channel = channel
        try:
            begin = msgspec.structs.replace(
                self._begin(self.number), last_node_id=self._last_node_id
            )
            await channel.send(encode(begin))
            await self._wait_started(channel)
            _logger.info("%s serves (pid %d)", self.name, pid)
            task_status.started()
            told: ParentTold | None = None
            while True:
                self._take(await self._hear(channel))  # its signs of life set the pace
                if (telling := self._parent_tells()) != told and await self.tell(telling):
                    told = telling
        finally:
            self._channel = None

    async def _wait_started(self, channel: Channel) -> None:
        with trio.move_on_after(START_SECONDS_MAX):
            while self.state != "running":
                self._take(_decoded(await channel.receive()))
            return
        raise WorkerNotStarted(f"{self.name} has not started within {START_SECONDS_MAX:g} s.")

    async def _hear(self, channel: Channel) -> FromWorker:
        """Wait for what it says next. If it says nothing for long, it hangs, and is killed.

        Raises:
            ChannelClosed: it is gone, or was killed.
        """
        with trio.move_on_after(SILENT_SECONDS_MAX):
            return _decoded(await channel.receive())
        before = self.state
        self._become("silent")
        patience_seconds = 0.0 if self._is_replaced else HUNG_SECONDS_MAX - SILENT_SECONDS_MAX
        with trio.move_on_after(patience_seconds) as self._patience:
            message = _decoded(await channel.receive())
            self._become(before)
            return message
        _logger.error("%s hangs; killing it", self.name)
        await self._process.abort()
        raise ChannelClosed

    def _take(self, message: FromWorker) -> None:
        """Do what a message asks for."""
        match message:
            case Started(node_id=node_id, first_game=first_game):
                self.node_id = node_id
                self.first_game = first_game or self.first_game
                self._become("running")
            case NotStarted(sentence=sentence):
                raise WorkerNotStarted(sentence)
            case HandedOver():
                self._handed_over.set()
            case Leaving():
                self._become("leaving")
            case TookOver(node_id=node_id):
                self._node_replaced(node_id)
            case Drawn(tree=tree):
                drawings, self._drawings = self._drawings, []
                for waiting in drawings:
                    with suppress(trio.WouldBlock, trio.BrokenResourceError):
                        waiting.send_nowait(tree)
            case Alive(database_fails=database_fails):
                self.database_fails = database_fails

    def _become(self, state: str) -> None:
        self.state = state
        self._changed()


class Crew:
    """All workers of this machine, as one service."""

    def __init__(
        self,
        count: int,
        begin: Callable[[int], Begin],
        process: Callable[[int, Conversation], ChildProcess],
        parent_tells: Callable[[], ParentTold],
    ) -> None:
        """Prepare; nothing is spawned before `run`.

        Args:
            count: how many workers there are.
            begin: makes a worker's first message, anew for each start.
            process: makes the process of a worker.
            parent_tells: returns what the workers' metrics show of the parent.
        """
        self._news = trio.Event()
        self.workers = [
            Worker(
                number,
                begin,
                process,
                self._note_news,
                node_ended=self._note_ended,
                node_replaced=self._note_replaced,
                parent_tells=parent_tells,
                siblings_serve=self._is_any_up,
            )
            for number in range(1, count + 1)
        ]
        self._ended: deque[int] = deque()
        self._turns = cycle(self.workers)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Start all workers at once and keep them up; started once all serve.

        Raises:
            WorkerNotStarted: one did not start for the first time; they may be in a group.
            WorkersGivenUp: all of them end again and again.

        Cancellation stops all of them at once, and waits for them.
        """
        try:
            async with trio.open_nursery() as nursery:
                async with trio.open_nursery() as starting:
                    for worker in self.workers:
                        starting.start_soon(nursery.start, worker.run)
                task_status.started()
                await self._tell_news()
        except* WorkersGivenUp as group:
            raise WorkersGivenUp(str(group.exceptions[0])) from None

    @property
    def database_fails(self) -> bool:
        """Return whether the database fails any worker."""
        return any(worker.database_fails for worker in self.workers)

    def _is_any_up(self) -> bool:
        return any(worker.is_up for worker in self.workers)

    def list_branches(self) -> list[TreeNode]:
        """Return the workers, without what is below them."""
        return [worker.make_node() for worker in self.workers]

    async def tell_all(self, message: CrewMessage) -> None:
        """Send each worker a message. Those that are away get none.

        Cancellation: each gets it whole, or not at all.
        """
        async with trio.open_nursery() as nursery:
            for worker in self.workers:
                nursery.start_soon(worker.tell, message)

    async def hand_over(self) -> None:
        """Ask all workers to hand over to other machines, and wait for it, within bounds.

        Cancellation: what has been handed over so far stays so.
        """
        with trio.move_on_after(LEAVE_SECONDS_MAX):
            async with trio.open_nursery() as nursery:
                for worker in self.workers:
                    nursery.start_soon(worker.hand_over)

    async def pass_on(self, message: CrewMessage, descriptor: int) -> bool:
        """Give some worker a message with a descriptor; return whether one has taken it.

        Cancellation: one gets it, or none.
        """
        for worker, _ in zip(self._turns, self.workers, strict=False):
            if worker.is_up and await worker.tell(message, [descriptor]):
                return True
        return False

    async def draw(self) -> list[TreeNode]:
        """Return the workers' trees, as far as they answer in time."""
        drawn: dict[int, TreeNode] = {}

        async def draw(worker: Worker) -> None:
            drawn[worker.number] = await worker.draw()

        async with trio.open_nursery() as nursery:
            for worker in self.workers:
                nursery.start_soon(draw, worker)
        return [drawn[number] for number in sorted(drawn)]

    def _note_news(self) -> None:
        self._news.set()

    def _note_ended(self, node_id: int) -> None:
        self._ended.append(node_id)
        self._news.set()

    def _note_replaced(self, node_id: int) -> None:
        for worker in self.workers:
            if worker.node_id == node_id:
                worker.note_replaced()

    async def _tell_news(self) -> None:
        """Tell each worker which siblings are away, and which nodes have ended."""
        while True:
            self._news = trio.Event()
            if all(worker.is_resting for worker in self.workers):
                raise WorkersGivenUp("All workers end again and again: the log says why.")
            while self._ended:
                await self.tell_all(NodeEnded(self._ended.popleft()))
            absent = tuple(each.number for each in self.workers if not each.is_up)
            await self.tell_all(ServeAlso(absent))
            await self._news.wait()


class _Once(trio.TaskStatus[object]):
    """Passes the first `started()` on, for a service that starts again by itself."""

    def __init__(self, outer: trio.TaskStatus[None]) -> None:
        self._outer = outer
        self.said = False

    def started(self, value: object = None) -> None:  # noqa: ARG002 - nobody needs it
        """Note that it has started."""
        if not self.said:
            self.said = True
            self._outer.started()


def _decoded(received: tuple[bytes, list[int]]) -> FromWorker:
    """Return what a worker has said. It sends no descriptors.

    Raises:
        ChannelClosed: it makes no sense.
    """
    message, descriptors = received
    for descriptor in descriptors:
        os.close(descriptor)
    try:
        return from_worker(message)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ChannelClosed from None
