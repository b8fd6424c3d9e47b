"""Listeners to the durable changes of a node: leaderboards, and what tells other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from greenroom.actors.kernel.message import Event
from greenroom.actors.kernel.shard_ownership import Ownership
from greenroom.actors.plans.ledger import Ledger
from greenroom.actors.world.departures import Departures
from greenroom.actors.world.leaderboards import Leaderboards, own_partitions

if TYPE_CHECKING:
    from world_kit import Memory


def listeners(
    memory: Memory, ledger: Ledger, ownership: Ownership | None
) -> tuple[Leaderboards, Departures | None]:
    """Return the leaderboards of a node; and its departures, if there are other nodes."""
    ranked = own_partitions(ledger, ownership)
    leaderboards = Leaderboards(memory, None, ranked)
    departures = None if ownership is None else Departures(leaderboards, ranked)
    for listener in (leaderboards, departures):
        if listener is not None:
            _listen(memory, ownership, listener.note_durable)
    return leaderboards, departures


def _listen(
    memory: Memory, ownership: Ownership | None, note: Callable[[Iterable[Event]], None]
) -> None:
    memory.observers.append(lambda events: note(memory.committed_by(ownership, events)))
