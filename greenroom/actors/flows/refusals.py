"""Refusals of flows. The texts are matched whole by clients."""

from __future__ import annotations

from greenroom.actors.kernel.errors import Refused


class NameMissing(Refused):
    """A new account needs a name."""

    text = "Player name is required"


class StatRefused(Refused):
    """A stat that is not declared, or a value that it cannot have; the text says which."""
