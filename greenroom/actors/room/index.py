"""What is known about all rooms together: who sits where, and which are open to join.

Room actors keep it as they start and change. It is derived, never the truth (rosters are); but a
room that crashes leaves its entries until it is back, so that nobody takes a second seat meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from sortedcontainers import SortedList

from greenroom.actors.room import views
from greenroom.actors.room.messages import RoomListing
from greenroom.actors.room.state import Room


class Place(NamedTuple):
    """Where a room that can be joined stands in the list of its game's."""

    minus_players: int
    room_name: str
    room_id: str
    folded_name: str
    """The name, case folded, to be searched."""


class _Known(msgspec.Struct):
    """A room as it was when it last changed."""

    game_id: int
    listing: RoomListing | None
    """None once it has ended."""
    place: Place | None
    """None while nobody can join."""
    player_ids: frozenset[int]


class RoomIndex:
    """All rooms in memory by id, the open ones of each game in order, and the seats in them."""

    __slots__ = ("_changed", "_ended", "_known", "_offline", "_open", "_seats")

    def __init__(self) -> None:
        """Start empty."""
        self._known: dict[str, _Known] = {}
        self._open: dict[int, SortedList] = {}
        self._seats: dict[int, str] = {}
        self._offline: set[int] = set()
        self._ended: dict[str, int] = {}
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

    def ended(self, before: int) -> list[str]:
        """Return the rooms in memory that ended before this (Unix seconds)."""
        return [room_id for room_id, ended_at in self._ended.items() if ended_at < before]

    def open_rooms(self, game_id: int, after: Place | None = None) -> Iterator[Place]:
        """Iterate over active rooms with a free seat, most players first, then by name.

        Let nothing else run in between, but begin again after the last place that was given.
        """
        rooms = self._open.get(game_id)
        return iter(()) if rooms is None else rooms.irange(after, inclusive=(False, True))

    def listing_of(self, room_id: str) -> RoomListing | None:
        """Return what anybody may see of a room in memory; None once it has ended."""
        known = self._known.get(room_id)
        return None if known is None else known.listing

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
        listing = views.listing(room) if room.is_active else None
        now = _Known(room.game_id, listing, _place(listing), frozenset(room.members))
        self._known[room.room_id] = now
        self._list(before, now)
        for player_id in () if before is None else before.player_ids - now.player_ids:
            self._free(player_id, room.room_id)
        if room.ended_at is not None:
            self._ended[room.room_id] = room.ended_at
        return [m.player_id for m in room.members.values() if not self._seat(m.player_id, room)]

    def forget(self, room_id: str) -> None:
        """Forget a room that left memory, and free its seats."""
        known = self._known.pop(room_id, None)
        self._ended.pop(room_id, None)
        if known is not None:
            for player_id in known.player_ids:
                self._free(player_id, room_id)
            self._list(known, None)

    def _list(self, before: _Known | None, now: _Known | None) -> None:
        """Move a room to where it stands among the open ones of its game, if it does."""
        old = None if before is None else before.place
        new = None if now is None else now.place
        if old == new:
            return
        if now is not None and new is not None:
            self._open.setdefault(now.game_id, SortedList()).add(new)
        if before is not None and old is not None:
            rooms = self._open[before.game_id]
            rooms.remove(old)
            if not rooms:
                del self._open[before.game_id]

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


def _place(listing: RoomListing | None) -> Place | None:
    """Return where a room is listed; None where nobody can join."""
    if listing is None or listing.current_players >= listing.max_players:
        return None
    name = listing.room_name
    return Place(-listing.current_players, name, listing.room_id, name.casefold())
