"""Keeps for how long this node has had Postgres and the bus, and who else can reach Postgres."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Final

from greenroom.cluster.failure_detector import Connectivity

GAP_SECONDS_MAX: Final = 1.0
"""Without a sign for so long, something was away; or this process itself stood still."""


class ConnectivityMonitor:
    """Notes how long Postgres and the bus have been there without a break.

    Times are the guard's: they go on while the process stands still.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin without either: a node that has just started judges nobody."""
        self._clock = clock
        self._database_since = self._bus_since = math.inf
        self._database_at = self._bus_at = self._off_bus_since = -math.inf
        self._connection: float | None = None
        self._heard: dict[int, tuple[float, bool]] = {}

    def note_database(self, *, answers: bool) -> None:
        """Take note that Postgres has answered, or has not."""
        now = self._clock()
        if not answers:
            self._database_since = math.inf
            return
        if self._database_since == math.inf or now - self._database_at > GAP_SECONDS_MAX:
            self._database_since = now
        self._database_at = now

    def note_bus(self, connected_since: float | None) -> None:
        """Take note of how this node is on the bus; call it often.

        Args:
            connected_since: when it came to the bus (any clock); None while it is cut off.
        """
        now = self._clock()
        before, self._connection = self._connection, connected_since
        if connected_since is None:
            if self._bus_since != math.inf or self._off_bus_since == -math.inf:
                self._off_bus_since = now
            self._bus_since = math.inf
            return
        is_new = connected_since != before or self._bus_since == math.inf
        if is_new or now - self._bus_at > GAP_SECONDS_MAX:
            self._bus_since = now
        self._bus_at = now

    @property
    def database_answers(self) -> bool:
        """Return whether Postgres has answered within the last second."""
        now = self._clock()
        return self._database_since <= now and now - self._database_at <= GAP_SECONDS_MAX

    @property
    def is_on_bus(self) -> bool:
        """Return whether this node was on the bus when it last looked."""
        return self._bus_since != math.inf

    @property
    def seconds_off_bus(self) -> float:
        """Return for how long this node has been cut off from the bus; 0 if it is on it."""
        return 0.0 if self.is_on_bus else max(self._clock() - self._off_bus_since, 0.0)

    def read_connectivity(self) -> Connectivity:
        """Return for how long Postgres and the bus have been there without a break."""
        now = self._clock()
        return Connectivity(max(now - self._database_since, 0.0), max(now - self._bus_since, 0.0))

    # What others say.

    def note_alive(self, node_id: int, *, database_answers: bool) -> None:
        """Take note of what another node says about itself.

        It counts as said when we last looked at the bus: it may have waited while we stood still.
        """
        self._heard[node_id] = (min(self._clock(), self._bus_at), database_answers)

    def list_known(self) -> set[int]:
        """Return the nodes that were heard of."""
        return set(self._heard)

    def forget(self, node_id: int) -> None:
        """Forget a node that has ended."""
        self._heard.pop(node_id, None)

    def find_last_outage(self, peers: Collection[int]) -> float | None:
        """Return the last time at which no node could reach Postgres, None if one can or may.

        Whoever was heard of counts, also if no row of theirs is known here. So does whoever has a
        row and says nothing: they may be the one who can.

        Args:
            peers: the other nodes, by the last look that succeeded.
        """
        now = self._clock()
        if self.database_answers:
            return None
        oldest = now
        for node_id in {*peers, *self._heard}:
            at, answers = self._heard.get(node_id, (-math.inf, True))
            if answers or now - at > GAP_SECONDS_MAX:
                return None
            oldest = min(oldest, at)
        return oldest
