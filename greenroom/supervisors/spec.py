"""The description of a child, which a supervisor needs to start it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import msgspec
import trio

from greenroom.supervisors.policy import Restart
from greenroom.supervisors.tree import TreeNode


class Hopeless(Exception):
    """An error that no restart can help. It goes up to the root at once.

    Erlang has `significant` children for this. Here the error itself says that it is significant.
    """


class Service(Protocol):
    """Something that runs until it is cancelled: a listener, the committer, another supervisor."""

    async def run(self, *, task_status: trio.TaskStatus[Any]) -> None:
        """Start, call `task_status.started()` once others may rely on it, and run.

        Cancellation is the order to stop. What must still be finished is shielded, and bounded in
        time, because nothing can end a task that shields itself for ever.
        """
        ...


@runtime_checkable
class Branch(Protocol):
    """A service with nodes of its own in the tree."""

    def list_branches(self) -> list[TreeNode]:
        """Return the nodes below this one."""
        ...


@runtime_checkable
class Restarting(Protocol):
    """A service that starts again by itself what it keeps up."""

    @property
    def own_restarts(self) -> int:
        """Return how often it has done so; the supervisor's restarts are not among them."""
        ...


class ChildSpec(msgspec.Struct, frozen=True):
    """One child of a static supervisor."""

    name: str
    service: Service
    restart: Restart = Restart.PERMANENT
    shutdown_seconds: float = 5.0
    """Seconds that it may take to stop before an error is logged."""
