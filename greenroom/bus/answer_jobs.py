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
)
from greenroom.bus.task_pool import Job

_logger = logging.getLogger(__name__)


class Asker:
    """A node that asks, and how much of it is being answered."""

    __slots__ = ("asks", "held_bytes", "node_id")

    def __init__(self, node_id: int) -> None:
        """Begin with nothing."""
        self.node_id = node_id
        self.asks = 0
        self.held_bytes = 0
        """Bytes of its asks."""


class AnswerJob(Job):
    """An ask of another node that is being answered."""

    __slots__ = ("_asker", "_back", "_counts", "_handler", "_message", "_number")

    def __init__(  # noqa: PLR0917 - an ask, and what belongs to it
        self,
        handler: Answering,
        counts: BusStatistics,
        asker: Asker,
        number: int,
        message: bytes,
        back: BusLink,
    ) -> None:
        """Count it for the node that asks.

        Args:
            handler: makes the answer.
            counts: what becomes of it is counted here.
            asker: who asks.
            number: that of the ask.
            message: what is asked.
            back: the way for the answer.
        """
        self.is_over = False
        self.scope = None
        self.slot = None
        self._handler = handler
        self._counts = counts
        self._asker = asker
        self._number = number
        self._message = message
        self._back = back
        asker.asks += 1
        asker.held_bytes += len(message)

    async def work(self) -> None:
        """Run the handler and send what it answers. Any error of it ends here."""
        node_id, number = self._asker.node_id, self._number
        try:
            message = await self._handler(node_id, self._message)
            if len(message) > MESSAGE_BYTES_MAX:
                raise MessageTooLong(f"an answer has {len(message)} bytes")
            answer = frames.pack_head(frames.ANSWER, number, 0) + message
            self._counts.answered += 1
        except Exception:
            _logger.exception("an ask of node %s could not be answered", node_id)
            answer = frames.pack_head(frames.FAILED, number, 0)
        back = self._back
        if back.bytes_unsent + len(answer) > ANSWER_BYTES_MAX:
            self._counts.answers_dropped += 1
            answer = frames.pack_head(frames.DROPPED, number, 0)
        if not back.send(node_id, answer):
            self._counts.answers_dropped += 1

    def end(self) -> None:
        """See `Job`; it counts no longer."""
        super().end()
        self._asker.asks -= 1
        self._asker.held_bytes -= len(self._message)
