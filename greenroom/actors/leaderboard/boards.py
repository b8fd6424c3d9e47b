"""The indexes of all games: found, bounded, and kept up to date together. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from greenroom.actors.kernel.errors import MailboxFull
from greenroom.actors.leaderboard.index import Fields, Index, read_members

INDEXES_PER_GAME_MAX: Final = 8
"""`sort_by` is open to every client; beyond, the least recently used one is dropped."""
PLACES_MAX: Final = 20_000_000
"""Players in all indexes together, some 3 GB; beyond, the least recently used ones are dropped."""


class Boards:
    """Which games have which indexes. Who fills a new one is the flow's concern."""

    __slots__ = ("_games", "_places_max", "_uses")

    def __init__(self, places_max: int = PLACES_MAX) -> None:
        """Start without any.

        Args:
            places_max: how many places all indexes may have together; the one that is being
                asked for is never dropped, however large.
        """
        self._games: dict[int, dict[Fields, Index]] = {}
        self._places_max = places_max
        self._uses = count(1)

    def __len__(self) -> int:
        """Return how many games have indexes."""
        return len(self._games)

    def __iter__(self) -> Iterator[Index]:
        """Iterate over all indexes."""
        return (index for indexes in self._games.values() for index in indexes.values())

    def find(self, game_id: int, fields: Fields) -> Index | None:
        """Return a game's index, complete or not, and note that it is used."""
        index = self._games.get(game_id, {}).get(fields)
        if index is not None:
            index.used = next(self._uses)
        return index

    def open(self, game_id: int, fields: Fields) -> Index:
        """Begin an index, which takes changes from now on; the caller fills and completes it.

        Raises:
            MailboxFull: as many as a game may have are being filled.
        """
        indexes = self._games.get(game_id, {})
        if len(indexes) >= INDEXES_PER_GAME_MAX:
            complete = [index for index in indexes.values() if index.is_complete]
            if not complete:
                raise MailboxFull(f"{len(indexes)} leaderboards of a game are being built")
            self.drop(min(complete, key=_last_use))
        index = Index(game_id, fields)
        index.used = next(self._uses)
        self._games.setdefault(game_id, {})[fields] = index
        return index

    def put(self, game_id: int, player_id: int, document: bytes) -> None:
        """Give a player his place in all indexes of his game."""
        indexes = self._games.get(game_id)
        if indexes:
            members = read_members(document)
            for index in indexes.values():
                index.put(player_id, members)

    def remove(self, game_id: int, player_id: int) -> None:
        """Take out a player who has been deleted."""
        for index in self._games.get(game_id, {}).values():
            index.remove(player_id)

    def drop(self, index: Index) -> None:
        """Forget an index."""
        index.is_dropped = True
        indexes = self._games.get(index.game_id, {})
        if indexes.get(index.fields) is index:
            del indexes[index.fields]
            if not indexes:
                del self._games[index.game_id]

    def forget_game(self, game_id: int) -> None:
        """Forget all indexes of a game."""
        for index in list(self._games.get(game_id, {}).values()):
            self.drop(index)

    def clear(self) -> None:
        """Forget everything."""
        for index in list(self):
            self.drop(index)

    def shrink(self, keep: Index) -> None:
        """Drop indexes, the least recently used first, until the places are within their bound."""
        places = sum(map(len, self))
        spare = (index for index in self if index.is_complete and index is not keep)
        for index in sorted(spare, key=_last_use):
            if places <= self._places_max:
                return
            places -= len(index)
            self.drop(index)


def _last_use(index: Index) -> int:
    return index.used
