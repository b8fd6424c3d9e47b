"""Refusals that a room with a behaviour adds to those of every room."""

from __future__ import annotations

from greenroom.actors.kernel.errors import Refused


class RefusedByBehaviour(Refused):
    """A hook raised `Refused`; the text is the studio's."""


class RefusedByHandler(RefusedByBehaviour):
    """The typed handler of what was sent raised `Refused`."""


class BehaviourFailed(Refused):
    """A hook failed, so what was asked for did not happen.

    It has no text for players: the studio finds the error in the log.
    """


class BehaviourRests(BehaviourFailed):
    """A hook had to be interrupted, and its behaviour is not called for a while.

    Attributes:
        retry_seconds: until it is called again.
    """

    def __init__(self, retry_seconds: float) -> None:
        """Say when to try again."""
        super().__init__()
        self.retry_seconds = retry_seconds
