"""How plans refuse. The texts are matched whole by clients."""

from __future__ import annotations

from greenroom.actors.kernel.errors import Refused


class StorageLimitReached(Refused):
    """It would store more than the plan allows."""

    text = "Storage limit reached. Delete data or upgrade the plan."


class TooManyPlayersOnline(Refused):
    """It would bring one player more online than the plan allows (429)."""

    text = "Too many concurrent players for this plan"


class TooManyPlayersFromAddress(TooManyPlayersOnline):
    """It would bring one more online from an address than its share of the plan."""

    text = "Too many concurrent players from this address for this plan: log one of them out"


class CallShareUsed(Refused):
    """An address has used its share of the calls of a day (429).

    Attributes:
        retry_seconds: until the next day begins.
    """

    text = "Too many requests from this address for this plan: its share is used up for today"

    def __init__(self, retry_seconds: int) -> None:
        """Refuse until the next day."""
        super().__init__()
        self.retry_seconds = retry_seconds


class TooManyGames(Refused):
    """One game more than the plan allows; only operators meet it."""

    text = "The owner's plan allows no more games: delete one, or set another plan"
