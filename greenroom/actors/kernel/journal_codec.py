"""Encodes event-sourced actors and restores them: one codec for each kind.

Entries and snapshots carry a format number. A later format than the code knows is refused. A field
that is added with a default needs no new format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot


class UnreadableJournal(Exception):
    """The stored record of an actor has a later format, or is damaged."""


class Dated(Protocol):
    """Every journalled event, by what they have in common."""

    @property
    def at(self) -> int:
        """Return when it happened, in Unix seconds."""
        ...


class Versioned(Protocol):
    """Every event-sourced state, by what they have in common."""

    @property
    def version(self) -> int:
        """Return the sequence of the last entry that is applied to it."""
        ...


EventT = TypeVar("EventT", bound=Dated)
StateT = TypeVar("StateT", bound=Versioned)

_encoder = msgspec.msgpack.Encoder()


class JournalCodec(Generic[EventT, StateT]):
    """Writes and reads one kind's events and states."""

    def __init__(
        self, kind: str, events: Any, state: type[StateT], *, event_format: int, state_format: int
    ) -> None:
        """Make the codec of a kind.

        Args:
            kind: `room`, `lobby`, ….
            events: the union of its event types.
            state: the struct that snapshots hold.
            event_format: the number that entries carry.
            state_format: the number that snapshots carry.
        """
        self.kind = kind
        self._event_format = event_format
        self._state_format = state_format
        self._events: msgspec.msgpack.Decoder[EventT] = msgspec.msgpack.Decoder(events)
        self._states = msgspec.msgpack.Decoder(state)

    def make_entry(self, key: str, sequence: int, event: EventT, shard: int = 0) -> JournalEntry:
        """Return the journal entry of an event, the `sequence`th of its actor (from 1)."""
        payload = _encoder.encode(event)
        return JournalEntry(self.kind, key, sequence, self._event_format, payload, event.at, shard)

    def decode_event(self, written: JournalEntry) -> EventT:
        """Return the event that an entry holds.

        Raises:
            UnreadableJournal: it is of a later format, or damaged.
        """
        wanted = self._event_format
        if written.format != wanted:
            raise UnreadableJournal(f"{_name(written)} has format {written.format}, not {wanted}")
        try:
            return self._events.decode(written.payload)
        except msgspec.DecodeError as error:
            raise UnreadableJournal(f"{_name(written)} cannot be read: {error}") from error

    def make_snapshot(self, key: str, state: StateT, kept_from: int, shard: int = 0) -> Snapshot:
        """Return a snapshot of a state; `kept_from` is the oldest entry that it needs besides."""
        return Snapshot(
            kind=self.kind,
            key=key,
            version=state.version,
            kept_from=kept_from,
            format=self._state_format,
            payload=_encoder.encode(state),
            shard=shard,
        )

    def read_snapshot(self, written: Snapshot) -> StateT:
        """Return the state that a snapshot holds.

        Raises:
            UnreadableJournal: it is of a later format, or damaged.
        """
        name, wanted = f"the snapshot of {self.kind} {written.key}", self._state_format
        if written.format != wanted:
            raise UnreadableJournal(f"{name} has format {written.format}, not {wanted}")
        try:
            return self._states.decode(written.payload)
        except msgspec.DecodeError as error:
            raise UnreadableJournal(f"{name} cannot be read: {error}") from error

    def restore(
        self,
        recovered: Recovered,
        begin: Callable[[EventT], StateT | None],
        apply: Callable[[StateT, EventT], None],
        keep_again: Callable[[StateT, EventT, int], None] | None = None,
    ) -> StateT | None:
        """Return the state that a snapshot and the journal make, None where there is neither.

        Args:
            recovered: the snapshot and the entries.
            begin: makes the state from its first event; None if another event comes first.
            apply: changes the state by a later event.
            keep_again: puts back an entry that the snapshot leaves to the journal, with its
                sequence.

        Raises:
            UnreadableJournal: a record cannot be read or does not fit, or an entry is missing.
        """
        written = recovered.snapshot
        state = None if written is None else self.read_snapshot(written)
        for entry in recovered.entries:
            if state is not None and entry.sequence <= state.version:
                if keep_again is not None:
                    keep_again(state, self.decode_event(entry), entry.sequence)
                continue
            version = 0 if state is None else state.version
            if entry.sequence != version + 1:
                raise UnreadableJournal(f"{_name(entry)} follows on entry {version}")
            event = self.decode_event(entry)
            if state is not None:
                _apply(apply, state, event, entry)
                continue
            state = begin(event)
            if state is None:
                raise UnreadableJournal(f"{_name(entry)} does not create the {self.kind}")
        return state


def _apply(
    apply: Callable[[StateT, EventT], None], state: StateT, event: EventT, entry: JournalEntry
) -> None:
    """Change a state by an event that may be another than was written: then anything may fail."""
    try:
        apply(state, event)
    except Exception as error:
        raise UnreadableJournal(f"{_name(entry)} does not fit: {error!r}") from error


def _name(written: JournalEntry) -> str:
    return f"entry {written.sequence} of {written.kind} {written.key}"
