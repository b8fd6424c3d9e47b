"""The last answers to changes, so that a change that is sent twice is carried out once.

A sender whose connection broke does not know whether its change was carried out. It sends it again
under the same number, and gets the answer that was lost, or waits for the one that is being made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
import trio

from greenroom.cluster.calls.messages import (
    ForwardCall,
    Forwarded,
    ForwardLike,
    NotKnown,
    NotOwner,
)

KEEP_SECONDS: Final = 10.0
SENDER_SECONDS: Final = 120.0
"""A sender that has sent no change for so long is forgotten. No call takes as long."""
BYTES_MAX: Final = 8 << 20
"""Bytes of all answers together. Beyond, the sender that holds most loses its oldest."""
ANSWER_BYTES: Final = 512
"""Bytes that an answer takes besides its body, roughly."""

Reply = Forwarded | NotKnown | NotOwner
_NOT_RUN: Final = (NotOwner, NotKnown)
"""Answers that say that nothing ran."""
_Call = TypeVar("_Call", ForwardCall, ForwardLike)


class _Answer(msgspec.Struct, gc=False):
    """An answer that is being made, or was."""

    reply: Reply | None = None
    made: trio.Event | None = None
    """Set once it is made, if others wait for it."""
    is_made: bool = False
    kept_at: float = 0.0
    size: int = 0

    async def wait(self) -> Reply | None:
        """Return the answer once it is made; None if it never was, or has been forgotten."""
        if not self.is_made:
            if self.made is None:
                self.made = trio.Event()
            await self.made.wait()
        return self.reply


class _Sender:
    """The changes of one node."""

    __slots__ = ("forgotten", "held_bytes", "kept", "newest", "under_way", "used_at")

    def __init__(self) -> None:
        self.under_way: dict[int, _Answer] = {}
        self.kept: dict[int, _Answer] = {}
        self.held_bytes = 0
        self.forgotten = 0
        """The highest number whose answer has been forgotten."""
        self.newest = 0
        """The highest number that has come. Higher ones are new: a sender counts up."""
        self.used_at = 0.0

    def find(self, number: int) -> _Answer | None:
        """Return the answer to a change, None if it has not come before.

        A sender counts up as it sends, so what is below a forgotten number has come before.
        """
        found = self.under_way.get(number) or self.kept.get(number)
        if found is None and number <= self.forgotten:
            return _Answer(is_made=True)
        return found

    def forget_oldest(self) -> int:
        """Forget an answer; return how many bytes it held."""
        number = next(iter(self.kept))
        answer = self.kept.pop(number)
        self.forgotten = max(self.forgotten, number)
        self.held_bytes -= answer.size
        return answer.size


class ReplyCache:
    """Answers by sender and number."""

    def __init__(self, lost: Reply, bytes_max: int = BYTES_MAX) -> None:
        """Begin with none.

        Args:
            lost: answers changes that may have been carried out, and whose answers are not there
                any more.
            bytes_max: how much all answers may take together.
        """
        self._lost = lost
        self._bytes_max = bytes_max
        self._senders: dict[int, _Sender] = {}
        self.held_bytes = 0
        self.repeated = 0
        """How many changes came twice."""

    @property
    def senders(self) -> int:
        """Return how many nodes are remembered."""
        return len(self._senders)

    async def carry_out_once(
        self, sender_id: int, call: _Call, carry_out: Callable[[int, _Call], Awaitable[Reply]]
    ) -> Reply:
        """Return the answer to a change, which is carried out unless it was before.

        It is `lost` if the answer was forgotten, or whoever came first was cancelled.

        Args:
            sender_id: the node that asks.
            call: the change, with its number.
            carry_out: makes the answer. One that says that nothing ran is not kept.

        Raises:
            Exception: whatever `carry_out` raises.

        Cancellation: that of whoever came first cancels `carry_out`; others just cease to wait.
        """
        sender, number = self._senders.get(sender_id), call.number
        if sender is None:
            sender = self._senders[sender_id] = _Sender()
        if number > sender.newest:
            sender.newest = number
        elif (found := sender.find(number)) is not None:
            self.repeated += 1
            return await found.wait() or self._lost
        answer = sender.under_way[number] = _Answer()
        try:
            reply = answer.reply = await carry_out(sender_id, call)
        finally:
            del sender.under_way[number]
            if not isinstance(answer.reply, _NOT_RUN):
                self._keep(sender, number, answer)
            answer.is_made = True
            if answer.made is not None:
                answer.made.set()
        return reply

    def forget_old(self, now: float) -> None:
        """Forget what nobody can ask for any more; `now` is trio's time."""
        for sender_id, sender in list(self._senders.items()):
            while sender.kept and next(iter(sender.kept.values())).kept_at + KEEP_SECONDS <= now:
                self.held_bytes -= sender.forget_oldest()
            if sender.used_at + SENDER_SECONDS <= now and not (sender.kept or sender.under_way):
                del self._senders[sender_id]

    def _keep(self, sender: _Sender, number: int, answer: _Answer) -> None:
        """Keep an answer, also one that was never made; drop others if there is no room."""
        reply = answer.reply
        size = ANSWER_BYTES + (len(reply.body) if isinstance(reply, Forwarded) else 0)
        answer.kept_at = sender.used_at = trio.current_time()
        answer.size = size
        sender.kept[number] = answer
        sender.held_bytes += size
        self.held_bytes += size
        while self.held_bytes > self._bytes_max:
            most = max(self._senders.values(), key=lambda each: each.held_bytes)
            self.held_bytes -= most.forget_oldest()
