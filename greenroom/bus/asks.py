"""Asks of this node that wait for their answers. Knows no handlers and no frames."""

from __future__ import annotations

from typing import Any, Final, Protocol

import trio

from greenroom.bus.bus import BusError, BusStatistics, OffBus, TooBusy, TooSlow
from greenroom.bus.timeouts import Slot, Timeouts

_NO_SLOT: Final[Slot] = set()


class BusLink(Protocol):
    """A way to one node or to several, over which frames leave in order."""

    @property
    def bytes_unsent(self) -> int:
        """Return how many bytes wait to be sent."""
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

    def lose(self, link: BusLink, kind: type[BusError]) -> None:
        """End those that have left over a way which is broken."""
        for ask in tuple(self.by_number.values()):
            if ask.link is link and ask.is_sent:
                ask.end(error=kind(f"the connection to node {ask.node_id} broke"))


class Ask:
    """An ask that waits for its answer. Nothing but its asker holds it once it is over."""

    __slots__ = (
        *("_answer", "_book", "_error", "_slot", "_task", "_unsent", "began"),
        *("is_over", "is_sent", "link", "node_id", "number"),
    )

    def __init__(
        self, book: AskBook, node_id: int, number: int, link: BusLink | None, began: float
    ) -> None:
        """Begin to wait.

        Args:
            book: has it while it is under way.
            node_id: the node that is asked; nobody else can answer.
            number: identifies the ask among those of this node.
            link: the way that it takes.
            began: the time of trio's clock.
        """
        self._book = book
        self.node_id = node_id
        self.number = number
        self.link = link
        self.began = began
        self.is_sent = False
        self.is_over = False
        self._answer = b""
        self._error: BusError | None = None
        self._task: trio.lowlevel.Task | None = None
        self._slot = _NO_SLOT
        self._unsent: _Unsent | None = None

    def set_limit(self, timeouts: Timeouts, seconds: float, unsent_seconds: float) -> None:
        """Set how long it lasts, and how long if it cannot be sent."""
        if self.is_over:
            return
        self._slot = timeouts.add(self.began + seconds, self)
        if not self.is_sent:
            self._unsent = _Unsent(self)
            self._unsent.slot = timeouts.add(self.began + unsent_seconds, self._unsent)

    def end(self, answer: bytes = b"", error: BusError | None = None) -> None:
        """Wake the asker with an answer or an error, once."""
        if self.is_over:
            return
        self.is_over = True
        self._answer = answer
        self._slot.discard(self)
        if self._unsent is not None:
            self._unsent.slot.discard(self._unsent)
        book = self._book
        if book.by_number.pop(self.number, None) is not None:
            book.by_node[self.node_id] -= 1
        if error is not None:
            self._error = error
            if isinstance(error, TooBusy):
                book.counts.asks_refused += 1
            else:
                book.counts.asks_failed += 1
        task = self._task
        if task is not None:
            self._task = None
            trio.lowlevel.reschedule(task)

    def expire(self) -> None:
        """End it, because its time has passed."""
        if self.is_sent:
            self.end(error=TooSlow(f"node {self.node_id} has not answered in time"))
        else:
            self.end(error=OffBus(f"node {self.node_id} could not be reached in time"))

    async def wait(self) -> bytes:
        """Return the answer; see `Begun`."""
        if not self.is_over:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._give_up)
        if self._error is not None:
            raise self._error
        return self._answer

    def _give_up(self, _: Any) -> trio.lowlevel.Abort:
        self._task = None
        self.end()
        return trio.lowlevel.Abort.SUCCEEDED


class _Unsent:
    """The time limit of an ask that waits to be sent."""

    __slots__ = ("_ask", "slot")

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.slot = _NO_SLOT

    def expire(self) -> None:
        """End it, unless it has been sent."""
        if not self._ask.is_sent:
            self._ask.expire()
