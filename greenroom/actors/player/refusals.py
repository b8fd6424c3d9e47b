"""Refusals of players. The texts are matched whole by clients."""

from __future__ import annotations

from greenroom.actors.kernel.errors import NotFound, Refused
from greenroom.actors.player.messages import Ban
from greenroom.behaviour.stats import STORED_MAX


class DocumentTooLarge(Refused):
    """A room wants to write more into a player's document than that can hold."""

    text = "The player document is too large"


class TooManyStats(Refused):
    """The player has as many stats as they may have."""

    text = f"A player has at most {STORED_MAX} stats, those included that are no longer declared"


class PlayerNotFound(NotFound):
    """No such player in this game."""

    text = "Player not found or does not belong to this game"


class InvalidPlayerToken(Refused):
    """The token is nobody's, or was rotated away; each endpoint has its own text for it."""


class PlayerOfAnotherGame(InvalidPlayerToken):
    """The token is good, but of a player of another game."""


class PlayerIsBanned(Refused):
    """The token is good, but its player is banned (403)."""

    def __init__(self, ban: Ban, text: str) -> None:
        """Take the ban, and the sentence about it as of now."""
        super().__init__(text)
        self.ban = ban
