"""How long a behaviour rests after a hook of it that had to be interrupted.

Everybody has waited for that hook. The cause may have been the machine, so the behaviour comes back
by itself, later each time; one that keeps holding everybody up stays away until it is reloaded.
Pure: times come in.
"""

from __future__ import annotations

import math
from typing import Final

from greenroom.actors.room.studio_messages import NoteConnection, TakeResult

FIRST_SECONDS: Final = 1.0
"""The first rest; each further one is twice as long."""
INTERRUPTIONS_MAX: Final = 5
"""So many interruptions within `WINDOW_SECONDS` are one too many."""
WINDOW_SECONDS: Final = 600.0


class Rest:
    """The rests of one room's behaviour."""

    __slots__ = ("_count", "_deferred", "_interrupted_at", "_until")

    def __init__(self) -> None:
        """Begin awake."""
        self._interrupted_at: list[float] = []
        self._until: float | None = None
        self._deferred: dict[str, NoteConnection | TakeResult] = {}
        self._count = 0

    @property
    def is_on(self) -> bool:
        """Return whether the behaviour rests."""
        return self._until is not None

    def begin(self, now: float) -> float:
        """Rest after an interruption; return for how many seconds, infinity for good.

        Args:
            now: seconds of a monotonic clock.
        """
        recent = [at for at in self._interrupted_at if now - at < WINDOW_SECONDS]
        self._interrupted_at = [*recent, now]
        is_for_good = len(self._interrupted_at) >= INTERRUPTIONS_MAX
        seconds = math.inf if is_for_good else FIRST_SECONDS * 2.0 ** len(recent)
        self._until = now + seconds
        return seconds

    def seconds_left(self, now: float) -> float:
        """Return in how many seconds the rest is over: 0 if there is none, infinity if never."""
        return 0.0 if self._until is None else max(0.0, self._until - now)

    def end(self) -> None:
        """Be awake."""
        self._until = None

    def defer(self, command: NoteConnection | TakeResult) -> None:
        """Keep a command until the rest is over: the last for each member, and one for each job.

        No job begins in a rest.
        """
        if isinstance(command, NoteConnection):
            name = command.name
        else:
            self._count += 1
            name = f"result {self._count}"
        self._deferred[name] = command

    def take_deferred(self) -> list[tuple[str, NoteConnection | TakeResult]]:
        """Return the commands that were kept, each with a name of its own."""
        deferred, self._deferred = self._deferred, {}
        return list(deferred.items())

    def forget(self) -> None:
        """Begin anew, the code is another now: a rest lasts until what was missed is told."""
        self._interrupted_at = []
        if self._until is not None:
            self._until = 0.0
