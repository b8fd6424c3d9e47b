"""The friendships of a world: the actors of pairs, and what keeps a player's list bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from greenroom.actors.friendship.messages import FriendshipRole, Tally
from greenroom.actors.kernel.directory import Directory
from greenroom.actors.world.ports import FriendshipRows

PAIRS_MAX: Final = 100_000
"""In memory, about 1 KiB each, while their friendship is changed and half a minute longer; beyond,
whoever changes another is told to come back (429)."""


class Friendships:
    """The friendships of a world: their actors, and their rows."""

    def __init__(self, rows: FriendshipRows, directory: Directory[FriendshipRole]) -> None:
        """Begin with nothing under way.

        Args:
            rows: what the database has.
            directory: the actors of pairs.
        """
        self.rows = rows
        self.directory = directory
        self._under_way: Counter[int] = Counter()

    def forget(self, player_id: int) -> None:
        """Take all pairs of a deleted player out of memory.

        Their rows are deleted with the player's.
        """
        for pair in list(self.directory.iterate_keys()):
            if player_id in (pair.low_id, pair.high_id):
                self.directory.discard(pair)

    @asynccontextmanager
    async def hold_tallies(
        self, player_id: int, other_id: int
    ) -> AsyncGenerator[tuple[Tally, Tally]]:
        """Count what two players have, while something is about to be added for both.

        Whatever else is being added for one of them is counted as added: twice rather than not at
        all. So nobody ever gets more than the limits say.

        Raises:
            StorageUnavailable: the database does not answer.
        """
        both = (player_id, other_id)
        before = {i: self._under_way[i] for i in both}
        self._under_way.update(both)
        try:
            found = await self.rows.load_tallies(both)
            own, other = (_added(found.get(i, Tally()), before[i]) for i in both)
            yield own, other
        finally:
            self._under_way.subtract(both)
            for i in both:
                if not self._under_way[i]:
                    del self._under_way[i]


def _added(tally: Tally, count: int) -> Tally:
    return Tally(tally.friends + count, tally.incoming + count, tally.outgoing + count)
