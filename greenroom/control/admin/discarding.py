"""Operations that put the rows of a room or lobby aside, because it cannot be restored."""

from __future__ import annotations

from typing import Any

from greenroom.actors.kernel.journal_codec import UnreadableJournal
from greenroom.actors.world.rooms_and_lobbies import Journalled
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.lobby_messages import DiscardLobby
from greenroom.control.admin.room_messages import Discarded, DiscardRoom
from greenroom.control.errors import OperationRefused


async def discard_room(context: AdminContext, ask: DiscardRoom) -> Discarded:
    """Put the rows of a room aside. Its members are free."""
    return await _discard(context, context.world.rooms, ask.room_id)


async def discard_lobby(context: AdminContext, ask: DiscardLobby) -> Discarded:
    """Put the rows of a lobby aside. Its members are free."""
    return await _discard(context, context.world.lobbies, ask.lobby_id)


async def _discard(context: AdminContext, place: Journalled[Any, Any], key: str) -> Discarded:
    """Move all rows of one to the table `quarantine`, if none can be made of them.

    Raises:
        OperationRefused: it can be restored, or nothing is stored of it.
        StorageUnavailable: the database is away; all rows have been moved, or none.
    """
    reason = await _reason(place, key)
    rows = await context.quarantine.set_aside(place.loader.kind, key, context.world.clock.now())
    place.directory.discard(key)  # one that crashed may be on its way back, in vain
    place.loader.seats.forget(key)
    return Discarded(place.loader.kind, key, rows, reason)


async def _reason(place: Journalled[Any, Any], key: str) -> str:
    """Return what cannot be read of one."""
    recovered = await place.loader.journals.recover(place.loader.kind, key)
    if recovered is None:
        raise OperationRefused(
            f"Nothing is kept of a {place.loader.kind} {key}: there is nothing to do."
        )
    try:
        place.loader.restore(recovered)
    except UnreadableJournal as error:
        return str(error)
    raise OperationRefused(
        f"The {place.loader.kind} {key} can be restored, so it is not discarded. End a room with "
        "greenroom room stop."
    )
