"""Takes offline players out of memory early, when there is no space for others.

Nothing is lost: nothing of theirs waits or is not durable yet, and they are read again when they
come back. Players with large documents go first, and of these those who have been offline longest.

Overload: a call looks at `LOOKED_AT_MAX` players, those longest offline. If that was not enough,
nobody looks again for `PAUSE_SECONDS` on behalf of the same limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import trio

from greenroom.actors.plans.memory import Objection, Piece
from greenroom.actors.player.memory import PLAYER_HELD_BYTES, SMALL_BYTES

LOOKED_AT_MAX: Final = 1_000
"""Players that a call looks at: about a millisecond's worth."""
PAUSE_SECONDS: Final = 1.0

Passivate = Callable[[int], bool]
"""Takes a player who is idle out of memory; returns whether they have left it."""


class EarlyPassivation:
    """Makes space in the memory of players; one per world."""

    def __init__(
        self, passivate: Passivate, offline_pieces: Callable[[], Iterator[tuple[int, Piece]]]
    ) -> None:
        """Prepare.

        Args:
            passivate: takes a player out of memory.
            offline_pieces: iterates over offline players and what they hold, longest offline first.
        """
        self._passivate = passivate
        self._offline_pieces = offline_pieces
        self._again_at: dict[tuple[str, int, str], float] = {}

    def make_space(self, objection: Objection) -> bool:
        """Let go of players until an objection is met; return whether it is."""
        now, whose = trio.current_time(), _whose(objection)
        if now < self._again_at.get(whose, now):
            return False
        missing = objection.missing_bytes
        for player_id, piece in self._find_helpful(objection):
            size = piece.size
            if self._passivate(player_id):
                missing -= size
                if missing <= 0:
                    return True
        self._again_at = {who: at for who, at in self._again_at.items() if at > now}
        self._again_at[whose] = now + PAUSE_SECONDS
        return False

    def _find_helpful(self, objection: Objection) -> list[tuple[int, Piece]]:
        """Return whose leaving would help, those with large documents first."""
        oldest = islice(self._offline_pieces(), LOOKED_AT_MAX)
        found = [(player_id, piece) for player_id, piece in oldest if objection.is_met_by(piece)]
        return sorted(found, key=lambda one: one[1].size <= PLAYER_HELD_BYTES + SMALL_BYTES)


def _whose(objection: Objection) -> tuple[str, int, str]:
    """Return whose limit it is: the server's, an owner's, or an address's with an owner."""
    limit, owner_id = objection.limit, objection.owner.owner_id
    if limit == "server":
        return limit, 0, ""
    return limit, owner_id, objection.share if limit == "address" else ""
