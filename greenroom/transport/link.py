"""A member's connection, as the hub and the fan-out of a room see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from greenroom.contract.allowed_values import RequestId
from greenroom.transport.messages import ClientKind

if TYPE_CHECKING:
    from greenroom.transport.fanout import Fanout


class FastLane(Protocol):
    """A member's UDP session, as the hub sees it. Nothing here blocks or raises."""

    def put(self, frame: bytes) -> bool:
        """Send a frame soon, or lose it; return whether messages can go this way now."""
        ...


class Link(Protocol):
    """A connection, as the hub sees it; open while it is attached. Nothing here blocks or raises.

    Attributes:
        told: how many messages `tell` was given.
        fanout: what is settled before anything else than `tell` is sent.
    """

    kind: ClientKind
    connection_id: str
    told: int
    fanout: Fanout | None

    @property
    def lane(self) -> FastLane | None:
        """Return the member's fast lane, if they have opened one."""
        ...

    def tell(self, frames: bytes, count: int) -> None:
        """Send frames behind all earlier ones; `count` of them count for a replay."""
        ...

    def tell_now(self, frames: bytes, count: int) -> None:
        """Like `tell`, but at once if nothing waits before them."""
        ...

    def put(self, frame: bytes) -> None:
        """Send a frame behind all earlier ones."""
        ...

    def offer(self, frame: bytes) -> None:
        """Send a frame behind all earlier ones, or drop it if much waits already."""
        ...

    def may_store(self, size: int, request_id: RequestId | None = None) -> bool:
        """Charge a message of `size` bytes that is to be stored.

        If it is refused, its sender is told; `request_id` is their own id for it.
        """
        ...

    def hear(self) -> None:
        """Take in what the client has sent by now: soon the connection will have no member."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Close the connection politely, behind what was put."""
        ...

    def part(self, last: bytes, code: int, reason: str) -> None:
        """Send a last frame and close politely; what the client sends until it closes is taken in.

        The connection is not attached any more. It tells the hub when it is over (`detach`).
        """
        ...
