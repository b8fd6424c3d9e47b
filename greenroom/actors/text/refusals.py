"""Refusals of names and titles."""

from __future__ import annotations

from greenroom.actors.kernel.errors import Refused


class NameRefused(Refused):
    """A name that is too short, too long or against a rule; the text says which."""
