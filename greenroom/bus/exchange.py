"""The part that all buses share: asks, answers, handlers, bounds and counts. Knows no socket."""

from __future__ import annotations

import itertools
import logging
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import trio

from greenroom.bus import frames
from greenroom.bus.bus import (
    ANSWER_BYTES_MAX,
    ANSWERING_BYTES_MAX,
    ANSWERING_MAX,
    ASK_SECONDS_MAX,
    ASKS_MAX,
    MESSAGE_BYTES_MAX,
    UNSENT_BYTES_MAX,
    UNSENT_SECONDS_MAX,
    AnswerFailed,
    Answering,
    Bus,
    BusError,
    BusLost,
    BusStatistics,
    Hearing,
    MessageTooLong,
    NobodyThere,
    OffBus,
    TooBusy,
    TooSlow,
)
from greenroom.bus.frames import BusFrame
from greenroom.bus.task_pool import TaskPool
from greenroom.bus.timeouts import Timeouts

_logger = logging.getLogger(__name__)

_REFUSALS: Final[dict[int, tuple[type[BusError], str]]] = {
    frames.FAILED: (AnswerFailed, "the handler of node {} failed; its log says why"),
    frames.BUSY: (TooBusy, "node {} answers too many asks already"),
    frames.DROPPED: (BusLost, "node {} had no room for the answer"),
    frames.NOBODY: (NobodyThere, "node {} takes no asks"),
}


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


class Ask:
    """An ask that waits for its answer."""

    __slots__ = ("answer", "error", "is_over", "is_sent", "link", "node_id", "number", "task")

    def __init__(self, node_id: int, number: int, link: BusLink) -> None:
        """Begin to wait.

        Args:
            node_id: the node that is asked; nobody else can answer.
            number: identifies the ask among those of this node.
            link: the way that it takes.
        """
        self.node_id = node_id
        self.number = number
        self.link = link
        self.is_sent = False
        self.is_over = False
        self.answer = b""
        self.error: BusError | None = None
        self.task: trio.lowlevel.Task | None = None

    def end(self, answer: bytes = b"", error: BusError | None = None) -> None:
        """Wake the asker with an answer or an error, once."""
        if self.is_over:
            return
        self.is_over = True
        self.answer, self.error = answer, error
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def expire(self) -> None:
        """End it, because its time has passed."""
        if self.is_sent:
            self.end(error=TooSlow(f"node {self.node_id} has not answered in time"))
        else:
            self.end(error=OffBus(f"node {self.node_id} could not be reached in time"))

    async def wait(self) -> bytes:
        """Return the answer.

        Raises:
            BusError: there is none.

        Cancellation: see `Bus.ask`.
        """
        if not self.is_over:
            self.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._give_up)
        if self.error is not None:
            raise self.error
        return self.answer

    def _give_up(self, _: Any) -> trio.lowlevel.Abort:
        self.task = None
        self.is_over = True
        return trio.lowlevel.Abort.SUCCEEDED


class _Unsent:
    """The time limit of an ask that waits to be sent."""

    __slots__ = ("_ask",)

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    @property
    def is_over(self) -> bool:
        return self._ask.is_over or self._ask.is_sent

    def expire(self) -> None:
        self._ask.expire()


