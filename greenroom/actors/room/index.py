"""An index of all rooms: who sits where, which are open, which were lobbies."""

from __future__ import annotations

from greenroom.actors.plans.holdings import Holdings
from greenroom.actors.room.messages import RoomListing
from greenroom.actors.room.rules import views
from greenroom.actors.room.rules.state import Room
from greenroom.actors.seating import invites
from greenroom.actors.seating.seats import Place, SeatChanges, SeatIndex, SeatTable


class RoomIndex(SeatIndex[RoomListing]):
    """All rooms in memory, and those that are on their way there."""

    kind = "room"

    def __init__(self, seats: SeatTable | None = None, holdings: Holdings | None = None) -> None:
        """Start empty, with a table of seats of its own unless one is given; see `SeatIndex`."""
        super().__init__(SeatTable() if seats is None else seats, holdings)
        self._offline: set[int] = set()
        self._lobbies: dict[str, str] = {}
        self._rooms: dict[str, str] = {}
        self._expected: dict[str, None] = {}

    def is_offline(self, player_id: int) -> bool:
        """Return whether a player has a seat in a room that takes them for offline."""
        return player_id in self._offline

    def find_lobby_of_room(self, room_id: str) -> str | None:
        """Return the lobby that a room was started from."""
        return self._lobbies.get(room_id)

    def find_room_of_lobby(self, lobby_id: str) -> str | None:
        """Return the room that a lobby has become, while it is in memory."""
        return self._rooms.get(lobby_id)

    def expect(self, room: Room) -> None:
        """Enter a room that a lobby has become, before its actor is there.

        Its entry is on its way to the journal, from which the actor will be loaded. Its members sit
        in it from now on, no longer in the lobby.
        """
        self._expected[room.room_id] = None
        for player_id in room.members:
            self._table.free(player_id, ("lobby", room.lobby_id or ""))
        self._note(room)

    def is_expected(self, room_id: str) -> bool:
        """Return whether a room's first actor has not come up yet."""
        return room_id in self._expected

    def list_expected(self) -> list[str]:
        """Return the rooms whose first actor has not come up yet."""
        return list(self._expected)

    def show(self, room: Room) -> SeatChanges:
        """Enter a room as it is now; called by its actor."""
        self._expected.pop(room.room_id, None)
        return self._note(room)

    def forget(self, key: str) -> None:
        """Forget a room that left memory, and free its seats."""
        super().forget(key)
        self._expected.pop(key, None)
        lobby_id = self._lobbies.pop(key, None)
        if lobby_id is not None:
            del self._rooms[lobby_id]

    def note_left_seat(self, player_id: int) -> None:
        """Forget whether the room takes the player for offline."""
        self._offline.discard(player_id)

    def _note(self, room: Room) -> SeatChanges:
        if room.lobby_id is not None:
            self._lobbies[room.room_id] = room.lobby_id
            self._rooms[room.lobby_id] = room.room_id
        shown = invites.view_invites(room.invites, self.kind, room.room_id, room.room_name)
        self.invites.show(room.room_id, shown)
        listing = views.view_listing(room)
        noted = self.note(
            room.room_id,
            room.game_id,
            room.members,
            listing=listing,
            place=_place(listing) if room.is_active else None,
            ended_at=room.ended_at,
        )
        for member in room.members.values():
            if member.is_online or member.player_id in noted.elsewhere:
                self._offline.discard(member.player_id)
            else:
                self._offline.add(member.player_id)
        return noted


def _place(listing: RoomListing) -> Place | None:
    """Return the room's place in the list: most players first, then by name."""
    if listing.current_players >= listing.max_players:
        return None
    name = listing.room_name
    return Place(-listing.current_players, name, listing.room_id, name.casefold())
