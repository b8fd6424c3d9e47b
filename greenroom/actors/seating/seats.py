"""Seats, and places that are open to join: what the indexes of rooms and lobbies share.

Room and lobby actors keep it up to date as they start and change. It is derived, never the truth
(rosters are). A seat is taken at once, and freed when it is durable that the player has left. Until
then a crash, or a database that refuses the change, would bring the player back. An actor that
crashes leaves its entries until it is back, so that nobody takes a second seat meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec
from sortedcontainers import SortedList

from greenroom.actors.plans.holdings import Holdings
from greenroom.actors.seating.invite_index import InviteIndex

SeatKind = Literal["room", "lobby"]
Listing = TypeVar("Listing")


class SeatTable:
    """The one seat of each player: the room or the lobby whose roster they are in."""

    __slots__ = ("_seats",)

    def __init__(self) -> None:
        """Start with everybody standing."""
        self._seats: dict[int, tuple[SeatKind, str]] = {}

    def find(self, player_id: int) -> tuple[SeatKind, str] | None:
        """Return the kind and key of a player's seat, None if there is none."""
        return self._seats.get(player_id)

    def take(self, player_id: int, seat: tuple[SeatKind, str]) -> bool:
        """Enter a seat; return False if the player has another, which stays."""
        return self._seats.setdefault(player_id, seat) == seat

    def free(self, player_id: int, seat: tuple[SeatKind, str]) -> None:
        """Forget a seat, if it is still the player's."""
        if self._seats.get(player_id) == seat:
            del self._seats[player_id]


class Place(NamedTuple):
    """The place of a room or lobby in the list of its game."""

    rank: Any
    """The first criterion of the order; of one type in each index."""
    name: str
    key: str
    folded_name: str
    """The name, case folded, to be searched."""


class SeatChanges(NamedTuple):
    """The seats that are not as the roster of a room or lobby is now."""

    elsewhere: list[int]
    """Members who have a seat elsewhere already: they must be put out of this one. It comes to that
    only when a departure was lost that the other never knew of."""
    left: frozenset[int]
    """Players who have left. They keep their seats until `SeatIndex.free`."""


class _Known(msgspec.Struct, Generic[Listing], frozen=True):
    """A room or lobby as it was when it last changed."""

    game_id: int
    player_ids: frozenset[int]
    listing: Listing | None
    """None once it has ended."""
    place: Place | None
    """None while nobody can join."""


