"""Sends and receives typed messages over the bus, each to the handler of its type.

A message is a tagged msgspec struct, packed as an array. Parts of the cluster register the types
that they take, and know nothing of each other's. Bounds are the bus's.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Protocol, TypeVar, Union

import msgspec
import trio

_logger = logging.getLogger(__name__)

PROTOCOL: Final = 1
"""The first byte of each message. Nodes of different numbers do not understand each other."""
WARN_SECONDS: Final = 60.0
"""Unreadable messages are logged once in so many seconds."""


class BusMessage(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Something that nodes send each other. Fields that are added later need defaults."""


class Unreadable(BusMessage, frozen=True):
    """The answer to what the other side cannot read: it runs another version."""


class Garbled(Exception):
    """The message is of no type that is known here."""


class WrongProtocol(Garbled):
    """A message is of another version, which cannot run beside this one."""


class UnreadableMessage(Exception):
    """The other node could not read what we asked, or we could not read its answer."""


class BegunAsk(Protocol):
    """An ask that has been sent; see `bus.bus.Begun`."""

    then: Callable[[], None] | None
    """Called once it is over, if nobody waits."""

    @property
    def is_over(self) -> bool:
        """Return whether there is an answer, or will be none."""
        ...

    @property
    def answer(self) -> bytes:
        """Return what has come."""
        ...

    @property
    def error(self) -> Exception | None:
        """Return why there is no answer."""
        ...

    @property
    def began(self) -> float:
        """Return the time of trio's clock when it was sent."""
        ...

    async def wait(self) -> bytes:
        """Return the answer, each time the same."""
        ...

    def drop(self) -> None:
        """Wait no longer."""
        ...


class BusEnd(Protocol):
    """The bus, as the messenger uses it; see `bus.bus.Bus`."""

    def begin(
        self, node_id: int, message: bytes, *, seconds_max: float, wait_seconds_max: float = ...
    ) -> BegunAsk:
        """Ask a node."""
        ...

    def begin_together(
        self, node_id: int, message: bytes, *, seconds_max: float, wait_seconds_max: float
    ) -> BegunAsk:
        """Ask a node as this pass ends, in one frame with others."""
        ...

    def tell(self, node_id: int, message: bytes) -> None:
        """Tell a node something, at most once."""
        ...

    def tell_all(self, message: bytes) -> None:
        """Tell all other nodes something, at most once."""
        ...

    def give_up(self, node_id: int) -> None:
        """End what a node is being asked."""
        ...

    def answer_with(
        self, handler: Callable[[int, bytes], Awaitable[Any]], pack: Callable[[Any], bytes]
    ) -> None:
        """Set what answers asks, and what packs the answers."""
        ...

    def hear_with(self, handler: Callable[[int, bytes], None]) -> None:
        """Set what takes tells."""
        ...


M = TypeVar("M", bound=BusMessage)
Answer = Callable[[int, Any], Awaitable[BusMessage]]
Hear = Callable[[int, Any], None]


