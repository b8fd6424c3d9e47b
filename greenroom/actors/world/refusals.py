"""Refusals of sign-in with a platform. The texts are matched whole by clients."""

from __future__ import annotations

from greenroom.actors.kernel.errors import Refused


class PlatformDisabled(Refused):
    """The game's owner has not enabled sign-in with a platform's account."""

    text = "Platform sign-in is not enabled for this game"


class InvalidPlatformTicket(Refused):
    """No ticket, one that the platform does not take, or one that was used before (401)."""

    text = "Invalid platform ticket"


class BannedByPublisher(Refused):
    """The ticket is good, but the game's publisher has banned its user on the platform (403)."""

    text = "You are banned: by the game's publisher. This is a permanent ban."


class PlatformUnavailable(Refused):
    """The platform gave no clear answer, or too many are asking (429): nobody is signed in."""

    text = "Platform is unavailable, try again"
    retry_seconds = 5
