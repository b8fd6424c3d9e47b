"""How rooms are written: events for the journal, whole rooms for snapshots, and the way back.

A snapshot holds everything but the kept updates; those are read again from the journal, from the
entry that `Room.journal_kept_from` names. So a snapshot of a busy room stays small.
"""

from __future__ import annotations

from typing import Final

import msgspec

from greenroom.actors.kernel.journal import Recovered, Snapshot
from greenroom.actors.kernel.journal_codec import JournalCodec
from greenroom.actors.room.rules import membership as rules
from greenroom.actors.room.rules import updates
from greenroom.actors.room.rules.events import RoomCreated, RoomEvent, UpdatesSent
from greenroom.actors.room.rules.state import Room

KIND: Final = "room"

CODEC: Final[JournalCodec[RoomEvent, Room]] = JournalCodec(
    KIND, RoomEvent, Room, event_format=1, state_format=1
)
entry = CODEC.make_entry
event_of = CODEC.decode_event
read_snapshot = CODEC.read_snapshot


def snapshot(room: Room, shard: int = 0) -> Snapshot:
    """Return a room without its kept updates, and which of its entries it needs besides."""
    members = {i: msgspec.structs.replace(m, inbox=[]) for i, m in room.members.items()}
    bare = msgspec.structs.replace(
        room, members=members, sendings=[], kept_bytes=0, kept_by_sender={}
    )
    return CODEC.make_snapshot(room.room_id, bare, room.journal_kept_from, shard)


def restore(recovered: Recovered) -> Room | None:
    """Return the room that a snapshot and the journal make, None where there is neither.

    Raises:
        UnreadableJournal: one of them cannot be read, or an entry is missing.
    """
    return CODEC.restore(recovered, _begin, rules.apply, _keep_again)


def _begin(event: RoomEvent) -> Room | None:
    return rules.new_room(event) if isinstance(event, RoomCreated) else None


def _keep_again(room: Room, event: RoomEvent, sequence: int) -> None:
    """Take back the updates that the snapshot left to the journal."""
    if isinstance(event, UpdatesSent) and event.deliveries[-1].number >= room.kept_from:
        updates.store(room, event, sequence)
