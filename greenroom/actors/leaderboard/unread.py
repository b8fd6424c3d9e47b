"""Documents that are durable but not yet read for the indexes of their games. Pure.

A commit may bring more documents than can be read at once without holding others up. The latest of
each player waits here. Games take turns, and within a game the first to come is the first read.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from greenroom.behaviour.stats import NO_STATS


class Change(NamedTuple):
    """A player's document and stats, as they are durable."""

    game_id: int
    player_id: int
    document: bytes
    stats: bytes = NO_STATS


class Unread:
    """The documents that wait, at most one of each player."""

    __slots__ = ("_games", "_newest", "size_bytes")

    def __init__(self) -> None:
        """Start empty."""
        self._games: OrderedDict[int, OrderedDict[int, tuple[int, Change]]] = OrderedDict()
        """Numbers and changes by player, by game. The numbers of a game grow."""
        self._newest = 0
        self.size_bytes = 0
        """Bytes that all documents have together."""

    def put(self, change: Change) -> None:
        """Add a document, or put it in the place of the player's former one."""
        waiting = self._games.setdefault(change.game_id, OrderedDict())
        former = waiting.get(change.player_id)
        if former is None:
            self._newest += 1
            number = self._newest
        else:
            number = former[0]
            self.size_bytes -= len(former[1].document)
        waiting[change.player_id] = number, change
        self.size_bytes += len(change.document)

    def find_first(self) -> Change | None:
        """Return the document whose turn it is, which goes on waiting; None if there is none."""
        for waiting in self._games.values():
            return next(iter(waiting.values()))[1]
        return None

    def has(self, change: Change) -> bool:
        """Return whether this document still waits, and no newer one in its place."""
        waiting = self._games.get(change.game_id)
        found = None if waiting is None else waiting.get(change.player_id)
        return found is not None and found[1] is change

    def forget(self, game_id: int, player_id: int) -> None:
        """Drop a player's document, if there is one: it counts as read."""
        waiting = self._games.get(game_id)
        former = None if waiting is None else waiting.pop(player_id, None)
        if former is not None:
            self.size_bytes -= len(former[1].document)
            if not waiting:
                del self._games[game_id]

    def end_turn(self, game_id: int) -> None:
        """Let all other games have their turns first."""
        if game_id in self._games:
            self._games.move_to_end(game_id)

    def find_newest(self, game_id: int) -> int:
        """Return the number of a game's newest document; 0 if none waits."""
        waiting = self._games.get(game_id)
        return next(reversed(waiting.values()))[0] if waiting else 0

    def is_read_to(self, game_id: int, number: int) -> bool:
        """Return whether none of a game's documents up to this number waits any more."""
        waiting = self._games.get(game_id)
        return not waiting or next(iter(waiting.values()))[0] > number

    def find_fullest(self) -> int:
        """Return the id of the game whose documents are the largest together.

        Raises:
            ValueError: nothing waits.
        """
        return max(self._games, key=self._sum_size_bytes)

    def forget_game(self, game_id: int) -> None:
        """Drop all documents of a game."""
        self.size_bytes -= self._sum_size_bytes(game_id)
        self._games.pop(game_id, None)

    def clear(self) -> None:
        """Drop everything."""
        self._games.clear()
        self.size_bytes = 0

    def _sum_size_bytes(self, game_id: int) -> int:
        waiting = self._games.get(game_id)
        if waiting is None:
            return 0
        return sum(len(change.document) for _, change in waiting.values())
