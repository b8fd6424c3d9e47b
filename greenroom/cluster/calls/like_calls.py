"""Calls that are sent on as one before was: by the number of its head, and the body."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from greenroom.cluster.calls.messages import Forwarded
from greenroom.cluster.messenger import BegunAsk, BusMessage, Garbled
from greenroom.http.limits import ANSWER_BYTES_PER_UNIT
from greenroom.http.ports import SentCall
from greenroom.http.request import Answer, Request


class KnownWay(msgspec.Struct, frozen=True, gc=False):
    """The way of calls with one head, noted in its notes while the map of shards stays the same."""

    map_version: int
    node_id: int
    shard: int
    like: int
    """The number by which that node knows them."""
    leaves_together: bool = False
    """Such calls of one pass leave in one frame, as that node can read it."""


class LikeSender(Protocol):
    """`Forwarding`, as calls see it that it has sent."""

    counts: Counter[str]
    read_packed: Callable[[bytes], BusMessage]
    """Reads what a node has answered; raises Garbled."""

    def finish_like(
        self, like: LikeCall, make_call: Callable[[], SentCall]
    ) -> Coroutine[Any, Any, Answer]:
        """Return the answer, whatever happens."""
        ...


class LikeCall(msgspec.Struct, eq=False, gc=False):
    """A call that was sent on like one before; `BegunElsewhere`."""

    begun: BegunAsk
    way: KnownWay
    request: Request
    number: int
    """The number of a change, 0 for what only reads."""
    is_refused: bool
    """See `BegunElsewhere`."""
    sender: LikeSender

    def read(self) -> Answer | None:
        """See `BegunElsewhere`. Nearly all answers can be read, as they are the owner's whole."""
        sender, begun = self.sender, self.begun
        if begun.error is not None:
            return None
        try:
            reply = sender.read_packed(begun.answer)
        except Garbled:
            return None
        if not isinstance(reply, Forwarded):
            return None
        status, body = reply.status, reply.body
        if (
            reply.parts
            or reply.has_failed_token
            or status == 429
            or len(body) >= ANSWER_BYTES_PER_UNIT
        ):
            return None
        sender.counts["answered"] += 1
        return Answer(status, body, reply.headers, None, reply.content_type, self.way.node_id)

    def finish(self, make_call: Callable[[], SentCall]) -> Coroutine[Any, Any, Answer]:
        """See `BegunElsewhere`."""
        return self.sender.finish_like(self, make_call)

    def drop(self) -> None:
        """See `BegunElsewhere`."""
        self.begun.drop()
