"""The promises of every bus: asks, tells, their bounds and their errors.

Three modules implement it: `memory` for simulations, `unix` between the processes of one
machine, `nats` between machines. One suite of tests runs against all three (`tests/bus/`).

**Delivery.** A message arrives at most once. Messages from one node to another arrive in the order
in which they were sent. Asks that are begun together, and their answers, are sent as their pass
ends. When a connection breaks, some may be lost, and later ones still arrive. Tells are heard in
order, and before any ask that was sent after them. Each ask has a task, and tasks that begin
together do so in any order.

**Overload.** To one node `ASKS_MAX` asks may be under way, and `UNSENT_BYTES_MAX` may wait to be
sent. Beyond either, an ask is refused here with `TooBusy`, and a tell is dropped and counted. A
node answers at most `ANSWERING_MAX` asks of another at a time, with `ANSWERING_BYTES_MAX` in all,
and refuses the rest unread. Answers may wait up to `ANSWER_BYTES_MAX`; an answer beyond that is
dropped, and its asker gets `BusLost`. The task that reads from a connection hands each message
on at once, and never waits.

**Time.** Each ask has a time limit. It goes with the ask, and whoever answers is cancelled once it
has passed. So nobody waits for ever at either end. An ask that cannot be sent at all ends after
`UNSENT_SECONDS_MAX`, with `OffBus`.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import msgspec
import trio

MESSAGE_BYTES_MAX: Final = (2 << 20) - 1024
"""The longest message, and the longest answer. What a bus puts around it makes at most 2 MiB."""
ASKS_MAX: Final = 1_024
"""Asks under way from one node to another."""
ANSWERING_MAX: Final = 2 * ASKS_MAX
"""Asks of one node that another answers at a time.

The asker may have given up some of them.
"""
ANSWERING_BYTES_MAX: Final = 64 << 20
"""Bytes of asks of one node that another answers at a time."""
UNSENT_BYTES_MAX: Final = 8 << 20
"""Bytes that may wait to be sent over one connection before asks are refused."""
ANSWER_BYTES_MAX: Final = 16 << 20
"""Bytes that may wait to be sent over one connection before answers are dropped."""
ASK_SECONDS_MAX: Final = 3_600.0
"""The longest time limit of an ask. A longer one is taken as this."""
UNSENT_SECONDS_MAX: Final = 1.0
"""How long an ask waits at most to be sent, while this node has no connection."""

Answering = Callable[[int, bytes], Awaitable[Any]]
"""Takes the node that asks and its message, and returns the answer, which is packed then."""
Packing = Callable[[Any], bytes]
"""Takes an answer, and returns it as it is sent."""
Hearing = Callable[[int, bytes], None]
"""Takes the node that tells and its message. It must not block."""


class BusError(Exception):
    """An ask has no answer. The class says whether it may have arrived."""


class NobodyThere(BusError):
    """The ask did not arrive: no such node is there, or it takes no asks."""


class OffBus(NobodyThere):
    """The ask was not sent: this node itself is not on the bus, or its connection has just broken.

    The other one may be there.
    """


class BusLost(BusError):
    """The connection broke, or the answer was dropped. The ask may have been carried out."""


class TooSlow(BusError):
    """No answer came within the time limit. The ask may have been carried out."""


class TooBusy(BusError):
    """The ask was refused, here or there: too much is under way. It was not carried out."""


class AnswerFailed(BusError):
    """The other node's handler failed, and its log says why. It may have done part of it."""


class MessageTooLong(BusError):
    """The message has more than `MESSAGE_BYTES_MAX` bytes. Nothing was sent."""


class BusUnusable(Exception):
    """A bus cannot start. The text is one sentence for the operator, with what to do."""


class Begun(Protocol):
    """An ask that has been sent, or refused."""

    then: Callable[[], None] | None
    """Called once it is over, if nobody waits for it; not if it was over before this was set. It
    must not raise, and may not take long."""

    @property
    def is_over(self) -> bool:
        """Return whether `wait` would return at once."""
        ...

    @property
    def answer(self) -> bytes:
        """Return what has come."""
        ...

    @property
    def error(self) -> BusError | None:
        """Return why there is no answer."""
        ...

    @property
    def began(self) -> float:
        """Return the time of trio's clock when that was."""
        ...

    async def wait(self) -> bytes:
        """Return the answer. Whoever waits again once it is there gets the same.

        Raises: as `Bus.ask`, but for ValueError.

        Cancellation: see `Bus.ask`.
        """
        ...

    def drop(self) -> None:
        """Wait no longer: nobody does. The question may have been answered."""
        ...


