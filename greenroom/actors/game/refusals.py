"""Refusals of games. The texts are matched whole by clients."""

from __future__ import annotations

from greenroom.actors.kernel.errors import NotFound, Refused


class GameNotFound(NotFound):
    """No such game, or it is being deleted."""

    text = "Game not found"


class InvalidProjectKey(Refused):
    """The project key is nobody's, or was rotated away; HTTP has the text for it."""


class InvalidAdminKey(Refused):
    """The key is not this game's admin key; each endpoint has its own text for it."""


class TooManyOldKeys(Refused):
    """No more old keys can be kept, because so many still open the game."""

    text = "The game has too many old keys: revoke some first, or keep none"


class GameNameRefused(Refused):
    """A name that no game may have."""

    text = "Game name must be 1 to 100 characters, without control characters"


class GameSettingRefused(Refused):
    """An unknown setting or a bad value; the text says which, and what was expected."""