class Exchange(Bus, ABC):
    """All of a `Bus` but the ways to other nodes, which subclasses add."""

    def __init__(self, node_id: int) -> None:
        """Begin with nothing under way.

        Args:
            node_id: the node whose end this is, from 1.

        Raises:
            ValueError: the id is no positive number.
        """
        if node_id < 1:
            raise ValueError(f"{node_id} is no id of a node: they begin with 1")
        self._node_id = node_id
        self._counts = BusStatistics()
        self._asks: dict[int, Ask] = {}
        self._asks_to: Counter[int] = Counter()
        self._answering_to: Counter[int] = Counter()
        self._answering_bytes: Counter[int] = Counter()
        self._numbers = itertools.count(1)
        self._timeouts = Timeouts()
        self._connected_since: float | None = None
        self._pool: TaskPool | None = None
        """Runs handlers; `None` while the bus does not run."""
        self._answering: Answering | None = None
        self._hearing: Hearing | None = None

    @property
    def node_id(self) -> int:
        """See `Bus`."""
        return self._node_id

    @property
    def connected_since(self) -> float | None:
        """See `Bus`."""
        return self._connected_since

    @property
    def statistics(self) -> BusStatistics:
        """See `Bus`."""
        counts = msgspec.structs.replace(self._counts)
        counts.asks_under_way = self._asks_to.total()
        counts.answering = self._answering_to.total()
        counts.bytes_unsent = sum(link.bytes_unsent for link in self._list_links())
        counts.connections = len(self._list_links())
        return counts

    def answer_with(self, handler: Answering) -> None:
        """See `Bus`."""
        self._answering = handler

    def hear_with(self, handler: Hearing) -> None:
        """See `Bus`."""
        self._hearing = handler

    async def ask(
        self,
        node_id: int,
        message: bytes,
        *,
        seconds_max: float,
        wait_seconds_max: float = math.inf,
    ) -> bytes:
        """See `Bus`."""
        self._check(node_id, message)
        seconds = min(seconds_max, ASK_SECONDS_MAX)
        try:
            if not seconds > 0.0:
                raise NobodyThere(f"no time is left to ask node {node_id}")
            ask = self._send_ask(node_id, message, math.ceil(seconds * 1000))
            now = trio.current_time()
            self._timeouts.add(now + min(seconds, wait_seconds_max), ask)
            if not ask.is_sent:
                self._timeouts.add(now + UNSENT_SECONDS_MAX, _Unsent(ask))
            try:
                return await ask.wait()
            finally:
                self._forget(ask)
        except TooBusy:
            self._counts.asks_refused += 1
            raise
        except BusError:
            self._counts.asks_failed += 1
            raise

    def tell(self, node_id: int, message: bytes) -> None:
        """See `Bus`."""
        self._check(node_id, message)
        try:
            link = self._find_link(node_id)
        except BusError:
            self._counts.tells_dropped += 1
        else:
            self._tell(link, node_id, message)

    def give_up(self, node_id: int) -> None:
        """See `Bus`."""
        for ask in self._asks.values():
            if ask.node_id == node_id:
                kind = BusLost if ask.is_sent else NobodyThere
                ask.end(error=kind(f"node {node_id} is gone"))

    @abstractmethod
    def tell_all(self, message: bytes) -> None:
        """See `Bus`."""

    @abstractmethod
    def _find_link(self, node_id: int) -> BusLink:
        """Return the way to a node.

        Raises:
            NobodyThere: there is none.
            TooBusy: there is none now.
        """

    @abstractmethod
    def _list_links(self) -> list[BusLink]:
        """Return all ways to others."""

    def _check(self, node_id: int, message: bytes) -> None:
        """Check what is to be sent; errors as of `Bus.tell`."""
        if node_id < 1 or node_id == self._node_id:
            raise ValueError(f"node {self._node_id} cannot send to node {node_id}")
        self._check_length(message)

    @staticmethod
    def _check_length(message: bytes) -> None:
        if len(message) > MESSAGE_BYTES_MAX:
            raise MessageTooLong(
                f"a message has {len(message)} bytes, and at most {MESSAGE_BYTES_MAX} are sent"
            )

    def _send_ask(self, node_id: int, message: bytes, milliseconds: int) -> Ask:
        """Send an ask, and count it as under way.

        Raises:
            NobodyThere: there is no way to that node.
            TooBusy: too much is under way.
        """
        if self._pool is None:
            raise OffBus("the bus of this node does not run")
        if self._asks_to[node_id] >= ASKS_MAX:
            raise TooBusy(f"{ASKS_MAX} asks are under way to node {node_id}")
        link = self._find_link(node_id)
        if link.bytes_unsent + len(message) > UNSENT_BYTES_MAX:
            raise TooBusy(f"{link.bytes_unsent} bytes wait to be sent to node {node_id}")
        ask = Ask(node_id, next(self._numbers), link)
        self._asks[ask.number] = ask
        self._asks_to[node_id] += 1
        self._counts.asks += 1
        link.send(node_id, frames.encode(frames.ASK, ask.number, milliseconds, message), ask)
        return ask

    def _forget(self, ask: Ask) -> None:
        del self._asks[ask.number]
        ask.answer = b""  # its time limit outlives it
        _subtract(self._asks_to, ask.node_id)

    def _tell(self, link: BusLink, node_id: int, message: bytes) -> None:
        """Send a tell if there is room for it, and count it."""
        has_room = link.bytes_unsent + len(message) <= UNSENT_BYTES_MAX
        if has_room and link.send(node_id, frames.encode(frames.TELL, message=message)):
            self._counts.tells += 1
        else:
            self._counts.tells_dropped += 1

    def _lose(self, link: BusLink) -> None:
        """End all asks that have left over a way which is broken."""
        for ask in self._asks.values():
            if ask.link is link and ask.is_sent:
                ask.end(error=BusLost(f"the connection to node {ask.node_id} broke"))

    def _end_unanswered(self, number: int) -> None:
        """End an ask whose node was not there, if it is still under way."""
        ask = self._asks.get(number)
        if ask is not None:
            ask.end(error=NobodyThere(f"node {ask.node_id} is not there"))

    def _take(self, sender: int, frame: bytes, back: BusLink) -> None:
        """Hand on what another node has sent, at once.

        Args:
            sender: the node, as far as it is proven.
            frame: what came.
            back: the way for answers.
        """
        taken = frames.decode(frame)
        if taken is None:
            self._counts.truncated += 1
        elif taken.kind == frames.ASK:
            self._take_ask(sender, taken, back)
        elif taken.kind == frames.TELL:
            self._hear(sender, taken.message)
        else:
            self._take_answer(sender, taken)

    def _take_answer(self, sender: int, frame: BusFrame) -> None:
        ask = self._asks.get(frame.number)
        if ask is None or ask.node_id != sender or ask.is_over:
            self._counts.answers_late += 1
        elif frame.kind == frames.ANSWER:
            ask.end(frame.message)
        else:
            error, text = _REFUSALS[frame.kind]
            ask.end(error=error(text.format(sender)))

    def _hear(self, sender: int, message: bytes) -> None:
        if self._hearing is None:
            return
        self._counts.heard += 1
        try:
            self._hearing(sender, message)
        except Exception:
            _logger.exception("what node %s told could not be heard", sender)

    def _take_ask(self, sender: int, frame: BusFrame, back: BusLink) -> None:
        """Start the answer to an ask, or refuse it."""
        size = len(frame.message)
        if self._answering is None or self._pool is None:
            back.send(sender, frames.encode(frames.NOBODY, frame.number))
        elif (
            self._answering_to[sender] >= ANSWERING_MAX
            or self._answering_bytes[sender] + size > ANSWERING_BYTES_MAX
        ):
            back.send(sender, frames.encode(frames.BUSY, frame.number))
        else:
            self._answering_to[sender] += 1
            self._answering_bytes[sender] += size
            self._pool.start(
                partial(self._answer, self._answering, sender, frame, back),
                partial(self._stop_answering, sender, size),
                ends_at=trio.current_time() + frame.milliseconds / 1000,
            )

    def _stop_answering(self, sender: int, size: int) -> None:
        _subtract(self._answering_to, sender)
        if size:
            _subtract(self._answering_bytes, sender, size)

    async def _answer(
        self, handler: Answering, sender: int, frame: BusFrame, back: BusLink
    ) -> None:
        """Run the handler and send what it answers. Any error of it ends here."""
        try:
            message = await handler(sender, frame.message)
            self._check_length(message)
            answer = frames.encode(frames.ANSWER, frame.number, message=message)
            self._counts.answered += 1
        except Exception:
            _logger.exception("an ask of node %s could not be answered", sender)
            answer = frames.encode(frames.FAILED, frame.number)
        if back.bytes_unsent + len(answer) > ANSWER_BYTES_MAX:
            self._counts.answers_dropped += 1
            answer = frames.encode(frames.DROPPED, frame.number)
        if not back.send(sender, answer):
            self._counts.answers_dropped += 1

    @asynccontextmanager
    async def _open_nursery(self) -> AsyncGenerator[trio.Nursery]:
        """Give a nursery in which handlers run and time limits are kept."""
        try:
            async with trio.open_nursery() as nursery:
                self._pool = TaskPool(nursery, self._timeouts)
                nursery.start_soon(self._timeouts.run)
                yield nursery
                nursery.cancel_scope.cancel()
        finally:
            if self._pool is not None:
                self._pool.end()
            self._pool = None
            self._connected_since = None
            for ask in self._asks.values():
                stopped = BusLost if ask.is_sent else OffBus
                ask.end(error=stopped("the bus of this node has stopped"))


def _subtract(counter: Counter[int], key: int, count: int = 1) -> None:
    """Count less, and forget a key that has none left."""
    counter[key] -= count
    if not counter[key]:
        del counter[key]
