"""The event that actors restored from a journal leave: one encoded outcome, in order."""

from __future__ import annotations

from greenroom.actors.kernel.message import Event


class JournalEntry(Event, frozen=True):
    """One outcome of an event-sourced actor (a room, a lobby), encoded by its kind's own codec.

    `kind` and `key` name the actor, `sequence` counts his entries from 1 without a gap, `format`
    says how `payload` is encoded, `recorded_at` is in Unix seconds.
    """

    kind: str
    key: str
    sequence: int
    format: int
    payload: bytes
    recorded_at: int
