"""The part that all buses share: asks, answers, handlers, bounds and counts. Knows no socket."""

from __future__ import annotations

import itertools
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

import msgspec
import trio

from greenroom.bus import frames
from greenroom.bus.answer_jobs import AnswerJob, Asker
from greenroom.bus.asks import Ask, AskBook, BusLink
from greenroom.bus.bus import (
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
)
from greenroom.bus.task_pool import TaskPool
from greenroom.bus.timeouts import Timeouts

_logger = logging.getLogger(__name__)

_REFUSALS: Final[dict[int, tuple[type[BusError], str]]] = {
    frames.FAILED: (AnswerFailed, "the handler of node {} failed; its log says why"),
    frames.BUSY: (TooBusy, "node {} answers too many asks already"),
    frames.DROPPED: (BusLost, "node {} had no room for the answer"),
    frames.NOBODY: (NobodyThere, "node {} takes no asks"),
}


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
        self._asks = AskBook(self._counts)
        self._askers: dict[int, Asker] = {}
        """Nodes that have asked; whenever one is given up, those with nothing to answer go."""
        self._numbers = itertools.count(1)
        self._timeouts = Timeouts()
        self._connected_since: float | None = None
        self._read_clock: Callable[[], float] = trio.current_time
        """Returns trio's time; once the bus runs, by fewer steps."""
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
        counts.asks_under_way = len(self._asks.by_number)
        counts.answering = sum(asker.asks for asker in self._askers.values())
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
        begun = self.begin(
            node_id, message, seconds_max=seconds_max, wait_seconds_max=wait_seconds_max
        )
        return await begun.wait()

    def begin(
        self,
        node_id: int,
        message: bytes,
        *,
        seconds_max: float,
        wait_seconds_max: float = math.inf,
    ) -> Ask:
        """See `Bus`."""
        self._check_node(node_id)
        seconds = min(seconds_max, ASK_SECONDS_MAX)
        size, asks, now = len(message), self._asks, self._read_clock()
        try:
            if size > MESSAGE_BYTES_MAX:
                self._check_length(message)
            if not seconds > 0.0:
                raise NobodyThere(f"no time is left to ask node {node_id}")
            if self._pool is None:
                raise OffBus("the bus of this node does not run")
            under_way = asks.by_node.get(node_id, 0)
            if under_way >= ASKS_MAX:
                raise TooBusy(f"{ASKS_MAX} asks are under way to node {node_id}")
            link = self._find_link(node_id)
            if link.bytes_unsent + size > UNSENT_BYTES_MAX:
                raise TooBusy(f"{link.bytes_unsent} bytes wait to be sent to node {node_id}")
        except BusError as error:
            refused = Ask(asks, node_id, 0, None, now)
            refused.end(error=error)
            return refused
        number = next(self._numbers)
        ask = asks.by_number[number] = Ask(asks, node_id, number, link, now)
        asks.by_node[node_id] = under_way + 1
        self._counts.asks += 1
        head = frames.pack_head(frames.ASK, number, math.ceil(seconds * 1000))
        link.send(node_id, head + message, ask)
        seconds = min(wait_seconds_max, seconds)
        if not ask.is_sent:
            ask.set_limits(self._timeouts, seconds, UNSENT_SECONDS_MAX)
        elif not ask.is_over:
            ask.slot = self._timeouts.add(now + seconds, ask)
        return ask

    def tell(self, node_id: int, message: bytes) -> None:
        """See `Bus`."""
        self._check_node(node_id)
        self._check_length(message)
        try:
            link = self._find_link(node_id)
        except BusError:
            self._counts.tells_dropped += 1
        else:
            self._tell(link, node_id, message)

    def give_up(self, node_id: int) -> None:
        """See `Bus`."""
        self._asks.give_up(node_id, BusLost, NobodyThere)
        self._askers = {i: asker for i, asker in self._askers.items() if asker.asks}

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

    def _check_node(self, node_id: int) -> None:
        """Check whom something is sent to; errors as of `Bus.tell`."""
        if node_id < 1 or node_id == self._node_id:
            raise ValueError(f"node {self._node_id} cannot send to node {node_id}")

    @staticmethod
    def _check_length(message: bytes) -> None:
        if len(message) > MESSAGE_BYTES_MAX:
            raise MessageTooLong(
                f"a message has {len(message)} bytes, and at most {MESSAGE_BYTES_MAX} are sent"
            )

    def _tell(self, link: BusLink, node_id: int, message: bytes) -> None:
        """Send a tell if there is room for it, and count it."""
        has_room = link.bytes_unsent + len(message) <= UNSENT_BYTES_MAX
        if has_room and link.send(node_id, frames.encode(frames.TELL, message=message)):
            self._counts.tells += 1
        else:
            self._counts.tells_dropped += 1

    def _lose(self, link: BusLink) -> None:
        """End all asks that have left over a way which is broken."""
        self._asks.lose(link, BusLost)

    def _end_unanswered(self, number: int) -> None:
        """End an ask whose node was not there, if it is still under way."""
        ask = self._asks.by_number.get(number)
        if ask is not None:
            ask.end(error=NobodyThere(f"node {ask.node_id} is not there"))

    def _take(self, sender: int, found: Iterable[bytes], back: BusLink) -> None:
        """Hand on what another node has sent, at once.

        Args:
            sender: the node, as far as it is proven.
            found: the frames that came.
            back: the way for answers.
        """
        asks, now = self._asks.by_number, self._read_clock()
        for frame in found:
            if len(frame) < frames.HEAD_BYTES:
                self._counts.truncated += 1
                continue
            kind, number, milliseconds = frames.read_head(frame)
            message = frame[frames.HEAD_BYTES :]
            if kind == frames.ASK:
                self._take_ask(sender, number, now + milliseconds / 1000, message, back)
            elif kind == frames.TELL:
                self._hear(sender, message)
            elif kind != frames.ANSWER and kind not in _REFUSALS:
                self._counts.truncated += 1
            elif (ask := asks.get(number)) is None or ask.node_id != sender:
                self._counts.answers_late += 1
            elif kind == frames.ANSWER:
                ask.end(message)
            else:
                error, text = _REFUSALS[kind]
                ask.end(error=error(text.format(sender)))

    def _hear(self, sender: int, message: bytes) -> None:
        if self._hearing is None:
            return
        self._counts.heard += 1
        try:
            self._hearing(sender, message)
        except Exception:
            _logger.exception("what node %s told could not be heard", sender)

    def _take_ask(
        self, sender: int, number: int, ends_at: float, message: bytes, back: BusLink
    ) -> None:
        """Start the answer to an ask, or refuse it."""
        asker = self._askers.get(sender)
        if asker is None:
            asker = self._askers[sender] = Asker(sender)
        if self._answering is None or self._pool is None:
            back.send(sender, frames.pack_head(frames.NOBODY, number, 0))
        elif asker.asks >= ANSWERING_MAX or asker.held_bytes + len(message) > ANSWERING_BYTES_MAX:
            back.send(sender, frames.pack_head(frames.BUSY, number, 0))
        else:
            job = AnswerJob(self._answering, self._counts, asker, number, message, back)
            self._pool.start(job, ends_at=ends_at)

    @asynccontextmanager
    async def _open_nursery(self) -> AsyncGenerator[trio.Nursery]:
        """Give a nursery in which handlers run and time limits are kept."""
        try:
            async with trio.open_nursery() as nursery:
                self._read_clock = trio.lowlevel.current_clock().current_time
                self._pool = TaskPool(nursery, self._timeouts)
                nursery.start_soon(self._timeouts.run)
                yield nursery
                nursery.cancel_scope.cancel()
        finally:
            if self._pool is not None:
                self._pool.end()
            self._pool = None
            self._connected_since = None
            self._asks.end_all(BusLost, OffBus, "the bus of this node has stopped")
