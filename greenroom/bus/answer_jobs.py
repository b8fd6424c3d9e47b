"""Asks of other nodes that are answered here: each is a job, and counts for the node that asks."""

from __future__ import annotations

import logging

from greenroom.bus import frames
from greenroom.bus.asks import BusLink
from greenroom.bus.bus import (
    ANSWER_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    Answering,
    BusStatistics,
    MessageTooLong,
    Packing,
)
from greenroom.bus.task_pool import Job
from greenroom.bus.timeouts import Slot
from greenroom.bus.together import GatheredAnswers, RunFirst

_logger = logging.getLogger(__name__)


class Asker:
    """A node that asks, and how much of it is being answered."""

    __slots__ = ("asks", "held_bytes", "node_id", "way")

    def __init__(self, node_id: int) -> None:
        """Begin with nothing."""
        self.node_id = node_id
        self.asks = 0
        self.held_bytes = 0
        """Bytes of its asks."""
        self.way: AnswerWay | None = None
        """The way of its last ask."""


class AnswerWay:
    """All that the answers to a node's asks have in common that have come over one connection."""

    __slots__ = ("answering", "asker", "counts", "gathered", "handler", "link", "pack")

    def __init__(
        self,
        asker: Asker,
        answering: tuple[Answering, Packing],
        link: BusLink,
        run_first: RunFirst,
        counts: BusStatistics,
    ) -> None:
        """Begin with no answer.

        Args:
            asker: who asks.
            answering: makes the answers; see `Bus.answer_with`.
            link: the way for answers.
            run_first: sends those as the pass ends that leave together.
            counts: what becomes of them is counted here.
        """
        self.asker = asker
        self.answering = answering
        self.handler, self.pack = answering
        self.link = link
        self.counts = counts
        self.gathered = GatheredAnswers(asker.node_id, link, run_first, counts)

    def send(self, number: int, answer: bytes) -> None:
        """Send the frame of an answer, or say that there is no room for it."""
        link, node_id = self.link, self.asker.node_id
        if link.bytes_unsent + len(answer) > ANSWER_BYTES_MAX:
            self.counts.answers_dropped += 1
            answer = frames.pack_head(frames.DROPPED, number, 0)
        if not link.send(node_id, answer):
            self.counts.answers_dropped += 1


class AnswerJob(Job):
    """An ask of another node that is being answered. Whoever makes it has counted it."""

    __slots__ = ("_is_together", "_message", "_number", "_way")

    def __init__(
        self, way: AnswerWay, number: int, message: bytes, slot: Slot, *, is_together: bool
    ) -> None:
        """Begin with nothing done.

        Args:
            way: takes the answer.
            number: that of the ask.
            message: what is asked.
            slot: cancels it when its time is over.
            is_together: the answer may leave together with others, as the ask has come.
        """
        self.is_over = False
        self.scope = None
        self.slot = slot
        slot.add(self)
        self._way = way
        self._number = number
        self._message = message
        self._is_together = is_together

    async def work(self) -> None:
        """Run the handler and send what it answers. Any error of it ends here."""
        way, number = self._way, self._number
        node_id = way.asker.node_id
        try:
            message = way.pack(await way.handler(node_id, self._message))
            if len(message) > MESSAGE_BYTES_MAX:
                raise MessageTooLong(f"an answer has {len(message)} bytes")
        except Exception:
            _logger.exception("an ask of node %s could not be answered", node_id)
            way.send(number, frames.pack_head(frames.FAILED, number, 0))
            return
        if self._is_together:
            way.gathered.add(number, message)
        else:
            way.counts.answered += 1
            way.send(number, frames.pack_head(frames.ANSWER, number, 0) + message)

    def end(self) -> None:
        """See `Job`; it counts no longer."""
        self.is_over = True
        if self.slot is not None:
            self.slot.discard(self)
        asker = self._way.asker
        asker.asks -= 1
        asker.held_bytes -= len(self._message)
