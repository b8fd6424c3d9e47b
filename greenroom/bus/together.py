"""Asks and answers that leave together: those of one pass, in one frame for each node.

Each ask has a number, a time limit and an answer of its own, as if it had left alone. Only the
frame, the time of its beginning and the slot of its limit are shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from greenroom.bus import frames
from greenroom.bus.asks import BusLink
from greenroom.bus.bus import ANSWER_BYTES_MAX, BusStatistics
from greenroom.bus.timeouts import Slot

TOGETHER_BYTES_MAX: Final = 256 << 10
"""Bytes of messages in one frame. What would be more begins another one, or leaves alone."""

RunFirst = Callable[[Callable[[], None]], None]
"""Has something put into wires before they are flushed; see `PassSender.run_first`."""

encode: Final = msgspec.msgpack.Encoder().encode
decode_asks: Final = msgspec.msgpack.Decoder(list[tuple[int, int, bytes]]).decode
"""Returns the number, the milliseconds and the message of each ask of a frame."""
decode_answers: Final = msgspec.msgpack.Decoder(list[tuple[int, bytes]]).decode
"""Returns the number and the message of each answer of a frame."""


class GatheredAsks(msgspec.Struct, eq=False, gc=False):
    """The asks of a pass to one node, which have not left yet."""

    link: BusLink
    began: float
    """The time of trio's clock when the first was begun. It counts for all."""
    wait_seconds: float
    slot: Slot
    """It keeps the time limits. An empty one may end nothing any more."""
    bytes_left: int
    number: int
    """That of the frame. No ask has it."""
    pieces: list[tuple[int, int, bytes]] = []
    """See `decode_asks`."""

    def make_frame(self) -> bytes:
        """Return them as they are sent; one alone is an ask like any."""
        pieces = self.pieces
        if len(pieces) > 1:
            return frames.encode(frames.ASKS, self.number, message=encode(pieces))
        return frames.encode(frames.ASK, *pieces[0])


class GatheredAnswers:
    """The answers of a pass to asks of one node that had left together."""

    __slots__ = ("_counts", "_link", "_node_id", "_pieces", "_run_first", "_size")

    def __init__(
        self, node_id: int, link: BusLink, run_first: RunFirst, counts: BusStatistics
    ) -> None:
        """Begin with none.

        Args:
            node_id: the node that asks.
            link: the way for answers.
            run_first: sends them as the pass ends.
            counts: what becomes of them is counted here.
        """
        self._node_id = node_id
        self._link = link
        self._run_first = run_first
        self._counts = counts
        self._pieces: list[tuple[int, bytes]] = []
        self._size = 0
        """Bytes of them."""

    def add(self, number: int, message: bytes) -> None:
        """Send an answer as the pass ends, or before if there are too many bytes."""
        self._size += len(message)
        if not self._pieces:
            self._run_first(self.send)
        elif self._size > TOGETHER_BYTES_MAX:
            self.send()
            self._size = len(message)
            self._run_first(self.send)
        self._pieces.append((number, message))

    def send(self) -> None:
        """Send what there is."""
        pieces, self._pieces, self._size = self._pieces, [], 0
        if len(pieces) > 1:
            frame = frames.encode(frames.ANSWERS, message=encode(pieces))
        elif pieces:
            frame = frames.encode(frames.ANSWER, pieces[0][0], message=pieces[0][1])
        else:
            return
        link, node_id, counts = self._link, self._node_id, self._counts
        counts.answered += len(pieces)
        if link.bytes_unsent + len(frame) > ANSWER_BYTES_MAX:
            counts.answers_dropped += len(pieces)
            for number, _ in pieces:
                link.send(node_id, frames.encode(frames.DROPPED, number))
        elif not link.send(node_id, frame):
            counts.answers_dropped += len(pieces)
