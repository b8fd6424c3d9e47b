"""The news that nodes tell each other about themselves and about shards.

Any of it may be lost: each node looks at the database, too. News only makes it quicker.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from greenroom.actors.kernel.shards import SHARDS
from greenroom.cluster.messenger import BusMessage

AUDIENCES_BYTES_MAX: Final = 1 << 20
"""Bytes of the audiences in one message; there may be many messages."""

Owners = Annotated[tuple[tuple[int, int], ...], msgspec.Meta(max_length=SHARDS)]
"""Shards, each with the epoch of its last change of owner."""

Rooms = Annotated[tuple[tuple[int, int], ...], msgspec.Meta(max_length=SHARDS)]
"""Shards, each with how many rooms and lobbies it has."""


class MapChanged(BusMessage, frozen=True):
    """The sender says who owns shards now: itself, or whom it has handed them over to."""

    node_id: int
    owners: Owners


class NodeGone(BusMessage, frozen=True):
    """A node has ended: it stopped in order, its parent reaped it, or it was taken over."""

    node_id: int


class NodeAlive(BusMessage, frozen=True):
    """Twice a second: the sender is there."""

    database_answers: bool
    """True if Postgres has answered it lately."""
    rooms: Rooms | None = None
    """Its shards with rooms or lobbies, if any of its games lives in several shards; None from an
    older node."""


class Draining(BusMessage, frozen=True):
    """The sender hands its shards over, and does not take any more."""

    stays: bool = False
    """True if it does take some while no other node can; False if it is about to stop."""


class ReadAhead(BusMessage, frozen=True):
    """The sender is about to hand over shards. Their next owner reads them meanwhile."""

    shards: Annotated[tuple[int, ...], msgspec.Meta(max_length=SHARDS)]


class HaveReadAhead(BusMessage, frozen=True):
    """The answer, once that is done, or has failed: it is only done to save time."""


class TakeShards(BusMessage, frozen=True):
    """The sender has handed over shards, durably. Their new owner brings them up."""

    owners: Owners
    audiences: Annotated[bytes, msgspec.Meta(max_length=AUDIENCES_BYTES_MAX)] = b""
    """Members who were connected to their rooms, and what they have missed."""
    has_more: bool = False
    """True if further audiences follow; the shards are opened once all have come."""


class TakeAudiences(BusMessage, frozen=True):
    """Further audiences of shards that have just been handed over."""

    shards: tuple[int, ...]
    audiences: Annotated[bytes, msgspec.Meta(max_length=AUDIENCES_BYTES_MAX)]
    has_more: bool


class Taken(BusMessage, frozen=True):
    """The answer to both."""
