"""How plans refuse. The texts are matched whole by clients."""

from __future__ import annotations

from greenroom.actors.kernel.errors import Refused


class StorageLimitReached(Refused):
    """It would store more than the plan allows."""

    text = "Storage limit reached. Delete data or upgrade the plan."


class TooManyPlayersOnline(Refused):
    """It would bring one player more online than the plan allows (429)."""

    text = "Too many concurrent players for this plan"


class TooManyGames(Refused):
    """One game more than the plan allows; only operators meet it."""

    text = "The owner's plan allows no more games: delete one, or set another plan"
