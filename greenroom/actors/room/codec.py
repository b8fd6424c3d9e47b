"""How rooms are written: events for the journal, whole rooms for snapshots, and the way back.

A snapshot holds everything but the kept updates; those are read again from the journal, from the
entry that `Room.journal_kept_from` names. So a snapshot of a busy room stays small. Both carry a
format number; what was written in a later format is refused, never guessed at.
"""

from __future__ import annotations

from typing import Final

import msgspec

from greenroom.actors.kernel.journal import JournalEntry, Recovered, Snapshot
from greenroom.actors.room import rules, updates
from greenroom.actors.room.events import RoomCreated, RoomEvent, UpdatesSent
from greenroom.actors.room.state import Room

KIND: Final = "room"
EVENT_FORMAT: Final = 1
SNAPSHOT_FORMAT: Final = 1

_encoder: Final = msgspec.msgpack.Encoder()
_events: Final[msgspec.msgpack.Decoder[RoomEvent]] = msgspec.msgpack.Decoder(RoomEvent)
_rooms: Final = msgspec.msgpack.Decoder(Room)


class UnreadableRoom(Exception):
    """What was stored of a room is of a later format, or not whole."""


def entry(room_id: str, sequence: int, event: RoomEvent) -> JournalEntry:
    """Return the journal entry of an event, the `sequence`th of its room (from 1)."""
    return JournalEntry(KIND, room_id, sequence, EVENT_FORMAT, _encoder.encode(event), event.at)


def event_of(written: JournalEntry) -> RoomEvent:
    """Return the event that an entry holds.

    Raises:
        UnreadableRoom: it is of a later format, or damaged.
    """
    if written.format != EVENT_FORMAT:
        raise UnreadableRoom(f"{_name(written)} has format {written.format}, not {EVENT_FORMAT}")
    try:
        return _events.decode(written.payload)
    except msgspec.DecodeError as error:
        raise UnreadableRoom(f"{_name(written)} cannot be read: {error}") from error


def snapshot(room: Room) -> Snapshot:
    """Return a room without its kept updates, and which of its entries it needs besides."""
    members = {i: msgspec.structs.replace(m, inbox=[]) for i, m in room.members.items()}
    bare = msgspec.structs.replace(room, members=members, sendings=[], kept_bytes=0)
    return Snapshot(
        kind=KIND,
        key=room.room_id,
        version=room.version,
        kept_from=room.journal_kept_from,
        format=SNAPSHOT_FORMAT,
        payload=_encoder.encode(bare),
    )


def read_snapshot(written: Snapshot) -> Room:
    """Return the room that a snapshot holds, without its kept updates.

    Raises:
        UnreadableRoom: it is of a later format, or damaged.
    """
    name = f"the snapshot of room {written.key}"
    if written.format != SNAPSHOT_FORMAT:
        raise UnreadableRoom(f"{name} has format {written.format}, not {SNAPSHOT_FORMAT}")
    try:
        return _rooms.decode(written.payload)
    except msgspec.DecodeError as error:
        raise UnreadableRoom(f"{name} cannot be read: {error}") from error


def restore(recovered: Recovered) -> Room | None:
    """Return the room that a snapshot and the journal make, None where there is neither.

    Raises:
        UnreadableRoom: one of them cannot be read, or an entry is missing.
    """
    room = None if recovered.snapshot is None else read_snapshot(recovered.snapshot)
    for written in recovered.entries:
        if room is not None and written.sequence <= room.version:
            _keep_again(room, written)
            continue
        version = 0 if room is None else room.version
        if written.sequence != version + 1:
            raise UnreadableRoom(f"{_name(written)} follows on entry {version}")
        event = event_of(written)
        if room is not None:
            rules.apply(room, event)
        elif isinstance(event, RoomCreated):
            room = rules.created(event)
        else:
            raise UnreadableRoom(f"{_name(written)} does not create the room")
    return room


def _keep_again(room: Room, written: JournalEntry) -> None:
    """Take updates back that the snapshot left to the journal."""
    event = event_of(written)
    if isinstance(event, UpdatesSent) and event.deliveries[-1].number >= room.kept_from:
        updates.keep(room, event, written.sequence)


def _name(written: JournalEntry) -> str:
    return f"entry {written.sequence} of room {written.key}"
