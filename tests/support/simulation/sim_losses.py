"""Defects to plant in the database of a simulated cluster: what is lost, or answered too early."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from sim_node import SimNode
from sim_storage import NodeStore

from greenroom.actors.game.messages import GameCreated
from greenroom.actors.kernel.durability import Batch, Writer
from greenroom.actors.kernel.journal import JournalEntry
from greenroom.actors.kernel.message import Event
from greenroom.actors.player.messages import PlayerRegistered
from greenroom.actors.room.rules import codec
from greenroom.actors.services.snapshots import SnapshotService


def no_fence(node: SimNode) -> None:
    """Have the database take what a node writes that has ended."""
    node.line.server.database.has_fence = False


def losing(is_lost: Callable[[Event], bool]) -> Callable[[SimNode], None]:
    """Have the database lose events, and say that they are durable."""

    def plant(node: SimNode) -> None:
        node.line.server.database.is_lost = is_lost

    return plant


def is_room_event(kind: type[Event], event: Event) -> bool:
    """Return whether an event is an entry of a room, and of this kind."""
    if not isinstance(event, JournalEntry) or event.kind != "room":
        return False
    return isinstance(codec.event_of(event), kind)


def early_answers() -> AbstractContextManager[Any]:
    """Answer before the change is durable; but what is new must be read, so it is waited for."""
    submit = NodeStore.submit

    def submit_and_forget(store: NodeStore, writer: Writer, events: Sequence[Event]) -> Batch:
        batch = submit(store, writer, events)
        if not any(isinstance(event, GameCreated | PlayerRegistered) for event in events):
            batch = Batch()
            batch.settle()
        return batch

    return patch.object(NodeStore, "submit", submit_and_forget)


def forget_rooms() -> AbstractContextManager[Any]:
    """Bring no room up."""

    async def restore(*_: object) -> int:
        return 0

    return patch.object(SnapshotService, "restore", restore)
