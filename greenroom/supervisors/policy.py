"""Decide what is restarted after an exit: OTP's rules as pure functions, no trio, no clock.

The terms and rules are those of Erlang/OTP's `supervisor` (its documentation, "Supervision
Principles"): restart types, strategies and restart intensity. The intensity is the number of
restarts within a number of seconds. Beyond it the supervisor gives up and tells its own supervisor.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence

import msgspec


class Restart(enum.Enum):
    """Says when a child that exited is started again."""

    PERMANENT = "permanent"
    """Always restart."""
    TRANSIENT = "transient"
    """Restart only after a crash."""
    TEMPORARY = "temporary"
    """Never restart."""


class Strategy(enum.Enum):
    """Says which children are restarted with one that exited."""

    ONE_FOR_ONE = "one_for_one"
    """No other child."""
    REST_FOR_ONE = "rest_for_one"
    """The children that were started after it, which may depend on it."""
    ONE_FOR_ALL = "one_for_all"
    """All children."""


class Plan(msgspec.Struct, frozen=True):
    """The steps after an exit: indices of children, each list in the order to work through."""

    stop: tuple[int, ...] = ()
    """Running children to stop first; the one started last comes first."""
    start: tuple[int, ...] = ()
    """Children to start again, in their order."""
    forget: bool = False
    """The child that exited stays down."""


def plan_exit(
    strategy: Strategy, restarts: Sequence[Restart], exited: int, *, crashed: bool
) -> Plan:
    """Decide what follows when the child with index `exited` has exited.

    Args:
        strategy: the supervisor's strategy.
        restarts: the restart type of every child, in starting order.
        exited: the index of the child that exited.
        crashed: true if it raised, false if it returned.

    Returns:
        The plan. Temporary siblings that must stop are not started again.
    """
    restart = restarts[exited]
    if restart is Restart.TEMPORARY or (restart is Restart.TRANSIENT and not crashed):
        return Plan(forget=True)
    first, last = _affected(strategy, len(restarts), exited)
    stop = tuple(i for i in reversed(range(first, last)) if i != exited)
    start = tuple(i for i in range(first, last) if restarts[i] is not Restart.TEMPORARY)
    return Plan(stop=stop, start=start)


def _affected(strategy: Strategy, count: int, exited: int) -> tuple[int, int]:
    """Return the half-open range of children that are restarted together."""
    if strategy is Strategy.ONE_FOR_ALL:
        return 0, count
    if strategy is Strategy.REST_FOR_ONE:
        return exited, count
    return exited, exited + 1


class RestartBudget:
    """Restart intensity: at most `restarts_max` restarts within `window_seconds`."""

    __slots__ = ("_spent", "restarts_max", "window_seconds")

    def __init__(self, restarts_max: int, window_seconds: float) -> None:
        """Start with the whole budget."""
        self.restarts_max = restarts_max
        self.window_seconds = window_seconds
        self._spent: deque[float] = deque()

    def is_fresh(self, now: float) -> bool:
        """Return whether no restart happened within the window before `now` (monotonic seconds)."""
        return not self._spent or self._spent[-1] <= now - self.window_seconds

    def spend(self, now: float) -> bool:
        """Count one restart at `now` (monotonic seconds); return False if that is one too many."""
        while self._spent and self._spent[0] <= now - self.window_seconds:
            self._spent.popleft()
        self._spent.append(now)
        return len(self._spent) <= self.restarts_max