class BusStatistics(msgspec.Struct):
    """Counts of a bus since it was made, for `/metrics`."""

    asks: int = 0
    """Asks sent."""
    asks_refused: int = 0
    """Asks that ended with `TooBusy`."""
    asks_failed: int = 0
    """Asks that ended with any other error."""
    asks_under_way: int = 0
    answered: int = 0
    """Asks of other nodes that were answered."""
    answering: int = 0
    """Asks of other nodes that are being answered."""
    answers_late: int = 0
    """Answers to asks whose askers had given up."""
    answers_dropped: int = 0
    tells: int = 0
    """Tells sent; one to all nodes counts once."""
    tells_dropped: int = 0
    heard: int = 0
    """Tells of other nodes."""
    bytes_unsent: int = 0
    connections: int = 0
    """Connections to other nodes, or to NATS."""
    connections_lost: int = 0
    """Connections that broke. Compare two looks to see whether the bus was away in between."""
    forged: int = 0
    """Messages whose seal is wrong, or that were meant for another node."""
    replayed: int = 0
    """Messages that had come already, or come very late."""
    oversized: int = 0
    """Messages longer than any that may be sent."""
    truncated: int = 0
    """Messages of which the end is missing."""


class Bus(Protocol):
    """One node's end of the bus. It serves while `run` runs."""

    @property
    def node_id(self) -> int:
        """Return the node whose end this is."""
        ...

    @property
    def connected_since(self) -> float | None:
        """Return the time of trio's clock since when this end is on the bus without a break.

        It is `None` while the bus does not run, or knows that it is cut off.
        """
        ...

    @property
    def statistics(self) -> BusStatistics:
        """Return what the bus has done, as a copy."""
        ...

    async def ask(
        self,
        node_id: int,
        message: bytes,
        *,
        seconds_max: float,
        wait_seconds_max: float = math.inf,
    ) -> bytes:
        """Send a message to another node and return its answer.

        Args:
            node_id: the node to ask, which is not this one.
            message: at most `MESSAGE_BYTES_MAX` bytes.
            seconds_max: how long the other node may take, and how long to wait. Without a
                connection, up to `UNSENT_SECONDS_MAX` of it is spent waiting for one.
            wait_seconds_max: how long to wait, if that is shorter; the other node goes on then.

        Raises:
            NobodyThere: it did not arrive. `OffBus`, if that says nothing about the other node.
            BusLost: the connection broke; it may have arrived.
            TooSlow: no answer came in time; it may have arrived.
            TooBusy: too much is under way; it was refused, and not carried out.
            AnswerFailed: the handler over there failed.
            MessageTooLong: it is too long; nothing was sent.
            ValueError: a node asks itself, or the id is no positive number.

        Cancellation: the asker stops waiting, and the answer is thrown away. The message may have
        been sent, and may be carried out. A caller that must know the outcome shields
        the ask, which ends by itself after `seconds_max`.
        """
        ...

    def begin(
        self,
        node_id: int,
        message: bytes,
        *,
        seconds_max: float,
        wait_seconds_max: float = math.inf,
    ) -> Begun:
        """Send a message to another node, and return what waits for its answer; see `ask`.

        It must be waited for at once, by one task. It ends by itself if it is not.

        Raises:
            ValueError: a node asks itself, or the id is no positive number.
        """
        ...

    def begin_together(
        self, node_id: int, message: bytes, *, seconds_max: float, wait_seconds_max: float
    ) -> Begun:
        """Send a message as `begin` does, but as this pass of the scheduler ends, with others.

        All asks to that node leave in one frame that were begun so in this pass. In all else each
        is one of its own. What the node is told in this pass arrives before them. Their answers
        come back likewise. Not to a node of a version that does not know this.

        Args:
            node_id: as of `ask`.
            message: as of `ask`.
            seconds_max: as of `ask`; not less than the next.
            wait_seconds_max: as of `ask`.
        """
        ...

    def tell(self, node_id: int, message: bytes) -> None:
        """Send a message to another node, at most once. What cannot be sent is dropped and counted.

        Args:
            node_id: the node to tell, which is not this one.
            message: at most `MESSAGE_BYTES_MAX` bytes.

        Raises:
            MessageTooLong: it is too long; nothing was sent.
            ValueError: a node tells itself, or the id is no positive number.
        """
        ...

    def tell_all(self, message: bytes) -> None:
        """Send a message to all other nodes, to each at most once.

        Args:
            message: at most `MESSAGE_BYTES_MAX` bytes.

        Raises:
            MessageTooLong: it is too long; nothing was sent.
        """
        ...

    def give_up(self, node_id: int) -> None:
        """End all asks under way to a node that is known to be gone.

        Each ends with BusLost, or with NobodyThere if it was never sent.
        """
        ...

    def answer_with(self, handler: Answering, pack: Packing = bytes) -> None:
        """Set what answers asks; before this, whoever asks gets `NobodyThere`.

        Args:
            handler: runs in a task for each ask. It is cancelled when the asker's time is over, and
                when the bus stops. If it raises, the log says so and the asker gets `AnswerFailed`.
            pack: packs what it answers; without it, that is bytes. If it raises, likewise.
        """
        ...

    def hear_with(self, handler: Hearing) -> None:
        """Set what takes tells; before this they are dropped.

        Args:
            handler: runs in the task that reads. If it raises, the log says so.
        """
        ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; others can reach this node once it has started.

        Raises:
            BusUnusable: it cannot start, for a reason that the operator can mend.

        Cancellation: asks under way end with `BusLost`, and no handler runs any more.
        """
        ...
