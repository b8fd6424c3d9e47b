"""How plans refuse. The texts are matched whole by clients."""

from __future__ import annotations

from typing import ClassVar, Final

from greenroom.actors.kernel.errors import Refused

WRITTEN_TOO_MUCH: Final = "Too much has been written today"
"""The text for a call, or a message that is stored, beyond the bytes of a day (429)."""


class StorageLimitReached(Refused):
    """It would store more than the plan allows."""

    text = "Storage limit reached. Delete data or upgrade the plan."


class StorageShareUsed(Refused):
    """An address has had its share of the plan's storage filled today (429).

    Attributes:
        retry_seconds: until the next day begins.
    """

    text = "Too much stored from this address for this plan: its share is used up for today"

    def __init__(self, retry_seconds: int) -> None:
        """Refuse until the next day."""
        super().__init__()
        self.retry_seconds = retry_seconds


class PlayersRefused(Refused):
    """There is no space for one more player, or for more of theirs (429).

    Attributes:
        retry_seconds: somebody of many players will have gone by then.
    """

    retry_seconds: ClassVar[int] = 60


class PlayersHoldTooMuch(PlayersRefused):
    """The documents of players in memory would hold more than they may (429)."""

    text = "Players in memory hold too much; try again later, or store less"


class TooManyPlayersOnline(PlayersRefused):
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


class GamesHoldTooMuch(Refused):
    """The documents of all games would hold more than they may (429).

    Attributes:
        retry_seconds: as in `PlayersRefused`.
    """

    text = "Game documents hold too much; store less, or raise games_bytes_max"
    retry_seconds: ClassVar[int] = 60


class RoomsRefused(Refused):
    """There is no space for more rooms, or for more in them (429): some will end."""

    text = "Rooms and lobbies hold too much; try again later"
    retry_seconds: ClassVar[int] = 60
    """Seconds after which to try again: some rooms will have ended by then."""


class TooManyRooms(RoomsRefused):
    """One room or lobby more than the plan allows, or than its share for the address (429)."""

    text = "Too many rooms and lobbies for this plan"


PLAN_REFUSALS: Final = StorageLimitReached, PlayersRefused, RoomsRefused
"""Refusals of a node by a plan of which it may yet get more; see `shares.py`."""
