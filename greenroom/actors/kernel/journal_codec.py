"""How event-sourced actors are written and come back: one codec for each kind of them.

Entries and snapshots carry a format number; what was written in a later format is refused, never
guessed at. A field that is added with a default needs no new format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot


class UnreadableJournal(Exception):
    """What was stored of an actor is of a later format, or not whole."""


class Dated(Protocol):
    """What every journalled event has."""

    @property
    def at(self) -> int:
        """Return when it happened (Unix seconds)."""
        ...


class Versioned(Protocol):
    """What every event-sourced state has."""

    @property
    def version(self) -> int:
        """Return the sequence of the last entry in it."""
        ...


EventT = TypeVar("EventT", bound=Dated)
StateT = TypeVar("StateT", bound=Versioned)

_encoder = msgspec.msgpack.Encoder()


class JournalCodec(Generic[EventT, StateT]):
    """Writes and reads one kind's events and states."""

    def __init__(
        self, kind: str, events: Any, state: type[StateT], *, event_format: int, state_format: int
    ) -> None:
        """Plan a kind.

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

    def entry(self, key: str, sequence: int, event: EventT) -> JournalEntry:
        """Return the journal entry of an event, the `sequence`th of its actor (from 1)."""
        payload = _encoder.encode(event)
        return JournalEntry(self.kind, key, sequence, self._event_format, payload, event.at)

    def event_of(self, written: JournalEntry) -> EventT:
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

    def snapshot(self, key: str, state: StateT, kept_from: int) -> Snapshot:
        """Return a state written down; `kept_from` is the oldest entry that it needs besides."""
        return Snapshot(
            kind=self.kind,
            key=key,
            version=state.version,
            kept_from=kept_from,
            format=self._state_format,
            payload=_encoder.encode(state),
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
            recovered: both of them.
            begin: makes the state of its first event; None if that is another's.
            apply: changes the state by a later one.
            keep_again: takes what the snapshot left to the journal, with its sequence.

        Raises:
            UnreadableJournal: one of them cannot be read, or an entry is missing.
        """
        written = recovered.snapshot
        state = None if written is None else self.read_snapshot(written)
        for entry in recovered.entries:
            if state is not None and entry.sequence <= state.version:
                if keep_again is not None:
                    keep_again(state, self.event_of(entry), entry.sequence)
                continue
            version = 0 if state is None else state.version
            if entry.sequence != version + 1:
                raise UnreadableJournal(f"{_name(entry)} follows on entry {version}")
            event = self.event_of(entry)
            if state is not None:
                apply(state, event)
                continue
            state = begin(event)
            if state is None:
                raise UnreadableJournal(f"{_name(entry)} does not create the {self.kind}")
        return state


def _name(written: JournalEntry) -> str:
    return f"entry {written.sequence} of {written.kind} {written.key}"