class Messenger:
    """Routes messages by type. Register all types before the bus runs."""

    def __init__(self, wire: BusEnd) -> None:
        """Take over the handlers of a bus."""
        self._wire = wire
        self._answers: dict[type[BusMessage], Answer] = {}
        self._hears: dict[type[BusMessage], Hear] = {}
        self._types: set[type[BusMessage]] = {Unreadable}
        self.read_packed = reader(self._types)
        """Reads a message of a known type; raises Garbled. It changes with the types."""
        self._warned_at = -WARN_SECONDS
        wire.answer_with(self._answer, pack)
        wire.hear_with(self._hear)

    def answer(self, kind: type[M], handler: Callable[[int, M], Awaitable[BusMessage]]) -> None:
        """Set what answers asks of one type.

        Args:
            kind: the type.
            handler: gets the sender's node id and the message, and returns the answer.
        """
        self._answers[kind] = handler
        self.know(kind)

    def hear(self, kind: type[M], handler: Callable[[int, M], None]) -> None:
        """Set what takes tells of one type; the handler must not raise."""
        self._hears[kind] = handler
        self.know(kind)

    def know(self, *kinds: type[BusMessage]) -> None:
        """Register types that come only as answers, so that they can be read."""
        self._types.update(kinds)
        self.read_packed = reader(self._types)

    async def ask(
        self,
        node_id: int,
        message: BusMessage,
        *,
        seconds_max: float,
        wait_seconds_max: float = math.inf,
    ) -> BusMessage:
        """Ask a node and return its answer; the arguments are those of the bus's `ask`.

        Raises:
            UnreadableMessage: one of the two could not read the other; nothing ran, or its outcome
                is not known.
            BusError: as the bus's `ask`.

        Cancellation: the question may have been answered.
        """
        begun = self.begin(
            node_id, message, seconds_max=seconds_max, wait_seconds_max=wait_seconds_max
        )
        return self.read_answer(node_id, message, await begun.wait())

    def begin(
        self,
        node_id: int,
        message: BusMessage,
        *,
        seconds_max: float,
        wait_seconds_max: float = math.inf,
    ) -> BegunAsk:
        """Ask a node, and return what waits for its answer; see the bus's `begin`."""
        return self._wire.begin(
            node_id,
            _PREFIX + _encode(message),
            seconds_max=seconds_max,
            wait_seconds_max=wait_seconds_max,
        )

    def begin_together(
        self, node_id: int, message: BusMessage, seconds_max: float, wait_seconds_max: float
    ) -> BegunAsk:
        """Ask a node with others, as this pass ends; see the bus's `begin_together`."""
        return self._wire.begin_together(
            node_id,
            _PREFIX + _encode(message),
            seconds_max=seconds_max,
            wait_seconds_max=wait_seconds_max,
        )

    def read_answer(self, node_id: int, message: BusMessage, packed: bytes) -> BusMessage:
        """Return what a node has answered; the errors are those of `ask`.

        Args:
            node_id: the node.
            message: what it was asked.
            packed: what came.
        """
        try:
            answer = self.read_packed(packed)
        except Garbled as error:
            raise UnreadableMessage(f"node {node_id} answered what cannot be read") from error
        if isinstance(answer, Unreadable):
            raise UnreadableMessage(f"node {node_id} cannot read {type(message).__name__}")
        return answer

    def tell(self, node_id: int, message: BusMessage) -> None:
        """Tell a node something, at most once."""
        self._wire.tell(node_id, pack(message))

    def tell_all(self, message: BusMessage) -> None:
        """Tell all other nodes something, at most once."""
        self._wire.tell_all(pack(message))

    def give_up(self, node_id: int) -> None:
        """End what a node is being asked, because it is gone. Each asker gets an error at once."""
        self._wire.give_up(node_id)

    def _answer(self, sender: int, packed: bytes) -> Awaitable[BusMessage]:
        try:
            message = self.read_packed(packed)
        except Garbled as error:
            message = self._note_garbled(sender, error)
        return self._answers.get(type(message), _answer_unreadable)(sender, message)

    def _hear(self, sender: int, packed: bytes) -> None:
        try:
            message = self.read_packed(packed)
        except Garbled as error:
            message = self._note_garbled(sender, error)
        handler = self._hears.get(type(message))
        if handler is not None:
            handler(sender, message)

    def _note_garbled(self, sender: int, error: Garbled) -> Unreadable:
        """Log, now and then, that a node has sent what is nothing that is known here."""
        now = trio.current_time()
        if now - self._warned_at >= WARN_SECONDS:
            self._warned_at = now
            _logger.warning("node %d has sent what cannot be read: %s", sender, error)
        return Unreadable()


async def _answer_unreadable(sender: int, message: BusMessage) -> Unreadable:  # noqa: ARG001
    """Answer what nobody here answers."""
    return Unreadable()


def reader(types: Collection[type[BusMessage]]) -> Callable[[bytes], BusMessage]:
    """Return what reads packed messages of some types.

    It raises WrongProtocol for a message of another version, and Garbled for anything else.
    """
    union: Any = Union[tuple(types)]  # noqa: UP007 - made at run time
    decode = msgspec.msgpack.Decoder(union).decode

    def read(packed: bytes) -> BusMessage:
        if packed and packed[0] != PROTOCOL:
            raise WrongProtocol(f"protocol {packed[0]}, and this node speaks {PROTOCOL}")
        try:
            message: BusMessage = decode(memoryview(packed)[1:])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Garbled(str(error)) from None
        return message

    return read


def pack(message: BusMessage) -> bytes:
    """Return a message as it is sent."""
    return _PREFIX + _encode(message)


_PREFIX: Final = bytes([PROTOCOL])
_encode: Final = msgspec.msgpack.Encoder().encode
