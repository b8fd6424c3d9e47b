"""A room's history: its journal, as far as it is kept, and its state after any entry of it."""

from __future__ import annotations

from typing import Final

import trio

from greenroom.actors.kernel.journal_codec import UnreadableJournal
from greenroom.actors.room.rules import codec
from greenroom.actors.room.rules import membership as rules
from greenroom.actors.room.rules.events import RoomCreated, RoomEvent
from greenroom.actors.room.rules.state import Room
from greenroom.actors.world.world import World

PAGE: Final = 500
"""Entries read, and replayed before other tasks get their turn."""


async def room_now(world: World, room_id: str) -> Room | None:
    """Return a room as it is in the database, active or ended; None if nothing is kept of it.

    Raises:
        StorageUnavailable: the database does not answer.
        UnreadableJournal: what is stored cannot be read.
    """
    recovered = await world.rooms.loader.journals.recover(codec.KIND, room_id)
    return None if recovered is None else codec.restore(recovered)


async def room_events(
    world: World, room_id: str, after: int, limit: int
) -> tuple[list[tuple[int, RoomEvent]], str | None]:
    """Return a room's events with their sequences, from the first after `after` that is kept.

    They end before the first that cannot be read, or that is missing. Then a sentence says which.

    Raises:
        StorageUnavailable: the database does not answer.
    """
    entries = await world.rooms.loader.journals.load_history(codec.KIND, room_id, after, limit)
    found: list[tuple[int, RoomEvent]] = []
    for entry in entries:
        if found and entry.sequence != found[-1][0] + 1:
            return found, f"entry {found[-1][0] + 1} of room {room_id} is missing"
        try:
            found.append((entry.sequence, codec.event_of(entry)))
        except UnreadableJournal as error:
            return found, str(error)
    return found, None


async def room_at(world: World, room_id: str, sequence: int) -> Room | None:
    """Return a room as it was after an entry; its kept updates may be lacking.

    None where the journal does not reach back so far, has not come so far, or cannot be read so
    far.

    Raises:
        StorageUnavailable: the database does not answer.
        UnreadableJournal: the state that it is replayed from cannot be read.
    """
    base = await world.rooms.loader.journals.load_base(codec.KIND, room_id, sequence)
    room = None if base is None else codec.read_snapshot(base)
    while room is None or room.version < sequence:
        version = 0 if room is None else room.version
        page, _ = await room_events(world, room_id, version, min(PAGE, sequence - version))
        for number, event in page:
            if number != version + 1:
                return None
            version = number
            if room is not None:
                rules.apply(room, event)
            elif isinstance(event, RoomCreated):
                room = rules.new_room(event)
        if not page:
            return None
        await trio.lowlevel.checkpoint()
    return room
