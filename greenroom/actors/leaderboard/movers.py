"""Players who have just moved between nodes: nobody is missing when several indexes are merged.

Nodes answer at different moments. So who has moved away keeps their place here for some seconds,
and both nodes tell of them: the merge (`merging`) counts them once. Pure; the times are the
caller's.

Overload: beyond `MOVERS_MAX` nobody more is noted. A merge may then count one twice, or lack one,
for a moment. Whoever holds this takes what is past even if nobody asks for leaderboards.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Final

ANSWER_SECONDS_MAX: Final = 2.0
"""How far apart the answers of nodes can be that are merged."""
STAY_SECONDS: Final = 2 * ANSWER_SECONDS_MAX
"""How long somebody who has moved keeps their place after the other node has them.

Who came just before an answer there must still be here when this node answers.
"""
SHOWN_SECONDS: Final = STAY_SECONDS + ANSWER_SECONDS_MAX + 1.0
"""How long a node tells that somebody has come: longer than the other node keeps their place."""
MOVERS_MAX: Final = 10_000
"""Players of all games who have left, and likewise who have come; some 2 MB."""
FOR_EVER: Final = float("inf")

_Game = OrderedDict[int, float]
"""A time for each player of a game."""


class Movers:
    """The players who have left this node, or have come to it, within the last seconds."""

    __slots__ = ("_came", "_left")

    def __init__(self) -> None:
        """Begin with nobody."""
        self._left: dict[int, _Game] = {}
        """By game: until when each keeps their place."""
        self._came: dict[int, _Game] = {}
        """By game: when each came, the earliest first."""

    def leave(self, game_id: int, player_id: int) -> bool:
        """Note that somebody lives on another node; they keep their place until `note_received`.

        Returns:
            False if they must lose it at once, for there are too many.
        """
        if _count(self._left) >= MOVERS_MAX:
            return False
        self._left.setdefault(game_id, OrderedDict())[player_id] = FOR_EVER
        return True

    def note_received(self, game_id: int, player_id: int, now: float) -> None:
        """Note that the other node has somebody who left, or that it is waited for no longer."""
        if self.has_left(game_id, player_id):
            self._left[game_id][player_id] = now + STAY_SECONDS

    def come(self, game_id: int, player_id: int, now: float) -> None:
        """Note that somebody has come from another node, or is told of again."""
        self.forget(game_id, player_id)
        if _count(self._came) < MOVERS_MAX:
            self._came.setdefault(game_id, OrderedDict())[player_id] = now

    def list_games(self) -> set[int]:
        """Return the games of which anybody is noted."""
        return {*self._left, *self._came}

    def take_past(self, game_id: int, now: float, limit: int = MOVERS_MAX) -> list[int]:
        """Forget what is past of a game; return who loses their place here, so many at most."""
        for player_id, age in self.list_arrived(game_id, now).items():
            if age > SHOWN_SECONDS:
                _drop(self._came, game_id, player_id)
        left = self._left.get(game_id, OrderedDict[int, float]())
        past = list(islice((i for i, until in left.items() if until <= now), limit))
        for player_id in past:
            self.forget(game_id, player_id)
        return past

    def has_left(self, game_id: int, player_id: int) -> bool:
        """Return whether a player has left, and has their place still."""
        return player_id in self._left.get(game_id, ())

    def list_departed(self, game_id: int) -> Iterable[int]:
        """Return the players of a game who have left, and have their place still."""
        return self._left.get(game_id, ())

    def list_arrived(self, game_id: int, now: float) -> dict[int, float]:
        """Return who has come to a game, and how many seconds ago."""
        return {i: now - at for i, at in self._came.get(game_id, {}).items()}

    def forget(self, game_id: int, player_id: int) -> None:
        """Forget a player, who has been deleted, or lives elsewhere for long enough."""
        _drop(self._left, game_id, player_id)
        _drop(self._came, game_id, player_id)

    def forget_game(self, game_id: int) -> None:
        """Forget all players of a game."""
        self._left.pop(game_id, None)
        self._came.pop(game_id, None)

    def clear(self) -> None:
        """Forget everybody."""
        self._left.clear()
        self._came.clear()


def _count(games: dict[int, _Game]) -> int:
    return sum(map(len, games.values()))


def _drop(games: dict[int, _Game], game_id: int, player_id: int) -> None:
    game = games.get(game_id)
    if game is not None and game.pop(player_id, None) is not None and not game:
        del games[game_id]
