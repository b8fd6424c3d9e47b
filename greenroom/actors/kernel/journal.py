"""The records that actors are restored from: journal entries and snapshots."""

from __future__ import annotations

from typing import Any

import msgspec

from greenroom.actors.kernel.message import Command, Event


class JournalEntry(Event, frozen=True):
    """One event of an event-sourced actor (a room, a lobby), encoded by its kind's own codec.

    `kind` and `key` name the actor. `sequence` counts its entries from 1 without a gap. `format`
    says how `payload` is encoded. `recorded_at` is in Unix seconds. `shard` is the actor's.
    """

    kind: str
    key: str
    sequence: int
    format: int
    payload: bytes
    recorded_at: int
    shard: int = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """An actor's whole state, encoded.

    `version` is the sequence of the last journal entry in it. `kept_from` is the sequence of the
    oldest entry that the actor still needs from the journal (a room's kept updates), or `version +
    1` if it needs none. `shard` is the actor's.
    """

    kind: str
    key: str
    version: int
    kept_from: int
    format: int
    payload: bytes
    shard: int = 0


class SnapshotTaken(Event, frozen=True):
    """A snapshot that is written in the order of events, because its room is being handed over.

    All others are written beside the events. The fields are those of `Snapshot`.
    """

    kind: str
    key: str
    version: int
    kept_from: int
    format: int
    payload: bytes
    shard: int


class Recovered(msgspec.Struct):
    """The records that one actor is restored from.

    `entries` are in order. They begin with the oldest that the snapshot keeps, or with the first
    entry of all if there is no snapshot. `shard` is where the actor is stored.
    """

    snapshot: Snapshot | None = None
    entries: list[JournalEntry] = []
    shard: int = 0


class StoreSnapshot(Command[Any, None], frozen=True):
    """Write a snapshot in the order of events, if there is more in memory than events tell."""


class TakeSnapshot(Command[Any, Snapshot], frozen=True):
    """Reply with the state, encoded, once it is durable. Every event-sourced actor handles this."""
