"""Refusals of leaderboards."""

from __future__ import annotations

import json
from collections.abc import Iterable

from greenroom.actors.kernel.errors import Refused
from greenroom.actors.leaderboard.index import Fields


class TooManyBuilds(Refused):
    """There is no index over these fields, and none can be built now (429).

    Attributes:
        reason: which bound it is, for the metrics.
        retry_seconds: until it may be asked for again.
    """

    def __init__(self, reason: str, retry_seconds: int) -> None:
        """Refuse for so long."""
        super().__init__(reason)
        self.reason = reason
        self.retry_seconds = retry_seconds


class LeaderboardNotDeclared(Refused):
    """The game names its leaderboards in its settings, and this is none of them.

    Attributes:
        declared: those that it names.
    """

    text = "There is no leaderboard by these fields: this game has those by "

    def __init__(self, declared: Iterable[Fields]) -> None:
        """Refuse, and say which there are, as `sort_by` would name them."""
        self.declared = tuple(declared)
        super().__init__(self.text + ", ".join(json.dumps(fields) for fields in self.declared))
