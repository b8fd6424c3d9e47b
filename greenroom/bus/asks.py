"""Asks of this node that wait for their answers. Knows no handlers and no frames."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import trio

from greenroom.bus.bus import BusError, BusStatistics, OffBus, TooBusy, TooSlow
from greenroom.bus.timeouts import Slot, Timeouts

_logger = logging.getLogger(__name__)


class BusLink(Protocol):
    """A way to one node or to several, over which frames leave in order."""

    @property
    def bytes_unsent(self) -> int:
        """Return how many bytes wait to be sent."""
        ...

    @property
    def is_open(self) -> bool:
        """Return whether what is sent may leave as this pass ends."""
        ...

    def send(self, node_id: int, frame: bytes, ask: Ask | None = None) -> bool:
        """Send a frame soon; return whether it may arrive. It must not raise.

        Args:
            node_id: the node that is to get it.
            frame: see `frames.encode`.
            ask: what waits for the answer, if the frame is an ask. The link sets `is_sent` once the
                frame may have left.
        """
        ...


class AskBook:
    """The asks under way. Whoever adds one bounds how many there are."""

    __slots__ = ("by_node", "by_number", "counts")

    def __init__(self, counts: BusStatistics) -> None:
        """Begin with none; what becomes of them is counted."""
        self.counts = counts
        self.by_number: dict[int, Ask] = {}
        self.by_node: dict[int, int] = {}
        """How many there are to each node; a node that is given up is forgotten."""

    def find(self, number: int) -> list[Ask]:
        """Return the ask of a number, or all of the frame that has it."""
        ask = self.by_number.get(number)
        if ask is not None:
            return [ask]
        return [each for each in self.by_number.values() if each.frame == number]

    def end_all(self, kind: type[BusError], unsent: type[BusError], text: str) -> None:
        """End all asks with an error, or with another one if they were never sent."""
        for ask in tuple(self.by_number.values()):
            ask.end(error=(kind if ask.is_sent else unsent)(text))

    def give_up(self, node_id: int, kind: type[BusError], unsent: type[BusError]) -> None:
        """End those to a node that is gone, likewise."""
        for ask in tuple(self.by_number.values()):
            if ask.node_id == node_id:
                ask.end(error=(kind if ask.is_sent else unsent)(f"node {node_id} is gone"))
        self.by_node.pop(node_id, None)

    def lose(self, link: BusLink, kind: type[BusError], unsent: type[BusError]) -> None:
        """End those that have left over a way which is broken, and those that were gathered for it.

        Others that were never sent wait for the next connection.
        """
        for ask in tuple(self.by_number.values()):
            if ask.link is link and (ask.is_sent or ask.frame):
                error = kind if ask.is_sent else unsent
                ask.end(error=error(f"the connection to node {ask.node_id} broke"))


class Ask(msgspec.Struct, eq=False):
    """An ask that waits for its answer. Nothing but its asker holds it once it is over."""

    book: AskBook
    """Has it while it is under way."""
    node_id: int
    """The node that is asked; nobody else can answer."""
    number: int
    """Identifies the ask among those of this node."""
    link: BusLink | None
    """The way that it takes."""
    began: float
    """The time of trio's clock."""
    is_sent: bool = False
    slot: Slot | None = None
    """It keeps the time limit."""
    frame: int = 0
    """The number of the frame in which it leaves together with others, 0 for none."""
    is_over: bool = False
    answer: bytes = b""
    error: BusError | None = None
    """Why there is no answer."""
    then: Callable[[], None] | None = None
    """See `Begun`."""
    task: trio.lowlevel.Task | None = None
    """The asker, while it waits."""
    unsent: _Unsent | None = None

    def set_limits(self, timeouts: Timeouts, seconds: float, unsent_seconds: float) -> None:
        """Set how long it lasts if it has not been sent yet, and how long if it cannot be."""
        if self.is_over:
            return
        self.slot = timeouts.add(self.began + seconds, self)
        self.unsent = _Unsent(self)
        self.unsent.slot = timeouts.add(self.began + unsent_seconds, self.unsent)

    def end(self, answer: bytes = b"", error: BusError | None = None) -> None:
        """Wake the asker with an answer or an error, once."""
        if self.is_over:
            return
        self.is_over = True
        self.answer = answer
        if (slot := self.slot) is not None:
            slot.discard(self)
        if self.unsent is not None:
            self.unsent.end()
        book = self.book
        if book.by_number.pop(self.number, None) is not None:
            book.by_node[self.node_id] -= 1
        if error is not None:
            self.error = error
            if isinstance(error, TooBusy):
                book.counts.asks_refused += 1
            else:
                book.counts.asks_failed += 1
        if (task := self.task) is not None:
            self.task = None
            trio.lowlevel.reschedule(task)
        elif (then := self.then) is not None:
            self.then = None
            try:
                then()
            except Exception:
                _logger.exception("an answer of node %s could not be taken", self.node_id)

    def drop(self) -> None:
        """See `Begun`."""
        self.then = None
        self.end()

    def expire(self) -> None:
        """End it, because its time has passed."""
        if self.is_sent:
            self.end(error=TooSlow(f"node {self.node_id} has not answered in time"))
        else:
            self.end(error=OffBus(f"node {self.node_id} could not be reached in time"))

    async def wait(self) -> bytes:
        """Return the answer; see `Begun`."""
        if not self.is_over:
            self.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._give_up)
        if self.error is not None:
            raise self.error
        return self.answer

    def _give_up(self, _: Any) -> trio.lowlevel.Abort:
        self.task = None
        self.end()
        return trio.lowlevel.Abort.SUCCEEDED


class _Unsent:
    """The time limit of an ask that waits to be sent."""

    __slots__ = ("_ask", "slot")

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.slot: Slot | None = None

    def end(self) -> None:
        """Forget the limit."""
        if self.slot is not None:
            self.slot.discard(self)

    def expire(self) -> None:
        """End it, unless it has been sent."""
        if not self._ask.is_sent:
            self._ask.expire()