class SeatIndex(Generic[Listing]):
    """All rooms, or all lobbies, in memory: their seats, and by game those with a free one."""

    kind: SeatKind

    def __init__(self, seats: SeatTable, holdings: Holdings | None = None) -> None:
        """Start empty.

        Args:
            seats: shared by rooms and lobbies.
            holdings: what these hold in memory, likewise; without limits if not given.
        """
        self._table: Final = seats
        self.holdings: Final = holdings or Holdings()
        self.invites: Final = InviteIndex()
        self._known: dict[str, _Known[Listing]] = {}
        self._leavers: dict[str, frozenset[int]] = {}
        """Players who have left, and whose seats are not free yet."""
        self._open: dict[int, SortedList] = {}
        self._ended: dict[str, int] = {}
        self._changed: dict[str, None] = {}

    def find_seat(self, player_id: int) -> str | None:
        """Return the one that a player has a seat in."""
        seat = self._table.find(player_id)
        return seat[1] if seat is not None and seat[0] == self.kind else None

    def list_keys(self) -> list[str]:
        """Return all of them, active or just ended."""
        return list(self._known)

    def find_game(self, key: str) -> int | None:
        """Return the game of one in memory, active or just ended; None for others."""
        known = self._known.get(key)
        return None if known is None else known.game_id

    def is_active(self, key: str) -> bool:
        """Return whether this one is in memory and has not ended."""
        return key in self._known and key not in self._ended

    def list_ended_before(self, before: int) -> list[str]:
        """Return those in memory that ended before this (Unix seconds)."""
        return [key for key, ended_at in self._ended.items() if ended_at < before]

    def has_changed(self, key: str) -> bool:
        """Return whether a place is not the same as in its last snapshot."""
        return key in self._changed

    def note_changed(self, keys: Iterable[str]) -> None:
        """Note that some are to be written down."""
        self._changed.update(dict.fromkeys(keys))

    def list_changed(self, keys: Iterable[str] | None = None) -> list[str]:
        """Return those that have changed since they were taken, of these keys or of all."""
        return [*self._changed] if keys is None else [k for k in keys if k in self._changed]

    def take_changed(self, keys: Iterable[str]) -> list[str]:
        """Return those of these keys that have changed; they count as unchanged from now on."""
        return [key for key in keys if self._changed.pop(key, key) is None]

    def list_keys_of(self, game_ids: Collection[int]) -> list[str]:
        """Return those of these games, active or just ended."""
        return [key for key, known in self._known.items() if known.game_id in game_ids]

    def get_members(self, key: str) -> frozenset[int]:
        """Return who has a seat in one; nobody if it is not in memory."""
        known = self._known.get(key)
        return frozenset() if known is None else known.player_ids

    def iterate_open_places(self, game_id: int, after: Place | None = None) -> Iterator[Place]:
        """Iterate over those of a game with a free seat, in order.

        Let nothing else run in between, but begin again after the last place that was given.
        """
        places = self._open.get(game_id)
        return iter(()) if places is None else places.irange(after, inclusive=(False, True))

    def find_listing(self, key: str) -> Listing | None:
        """Return what anybody may see of one in memory; None once it has ended."""
        known = self._known.get(key)
        return None if known is None else known.listing

    def get_listings(self, game_id: int | None = None) -> list[tuple[int, Listing]]:
        """Return all that have not ended, of one game or of all, each with its game."""
        return [
            (known.game_id, known.listing)
            for known in self._known.values()
            if known.listing is not None and game_id in {None, known.game_id}
        ]

    def note(
        self,
        key: str,
        game_id: int,
        player_ids: Iterable[int],
        *,
        listing: Listing,
        place: Place | None,
        ended_at: int | None,
    ) -> SeatChanges:
        """Take note of one as it is now.

        Args:
            key: which.
            game_id: whose.
            player_ids: who has a seat in it.
            listing: what anybody may see of it.
            place: where it is listed; None while nobody can join.
            ended_at: when it ended (Unix seconds); None while it has not.
        """
        before = self._known.get(key)
        shown = listing if ended_at is None else None
        now = _Known(game_id, frozenset(player_ids), shown, place)
        self._known[key] = now
        self._list(before, now)
        left = frozenset[int]() if before is None else before.player_ids - now.player_ids
        if left or key in self._leavers:
            self._set_leavers(key, left.union(self._leavers.get(key, ())) - now.player_ids)
        if ended_at is not None:
            self._ended[key] = ended_at
        else:  # it may seem to have ended, and be back: the database refused its end
            self._ended.pop(key, None)
        seat = (self.kind, key)
        return SeatChanges([i for i in now.player_ids if not self._table.take(i, seat)], left)

    def free(self, key: str, player_ids: Iterable[int]) -> None:
        """Free the seats of players who have left one, now that this is durable."""
        leavers = self._leavers.get(key, frozenset())
        gone = leavers.intersection(player_ids)
        self._set_leavers(key, leavers - gone)
        self._leave(key, gone)

    def forget(self, key: str) -> None:
        """Forget one that left memory, and free its seats, those of its leavers too."""
        self.holdings.forget(key)
        self.invites.show(key, {})
        known = self._known.pop(key, None)
        self._ended.pop(key, None)
        self._changed.pop(key, None)
        if known is not None:
            self._list(known, None)
            self._leave(key, known.player_ids.union(self._leavers.pop(key, ())))

    def note_left_seat(self, player_id: int) -> None:
        """Called when a member has left the seat; subclasses forget more about the member here."""

    def _leave(self, key: str, player_ids: Iterable[int]) -> None:
        for player_id in player_ids:
            self._table.free(player_id, (self.kind, key))
            self.note_left_seat(player_id)

    def _set_leavers(self, key: str, player_ids: frozenset[int]) -> None:
        if player_ids:
            self._leavers[key] = player_ids
        else:
            self._leavers.pop(key, None)

    def _list(self, before: _Known[Listing] | None, now: _Known[Listing] | None) -> None:
        """Move one to where it stands among the open ones of its game, if it does."""
        old = None if before is None else before.place
        new = None if now is None else now.place
        if old == new:
            return
        if now is not None and new is not None:
            self._open.setdefault(now.game_id, SortedList()).add(new)
        if before is not None and old is not None:
            places = self._open[before.game_id]
            places.remove(old)
            if not places:
                del self._open[before.game_id]
