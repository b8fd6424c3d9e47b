"""The part that all buses share: asks, answers, handlers, bounds and counts. Knows no socket."""

from __future__ import annotations

import itertools
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import msgspec
import trio

from greenroom.bus import frames
from greenroom.bus.answer_jobs import AnswerJob, AnswerWay, Asker
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
    Packing,
    TooBusy,
)
from greenroom.bus.task_pool import TaskPool
from greenroom.bus.timeouts import Slot, Timeouts
from greenroom.bus.together import (
    TOGETHER_BYTES_MAX,
    GatheredAsks,
    RunFirst,
    decode_answers,
    decode_asks,
)
from greenroom.network.pass_sender import PassSender

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
        self._sender = PassSender()
        self._run_first: RunFirst = self._sender.run_first
        self._gathered: dict[int, GatheredAsks] = {}
        """The asks to each node that leave as this pass ends."""
        self._connected_since: float | None = None
        self._read_clock: Callable[[], float] = trio.current_time
        """Returns trio's time; once the bus runs, by fewer steps."""
        self._pool: TaskPool | None = None
        """Runs handlers; `None` while the bus does not run."""
        self._answering: tuple[Answering, Packing] | None = None
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

    def answer_with(self, handler: Answering, pack: Packing = bytes) -> None:
        """See `Bus`."""
        self._answering = handler, pack

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
        if not link.send(node_id, head + message, ask):
            ask.end(error=OffBus(f"the connection to node {node_id} is broken"))
        seconds = min(wait_seconds_max, seconds)
        if not ask.is_sent:
            ask.set_limits(self._timeouts, seconds, UNSENT_SECONDS_MAX)
        elif not ask.is_over:
            ask.slot = self._timeouts.add(now + seconds, ask)
        return ask

    def begin_together(
        self, node_id: int, message: bytes, *, seconds_max: float, wait_seconds_max: float
    ) -> Ask:
        """See `Bus`."""
        gathered, size = self._gathered.get(node_id), len(message)
        if (
            gathered is None
            or size > gathered.bytes_left
            or wait_seconds_max != gathered.wait_seconds
        ):
            gathered = self._gather(node_id, size, wait_seconds_max)
        asks = self._asks
        if gathered is None or (under_way := asks.by_node[node_id]) >= ASKS_MAX:
            return self.begin(
                node_id, message, seconds_max=seconds_max, wait_seconds_max=wait_seconds_max
            )
        gathered.bytes_left -= size
        asks.by_node[node_id] = under_way + 1
        number, slot = next(self._numbers), gathered.slot
        if not slot:  # the first, or all before are over, and their time may be, too
            slot = gathered.slot = self._timeouts.find(gathered.began + wait_seconds_max)
        gathered.pieces.append((number, int(seconds_max * 1000), message))
        ask = asks.by_number[number] = Ask(
            asks, node_id, number, gathered.link, gathered.began, True, slot, gathered.number
        )
        slot.add(ask)
        return ask

    def _gather(self, node_id: int, size: int, wait_seconds: float) -> GatheredAsks | None:
        """Begin to gather asks to a node; None if there is no room even for the first of them."""
        self._send_gathered(node_id)
        if self._pool is None or not 0.0 < wait_seconds <= ASK_SECONDS_MAX:
            return None
        try:
            self._check_node(node_id)
            link = self._find_link(node_id)
        except (BusError, ValueError):  # `begin` raises it, or has it be the ask's end
            return None
        room = min(TOGETHER_BYTES_MAX, UNSENT_BYTES_MAX - link.bytes_unsent)
        if size > room or not link.is_open:
            return None
        gathered = self._gathered[node_id] = GatheredAsks(
            link, self._read_clock(), wait_seconds, Slot(), room, next(self._numbers)
        )
        self._asks.by_node.setdefault(node_id, 0)
        self._run_first(partial(self._send_gathered, node_id))
        return gathered

    def _send_gathered(self, node_id: int) -> None:
        """Send the asks to a node that were gathered."""
        gathered = self._gathered.pop(node_id, None)
        if gathered is None:
            return
        pieces, by_number = gathered.pieces, self._asks.by_number
        self._counts.asks += len(pieces)
        ask = next((by_number[number] for number, _, _ in pieces if number in by_number), None)
        if ask is not None and not gathered.link.send(node_id, gathered.make_frame(), ask):
            self._note_unsent(gathered)  # they end with the link, which is broken

    def _note_unsent(self, gathered: GatheredAsks) -> None:
        """Note that asks which were gathered have not left, and never will."""
        for number, _, _ in gathered.pieces:
            if (ask := self._asks.by_number.get(number)) is not None:
                ask.is_sent = False

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
        if (gathered := self._gathered.pop(node_id, None)) is not None:
            self._note_unsent(gathered)
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
        """End all asks that have left over a way which is broken, or would as this pass ends."""
        for node_id, gathered in tuple(self._gathered.items()):
            if gathered.link is link:
                del self._gathered[node_id]
                self._note_unsent(gathered)
        self._asks.lose(link, BusLost, OffBus)

    def _end_unanswered(self, number: int) -> None:
        """End an ask whose node was not there, or all that left in one frame, by its number."""
        for ask in self._asks.find(number):
            ask.end(error=NobodyThere(f"node {ask.node_id} is not there"))

    def _take(self, sender: int, found: Iterable[bytes], back: BusLink) -> None:
        """Hand on what another node has sent, at once.

        Args:
            sender: the node, as far as it is proven.
            found: the frames that came.
            back: the way for answers.
        """
        now = self._read_clock()
        for frame in found:
            if len(frame) < frames.HEAD_BYTES:
                self._counts.truncated += 1
                continue
            kind, number, milliseconds = frames.read_head(frame)
            if kind >= frames.ASKS:
                self._take_several(sender, kind, memoryview(frame)[frames.HEAD_BYTES :], now, back)
                continue
            message = frame[frames.HEAD_BYTES :]
            if kind == frames.ASK:
                alone = ((number, milliseconds, message),)
                self._take_asks(sender, alone, now, back, are_together=False)
            elif kind == frames.ANSWER:
                self._end_asks(sender, ((number, message),))
            elif kind == frames.TELL:
                self._hear(sender, message)
            elif kind in _REFUSALS:
                self._refuse(sender, number, *_REFUSALS[kind])
            else:
                self._counts.truncated += 1

    def _take_several(
        self, sender: int, kind: int, packed: memoryview, now: float, back: BusLink
    ) -> None:
        """Hand on asks that have left together, or answers to such, unless the end is missing."""
        try:
            if kind == frames.ANSWERS:
                self._end_asks(sender, decode_answers(packed))
            elif kind == frames.ASKS:
                self._take_asks(sender, decode_asks(packed), now, back, are_together=True)
            else:
                self._counts.truncated += 1  # frames of that kind are not known
        except msgspec.MsgspecError:
            self._counts.truncated += 1

    def _refuse(self, sender: int, number: int, error: type[BusError], text: str) -> None:
        """End an ask that a node has not answered, or all of one frame."""
        found = [ask for ask in self._asks.find(number) if ask.node_id == sender]
        if not found:
            self._counts.answers_late += 1
        for ask in found:
            ask.end(error=error(text.format(sender)))

    def _hear(self, sender: int, message: bytes) -> None:
        if self._hearing is None:
            return
        self._counts.heard += 1
        try:
            self._hearing(sender, message)
        except Exception:
            _logger.exception("what node %s told could not be heard", sender)

    def _find_answer_way(self, sender: int, back: BusLink) -> AnswerWay | None:
        """Return the way for answers to a node; None if nothing is answered."""
        asker, answering = self._askers.get(sender), self._answering
        if answering is None:
            return None
        if asker is None:
            asker = self._askers[sender] = Asker(sender)
        way = asker.way
        if way is None or way.link is not back or way.answering is not answering:
            way = asker.way = AnswerWay(asker, answering, back, self._run_first, self._counts)
        return way

    def _take_asks(
        self,
        sender: int,
        asks: Iterable[tuple[int, int, bytes]],
        now: float,
        back: BusLink,
        *,
        are_together: bool,
    ) -> None:
        """Start the answers to asks, or refuse them."""
        way, pool, limit, slot = self._find_answer_way(sender, back), self._pool, -1, Slot()
        if way is None or pool is None:
            for number, _, _ in asks:
                back.send(sender, frames.pack_head(frames.NOBODY, number, 0))
            return
        asker, jobs = way.asker, list[AnswerJob]()
        for number, milliseconds, message in asks:
            held_bytes = asker.held_bytes + len(message)
            if asker.asks >= ANSWERING_MAX or held_bytes > ANSWERING_BYTES_MAX:
                back.send(sender, frames.pack_head(frames.BUSY, number, 0))
                continue
            asker.asks += 1
            asker.held_bytes = held_bytes
            if milliseconds != limit:
                limit, slot = milliseconds, self._timeouts.find(now + milliseconds / 1000)
            jobs.append(AnswerJob(way, number, message, slot, is_together=are_together))
        pool.start(jobs)

    def _end_asks(self, sender: int, answers: Iterable[tuple[int, bytes]]) -> None:
        """End asks that a node has answered."""
        asks = self._asks.by_number
        for number, answer in answers:
            if (ask := asks.get(number)) is None or ask.node_id != sender:
                self._counts.answers_late += 1
            else:
                ask.end(answer)

    @asynccontextmanager
    async def _open_nursery(self) -> AsyncGenerator[trio.Nursery]:
        """Give a nursery in which handlers run and time limits are kept."""
        try:
            async with trio.open_nursery() as nursery:
                self._read_clock = trio.lowlevel.current_clock().current_time
                self._pool = TaskPool(nursery)
                nursery.start_soon(self._timeouts.run)
                nursery.start_soon(self._sender.run)
                yield nursery
                nursery.cancel_scope.cancel()
        finally:
            if self._pool is not None:
                self._pool.end()
            self._pool = None
            self._gathered.clear()
            self._connected_since = None
            self._asks.end_all(BusLost, OffBus, "the bus of this node has stopped")
