"""What is known about all rooms together: who sits where, and which are open to join.

Room actors keep it as they start and change. It is derived, never the truth (rosters are); but a
room that crashes leaves its entries until it is back, so that nobody takes a second seat meanwhile.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import msgspec

from greenroom.actors.room import views
from greenroom.actors.room.messages import RoomListing
from greenroom.actors.room.state import Room


class _Known(msgspec.Struct):
    """A room as it was when it last changed."""

    game_id: int
    listing: RoomListing | None
    """None once it has ended."""
    folded_name: str
    player_ids: frozenset[int]


class RoomIndex:
    """All rooms in memory, by id and by game, and the seats in them."""

    __slots__ = ("_by_game", "_changed", "_ended", "_known", "_offline", "_seats")

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[str, _Known] = {}
        self._by_game: dict[int, dict[str, _Known]] = {}
        self._seats: dict[int, str] = {}
        self._offline: set[int] = set()
        self._ended: dict[str, None] = {}
        self._changed: dict[str, None] = {}

    def room_of(self, player_id: int) -> str | None:
        """Return the room that a player has a seat in."""
        return self._seats.get(player_id)

    def is_offline(self, player_id: int) -> bool:
        """Return whether a player has a seat whose room takes him for offline."""
        return player_id in self._offline

    def seated(self) -> Iterable[int]:
        """Return everybody who has a seat, as of now."""
        return list(self._seats)

    def game_of(self, room_id: str) -> int | None:
        """Return the game of a room in memory, active or just ended; None for others."""
        known = self._known.get(room_id)
        return None if known is None else known.game_id

    def ended(self) -> list[str]:
        """Return the rooms that have ended and are still in memory."""
        return list(self._ended)

    def open_rooms(self, game_id: int, search: str, limit: int) -> list[RoomListing]:
        """Return active rooms with a free seat, most players first, then by name.

        Args:
            game_id: whose.
            search: what the name contains, whatever the case; empty for all.
            limit: how many at most.
        """
        wanted = search.casefold()
        found = (
            (-known.listing.current_players, known.listing.room_name, room_id, known.listing)
            for room_id, known in self._by_game.get(game_id, {}).items()
            if known.listing is not None
            and known.listing.current_players < known.listing.max_players
            and wanted in known.folded_name
        )
        return [listing for *_, listing in heapq.nsmallest(limit, found)]

    def note_changed(self, room_ids: Iterable[str]) -> None:
        """Note that rooms are to be written down."""
        self._changed.update(dict.fromkeys(room_ids))

    def take_changed(self) -> list[str]:
        """Return the rooms noted as changed since this was last called."""
        changed, self._changed = self._changed, {}
        return list(changed)

    def show(self, room: Room) -> list[int]:
        """Take note of a room as it is now.

        Returns:
            The members who have a seat in another room already: this one must put them out. It
            comes to that only when a departure was lost that the other room never knew of.
        """
        before = self._known.get(room.room_id)
        now = _Known(
            room.game_id,
            views.listing(room) if room.is_active else None,
            room.room_name.casefold(),
            frozenset(room.members),
        )
        self._known[room.room_id] = now
        for player_id in () if before is None else before.player_ids - now.player_ids:
            self._free(player_id, room.room_id)
        rooms = self._by_game.setdefault(room.game_id, {})
        if room.is_active:
            rooms[room.room_id] = now
        else:
            rooms.pop(room.room_id, None)
            self._ended[room.room_id] = None
        return [m.player_id for m in room.members.values() if not self._seat(m.player_id, room)]

    def forget(self, room_id: str) -> None:
        """Forget a room that left memory, and free its seats."""
        known = self._known.pop(room_id, None)
        self._ended.pop(room_id, None)
        if known is not None:
            for player_id in known.player_ids:
                self._free(player_id, room_id)
            rooms = self._by_game[known.game_id]
            rooms.pop(room_id, None)
            if not rooms:
                del self._by_game[known.game_id]

    def _seat(self, player_id: int, room: Room) -> bool:
        """Note a seat and whether its owner is online; False if he has another."""
        if self._seats.setdefault(player_id, room.room_id) != room.room_id:
            return False
        if room.members[player_id].is_online:
            self._offline.discard(player_id)
        else:
            self._offline.add(player_id)
        return True

    def _free(self, player_id: int, room_id: str) -> None:
        if self._seats.get(player_id) == room_id:
            del self._seats[player_id]
            self._offline.discard(player_id)
