"""How long a behaviour is not called after one of its hooks had to be interrupted.

Everybody has waited for that hook. The cause may have been the machine, so the circuit closes
again by itself, later each time. A behaviour that keeps holding everybody up is not called until
it is reloaded. Pure: times come in.
"""

from __future__ import annotations

import math
from typing import Final

from greenroom.actors.room.studio_messages import NoteConnection, TakeResult
from greenroom.actors.studio_room.refusals import BehaviourFailed, BehaviourRests

FIRST_SECONDS: Final = 1.0
"""How long the circuit is open at first; each further time is twice as long."""
INTERRUPTIONS_MAX: Final = 5
"""The circuit stays open after this many interruptions within `WINDOW_SECONDS`."""
WINDOW_SECONDS: Final = 600.0


class CircuitBreaker:
    """Decides whether one room's behaviour may be called.

    Attributes:
        is_open: whether it may not.
    """

    __slots__ = ("_closes_at", "_deferred", "_interrupted_at", "_results", "is_open")

    def __init__(self) -> None:
        """Start with the circuit closed."""
        self.is_open = False
        self._closes_at = 0.0
        self._interrupted_at: list[float] = []
        self._deferred: dict[str, NoteConnection | TakeResult] = {}
        self._results = 0

    def open(self, now: float) -> float:
        """Open the circuit after an interruption.

        Args:
            now: seconds of a monotonic clock.

        Returns:
            For how many seconds: infinity until `forget`.
        """
        recent = [at for at in self._interrupted_at if now - at < WINDOW_SECONDS]
        self._interrupted_at = [*recent, now]
        is_for_good = len(self._interrupted_at) >= INTERRUPTIONS_MAX
        seconds = math.inf if is_for_good else FIRST_SECONDS * 2.0 ** len(recent)
        self.is_open, self._closes_at = True, now + seconds
        return seconds

    def count_seconds_left(self, now: float) -> float:
        """Return in how many seconds the circuit closes: 0 if it is closed, infinity if never."""
        return max(0.0, self._closes_at - now) if self.is_open else 0.0

    def make_refusal(self, now: float) -> BehaviourFailed:
        """Return the refusal of what the behaviour should see while it is not called."""
        seconds = self.count_seconds_left(now)
        closes = self.is_open and seconds < math.inf
        return BehaviourRests(max(seconds, 1.0)) if closes else BehaviourFailed()

    def close(self) -> None:
        """Close the circuit."""
        self.is_open = False

    def defer(self, command: NoteConnection | TakeResult) -> None:
        """Keep a command until the circuit is closed.

        The last `NoteConnection` of each member is kept, and the result of each job. No job begins
        while the circuit is open.
        """
        if isinstance(command, NoteConnection):
            name = command.name
        else:
            self._results += 1
            name = f"result {self._results}"
        self._deferred[name] = command

    def take_deferred(self) -> list[tuple[str, NoteConnection | TakeResult]]:
        """Remove and return the commands that came while the circuit was open, each with a name."""
        deferred, self._deferred = self._deferred, {}
        return list(deferred.items())

    def forget(self) -> None:
        """Forget all interruptions, because the code is another now.

        An open circuit closes as soon as the behaviour was told what it has missed.
        """
        self._interrupted_at = []
        self._closes_at = 0.0


def describe_pause(seconds: float) -> str:
    """Return what a pause means to the room, for the log; infinity is until a reload."""
    if seconds == math.inf:
        return "the room does without until it is reloaded"
    return f"the room does without for {seconds:g} s"
