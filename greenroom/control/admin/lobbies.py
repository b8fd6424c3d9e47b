"""Operations on lobbies."""

from __future__ import annotations

from greenroom.control.admin import lobby_messages as messages
from greenroom.control.admin.context import AdminContext
from greenroom.control.admin.listing import Told
from greenroom.control.admin.times import utc_text


async def list_lobbies(context: AdminContext, ask: messages.ListLobbies) -> messages.Lobbies:
    """List lobbies that have not ended, oldest first. Started ones have their rooms."""
    await context.restore_rooms()
    rooms, told = context.world.rooms.index, Told(context.world, ask.shards)
    found = []
    listings = context.world.lobbies.index.get_listings(ask.game_id)
    for game_id, listing in listings:
        if not told.has(game_id, listing.lobby_id):
            continue
        room_id = rooms.find_room_of_lobby(listing.lobby_id)
        room = None if room_id is None else rooms.find_listing(room_id)
        found.append(
            messages.ListedLobby(
                lobby_id=listing.lobby_id,
                game_id=game_id,
                lobby_name=listing.lobby_name,
                current_players=(room or listing).current_players,
                max_players=listing.max_players,
                has_password=listing.has_password,
                join_by_requests=listing.join_by_requests,
                room_id=room_id,
                created_at=utc_text(listing.created_at),
            )
        )
    found.sort(key=order_of_lobby)
    limit = min(max(ask.limit, 1), messages.PAGE_LOBBIES_MAX)
    return messages.Lobbies(lobbies=found[:limit], total=len(found), told=told.shards)


def order_of_lobby(lobby: messages.ListedLobby) -> tuple[str, str]:
    """Return what lobbies are sorted by."""
    return lobby.created_at, lobby.lobby_id
