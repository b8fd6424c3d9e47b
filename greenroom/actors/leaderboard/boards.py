"""The indexes of all games: found, bounded, and kept up to date together. Pure.

Overload: `sort_by` is open to every client, so what strangers ask for must not put out what a game
plays with. An index that is asked for again after it was built is steady. A steady one that was
asked for in the last `IN_USE_SECONDS` is in use, and never dropped for another. At most
`STEADY_MAX` of a game's are steady, so newcomers always find a place, at each other's expense. Of
those that a single address asks for, `STEADY_OF_ADDRESS_MAX` are, and each gives its place to one
that several addresses ask for. Those that a game declares are steady from the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Final

from greenroom.actors.leaderboard.index import (
    Fields,
    Index,
    Keys,
    Readers,
    shown_fields,
)
from greenroom.actors.leaderboard.refusals import TooManyBuilds
from greenroom.behaviour.stats import NO_STATS
from greenroom.network.addresses import address_key

INDEXES_PER_GAME_MAX: Final = 8
"""Each makes every change of a document in the game dearer."""
STEADY_MAX: Final = 6
"""Indexes that count as steady, of all; the other places are for newcomers."""
STEADY_OF_ADDRESS_MAX: Final = 3
"""Steady ones that one address alone has asked for."""
IN_USE_SECONDS: Final = 600.0
PLACES_MAX: Final = 20_000_000
"""Players in all indexes together, some 3 GB."""
PLACES_PER_GAME_MAX: Final = 5_000_000
"""In a game's indexes together, but for a single one and for those that it declares."""
FULL_RETRY_SECONDS: Final = 60
"""Something may be out of use by then."""
NO_READERS: Final = Readers(())
"""A game without indexes has these."""


class Boards:
    """The indexes of all games. Filling a new one is the service's concern."""

    __slots__ = (
        "_dropped",
        "_games",
        "_places",
        "_places_max",
        "_places_per_game_max",
        "_readers",
        "_when_dropped",
    )

    def __init__(
        self,
        places_max: int = PLACES_MAX,
        places_per_game_max: int = PLACES_PER_GAME_MAX,
        when_dropped: Callable[[], None] = lambda: None,
    ) -> None:
        """Start without any.

        Args:
            places_max: how many places all indexes may have together.
            places_per_game_max: how many places those of one game may have together.
            when_dropped: called when there is something for `free_dropped`.
        """
        self._games: dict[int, dict[Fields, Index]] = {}
        self._readers: dict[int, Readers] = {}
        """The readers of all fields of a game's indexes, while these stay the same."""
        self._places_max = places_max
        self._places_per_game_max = places_per_game_max
        self._places = 0
        self._dropped = deque[Index]()
        self._when_dropped = when_dropped

    def __len__(self) -> int:
        """Return how many games have indexes."""
        return len(self._games)

    def has_any(self, game_id: int) -> bool:
        """Return whether a game has indexes."""
        return game_id in self._games

    def __iter__(self) -> Iterator[Index]:
        """Iterate over all indexes."""
        return (index for indexes in self._games.values() for index in indexes.values())

    @property
    def places(self) -> int:
        """Return how many places all indexes have together."""
        return self._places

    def find(self, game_id: int, fields: Fields, now: float, address: str = "") -> Index | None:
        """Return a game's index, complete or not, and note that it is asked for.

        Args:
            game_id: whose.
            fields: over what.
            now: monotonic seconds.
            address: where it is asked for; empty if that is not known.
        """
        index = self._games.get(game_id, {}).get(fields)
        if index is not None:
            if address and not index.is_shared:
                _note_address(index, address_key(address))
            if not index.is_steady and index.is_complete:
                index.is_steady = self._may_be_steady(index, now)
            index.asked_at = now
        return index

    def open(
        self,
        game_id: int,
        fields: Fields,
        now: float,
        address: str = "",
        *,
        is_declared: bool = False,
    ) -> Index:
        """Begin an index, which takes changes from now on; the caller fills and completes it.

        Args:
            game_id: whose.
            fields: over what.
            now: monotonic seconds.
            address: as of `find`.
            is_declared: whether the game's settings name it.

        Raises:
            TooManyBuilds: the game's others are all in use, or being filled.
        """
        indexes = self._games.get(game_id, {})
        if len(indexes) >= INDEXES_PER_GAME_MAX:
            self.drop(_least_needed(indexes.values(), now))
        index = Index(game_id, fields)
        index.asked_at = now
        index.is_steady = index.is_shared = is_declared
        if address and not is_declared:
            _note_address(index, address_key(address))
        self._games.setdefault(game_id, {})[fields] = index
        self._readers.pop(game_id, None)
        return index

    def fill(self, index: Index, player_id: int, keys: Keys) -> None:
        """Put a player into one index, as read some time ago; see `Index.fill`."""
        if not index.is_dropped:
            self._places += index.fill(player_id, keys)

    def put(self, game_id: int, player_id: int, document: bytes, stats: bytes = NO_STATS) -> None:
        """Give a player their place in all indexes of their game."""
        self.put_keys(game_id, player_id, self.get_readers(game_id).read(document, stats))

    def put_keys(self, game_id: int, player_id: int, keys: Keys) -> None:
        """Give a player their place in all indexes, by what the game's readers have read."""
        for index in self._games.get(game_id, {}).values():
            self._places += index.put(player_id, keys)

    def get_readers(self, game_id: int) -> Readers:
        """Return what reads all fields that a game's indexes ask for; nothing if it has none.

        It is the same object as long as they ask for the same.
        """
        indexes = self._games.get(game_id)
        if indexes is None:
            return NO_READERS
        readers = self._readers.get(game_id)
        if readers is None:
            readers = self._readers[game_id] = Readers(chain.from_iterable(indexes))
        return readers

    def lacks(self, game_id: int, player_id: int) -> bool:
        """Return whether a complete index of a game has no place for a player."""
        indexes = self._games.get(game_id, {}).values()
        return any(index.is_complete and not index.has(player_id) for index in indexes)

    def remove(self, game_id: int, player_id: int) -> None:
        """Take out a player who has been deleted, or has moved away."""
        for index in self._games.get(game_id, {}).values():
            self._places -= index.remove(player_id)

    def drop(self, index: Index) -> None:
        """Forget an index."""
        if index.is_dropped:
            return
        index.is_dropped = True
        index.is_complete = False
        self._dropped.append(index)
        self._when_dropped()
        self._places -= len(index)
        indexes = self._games[index.game_id]
        del indexes[index.fields]
        self._readers.pop(index.game_id, None)
        if not indexes:
            del self._games[index.game_id]

    def free_dropped(self, count: int) -> bool:
        """Free the memory of some places of dropped indexes; return whether none are left."""
        if self._dropped and self._dropped[0].free(count):
            self._dropped.popleft()
        return not self._dropped

    def keep_only(self, game_id: int, declared: Collection[Fields]) -> None:
        """Forget a game's indexes that it does not declare; the others are steady."""
        for index in list(self._games.get(game_id, {}).values()):
            if shown_fields(index.fields) in declared:
                index.is_steady = index.is_shared = True
            else:
                self.drop(index)

    def forget_game(self, game_id: int) -> None:
        """Forget all indexes of a game."""
        self.keep_only(game_id, ())

    def clear(self) -> None:
        """Forget everything."""
        for index in list(self):
            self.drop(index)
        self._dropped.clear()

    def make_room(self, newcomer: Index, now: float) -> None:
        """Drop indexes that are not in use until the places are within their bounds.

        One that is alone is always within them, however large.

        Args:
            newcomer: the index that is growing; it is not dropped.
            now: monotonic seconds.

        Raises:
            TooManyBuilds: the others are all in use: the newcomer must go.
        """
        own = self._games[newcomer.game_id]
        if not newcomer.is_steady:
            while len(own) > 1 and sum(map(len, own.values())) > self._places_per_game_max:
                self.drop(_least_needed(own.values(), now, newcomer))
        while self._places > max(self._places_max, len(newcomer)):
            self.drop(_least_needed(self, now, newcomer))

    def _may_be_steady(self, index: Index, now: float) -> bool:
        """Return whether one more may be steady, in place of another if need be.

        That is one out of use, or one that a single address asks for, if several ask for this.
        """
        steady = [other for other in self._games[index.game_id].values() if other.is_steady]
        lonely = [other for other in steady if not other.is_shared]
        if index.asked_from and not index.is_shared:
            own = sum(other.asked_from == index.asked_from for other in lonely)
            if own >= STEADY_OF_ADDRESS_MAX:
                return False
        if len(steady) < STEADY_MAX:
            return True
        idle = min(steady, key=_asked_at)
        if _is_in_use(idle, now):
            if not (lonely and index.is_shared):
                return False
            idle = min(lonely, key=_asked_at)
        idle.is_steady = False
        return True


def _note_address(index: Index, key: str) -> None:
    """Note that an index is asked for from an address."""
    index.asked_from = index.asked_from or key
    index.is_shared = index.asked_from != key


def _is_in_use(index: Index, now: float) -> bool:
    return index.is_steady and now - index.asked_at < IN_USE_SECONDS


def _asked_at(index: Index) -> float:
    return index.asked_at


def _least_needed(indexes: Iterable[Index], now: float, newcomer: Index | None = None) -> Index:
    """Return the index to drop: of those not in use the one asked for longest ago.

    Raises:
        TooManyBuilds: there is none.
    """
    spare = (
        index
        for index in indexes
        if index.is_complete and index is not newcomer and not _is_in_use(index, now)
    )
    found = min(spare, key=_asked_at, default=None)
    if found is None:
        raise TooManyBuilds("leaderboards in use", FULL_RETRY_SECONDS)
    return found
